//! Copies that survive: where their journal is, trying again when a connection breaks, stopping in good order.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lh_sys::signals::Signals;
use lh_transfer::{Direction, Job, Options, Plan, Summary, journal};
use rustix::process::Signal;

use crate::command_line::{Arguments, Via};
use crate::events;
use crate::outcome::Outcome;
use crate::place::{Host, bytes};
use crate::program::spelled;
use crate::show::{print, say};

/// Exit status of a copy that was stopped by ^C.
pub(crate) const INTERRUPTED: u8 = Outcome::Interrupted.status();

/// The longest pause before trying again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The options of one copy: those of the command line, and its journal.
pub(crate) fn options(arguments: &Arguments, plan: &Plan, hosts: &[&Host]) -> Options {
    let mut options = arguments.options.clone();
    if options.atomic && arguments.resume {
        options.journal = journal_path(arguments, plan, hosts);
    }
    // What comes is paced by asking for no more; so is what another program sends for us.
    if plan.direction == Direction::Download || arguments.via != Via::Inside {
        let pace = arguments.pace.map(|bytes| bytes.saturating_mul(8));
        options.bits_per_second = options.bits_per_second.into_iter().chain(pace).min();
    }
    options
}

/// The same command line on the same hosts, from any directory that means the same paths, has the same
/// journal.
fn journal_path(arguments: &Arguments, plan: &Plan, hosts: &[&Host]) -> Option<PathBuf> {
    let absolute = |path: &[u8]| {
        let path = std::path::absolute(std::ffi::OsStr::from_bytes(path)).ok();
        path.map_or_else(Vec::new, |path| bytes(path.as_os_str()))
    };
    let local = |path: &Vec<u8>, is_local: bool| if is_local { absolute(path) } else { path.clone() };
    let direction = plan.direction;
    let mut words = vec![match direction {
        Direction::Upload => b"upload".to_vec(),
        Direction::Download => b"download".to_vec(),
        Direction::Relay => b"relay".to_vec(),
    }];
    for host in hosts {
        words.push(bytes(&spelled(host, b"")));
        words.push(format!("{:?}", host.port.or(arguments.port)).into_bytes());
    }
    words.extend(plan.sources.iter().map(|source| local(source, direction == Direction::Upload)));
    words.push(local(&plan.target, direction == Direction::Download));
    let shard = plan_shard(arguments);
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from).or_else(std::env::home_dir)?;
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    Some(journal::file_for(&journal::directory(state, &home), &words, shard))
}

/// Each shard has a journal of its own, beside the others': they are one copy.
fn plan_shard(arguments: &Arguments) -> Option<(u32, u32)> {
    arguments.options.select.shard.map(|shard| (shard.number + 1, shard.of))
}

/// Signals that stop a job in good order while it runs. Not longer: programs that are started for a connection must hear
/// of them.
pub(crate) struct Caught(Option<Arc<Signals>>);

impl Caught {
    /// ^C, and requests to end, stop `job` from now on.
    pub(crate) fn begin(job: &Job) -> Self {
        let signals = Signals::collect(&[Signal::INT, Signal::TERM, Signal::HUP]).ok().map(Arc::new);
        if let Some(signals) = &signals {
            job.stop_on(Some(Arc::clone(signals)));
        }
        Self(signals)
    }

    /// They end the program again.
    pub(crate) fn end(self, job: &Job) {
        job.stop_on(None);
        if let Some(signals) = self.0.and_then(Arc::into_inner) {
            signals.release();
        }
    }
}

/// Says what is left of a copy that was stopped.
pub(crate) fn tell_interrupted(arguments: &Arguments, summary: &Summary) {
    let files =
        if summary.files == 1 { "1 file is".to_owned() } else { format!("{} files are", summary.files) };
    let kept = if arguments.options.atomic && arguments.resume {
        "the same command again goes on from here"
    } else {
        "what was unfinished has to be copied again"
    };
    say(&format!("interrupted: {files} complete; {kept}"));
}

/// Attempts of one copy.
#[derive(Debug)]
pub(crate) struct Attempts {
    left: u32,
    allowed: u32,
    pause: Duration,
}

impl Attempts {
    pub(crate) const fn new(allowed: u32) -> Self {
        Self { left: allowed, allowed, pause: Duration::from_secs(1) }
    }

    /// The connection is lost, or could not be made again. Waits, and says so; false when it is enough. An attempt that
    /// got something done makes up for those before it.
    pub(crate) fn again(&mut self, summary: &Summary, tells_programs: bool) -> bool {
        if summary.bytes + summary.files > 0 {
            *self = Self::new(self.allowed);
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let left = match self.left {
            0 => "the last attempt".to_owned(),
            left => format!("{left} more after that"),
        };
        let pause = self.pause.as_secs();
        say(&format!("connection lost; connecting again in {pause} s ({left})"));
        if tells_programs {
            print(&events::retry(pause, self.left));
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_earns_new_attempts() {
        let mut attempts = Attempts { left: 0, allowed: 2, pause: Duration::from_secs(32) };
        assert!(!attempts.again(&Summary::default(), false));
        let moved = Summary { bytes: 1, ..Summary::default() };
        attempts.pause = Duration::ZERO;
        assert!(attempts.again(&moved, false));
        assert_eq!((attempts.left, attempts.pause), (1, Duration::from_secs(2)));
        assert!(!Attempts::new(0).again(&moved, false));
    }
}
