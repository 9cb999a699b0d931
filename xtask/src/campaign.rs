//! Builds everything as users get it and runs a campaign on it.

use std::process::Command;

use crate::fuzz::duration;
use crate::workspace::{Outcome, build_release, call, root};

/// Runs `lh-campaign` with these arguments on the programs that have just been built.
fn run(args: &[String]) -> Outcome {
    let bins = build_release()?;
    call(Command::new(bins.join("lh-campaign")).current_dir(root()).env("LH_BIN_DIR", &bins).args(args))
}

/// `--for DURATION` becomes seconds; everything else is the campaign's.
pub(crate) fn explore(args: &[String]) -> Outcome {
    let mut words = vec!["explore".to_owned()];
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--for" {
            let seconds = duration(args.next().ok_or("--for needs a duration")?)?;
            words.extend(["--seconds".to_owned(), seconds.to_string()]);
        } else {
            words.push(arg.clone());
        }
    }
    run(&words)
}

/// Many clients, honest and hostile.
pub(crate) fn load(args: &[String]) -> Outcome {
    run(&[&["load".to_owned()], args].concat())
}

/// The step of the test command: sequences in memory and a sample over sockets.
pub(crate) fn short_explore() -> Outcome {
    explore(&[])
}

/// The step of the test command.
pub(crate) fn short_load() -> Outcome {
    load(&["--short".to_owned()])
}
