//! Line coverage of the fuzz corpora: each runs once through an instrumented build.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{build, corpora, programs};
use crate::workspace::{Outcome, host, root, target_dir};

/// Flags of a separate build with region counters instead of libFuzzer's.
const COUNT: &str = "--cfg fuzzing -Cinstrument-coverage -Cdebug-assertions";

/// Runs every target's corpus and prints covered lines of each source file that any target reaches.
pub(super) fn measure(names: &[String]) -> Outcome {
    let tools = tools()?;
    build(names, COUNT, "fuzz-coverage", false)?;
    let bins = programs("fuzz-coverage")?;
    let profiles = target_dir().join("fuzz-coverage/profiles");
    let _ = std::fs::remove_dir_all(&profiles);
    std::fs::create_dir_all(&profiles).map_err(|error| format!("{}: {error}", profiles.display()))?;
    println!("coverage by target, of the source files that it is for:");
    let mut lines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for name in names {
        let raw = profiles.join(format!("{name}.profraw"));
        let program = bins.join(name);
        let done = Command::new(&program)
            .args(corpora(name)?)
            .args(["-runs=0", "-max_len=300000", "-verbosity=0"])
            .env("LLVM_PROFILE_FILE", &raw)
            .output()
            .map_err(|error| format!("{name}: {error}"))?;
        if !done.status.success() {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&done.stderr)));
        }
        let merged = profiles.join(format!("{name}.profdata"));
        text(
            Command::new(tools.join("llvm-profdata"))
                .args(["merge", "-sparse"])
                .arg(&raw)
                .arg("-o")
                .arg(&merged),
        )?;
        let mut cov = Command::new(tools.join("llvm-cov"));
        cov.args(["export", "-format=lcov", "-instr-profile"]).arg(&merged).arg(&program);
        cov.arg("-ignore-filename-regex=(\\.cargo|rustc|fuzz_targets|/fuzz/src)");
        for (file, (hit, all)) in files(&text(&mut cov)?, &root()) {
            // The best target counts for each file, because each parser has its own target.
            let best = lines.entry(file).or_default();
            if hit > best.0 {
                *best = (hit, all);
            }
        }
    }
    for (file, (hit, all)) in &lines {
        println!("{file}: {hit} of {all} lines, {} %", hit * 100 / all.max(&1));
    }
    Ok(())
}

/// Parses lcov's format into covered and counted lines by file, for files with any covered.
fn files(lcov: &str, root: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut found = BTreeMap::new();
    let (mut file, mut all, mut hit) = (String::new(), 0, 0);
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let path = Path::new(path);
            file = path.strip_prefix(root).unwrap_or(path).display().to_string();
        } else if let Some(number) = line.strip_prefix("LF:") {
            all = number.parse().unwrap_or(0);
        } else if let Some(number) = line.strip_prefix("LH:") {
            hit = number.parse().unwrap_or(0);
        } else if line == "end_of_record" && hit > 0 {
            found.insert(std::mem::take(&mut file), (hit, all));
        }
    }
    found
}

/// Returns the directory of rustup's llvm-tools. The system's may be of another LLVM version than the
/// compiler.
pub(super) fn tools() -> Result<PathBuf, String> {
    let sysroot = text(Command::new("rustc").args(["--print", "sysroot"]))?;
    let tools = Path::new(sysroot.trim()).join("lib/rustlib").join(host()?).join("bin");
    match tools.join("llvm-cov").exists() {
        true => Ok(tools),
        false => Err("line coverage needs `rustup component add llvm-tools`".to_owned()),
    }
}

fn text(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&out.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreached_files_are_left_out() {
        let lcov = "SF:/r/a.rs\nDA:1,1\nLF:4\nLH:3\nend_of_record\nSF:/r/b.rs\nLF:9\nLH:0\nend_of_record\n";
        assert_eq!(files(lcov, Path::new("/r")), BTreeMap::from([("a.rs".to_owned(), (3, 4))]));
    }
}
