//! Builds the release programs and runs a campaign on them.

use std::process::Command;

use crate::fuzz::duration;
use crate::workspace::{Outcome, build_release, call, root};

/// Runs `lh-campaign` with these arguments on a fresh release build.
fn run(args: &[String]) -> Outcome {
    let bins = build_release()?;
    call(Command::new(bins.join("lh-campaign")).current_dir(root()).env("LH_BIN_DIR", &bins).args(args))
}

/// Arguments of `lh-campaign`: `--for DURATION` becomes `--seconds`; all others are passed on.
fn with_seconds(command: &str, args: &[String]) -> Result<Vec<String>, String> {
    let mut words = vec![command.to_owned()];
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--for" {
            let seconds = duration(args.next().ok_or("--for needs a duration")?)?;
            words.extend(["--seconds".to_owned(), seconds.to_string()]);
        } else {
            words.push(arg.clone());
        }
    }
    Ok(words)
}

/// Runs `lh-campaign explore`: sequences of messages, in memory and over sockets.
pub(crate) fn explore(args: &[String]) -> Outcome {
    run(&with_seconds("explore", args)?)
}

/// Runs `lh-campaign faults`: copies during which something fails.
pub(crate) fn faults(args: &[String]) -> Outcome {
    run(&with_seconds("faults", args)?)
}

/// Runs `lh-campaign cuts`: sessions whose path is cut.
pub(crate) fn cuts(args: &[String]) -> Outcome {
    run(&with_seconds("cuts", args)?)
}

/// Runs `lh-campaign load`: many clients, well-behaved and hostile.
pub(crate) fn load(args: &[String]) -> Outcome {
    run(&[&["load".to_owned()], args].concat())
}

/// Runs `lh-campaign nightly`: a job that synchronises a tree, and is killed.
pub(crate) fn nightly(args: &[String]) -> Outcome {
    run(&[&["nightly".to_owned()], args].concat())
}

/// Step of the test command: sequences in memory and a sample over sockets.
pub(crate) fn short_explore() -> Outcome {
    explore(&[])
}

/// Step of the test command: the short load campaign.
pub(crate) fn short_load() -> Outcome {
    load(&["--short".to_owned()])
}

/// Step of the test command: each fault once, and some kills.
pub(crate) fn short_faults() -> Outcome {
    faults(&[])
}

/// Step of the test command: a nightly job of 2000 files.
pub(crate) fn short_nightly() -> Outcome {
    nightly(&[])
}

/// Step of the test command: each cut once.
pub(crate) fn short_cuts() -> Outcome {
    cuts(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_seconds() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let given = with_seconds("faults", &words(&["--for", "2m", "--seed", "7"]));
        assert_eq!(given, Ok(words(&["faults", "--seconds", "120", "--seed", "7"])));
        assert!(with_seconds("faults", &words(&["--for"])).is_err());
    }
}
