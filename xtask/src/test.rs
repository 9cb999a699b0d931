//! The README's test command: all steps of CI, those that fail fastest first.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use crate::busy::Ticks;
use crate::memory::Memory;
use crate::workspace::{Outcome, build_release, build_without_lto, call, cargo, root, target_dir};
use crate::{
    bench, beside, campaign, comment_width, disk, executables, fuzz, layers, minimal, miri, msrv, names,
    peers, processors, systems,
};

type Step = (&'static str, fn() -> Outcome);

const STEPS: &[Step] = &[
    ("peers", install_peers),
    ("format", || call(cargo().args(["fmt", "--all", "--check"])).and_then(|()| comment_width::check())),
    ("layers", layers::check),
    ("locks", locks),
    ("msrv", msrv::check),
    ("compat", || crate::compat::run(&["--check".to_owned()])),
    ("clippy", || {
        let clippy = ["clippy", "--locked", "--workspace", "--all-targets"];
        call(cargo().args(clippy).args(["--", "-D", "warnings"]))
    }),
    ("processors", processors::check),
    ("systems", systems::check),
    ("minimal", minimal::check),
    ("miri", miri::check),
    ("deny", deny),
    ("build", || build_release().and_then(|bins| names::link(&bins)).map(drop)),
    (NEEDS_EARLY, crate::dist::emulated_test),
    ("unit", unit),
    ("tests", tests),
    ("site", || crate::site::run(&[])),
    ("regress", regress),
    ("suites", suites),
    ("docs", docs),
    ("packages", crate::dist::short_test),
    ("demo", || crate::demo::run(&["--size", "67108864", "--files", "300"].map(str::to_owned))),
    ("bench", || bench::smoke().and_then(|()| crate::tables::smoke())),
    ("load", campaign::short_load),
    ("faults", campaign::short_faults),
    ("cuts", campaign::short_cuts),
    ("nightly", campaign::short_nightly),
    ("explore", campaign::short_explore),
    ("fuzz", || fuzz::run(&[])),
];

/// Step that mostly waits for the network, and that no step before [`NEEDS_EARLY`] reads: a full run starts
/// it first and lets the checks of the sources run meanwhile.
const EARLY: &str = "peers";

/// The first step that runs a program of [`EARLY`].
const NEEDS_EARLY: &str = "emulated";

/// Steps that mostly wait and whose results no other step reads: they run side by side, when the first of
/// them is due.
///
/// `docs` does not wait: it uses the time in which the others do.
const BESIDE: &[&str] =
    &["regress", "suites", "docs", "packages", "demo", "bench", "load", "faults", "cuts", "nightly"];

/// Steps that run only if `--only` names them: the parts that their short form in [`STEPS`] leaves out.
const LONG: &[Step] = &[("doctor", doctor), ("properties", properties)];

/// Steps of `--quick`: they need no peer programs and no release build.
const QUICK: &[&str] = &["format", "layers", "compat", "clippy", "unit"];

/// Runs the steps: all, those of `--quick`, or those named by `--only`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let only: Option<Vec<&str>> = match args {
        [] => None,
        [flag] if flag == "--quick" => Some(QUICK.to_vec()),
        [flag, names] if flag == "--only" => Some(names.split(',').collect()),
        _ => return Err("usage: cargo xtask test [--quick] [--only STEP[,STEP…]]".to_owned()),
    };
    let known: Vec<&str> = STEPS.iter().chain(LONG).map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().flatten().find(|name| !known.contains(name)) {
        return Err(format!("no step {unknown}; there are: {}", known.join(" ")));
    }
    if let Some(outcome) = without_start_up_files(args) {
        return outcome;
    }
    build_without_lto();
    match only {
        Some(only) => run_steps(|name| only.contains(&name), None),
        None => std::thread::scope(|scope| {
            println!("\n=== {EARLY}, beside the steps before {NEEDS_EARLY}");
            run_steps(is_in_full_run, Some(scope.spawn(|| beside::run(&[EARLY]))))
        }),
    }
}

/// Returns whether a run of all steps includes this one. It executes the tests of `unit` in its step `tests`.
fn is_in_full_run(name: &str) -> bool {
    name != "unit" && name != EARLY && LONG.iter().all(|(long, _)| *long != name)
}

/// Runs the steps that are wanted, in their order. `early` is the thread of the step [`EARLY`], in a run of
/// all steps.
fn run_steps(wanted: impl Fn(&str) -> bool, mut early: Option<ScopedJoinHandle<'_, Outcome>>) -> Outcome {
    let is_full = early.is_some();
    let mut times = Vec::new();
    for (name, step) in STEPS.iter().chain(LONG) {
        if !wanted(name) {
            continue;
        }
        if let Some(early) = early.take_if(|_| *name == NEEDS_EARLY) {
            early.join().map_err(|_| format!("step {EARLY}: its thread panicked"))??;
        }
        let (start, before) = (Instant::now(), Ticks::now());
        let name = if is_full && BESIDE.contains(name) {
            if *name != BESIDE[0] {
                continue;
            }
            println!("\n=== {} ({} free on disk)", BESIDE.join(" + "), disk::free()?);
            beside::run(BESIDE)?;
            BESIDE.join(" + ")
        } else {
            println!("\n=== {name} ({} free on disk)", disk::free()?);
            step().map_err(|error| format!("step {name} failed: {error}"))?;
            (*name).to_owned()
        };
        let mut time = format!("{name} {} s", start.elapsed().as_secs());
        if let Some((before, now)) = before.zip(Ticks::now()) {
            time.push_str(&format!(" ({})", now.since(before)));
        }
        // At once, too: a run that is cut off shows where its time went.
        println!("step {time}");
        times.push(time);
        if is_full && name == "tests" {
            disk::sweep()?;
        }
    }
    println!("\nall steps passed: {}", times.join(", "));
    Ok(())
}

/// Set in the processes that [`without_start_up_files`] begins, which have a mount namespace of their own.
const INSIDE: &str = "LH_NO_START_UP_FILES";

/// Runs this command again inside a mount namespace without start-up files of root's shells, if that is
/// possible. Tests log in hundreds of times as the current user and kill some of the shells. A `.bashrc` that
/// takes locks and waits for them would disturb them.
fn without_start_up_files(args: &[String]) -> Option<Outcome> {
    if !lh_interop::is_root() || std::env::var_os(INSIDE).is_some() {
        return None;
    }
    let namespace = ["--mount", "sh", "-ec"];
    let hide = "for name in .bashrc .bash_profile .bash_login .profile; do
            if test -e ~/$name; then mount --bind /dev/null ~/$name; fi
        done";
    let works = Command::new("unshare").args(namespace).arg(hide).stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        return None;
    }
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new("unshare");
    command.args(namespace).arg(format!("{hide}; exec \"$@\"")).arg("sh").arg(program).arg("test");
    Some(match command.args(args).env(INSIDE, "1").status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("not all steps passed".to_owned()),
        Err(error) => Err(format!("unshare: {error}")),
    })
}

fn install_peers() -> Outcome {
    match peers::install() {
        // Without root, the tests that can run do so, and the end of the output names the others.
        Err(text) if !lh_interop::is_root() => {
            println!("{text}");
            Ok(())
        }
        other => other,
    }
}

/// Tests of the crates themselves, all but `interop`, in the debug build. Tests without their peer skip
/// themselves.
fn unit() -> Outcome {
    let workspace = ["--locked", "--workspace", "--exclude", "lh-interop"];
    executables::run(&workspace, &["--lib", "--bins"], &[])
}

fn tests() -> Outcome {
    let skipped = target_dir().join("skipped-tests.log");
    let _ = std::fs::remove_file(&skipped);
    let bins = target_dir().join("release");
    let mut variables = vec![("LH_BIN_DIR", bins.as_path()), ("LH_SKIP_LOG", &skipped)];
    // See `properties` for the reason of the fixed seed.
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        variables.push(("PROPTEST_RNG_SEED", Path::new("1")));
    }
    // Root could install every peer, so no peer may be missing.
    if lh_interop::is_root() {
        variables.push(("LH_REQUIRE_PEERS", Path::new("1")));
    }
    let memory = std::env::var_os(INSIDE).and_then(|_| Memory::mounted());
    if let Some(memory) = &memory {
        println!("tests: their files are in memory, in {}", memory.path().display());
        variables.push(("TMPDIR", memory.path()));
    }
    let outcome = executables::run(&["--locked", "--workspace"], &[], &variables);
    if let Ok(text) = std::fs::read_to_string(&skipped) {
        println!("\nTHESE TESTS DID NOT RUN:");
        // A reason can apply to many cases of one test.
        for line in text.lines().collect::<BTreeSet<_>>() {
            println!("  SKIPPED {line}");
        }
    }
    outcome
}

/// Runs the property tests with many more cases, which differ from run to run. The step `tests` uses equal
/// cases in each run, so that a new case cannot fail an unrelated change.
fn properties() -> Outcome {
    let workspace = ["--locked", "--workspace", "--exclude", "lh-interop"];
    executables::run(&workspace, &["--lib", "--bins", "--tests"], &[("PROPTEST_CASES", Path::new("5000"))])
}

/// Tests every planted cause that `longhaul doctor` must name; the step `tests` plants only a few of them.
fn doctor() -> Outcome {
    let bins = build_release()?;
    let test = ["test", "--locked", "--package", "lh-interop", "--test", "doctor", "--", "--include-ignored"];
    call(cargo().args(test).env("LH_BIN_DIR", bins).env("LH_REQUIRE_PEERS", "1"))
}

/// Runs OpenSSH's own tests with our programs. Only root can set up the networks and users that they need.
fn regress() -> Outcome {
    if !lh_interop::is_root() {
        println!("SKIPPED regress: OpenSSH's regression tests need root");
        return Ok(());
    }
    let bins = target_dir().join("release");
    crate::regress::run(&["--bins".to_owned(), bins.display().to_string()])
}

/// Third-party suites, except rclone's, which takes minutes to build.
fn suites() -> Outcome {
    let bins = target_dir().join("release").display().to_string();
    let names = ["go-sftp", "go-ssh", "asyncssh", "scp-py", "ssh-audit"].map(str::to_owned);
    crate::suites::run(&[&["--bins".to_owned(), bins][..], &names].concat())
}

fn docs() -> Outcome {
    call(
        cargo()
            .args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Fails where the fuzz targets' lock file does not match the manifests. It belongs to a workspace of its
/// own, so no other command updates it, and the step that builds it comes last.
fn locks() -> Outcome {
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--quiet", "--format-version", "1"]);
    call(metadata.args(["--manifest-path", "fuzz/Cargo.toml"]).stdout(Stdio::null())).map_err(|error| {
        format!("fuzz/Cargo.lock is out of date; `cd fuzz && cargo metadata` updates it ({error})")
    })
}

/// Checks licences, sources and duplicate versions from the lock file alone; advisories need RustSec's
/// database.
fn deny() -> Outcome {
    if call(cargo().args(["deny", "--version"])).is_err() {
        println!("deny: installing cargo-deny");
        // It runs for a second, and optimising it took two minutes.
        let settings = [("OPT_LEVEL", "0"), ("CODEGEN_UNITS", "16"), ("DEBUG", "0"), ("LTO", "off")];
        let settings = settings.map(|(name, value)| (format!("CARGO_PROFILE_RELEASE_{name}"), value));
        call(cargo().args(["install", "--locked", "--quiet", "cargo-deny"]).envs(settings))?;
    }
    call(cargo().args(["deny", "--workspace", "check", "bans", "licenses", "sources"]))?;
    let advisories = cargo().args(["deny", "--workspace", "check", "advisories"]).output();
    let advisories = advisories.map_err(|error| format!("cargo deny: {error}"))?;
    let text = String::from_utf8_lossy(&advisories.stderr);
    if advisories.status.success() {
        println!("deny: no advisory against a dependency");
        Ok(())
    } else if text.contains("failed to fetch")
        || text.contains("unable to fetch")
        || text.contains("failed to load advisory")
    {
        println!("deny: ADVISORIES NOT CHECKED: RustSec's database cannot be reached from here");
        Ok(())
    } else {
        Err(format!("advisories in {}:\n{text}", root().display()))
    }
}
