//! Builds the release programs and runs the benchmark on them.

use std::path::Path;
use std::process::Command;

use crate::workspace::{Outcome, build_release, call, cargo, root, target_dir};

/// Runs `lh-bench` with these arguments. Reports go to `target/bench` unless `--out` names another directory.
pub(crate) fn run(args: &[String]) -> Outcome {
    let measures = args.first().is_none_or(|arg| arg != "--fold")
        && !args.iter().any(|arg| matches!(arg.as_str(), "--help" | "-h" | "help"));
    if !measures {
        // The other programs need not be built.
        return call(cargo().args(["run", "--quiet", "--locked", "-p", "lh-bench", "--"]).args(args));
    }
    let bins = build_release()?;
    let mut command = Command::new(bins.join("lh-bench"));
    command.current_dir(root()).env("LH_BIN_DIR", &bins).args(args);
    if !args.iter().any(|arg| arg == "--out") {
        command.arg("--out").arg(target_dir().join("bench"));
    }
    call(&mut command)
}

/// Runs every benchmark once with tiny sizes, as a step of the test command.
pub(crate) fn smoke() -> Outcome {
    let out = target_dir().join("bench-smoke");
    run(&["--smoke".to_owned(), "--out".to_owned(), text(&out)])
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
