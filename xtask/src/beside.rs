//! Runs steps of the test command side by side, each as a separate process.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::workspace::{Outcome, read_back, start_captured};

/// Runs these steps at the same time and prints the output of each in one piece, in this order. A step that
/// fails runs once more, alone.
pub(crate) fn run(steps: &[&str]) -> Outcome {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    run_with(steps, &|step| {
        let mut command = Command::new(&program);
        command.args(["test", "--only", step]).stdin(Stdio::null());
        command
    })
}

/// Like [`run`], with the function that makes the command of a step.
fn run_with(steps: &[&str], step: &(dyn Fn(&str) -> Command + Sync)) -> Outcome {
    let ends: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            steps.iter().map(|name| (*name, scope.spawn(|| captured(step(name))))).collect();
        threads.into_iter().map(|(name, thread)| (name, thread.join())).collect()
    });
    let mut failed = Vec::new();
    for (name, end) in ends {
        let (passed, output) = end.map_err(|_| format!("step {name}: its thread panicked"))??;
        std::io::stdout().write_all(&output).map_err(|error| format!("standard output: {error}"))?;
        if !passed {
            failed.push(name);
        }
    }
    for name in failed {
        println!("\nstep {name} failed beside others; once more, alone");
        let status = step(name).status().map_err(|error| format!("step {name}: {error}"))?;
        if !status.success() {
            return Err(format!("step {name} failed: {status}"));
        }
        println!("\nTHIS STEP FAILED ONCE AND PASSED ALONE: {name}");
    }
    Ok(())
}

/// Runs a command to its end. Returns whether it succeeded, and its output.
fn captured(mut command: Command) -> Result<(bool, Vec<u8>), String> {
    let failed = |error: std::io::Error| error.to_string();
    let (mut child, log) = start_captured(&mut command).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    Ok((status.success(), read_back(log).map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns a step that runs these lines in this directory, with the step's name as `$0`.
    fn lines(directory: &Path, lines: &'static str) -> impl Fn(&str) -> Command + Sync {
        move |step| {
            let mut command = Command::new("sh");
            command.args(["-c", lines, step]).current_dir(directory);
            command
        }
    }

    #[test]
    fn steps_run_at_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let pipes = ["a", "b"].map(|name| directory.path().join(name));
        assert!(Command::new("mkfifo").args(pipes).status().unwrap().success());
        // Each step waits for the other one.
        let text = "if test $0 = one; then echo x >a; read y <b; else read y <a; echo x >b; fi";
        assert_eq!(run_with(&["one", "two"], &lines(directory.path(), text)), Ok(()));
    }

    #[test]
    fn a_step_that_fails_runs_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let bad = lines(directory.path(), "test $0 = good");
        assert_eq!(run_with(&["good"], &bad), Ok(()));
        assert_eq!(run_with(&["bad", "good"], &bad), Err("step bad failed: exit status: 1".to_owned()));
        // The first run creates a directory and fails; the second run finds it.
        let unsteady = lines(directory.path(), "mkdir $0 && exit 1; echo $0 >>ran");
        assert_eq!(run_with(&["one"], &unsteady), Ok(()));
        assert_eq!(std::fs::read_to_string(directory.path().join("ran")).unwrap(), "one\n");
    }
}
