//! `cargo xtask fips`: builds the programs with AWS-LC's FIPS module, and checks which algorithms they have
//! and that they work with OpenSSH's (docs/fips.md). Compiling the module takes minutes, so no step of the
//! test command does it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use lh_interop::find;

use crate::workspace::{Outcome, call, cargo, host, overrides, root, target_dir};

/// What compiles the module, and its package on Debian.
const TOOLS: &[(&str, &str)] = &[("cmake", "cmake"), ("go", "golang-go"), ("cc", "gcc"), ("nm", "binutils")];

/// The names under which the tests call the one program.
const NAMES: &[&str] = &[
    "lhssh",
    "lhscp",
    "lhsftp",
    "lhsftp-server",
    "lhsshd",
    "lhssh-keygen",
    "lhssh-agent",
    "lhssh-add",
    "lhssh-keyscan",
    "longhaul",
];

/// Crates of the module's build script. The profile `dev` would optimise them, which takes longer than they
/// run.
const SCRIPT: &[&str] =
    &["aho-corasick", "bindgen", "clang-sys", "regex", "regex-automata", "regex-syntax", "syn"];

/// Prefixes that AWS-LC's Rust crates give to the functions of the module, and of the library that is none.
const MODULE: &str = "aws_lc_fips_0_";
const OTHER: &str = "aws_lc_0_";

/// `cargo xtask fips [--release]`
pub(crate) fn run(args: &[String]) -> Outcome {
    let release = match args {
        [] => false,
        [flag] if flag == "--release" => true,
        _ => return Err("usage: cargo xtask fips [--release]".to_owned()),
    };
    let missing: Vec<&str> =
        TOOLS.iter().filter(|(tool, _)| find(tool).is_none()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        return Err(format!("fips: the module needs: apt install {}", missing.join(" ")));
    }
    // A directory of its own: features of one build would otherwise recompile every crate of the next.
    let target = target_dir().join("fips");
    let mut flags: Vec<String> = Vec::new();
    if release {
        flags.push("--release".to_owned());
    } else {
        let plain = |name: &&str| ["--config".to_owned(), format!("profile.dev.package.{name}.opt-level=0")];
        flags.extend(SCRIPT.iter().flat_map(plain));
    }
    // The other AWS-LC is declared, never compiled: a program that called it could not be linked.
    flags.extend(overrides(&root(), &host()?)?);
    let fips = |command: &str, package: &str| {
        let mut cargo = cargo();
        cargo.args([command, "--locked", "--target-dir"]).arg(&target).args(&flags);
        cargo.args(["-p", package, "--features", "fips"]);
        cargo
    };
    call(&mut fips("build", "longhaul-multi"))?;
    call(fips("test", "lh-crypto").args(["--lib", "--", "fips", "registry"]))?;
    let built = target.join(if release { "release" } else { "debug" });
    contains_only_the_module(&built.join("longhaul-multi"))?;
    let bins = links(&built)?;
    let mut tests = cargo();
    tests.args(["test", "--locked", "-p", "lh-interop", "--test", "fips", "--", "--ignored"]);
    call(tests.env("LH_BIN_DIR", &bins))?;
    println!("fips: the programs in {} have the module, and passed", bins.display());
    Ok(())
}

/// Checks by its symbols that the program calls the module, and no second AWS-LC.
fn contains_only_the_module(program: &Path) -> Outcome {
    let listed = Command::new("nm").arg(program).output().map_err(|error| format!("nm: {error}"))?;
    let symbols = String::from_utf8_lossy(&listed.stdout);
    let count = |prefix: &str| {
        symbols
            .lines()
            .filter(|line| line.rsplit(' ').next().is_some_and(|name| name.starts_with(prefix)))
            .count()
    };
    match (count(MODULE), count(OTHER)) {
        (0, _) => Err(format!("{}: has no function of the module", program.display())),
        (module, 0) => {
            println!("fips: {module} functions of the module, none of another AWS-LC");
            Ok(())
        }
        (_, other) => {
            Err(format!("{}: has {other} functions of an AWS-LC without validation", program.display()))
        }
    }
}

/// Makes a directory with the program under every name.
fn links(built: &Path) -> Result<std::path::PathBuf, String> {
    let directory = built.join("fips");
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(failed)?;
    for name in NAMES {
        let link = directory.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => symlink("../longhaul-multi", &link).map_err(failed)?,
        }
    }
    Ok(directory)
}
