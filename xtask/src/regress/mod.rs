//! Runs OpenSSH's own regression tests (Debian's package `openssh-tests`) with our programs in place of
//! OpenSSH's.
//!
//! They were written without Longhaul in mind, which makes them valuable. `interop/regress.list` has the
//! expected result of each test and, unless that is "pass", the reason. Unexpected failures and unexpected
//! passes both fail the run, so that the list stays true. Each test gets its own copy of the suite and, as
//! root, its own network namespace, because the scripts listen on fixed ports.
//!
//! With `--newest` the suite is that of the newest OpenSSH, in a separate system (`newest.rs`), and
//! `interop/regress-newest.list` has the expected results.

mod newest;

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::names::PROGRAMS;
use crate::workspace::{Outcome, build_release, root};

const SUITE: &str = "/usr/lib/openssh/regress";

/// Number of tests run at once. Most of them sleep most of the time.
const PARALLEL_RUNS: usize = 4;

/// Time limit of a test; OpenSSH's own take up to a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(420);

/// Size of OpenSSH 9.2's `ssh-agent` on Debian, bytes.
const AGENT: usize = 485_760;

/// Expected result of a test, from the list.
#[derive(Clone, PartialEq, Eq)]
enum Expected {
    Pass,
    Fail(String),
    /// The test cannot run here, or does not end.
    Skip(String),
}

struct Case {
    name: String,
    expected: Expected,
}

struct Ended {
    name: String,
    passed: bool,
    seconds: u64,
    /// Last line that the script printed.
    last: String,
}

struct Options {
    tests: Vec<String>,
    bins: Option<PathBuf>,
    /// Tests only these of our programs, with OpenSSH's for the rest. Empty: all.
    only: Vec<String>,
    keep: Option<PathBuf>,
    /// Runs the suite of the newest OpenSSH.
    newest: bool,
}

/// Directories and properties of the place where tests run.
struct Place {
    /// Directory of the tests' copies and output.
    work: PathBuf,
    /// Directory of our programs under OpenSSH's names, as the tests see it.
    names: PathBuf,
    /// Tests have a separate network and separate processes.
    isolated: bool,
    /// Root of the system with the newest OpenSSH, if that suite runs.
    system: Option<PathBuf>,
}

impl Place {
    /// Returns the suite that tests get copies of.
    fn suite(&self) -> PathBuf {
        match &self.system {
            Some(root) => root.join(SUITE.trim_start_matches('/')),
            None => PathBuf::from(SUITE),
        }
    }

    /// Returns the path of a test's copy as the test sees it.
    fn seen(&self, copy: &Path) -> PathBuf {
        match &self.system {
            Some(_) => Path::new(newest::WORK).join(copy.file_name().unwrap_or_default()),
            None => copy.to_owned(),
        }
    }
}

/// `cargo xtask regress [--newest] [--bins DIR] [--only PROGRAM,…] [--keep DIR] [TEST…]`
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    let cases = cases(&options)?;
    let place = place(&options)?;

    let queue: Mutex<VecDeque<&Case>> = Mutex::new(cases.iter().collect());
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..if place.isolated { PARALLEL_RUNS } else { 1 } {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.pop_front());
                    let Some(case) = next else { break };
                    if let Expected::Skip(_) = case.expected {
                        continue;
                    }
                    let one = run_one(&case.name, &place);
                    println!(
                        "regress: {} {} ({} s) {}",
                        if one.passed { "ok    " } else { "FAILED" },
                        one.name,
                        one.seconds,
                        one.last
                    );
                    if let Ok(mut ended) = ended.lock() {
                        ended.push(one);
                    }
                }
            });
        }
    });
    let mut ended = ended.into_inner().map_err(|_| "a thread panicked".to_owned())?;
    // The scripts sleep and poll, and on a loaded machine one may poll too late. So a test that fails beside
    // others runs once more, alone.
    for one in &mut ended {
        let case = cases.iter().find(|case| case.name == one.name);
        if !one.passed && case.is_some_and(|case| case.expected == Expected::Pass) {
            *one = run_one(&one.name, &place);
            println!("regress: again: {} {}", if one.passed { "ok    " } else { "FAILED" }, one.name);
        }
    }
    let outcome = judge(&cases, &ended);
    if options.keep.is_none() && outcome.is_ok() {
        let _ = fs::remove_dir_all(&place.work);
    } else {
        println!("regress: output and logs are in {}", place.work.display());
    }
    outcome
}

/// Prepares programs and directories.
fn place(options: &Options) -> Result<Place, String> {
    if !options.newest && !Path::new(SUITE).is_dir() {
        return Err(format!("{SUITE} is missing: apt-get install openssh-tests"));
    }
    let bins = match &options.bins {
        Some(dir) => fs::canonicalize(dir).map_err(|error| format!("{}: {error}", dir.display()))?,
        None => build_release()?,
    };
    if options.newest {
        if !options.only.is_empty() || options.keep.is_some() {
            return Err("--newest goes with neither --only nor --keep".to_owned());
        }
        let root = newest::system()?;
        let work = root.join(newest::WORK.trim_start_matches('/'));
        fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        let names = newest::install(&root, &bins)?;
        return Ok(Place { work, names, isolated: true, system: Some(root) });
    }
    let work = match &options.keep {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("longhaul-regress-{}", std::process::id())),
    };
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let names = link_programs(&bins, &work, &options.only)?;
    // OpenSSH's sshd needs its empty directory.
    let _ = fs::create_dir_all("/run/sshd");
    Ok(Place { work, names, isolated: own_network_works(), system: None })
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options { tests: Vec::new(), bins: None, only: Vec::new(), keep: None, newest: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--bins" => options.bins = Some(PathBuf::from(value()?)),
            "--newest" => options.newest = true,
            "--keep" => options.keep = Some(PathBuf::from(value()?)),
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            flag if flag.starts_with('-') => return Err(format!("regress: unknown option {flag}")),
            name => options.tests.push(name.to_owned()),
        }
    }
    if let Some(unknown) = options.only.iter().find(|name| !PROGRAMS.iter().any(|row| row.0 == *name)) {
        return Err(format!("regress: no program {unknown}"));
    }
    Ok(options)
}

/// Reads the list. Lines: `name`, `name fails: why`, `name skipped: why`, `# comment`.
fn cases(options: &Options) -> Result<Vec<Case>, String> {
    let wanted = &options.tests;
    let list = if options.newest { "interop/regress-newest.list" } else { "interop/regress.list" };
    let path = root().join(list);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut cases = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let expected = match rest.split_once(':') {
            None if rest.is_empty() => Expected::Pass,
            Some(("fails", why)) => Expected::Fail(why.trim().to_owned()),
            Some(("skipped", why)) => Expected::Skip(why.trim().to_owned()),
            _ => return Err(format!("{}: cannot read the line {line:?}", path.display())),
        };
        cases.push(Case { name: name.to_owned(), expected });
    }
    if !wanted.is_empty() {
        let unknown = wanted.iter().find(|name| !cases.iter().any(|case| case.name == **name));
        if let Some(name) = unknown {
            return Err(format!("{}: no test {name}", path.display()));
        }
        cases.retain(|case| wanted.contains(&case.name));
        // A test named on the command line runs even if the list skips it.
        for case in &mut cases {
            if let Expected::Skip(why) = &case.expected {
                case.expected = Expected::Fail(why.clone());
            }
        }
    }
    Ok(cases)
}

/// Makes a directory with links from OpenSSH's names to our programs.
fn link_programs(bins: &Path, work: &Path, only: &[String]) -> Result<PathBuf, String> {
    let names = work.join("openssh-names");
    let _ = fs::remove_dir_all(&names);
    fs::create_dir_all(&names).map_err(|error| format!("{}: {error}", names.display()))?;
    for (name, ours, theirs, _) in PROGRAMS {
        let program = bins.join(ours);
        let target = if only.is_empty() || only.iter().any(|each| each == name) {
            if !program.is_file() {
                return Err(format!("{} is not built", program.display()));
            }
            program
        } else {
            PathBuf::from(theirs)
        };
        symlink(&target, names.join(name)).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(names)
}

/// Returns whether a test can have its own loopback interface.
fn own_network_works() -> bool {
    lh_interop::is_root()
        && Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

fn run_one(name: &str, place: &Place) -> Ended {
    let start = Instant::now();
    let outcome = start_and_wait(name, place);
    let (passed, last) = match outcome {
        Ok((code, text)) => (code == Some(0), last_line(&text, code)),
        Err(problem) => (false, problem),
    };
    Ended { name: name.to_owned(), passed, seconds: start.elapsed().as_secs(), last }
}

fn last_line(text: &str, code: Option<i32>) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line: String = line.chars().take(110).collect();
    match code {
        Some(124 | 137) => format!("too slow; {line}"),
        _ => line,
    }
}

fn start_and_wait(name: &str, place: &Place) -> Result<(Option<i32>, String), String> {
    // Some scripts delete lines by words that would occur in every path.
    let suite = place.work.join(name.replace("hostkey", "hk"));
    let _ = fs::remove_dir_all(&suite);
    crate::workspace::call(Command::new("cp").arg("-a").arg(place.suite()).arg(&suite))?;
    match place.system {
        Some(_) => newest::calm(&suite, AGENT)?,
        None => calm(&suite)?,
    }
    let output = place.work.join(format!("{name}.out"));
    let file = fs::File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let limit = format!("{}", LIMIT.as_secs());
    let seen = place.seen(&suite);
    let script = seen.join(format!("{name}.sh"));
    // A pid namespace too, so that leftover processes end with the script.
    let isolated = ["--net", "--pid", "--fork", "--kill-child"];
    let mut command = Command::new(if place.isolated { "unshare" } else { "timeout" });
    match &place.system {
        Some(root) => {
            command.args(isolated).args(["--mount", "sh", "-c", newest::SCRIPT, "sh"]);
            command.arg(root).arg(&seen);
        }
        // The shell stays as process 1 of the namespace, where it reaps orphans.
        None if place.isolated => {
            command.args(isolated).args(["--mount-proc", "sh", "-c"]);
            command.args(["ip link set lo up; timeout -k 5 \"$@\"; exit $?", "sh"]);
        }
        None => drop(command.args(["-k", "5"])),
    }
    command.arg(limit).arg("sh").arg(seen.join("test-exec.sh")).arg(&seen).arg(script);
    for (program, _, _, variable) in PROGRAMS {
        command.env(variable, place.names.join(program));
    }
    command
        .current_dir(&suite)
        .env_remove("SSH_AUTH_SOCK")
        .envs([
            ("SUDO", ""),
            ("TEST_SHELL", "sh"),
            ("TEST_SSH_PLINK", "plink"),
            ("TEST_SSH_PUTTYGEN", "puttygen"),
            ("TEST_SSH_IPV6", "yes"),
            ("TEST_SSH_ECC", "yes"),
            ("TEST_SSH_UNSAFE_PERMISSIONS", "1"),
            ("OPENSSL_BIN", "openssl"),
        ])
        .envs(place.system.iter().flat_map(|_| newest::VARIABLES.iter().copied()))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors);
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
    if status.success() {
        let _ = fs::remove_dir_all(&suite);
    }
    Ok((status.code(), text))
}

/// Adapts this older suite to newer programs. OpenSSH 9.8 and later penalize sources that fail too often,
/// which their own suite switches off. From 10.4 on one key type works only if a configuration names it,
/// while this suite expects every type of `ssh -Q` to work without.
///
/// The suite also copies the file `ssh-agent`, sometimes in pieces of five bytes. Ours has debug symbols and
/// thirty times the size, which took minutes and tested nothing; it is cut to [`AGENT`] bytes.
fn calm(suite: &Path) -> Outcome {
    let script = suite.join("test-exec.sh");
    let problem = |error: std::io::Error| format!("{}: {error}", script.display());
    let text = fs::read_to_string(&script).map_err(problem)?;
    let first = "\tStrictModes\t\tno\n";
    let filter = "\t\tgrep -v ^sk\n";
    let data = "\ncat ${SSHAGENT_BIN} >${DATA}\n";
    let mut text = text;
    for (theirs, ours) in [
        (first, format!("{first}\tPerSourcePenalties\tno\n")),
        (filter, "\t\tgrep -v -e ^sk -e ^ssh-mldsa44\n".to_owned()),
        (data, format!("\nhead -c {AGENT} ${{SSHAGENT_BIN}} >${{DATA}}\n")),
    ] {
        if !text.contains(theirs) {
            return Err(format!("{}: unexpected version of the suite", script.display()));
        }
        text = text.replacen(theirs, &ours, 1);
    }
    fs::write(&script, text).map_err(problem)
}

/// Compares the results with the list.
fn judge(cases: &[Case], ended: &[Ended]) -> Outcome {
    let mut wrong = Vec::new();
    let (mut passed, mut known) = (0, 0);
    for case in cases {
        let Some(one) = ended.iter().find(|one| one.name == case.name) else {
            if let Expected::Skip(why) = &case.expected {
                println!("regress: SKIPPED {}: {why}", case.name);
            }
            continue;
        };
        match (&case.expected, one.passed) {
            (Expected::Pass, true) => passed += 1,
            (Expected::Pass, false) => wrong.push(format!("{} failed: {}", one.name, one.last)),
            (Expected::Fail(_), true) => {
                wrong.push(format!("{} passes now: take its reason out of interop/regress.list", one.name));
            }
            (Expected::Fail(why), false) => {
                known += 1;
                println!("regress: known to fail: {}: {why}", one.name);
            }
            (Expected::Skip(_), _) => {}
        }
    }
    println!("regress: {passed} of OpenSSH's {} tests pass, {known} fail for known reasons", cases.len());
    let _ = std::io::stdout().flush();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
