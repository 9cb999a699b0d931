//! Builds the release programs and runs a campaign on them.

use std::process::Command;

use crate::fuzz::duration;
use crate::workspace::{Outcome, build_release, call, root};

/// Runs `lh-campaign` with these arguments on a fresh release build.
fn run(args: &[String]) -> Outcome {
    let bins = build_release()?;
    call(Command::new(bins.join("lh-campaign")).current_dir(root()).env("LH_BIN_DIR", &bins).args(args))
}

/// Runs `lh-campaign explore`. `--for DURATION` becomes `--seconds`; all other arguments are passed on.
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

/// Runs `lh-campaign load`: many clients, well-behaved and hostile.
pub(crate) fn load(args: &[String]) -> Outcome {
    run(&[&["load".to_owned()], args].concat())
}

/// Step of the test command: sequences in memory and a sample over sockets.
pub(crate) fn short_explore() -> Outcome {
    explore(&[])
}

/// Step of the test command: the short load campaign.
pub(crate) fn short_load() -> Outcome {
    load(&["--short".to_owned()])
}
