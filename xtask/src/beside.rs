//! Runs steps of the test command side by side, each as a separate process.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::hangs::{self, LIMIT};
use crate::workspace::{Outcome, this_program};

/// Function that makes the command of a step.
type Step<'a> = dyn Fn(&str) -> Result<Command, String> + Sync + 'a;

/// Runs these steps at the same time and prints the output of each in one piece when it ends. A step that
/// fails runs once more, alone.
pub(crate) fn run(steps: &[&str]) -> Outcome {
    run_with(steps, LIMIT, &|step| {
        let mut command = this_program()?;
        command.args(["test", "--only", step]).stdin(Stdio::null());
        Ok(command)
    })
}

/// Like [`run`], with these commands, and with `limit` for each.
fn run_with(steps: &[&str], limit: Duration, step: &Step<'_>) -> Outcome {
    let ends: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            steps.iter().map(|name| (*name, scope.spawn(|| captured(name, limit, step)))).collect();
        threads.into_iter().map(|(name, thread)| (name, thread.join())).collect()
    });
    let mut failed = Vec::new();
    for (name, end) in ends {
        let passed = end.map_err(|_| format!("step {name}: its thread panicked"))?;
        if !passed.map_err(|error| format!("step {name}: {error}"))? {
            failed.push(name);
        }
    }
    for name in failed {
        println!("\nstep {name} failed beside others; once more, alone");
        let again = |error| format!("step {name}: {error}");
        let mut child = step(name)?.spawn().map_err(|error| again(error.to_string()))?;
        let status = hangs::wait(name, &mut child, limit).map_err(again)?;
        if !status.success() {
            return Err(format!("step {name} failed: {status}"));
        }
        println!("\nTHIS STEP FAILED ONCE AND PASSED ALONE: {name}");
    }
    Ok(())
}

/// Runs the command of a step to its end, and prints its output. Returns whether it succeeded within `limit`.
fn captured(name: &str, limit: Duration, step: &Step<'_>) -> Result<bool, String> {
    let start = Instant::now();
    let (status, output) = hangs::output(name, &mut step(name)?, limit)?;
    println!("{output}step {name}: {status} after {} s", start.elapsed().as_secs());
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns a step that runs these lines in this directory, with the step's name as `$0`.
    fn lines(directory: &Path, lines: &'static str) -> impl Fn(&str) -> Result<Command, String> + Sync {
        move |step| {
            let mut command = Command::new("sh");
            command.args(["-c", lines, step]).current_dir(directory);
            Ok(command)
        }
    }

    #[test]
    fn steps_run_at_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let pipes = ["a", "b"].map(|name| directory.path().join(name));
        assert!(Command::new("mkfifo").args(pipes).status().unwrap().success());
        // Each step waits for the other one.
        let text = "if test $0 = one; then echo x >a; read y <b; else read y <a; echo x >b; fi";
        assert_eq!(run_with(&["one", "two"], LIMIT, &lines(directory.path(), text)), Ok(()));
    }

    #[test]
    fn a_step_that_fails_runs_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let bad = lines(directory.path(), "test $0 = good");
        assert_eq!(run_with(&["good"], LIMIT, &bad), Ok(()));
        assert_eq!(
            run_with(&["bad", "good"], LIMIT, &bad),
            Err("step bad failed: exit status: 1".to_owned())
        );
        // The first run creates a directory and fails; the second run finds it.
        let unsteady = lines(directory.path(), "mkdir $0 && exit 1; echo $0 >>ran");
        assert_eq!(run_with(&["one"], LIMIT, &unsteady), Ok(()));
        assert_eq!(std::fs::read_to_string(directory.path().join("ran")).unwrap(), "one\n");
    }

    #[test]
    fn a_step_that_hangs_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let hangs = lines(directory.path(), "exec sleep 100000");
        let end = run_with(&["one"], Duration::from_millis(100), &hangs);
        assert!(end.is_err_and(|text| text.starts_with("step one failed: signal: 9")));
    }
}
