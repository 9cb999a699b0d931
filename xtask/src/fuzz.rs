//! Runs every fuzz target with the stable compiler: short runs in CI, campaigns on all cores.
//!
//! The coverage instrumentation is LLVM's own pass, which stable rustc accepts as a code generation option;
//! only the sanitizers need a nightly compiler. `cargo fuzz` with a nightly works on the same directory.

mod build;
mod coverage;

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use self::build::{build, corpora, programs};
use crate::workspace::{Outcome, root, target_dir};

const INSTRUMENT: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";

/// Default seconds per target. The corpora of the repository take less; campaigns search for new inputs.
const SHORT: u64 = 2;

/// Returns the names of the targets, from the file names in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, String> {
    let directory = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// Parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Seconds for each target, or for all together with `total`.
    seconds: u64,
    total: bool,
    /// Print line coverage afterwards.
    coverage: bool,
    /// Targets; empty for all.
    only: Vec<String>,
}

/// Parses `90`, `90s`, `10m` or `2h` into seconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "h" => 3600,
        "m" => 60,
        _ => 1,
    };
    let number: u64 = number.parse().map_err(|_| format!("not a duration: {text}"))?;
    number.checked_mul(factor).filter(|&all| all > 0).ok_or_else(|| format!("not a duration: {text}"))
}

impl Plan {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut plan = Self { seconds: SHORT, total: false, coverage: false, only: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--for" => {
                    plan.seconds = duration(args.next().ok_or("--for needs a duration")?)?;
                    plan.total = true;
                }
                "--coverage" => plan.coverage = true,
                "--only" => {
                    let names = args.next().ok_or("--only needs names")?;
                    plan.only = names.split(',').map(str::to_owned).collect();
                }
                text => plan.seconds = duration(text)?,
            }
        }
        Ok(plan)
    }
}

/// Result of one process of a target.
struct Ran {
    name: String,
    executions: u64,
    /// Description of the failure, if the process failed.
    failure: Option<String>,
}

/// Builds all targets once and runs them, one process per core at a time.
pub(crate) fn run(args: &[String]) -> Outcome {
    let plan = Plan::parse(args)?;
    let mut names = targets()?;
    if let Some(unknown) = plan.only.iter().find(|name| !names.contains(name)) {
        return Err(format!("no fuzz target {unknown}; there are: {}", names.join(" ")));
    }
    names.retain(|name| plan.only.is_empty() || plan.only.contains(name));
    // Missing tools are reported before the campaign, not after it.
    if plan.coverage {
        coverage::tools()?;
    }
    build(&names, INSTRUMENT, "fuzz", plan.seconds <= SHORT && !plan.total)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // If there are more cores than targets, several processes of a target share its corpus.
    let copies = cores.div_ceil(names.len().max(1));
    let work: Vec<(&str, usize)> =
        names.iter().flat_map(|name| (0..copies).map(move |copy| (name.as_str(), copy))).collect();
    let seconds = match plan.total {
        false => plan.seconds,
        true => (plan.seconds * cores as u64 / work.len().max(1) as u64).max(1),
    };
    println!("fuzz: {} targets, {seconds} s each, {} at a time", names.len(), cores.min(work.len()));
    let queue = Mutex::new(work.into_iter());
    let done = Mutex::new(Vec::<Result<Ran, String>>::new());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((name, copy)) = next else { return };
                    let ran = one(name, copy, seconds);
                    if let Ok(mut done) = done.lock() {
                        done.push(ran);
                    }
                }
            });
        }
    });
    let mut all = Vec::new();
    for ran in done.into_inner().map_err(|error| error.to_string())? {
        all.push(ran?);
    }
    report(&names, &all)?;
    if plan.coverage {
        coverage::measure(&names)?;
    }
    Ok(())
}

/// Prints the executions; returns an error if a process failed.
fn report(names: &[String], all: &[Ran]) -> Outcome {
    let mut total = 0;
    for name in names {
        let executions: u64 = all.iter().filter(|ran| ran.name == *name).map(|ran| ran.executions).sum();
        total += executions;
        println!("fuzz: {name}: {executions} executions");
    }
    println!("fuzz: {total} executions of {} targets", names.len());
    let failures: Vec<&str> = all.iter().filter_map(|ran| ran.failure.as_deref()).collect();
    if failures.is_empty() {
        println!("{} passed, 0 failed", names.len());
        return Ok(());
    }
    Err(failures.join("\n"))
}

/// Runs one process of one target.
fn one(name: &str, copy: usize, seconds: u64) -> Result<Ran, String> {
    let artifacts = target_dir().join("fuzz/artifacts").join(name);
    fs::create_dir_all(&artifacts).map_err(|error| format!("{}: {error}", artifacts.display()))?;
    let out = Command::new(programs("fuzz")?.join(name))
        .args(corpora(name)?)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        // A parser that needs more memory than this for one input has no bound.
        .args([
            "-rss_limit_mb=1024",
            "-timeout=10",
            "-max_len=300000",
            "-print_final_stats=1",
            "-verbosity=0",
        ])
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&out.stderr);
    let executed = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = executed.and_then(|number| number.trim().parse().ok());
    let failure = (!out.status.success())
        .then(|| format!("fuzz target {name} failed:\n{text}\nthe input is in {}", artifacts.display()));
    if executions.is_none() && failure.is_none() {
        return Err(format!("{name} (process {copy}) reported no number of executions:\n{text}"));
    }
    Ok(Ran { name: name.to_owned(), executions: executions.unwrap_or(0), failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Result<Plan, String> {
        Plan::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn durations_and_flags_are_read() {
        assert_eq!(duration("90"), Ok(90));
        assert_eq!(duration("10m"), Ok(600));
        assert_eq!(duration("2h"), Ok(7200));
        assert!(duration("0").is_err() && duration("m").is_err() && duration("1d").is_err());
        let short = Plan { seconds: SHORT, total: false, coverage: false, only: Vec::new() };
        assert_eq!(plan(&[]), Ok(short));
        let long = plan(&["--for", "10m", "--coverage", "--only", "a,b"]).unwrap();
        assert_eq!((long.seconds, long.total, long.coverage, long.only.len()), (600, true, true, 2));
        assert!(plan(&["--for"]).is_err());
    }
}
