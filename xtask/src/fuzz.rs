//! Short runs of every fuzz target, on the stable compiler.
//!
//! The coverage instrumentation is LLVM's own pass, which stable rustc takes as a code generation option; only the sanitizers
//! need a nightly compiler. `cargo fuzz` with a nightly works on the same folder for long runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, call, cargo, root, target_dir};

const INSTRUMENT: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";

/// The names of the targets, from the folder that holds them.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds all targets once and runs each for `args[0]` seconds.
pub(crate) fn run(args: &[String]) -> Outcome {
    let seconds: u32 = match args.first() {
        Some(text) => text.parse().map_err(|_| format!("not a number of seconds: {text}"))?,
        None => 10,
    };
    let names = targets()?;
    let target = target_dir().join("fuzz");
    let triple = host()?;
    call(
        cargo()
            .current_dir(root().join("fuzz"))
            .args(["build", "--release", "--bins", "--target", &triple])
            .env("CARGO_TARGET_DIR", &target)
            .env("RUSTFLAGS", INSTRUMENT),
    )?;
    for name in &names {
        let seeds = root().join("fuzz/corpus").join(name);
        let work: PathBuf = target.join("corpus").join(name);
        for folder in [&seeds, &work] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let artifacts = target.join("artifacts").join(name);
        fs::create_dir_all(&artifacts).map_err(|error| format!("{}: {error}", artifacts.display()))?;
        println!("fuzz: {name}, {seconds} s");
        let done = Command::new(target.join(&triple).join("release").join(name))
            .args([&work, &seeds])
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            // A parser that wants more than this for one input has no bound.
            .args([
                "-rss_limit_mb=1024",
                "-timeout=10",
                "-max_len=300000",
                "-print_final_stats=1",
                "-verbosity=0",
            ])
            .output()
            .map_err(|error| format!("{name}: {error}"))?;
        let text = String::from_utf8_lossy(&done.stderr);
        let runs = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        if !done.status.success() {
            return Err(format!(
                "fuzz target {name} failed:\n{text}\nthe input is in {}",
                artifacts.display()
            ));
        }
        println!("fuzz: {name}: {} runs, no failure", runs.unwrap_or("?").trim());
    }
    println!("{} passed, 0 failed", names.len());
    Ok(())
}

fn host() -> Result<String, String> {
    let out = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}
