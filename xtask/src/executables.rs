//! Runs the workspace's test executables side by side.
//!
//! Cargo runs them one after the other, and while one of them waits (for a server's delay, a lost packet, a
//! sleeping machine), the cores idle. Here each runner takes the next executable, the longest first, and
//! more runners work while the processors idle. Executables that measure time, memory or rates run alone
//! afterwards.
//!
//! The failed tests of an executable run once more, alone. If they pass then, the failure is rare or the test
//! is unreliable. The end of the step names the executable, with both outputs above, but the step does not
//! fail. If many executables fail, none is repeated.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::busy::Ticks;
use crate::hangs::{self, LIMIT};
use crate::workspace::{Outcome, cargo, shown};

/// Number of simultaneous executables on a busy machine. Each runs as many tests at once as there are cores,
/// and most tests wait most of the time: `recipes_time` takes 21 s of CPU time in 155 s.
const AT_ONCE: usize = 3;

/// Number of simultaneous executables while the processors idle. With a constant five, tests with races (a
/// part file that is swapped, OpenSSH's own programs) failed more often.
const MOST_AT_ONCE: usize = 6;

/// Load of the processors, per cent, from which no runner beyond [`AT_ONCE`] starts an executable.
const BUSY: u64 = 70;

/// Time for which the processors are watched before a runner beyond [`AT_ONCE`] starts an executable. At
/// most one such runner starts one within that time.
const WATCH: Duration = Duration::from_secs(4);

/// The executables that take longest, in descending order, so that none of them starts last. The list affects
/// only the duration of the run.
const LONGEST: &[&str] = &[
    "bench",
    "recipes_time",
    "recipes_tools",
    "recipes_command_lines",
    "our_server",
    "windows",
    "recipes_restricted",
    "recipes_sftp",
    "recipes_accounts",
    "server_service",
    "additional_connections",
    "additional_automatic",
    "recipes_logins",
    "recipes_surroundings",
    "lh_transport",
    "lying_servers",
    "lying_replies",
    "recipes_hosts",
    "recipes_client",
    "our_client",
    "doc_commands",
    "unread",
    "flooded_client",
    "foreign_servers",
    "legacy_algorithms",
    "forwarding_limits",
    "openssh",
    "server_auth",
    "foreign_clients",
    "odd_targets",
    "preserve",
    "ansible",
];

/// Executables that measure, so that another one beside them would change their result. Those that
/// measure what load does not change (memory, least durations, windows) are not among them:
/// `flooded_client`, `hung_files`, `rate_limits` and `windows` passed at a load of 25 on two cores. Nor is
/// `bench`: its runs end by their time, name what they had no time for, and compare no figures.
const ALONE: &[&str] = &["doctor", "many_sessions", "server_abuse"];

/// Name of the job that runs the tests in documentation.
const DOC_TESTS: &str = "doc-tests";

/// Number of failed executables up to which they are repeated. With more failures, the machine or the change
/// is broken.
const MOST_AGAIN: usize = 5;

/// One process of tests: a test executable, or all tests in documentation.
struct Job {
    /// Name of the executable's target.
    name: String,
    /// Line printed above the output.
    title: String,
    command: Command,
    /// Names of the failed tests, if all tests of the executable have run.
    failed: Vec<String>,
}

/// Parses one line of `cargo test --no-run --message-format json`; `None` if it describes no test executable.
fn from_message(line: &str) -> Option<Job> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let file = Path::new(message["executable"].as_str().filter(|_| is_test)?);
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?;
    // In the background of a shell, and under nohup, some signals are ignored that tests send.
    let mut command = lh_interop::with_default_signals(file);
    // Cargo sets this directory and variable for tests.
    command.current_dir(package).env("CARGO_MANIFEST_DIR", package);
    Some(Job {
        name: message["target"]["name"].as_str()?.to_owned(),
        title: format!("     Running {} ({})", shown(source), shown(file)),
        command,
        failed: Vec::new(),
    })
}

/// Builds the tests with these arguments of `cargo test`, and runs them with these environment variables.
/// `targets` selects targets (`--lib`); without any, tests in documentation run too.
pub(crate) fn run(args: &[&str], targets: &[&str], variables: &[(&str, &Path)]) -> Outcome {
    let (mut beside, mut alone) = split(build(&[args, targets].concat())?);
    if targets.is_empty() {
        let mut command = cargo();
        command.arg("test").args(args).arg("--doc");
        let title = "   Doc-tests of all crates".to_owned();
        beside.push_front(Job { name: DOC_TESTS.to_owned(), title, command, failed: Vec::new() });
    }
    for job in beside.iter_mut().chain(&mut alone) {
        job.command.envs(variables.iter().copied());
    }
    let (some, most) = (beside.len(), MOST_AT_ONCE);
    println!("tests: {some} executables, {AT_ONCE} to {most} at a time, then {} alone", alone.len());
    let mut failed = told("side by side", || run_all(beside, AT_ONCE, MOST_AT_ONCE))?;
    failed.extend(told("alone", || run_all(alone, 1, 1))?);
    let (again, once) = once_more(failed)?;
    if !once.is_empty() {
        println!("\nTHESE TESTS FAILED ONCE AND PASSED ALONE: {}\n", once.join(", "));
    }
    if again.is_empty() { Ok(()) } else { Err(format!("tests failed in {}", again.join(", "))) }
}

/// Runs the failed tests once more, alone. Returns the names of the executables that fail again, and of those
/// that pass.
fn once_more(mut failed: Vec<Job>) -> Result<(Vec<String>, Vec<String>), String> {
    failed.sort_by(|one, other| one.name.cmp(&other.name));
    if failed.len() > MOST_AGAIN {
        return Ok((failed.into_iter().map(|job| job.name).collect(), Vec::new()));
    }
    let (mut again, mut once) = (Vec::new(), Vec::new());
    for mut job in failed {
        println!("tests: {} failed; once more, alone {}", job.name, job.failed.join(" "));
        // Only the failed tests are repeated, because each of the others could fail in its turn. If no names
        // are known, all tests run.
        if !job.failed.is_empty() && job.name != DOC_TESTS {
            job.command.arg("--exact").args(&job.failed);
        }
        if run_one(&mut job, LIMIT)? { once.push(job.name) } else { again.push(job.name) }
    }
    Ok((again, once))
}

/// Builds all test executables.
fn build(args: &[&str]) -> Result<Vec<Job>, String> {
    let mut command = cargo();
    command.arg("test").args(args).args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo test --no-run: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Vec<Job> = text.lines().filter_map(from_message).collect();
    if found.is_empty() { Err("cargo named no test executable".to_owned()) } else { Ok(found) }
}

/// Splits the executables into those that may run side by side, the longest first, and those that run alone.
fn split(all: Vec<Job>) -> (VecDeque<Job>, VecDeque<Job>) {
    let (alone, mut beside): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|job| ALONE.contains(&job.name.as_str()));
    let rank = |job: &Job| LONGEST.iter().position(|name| *name == job.name);
    beside.sort_by_key(|job| rank(job).unwrap_or(LONGEST.len()));
    (beside.into(), alone.into())
}

/// Runs a part of the step. Prints its duration and the load of the processors.
fn told<T>(part: &str, run: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), Ticks::now());
    let result = run();
    let busy = before.zip(Ticks::now()).map_or(String::new(), |(before, now)| now.since(before));
    println!("tests: {part} {} s {busy}", start.elapsed().as_secs());
    result
}

/// Waits until the load of the processors was below [`BUSY`] for [`WATCH`], or no job is left. One runner
/// waits at a time, so that each sees the load of the executable that the previous one has started.
fn wait_for_idle(jobs: &Mutex<VecDeque<Job>>, turn: &Mutex<()>) {
    let Ok(_turn) = turn.lock() else { return };
    while jobs.lock().is_ok_and(|jobs| !jobs.is_empty()) {
        let before = Ticks::now();
        std::thread::sleep(WATCH);
        let busy = before.zip(Ticks::now()).and_then(|(before, now)| now.busy_since(before));
        if busy.is_some_and(|busy| busy < BUSY) {
            return;
        }
    }
}

/// Runs `at_once` jobs at a time, and up to `most` while the processors idle. Returns the failed jobs.
fn run_all(jobs: VecDeque<Job>, at_once: usize, most: usize) -> Result<Vec<Job>, String> {
    let jobs = Mutex::new(jobs);
    let failed = Mutex::new(Vec::new());
    let turn = Mutex::new(());
    std::thread::scope(|scope| {
        let (jobs, failed, turn) = (&jobs, &failed, &turn);
        for runner in 0..most {
            scope.spawn(move || {
                loop {
                    if runner >= at_once {
                        wait_for_idle(jobs, turn);
                    }
                    let next = jobs.lock().ok().and_then(|mut jobs| jobs.pop_front());
                    let Some(mut job) = next else { return };
                    let passed = run_one(&mut job, LIMIT).unwrap_or_else(|error| {
                        println!("tests: {}: {error}", job.name);
                        false
                    });
                    if let (false, Ok(mut failed)) = (passed, failed.lock()) {
                        failed.push(job);
                    }
                }
            });
        }
    });
    failed.into_inner().map_err(|error| error.to_string())
}

/// Runs one job and prints its output in one piece. Returns whether all its tests passed within `limit`.
fn run_one(job: &mut Job, limit: Duration) -> Result<bool, String> {
    let (status, output) = hangs::output(&job.name, &mut job.command, limit)?;
    job.failed = failed_tests(&output);
    // By `print`, so that tests of this function do not print failed tests among the results of a run.
    print!("{}\n{output}", job.title);
    Ok(status.success())
}

/// Returns the names of the failed tests in the output of an executable; none if it did not run to its end.
fn failed_tests(output: &str) -> Vec<String> {
    if !output.lines().any(|line| line.starts_with("test result: FAILED. ")) {
        return Vec::new();
    }
    // A note behind a name means that the test should panic.
    let name = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.split(' ').next()?.to_owned())
    };
    output.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn job(name: &str, line: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        Job { name: name.to_owned(), title: name.to_owned(), command, failed: Vec::new() }
    }

    #[test]
    fn executables_are_read_from_cargo_s_messages() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/interop/Cargo.toml",
            "target":{"kind":["test"],"name":"bulk","src_path":"/w/interop/tests/bulk.rs"},
            "profile":{"test":true},"executable":"/w/target/debug/deps/bulk-1"}"#;
        let found = from_message(line).unwrap();
        assert_eq!(found.name, "bulk");
        assert_eq!(found.command.get_args().last(), Some("/w/target/debug/deps/bulk-1".as_ref()));
        assert_eq!(found.command.get_current_dir(), Some(Path::new("/w/interop")));
        assert!(from_message(&line.replace("true", "false")).is_none());
        assert!(from_message(&line.replace("\"/w/target/debug/deps/bulk-1\"", "null")).is_none());
        assert!(from_message("text of a program").is_none());
    }

    #[test]
    fn longest_start_first_and_measuring_ones_run_alone() {
        let all = ["formats", "doctor", "our_server", "recipes_time", "many_sessions"];
        let (beside, alone) = split(all.map(|name| job(name, ":")).into());
        let names = |jobs: VecDeque<Job>| jobs.into_iter().map(|job| job.name).collect::<Vec<_>>();
        assert_eq!(names(beside), ["recipes_time", "our_server", "formats"]);
        assert_eq!(names(alone), ["doctor", "many_sessions"]);
    }

    #[test]
    fn lists_name_executables_that_exist() {
        let root = crate::workspace::root();
        let below = |directory: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let mut packages = ["interop", "bench", "campaign"].map(|name| root.join(name)).to_vec();
        packages.extend(["bins", "crates"].iter().flat_map(|name| below(&root.join(name))));
        let sources: Vec<PathBuf> =
            packages.iter().flat_map(|package| below(&package.join("tests"))).collect();
        let names = |path: &Path, name: &str| path.file_stem().is_some_and(|stem| stem == name);
        let library = |name: &str| root.join("crates").join(name.trim_start_matches("lh_")).is_dir();
        for name in LONGEST.iter().chain(ALONE) {
            let found = library(name) || sources.iter().any(|source| names(source, name));
            assert!(found, "no test executable {name}");
        }
    }

    #[test]
    fn failed_tests_are_read_from_an_output_with_an_end() {
        let output = "test a::b ... ok\ntest c ... FAILED\ntest d - should panic ... FAILED\n";
        assert!(failed_tests(output).is_empty(), "ended before its time");
        let output = format!("{output}\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n");
        assert_eq!(failed_tests(&output), ["c", "d"]);
        assert!(failed_tests("test a ... ok\ntest result: ok. 1 passed\n").is_empty());
    }

    #[test]
    fn an_executable_that_hangs_is_killed_and_has_failed() {
        let mut hangs = job("hangs", "echo 'test a ... ok'; exec sleep 100000");
        assert_eq!(run_one(&mut hangs, Duration::from_millis(300)), Ok(false));
        assert!(hangs.failed.is_empty(), "all its tests run again");
    }

    #[test]
    fn failed_executables_run_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("ran");
        // The second run gets the name of the failed test as an argument.
        let unsteady = format!(
            "test -e {0} && {{ test \"$0 $*\" = '--exact a::b'; exit $?; }}
            touch {0}; echo 'test a::a ... ok'; echo 'test a::b ... FAILED'
            echo 'test result: FAILED. 1 passed; 1 failed'; exit 101",
            mark.display()
        );
        let jobs = vec![
            job("good", "exit 0"),
            job("bad", "echo why; exit 101"),
            job("gone", "kill -9 $$"),
            job("unsteady", &unsteady),
        ];
        let failed = run_all(jobs.into(), 2, 2).unwrap();
        assert_eq!(failed.len(), 3);
        assert_eq!(
            once_more(failed).unwrap(),
            (vec!["bad".to_owned(), "gone".to_owned()], vec!["unsteady".to_owned()])
        );
        let many: Vec<Job> = ["a", "b", "c", "d", "e", "f"].map(|name| job(name, "exit 0")).into();
        let (again, once) = once_more(many).unwrap();
        assert_eq!((again.len(), once.len()), (6, 0), "many failures are no accident");
    }
}
