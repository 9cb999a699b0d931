//! The workspace: its directories, and cargo and other commands run in it.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

/// Result of a command of this program; the error is a message for the user.
pub(crate) type Outcome = Result<(), String>;

/// Returns the directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's variable for the setting `lto` of the release profile.
const LTO: &str = "CARGO_PROFILE_RELEASE_LTO";

/// Whether release builds skip the optimisation across crates.
static WITHOUT_LTO: AtomicBool = AtomicBool::new(false);

/// Lets release builds of this process skip the optimisation across crates (LTO), unless the user sets
/// it. Each program repeats it: of nine minutes for a clean build it took more than five. Without it the
/// programs behave equally, and need 5 to 40 % more processor time to move data.
pub(crate) fn build_without_lto() {
    WITHOUT_LTO.store(true, Ordering::Relaxed);
}

/// Returns a command of the cargo that called us. Unless the user sets it, incremental compilation is off:
/// its state took half of the disk space of a full test run.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    skip_lto(&mut command);
    command
}

/// Returns a command of this program. Its release builds are those of this process.
pub(crate) fn this_program() -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let mut command = Command::new(program);
    skip_lto(&mut command);
    Ok(command)
}

/// Lets the release builds of a command skip the optimisation across crates, if those of this process do.
fn skip_lto(command: &mut Command) {
    if WITHOUT_LTO.load(Ordering::Relaxed) && std::env::var_os(LTO).is_none() {
        command.env(LTO, "off");
    }
}

/// Returns cargo's directory of build results.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command and converts every kind of failure to a text.
pub(crate) fn call(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}").replace('"', "");
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Starts a command that prints to a file, which [`read_back`] reads when the command has ended.
pub(crate) fn start_captured(command: &mut Command) -> std::io::Result<(Child, File)> {
    let log = tempfile::tempfile()?;
    // Both streams share one file description, so that their lines stay in order.
    let child = command.stdout(log.try_clone()?).stderr(log.try_clone()?).spawn()?;
    Ok((child, log))
}

/// Returns the output of a command.
pub(crate) fn read_back(mut log: File) -> std::io::Result<Vec<u8>> {
    log.rewind()?;
    let mut output = Vec::new();
    log.read_to_end(&mut output)?;
    Ok(output)
}

/// Builds the programs in the release profile and returns their directory.
pub(crate) fn build_release() -> Result<PathBuf, String> {
    let build = ["build", "--release", "--locked", "--bins", "--workspace", "--exclude", "xtask"];
    call(cargo().args(build))?;
    Ok(target_dir().join("release"))
}

/// Returns the compiler's default target.
pub(crate) fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = Command::new(rustc).args(["--print", "host-tuple"]).output();
    let printed = printed.map_err(|error| format!("rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&printed.stdout).trim().to_owned())
}

/// Returns whether the standard library for a target is installed.
pub(crate) fn has_library(target: &str) -> Result<bool, String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let printed = rustc.args(["--print", "target-libdir", "--target", target]).output();
    let printed = printed.map_err(|error| format!("rustc: {error}"))?;
    if !printed.status.success() {
        return Err(format!("rustc: {}\n{}", printed.status, String::from_utf8_lossy(&printed.stderr)));
    }
    Ok(Path::new(String::from_utf8_lossy(&printed.stdout).trim()).is_dir())
}

/// Returns whether the standard library for a target is installed, after trying to install it if needed. A
/// failure is printed as the reason why `step` skips the target.
pub(crate) fn add_library(step: &str, target: &str) -> Result<bool, String> {
    if has_library(target)? {
        return Ok(true);
    }
    // A machine without network access must not wait long.
    let add = Command::new("timeout").args(["120", "rustup", "target", "add", target]).status();
    let is_there = add.is_ok_and(|status| status.success()) && has_library(target)?;
    if !is_there {
        println!("{step}: SKIPPED: {target}: `rustup target add {target}` has failed");
    }
    Ok(is_there)
}

/// Returns a path relative to the root of the workspace.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Flags of cargo for checks that execute nothing but macros and build scripts. `Cargo.toml` optimises all
/// dependencies for the tests; optimising these two took half the processor time of a check.
pub(crate) const UNOPTIMISED: [&str; 2] = ["--config", "profile.dev.package.\"*\".opt-level=0"];

/// Returns flags of cargo that replace the build script of the cryptography library, for a check. The library
/// is C and assembler, and a check reads only its declarations. `workspace` contains the lock file.
pub(crate) fn overrides(workspace: &Path, target: &str) -> Result<Vec<String>, String> {
    let lock = workspace.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let aws_lc = links_name(&lock).ok_or("the lock file names no aws-lc-sys")?;
    let said = ["include=''", "rustc-cfg=['universal']"];
    let said = said.map(|said| ["--config".to_owned(), format!("target.{target}.{aws_lc}.{said}")]);
    Ok(said.concat())
}

/// Returns flags of cargo that replace the build script of the cryptography library by its result in the
/// release build, for another optimised build; none if there is no such result. Compiling the library
/// takes two minutes of processor time. `workspace` contains the lock file.
pub(crate) fn built_library(workspace: &Path, target: &str) -> Result<Vec<String>, String> {
    let lock = workspace.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let aws_lc = links_name(&lock).ok_or("the lock file names no aws-lc-sys")?;
    let scripts = std::fs::read_dir(target_dir().join("release/build"));
    let outputs = scripts.into_iter().flatten().flatten().filter(|entry| {
        // The other directories have the compiled scripts.
        entry.file_name().to_string_lossy().starts_with("aws-lc-sys-") && entry.path().join("out").is_dir()
    });
    let newest = outputs
        .map(|entry| entry.path().join("output"))
        .max_by_key(|path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok());
    let printed = newest.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    Ok(library_flags(&printed, &aws_lc, target))
}

/// Converts the output of the library's build script to flags of cargo; none if it is of another library
/// or if its directory is gone.
fn library_flags(printed: &str, aws_lc: &str, target: &str) -> Vec<String> {
    let pairs: Vec<(&str, &str)> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("cargo:")?.split_once('='))
        .filter(|(key, _)| *key != "warning" && !key.starts_with("rerun-if-"))
        .collect();
    let library = format!("static={aws_lc}_crypto");
    let is_complete = pairs.contains(&("rustc-link-lib", &library))
        && pairs.iter().any(|(key, value)| *key == "libdir" && Path::new(value).is_dir());
    if !is_complete {
        return Vec::new();
    }
    let flags = pairs.iter().flat_map(|(key, value)| {
        let value = if key.starts_with("rustc-") { format!("['{value}']") } else { format!("'{value}'") };
        ["--config".to_owned(), format!("target.{target}.{aws_lc}.{key}={value}")]
    });
    flags.collect()
}

/// Returns cargo's name for the library that aws-lc-sys links; it contains the version of the package.
fn links_name(lock: &str) -> Option<String> {
    let (_, entry) = lock.split_once("name = \"aws-lc-sys\"\nversion = \"")?;
    let (version, _) = entry.split_once('"')?;
    Some(format!("aws_lc_{}", version.replace('.', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_of_another_build_is_found_in_its_output() {
        let directory = tempfile::tempdir().expect("a directory");
        let libdir = directory.path().display();
        let printed = format!(
            "cargo:warning=Compilation of 'c11.c' succeeded\ncargo:rerun-if-changed=x\nCC = None\n\
            cargo:rustc-link-search=native={libdir}\ncargo:rustc-link-lib=static=aws_lc_1_2_3_crypto\n\
            cargo:conf=A,B\ncargo:libdir={libdir}\n"
        );
        let expected = [
            format!("rustc-link-search=['native={libdir}']"),
            "rustc-link-lib=['static=aws_lc_1_2_3_crypto']".to_owned(),
            "conf='A,B'".to_owned(),
            format!("libdir='{libdir}'"),
        ];
        let expected =
            expected.map(|flag| ["--config".to_owned(), format!("target.a-b.aws_lc_1_2_3.{flag}")]).concat();
        assert_eq!(library_flags(&printed, "aws_lc_1_2_3", "a-b"), expected);
        assert!(library_flags(&printed, "aws_lc_1_2_4", "a-b").is_empty(), "another version");
        drop(directory);
        assert!(library_flags(&printed, "aws_lc_1_2_3", "a-b").is_empty(), "its directory is gone");
        assert!(library_flags("", "aws_lc_1_2_3", "a-b").is_empty());
    }

    /// Another kind of build would replace the programs that other steps run meanwhile, after many minutes.
    #[test]
    fn commands_build_as_their_caller_does() {
        build_without_lto();
        for command in [cargo(), this_program().expect("a program")] {
            let is_set = command.get_envs().any(|(name, value)| name == LTO && value.is_some());
            assert!(is_set || std::env::var_os(LTO).is_some(), "{command:?}");
        }
    }

    #[test]
    fn links_name_has_the_locked_version() {
        let lock = "[[package]]\nname = \"aws-lc-rs\"\nversion = \"1.2.3\"\n\n\
            [[package]]\nname = \"aws-lc-sys\"\nversion = \"0.47.0\"\n";
        assert_eq!(links_name(lock).as_deref(), Some("aws_lc_0_47_0"));
        assert_eq!(links_name("name = \"aws-lc-rs\"\n"), None);
        let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("a lock file");
        assert!(links_name(&lock).is_some());
    }
}
