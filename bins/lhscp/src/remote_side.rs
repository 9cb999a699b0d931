//! `-t` and `-f`: the remote side of the old protocol, on standard input and output.
//!
//! Started by the `scp -O` of another host, by WinSCP, or by network equipment.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

use lh_cli::flags::Parsed;
use lh_metrics::copied::{self, Copied};
use lh_transfer::Current;
use lh_transfer::rcp::{self, Options, RcpRole, Request, Sink, Source};

use crate::outcome::FAILURE;
use crate::show::say;

/// The command line of a remote side.
#[derive(Debug, PartialEq, Eq)]
struct RemoteArguments {
    direction: Direction,
    /// `-r`.
    recursive: bool,
    /// `-p`.
    preserve: bool,
    /// `-d`.
    target_must_be_dir: bool,
    /// `-v`.
    verbose: bool,
}

/// Direction of the copy, as this side sees it.
#[derive(Debug, PartialEq, Eq)]
enum Direction {
    /// `-f`: sends these paths.
    Send(Vec<Vec<u8>>),
    /// `-t`: receives into this path.
    Receive(Vec<u8>),
}

/// Why a command line is refused. The other side shows the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum RefusedArguments {
    /// HPN-SSH's client would send names with digests in front of them, and wait for answers of another form.
    #[error("-Z is not supported in the old protocol; copies over SFTP are resumed")]
    Resume,
    /// `-t` without a path, or with several.
    #[error("ambiguous target")]
    AmbiguousTarget,
}

impl RefusedArguments {
    /// Returns the record of the protocol: a fatal error, or an ordinary one.
    fn record(self) -> Vec<u8> {
        let kind = match self {
            Self::Resume => '\x02',
            Self::AmbiguousTarget => '\x01',
        };
        format!("{kind}scp: {self}\n").into_bytes()
    }
}

impl RemoteArguments {
    fn interpret(parsed: &Parsed) -> Result<Self, RefusedArguments> {
        if parsed.has('Z') {
            return Err(RefusedArguments::Resume);
        }
        let direction = if parsed.has('f') {
            Direction::Send(parsed.operands.iter().map(|path| path.as_bytes().to_vec()).collect())
        } else if let [target] = &parsed.operands[..] {
            Direction::Receive(target.as_bytes().to_vec())
        } else {
            return Err(RefusedArguments::AmbiguousTarget);
        };
        Ok(Self {
            direction,
            recursive: parsed.has('r'),
            preserve: parsed.has('p'),
            target_must_be_dir: parsed.has('d'),
            verbose: parsed.has('v'),
        })
    }
}

/// Serves one copy; returns the exit status.
pub(crate) fn run(parsed: &Parsed) -> u8 {
    let streams = || -> io::Result<(File, File)> {
        Ok((
            io::stdin().as_fd().try_clone_to_owned()?.into(),
            io::stdout().as_fd().try_clone_to_owned()?.into(),
        ))
    };
    let Ok((mut input, mut output)) = streams() else { return FAILURE };
    let arguments = match RemoteArguments::interpret(parsed) {
        Ok(arguments) => arguments,
        Err(refused) => {
            let _ = output.write_all(&refused.record());
            return FAILURE;
        }
    };
    let RemoteArguments { direction, recursive, preserve, target_must_be_dir, verbose } = arguments;
    let options =
        Options { recursive, preserve, target_must_be_dir, remote_side: true, bits_per_second: None };
    let upload = matches!(direction, Direction::Receive(_));
    let mut role: Box<dyn RcpRole> = match direction {
        Direction::Send(paths) => Box::new(Source::new(paths, options, Instant::now())),
        Direction::Receive(target) => Box::new(Sink::new(target, Request::anything(), options)),
    };
    let mut report = RemoteReport { verbose, upload, account: account() };
    rcp::run(&mut *role, &mut input, &mut output, &mut report);
    u8::from(role.failures() > 0 || !role.is_finished())
}

/// Failures travel in the protocol; only `-v` adds messages, on standard error.
struct RemoteReport {
    verbose: bool,
    /// To this side.
    upload: bool,
    /// File to which our server wants a record of each copied file.
    account: Option<File>,
}

/// Opens the file that the server passed for records. O_APPEND, so that the records of several copies follow
/// each other.
fn account() -> Option<File> {
    let fd: u32 = std::env::var(copied::VARIABLE).ok()?.parse().ok()?;
    File::options().append(true).open(format!("/proc/self/fd/{fd}")).ok()
}

impl RemoteReport {
    fn write(&mut self, path: Vec<u8>, bytes: u64, took: Duration, fault: Option<String>) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // Relative to where the session has started is as good as nothing in a log.
        let here = std::env::current_dir().unwrap_or_default();
        let path = here.join(OsStr::from_bytes(&path)).into_os_string().into_vec();
        let record = Copied { path, upload: self.upload, bytes, micros, fault };
        if let Some(account) = &mut self.account {
            // The copy is what matters.
            let _ = account.write_all(&record.encode());
        }
    }
}

impl rcp::Report for RemoteReport {
    fn event(&mut self, event: rcp::Event, now: Instant) {
        match event {
            rcp::Event::FileDone { path, size, started, .. } => {
                self.write(path, size, now.saturating_duration_since(started), None);
            }
            rcp::Event::FileFailed { path, moved, started, why } => {
                self.write(path, moved, now.saturating_duration_since(started), Some(why));
            }
            rcp::Event::Debug(text) if self.verbose => eprintln!("{text}"),
            // SSH passes it on to the user. As a record of the protocol it would count as an error.
            rcp::Event::Changed { text, .. } => say(&text),
            rcp::Event::Debug(_) | rcp::Event::Failed(_) => {}
        }
    }

    fn progress(&mut self, _current: Option<Current<'_>>, _now: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use lh_cli::flags::SCP;

    use super::*;

    fn interpreted(words: &[&str]) -> Result<RemoteArguments, RefusedArguments> {
        let parsed = SCP.parse(words.iter().map(OsString::from)).expect("known flags");
        RemoteArguments::interpret(&parsed)
    }

    #[test]
    fn flags_of_the_other_side_are_typed() {
        let sends = interpreted(&["-rpf", "--", "a", "b"]).expect("paths");
        assert_eq!(sends.direction, Direction::Send(vec![b"a".to_vec(), b"b".to_vec()]));
        assert!(sends.recursive && sends.preserve && !sends.target_must_be_dir && !sends.verbose);
        let receives = interpreted(&["-v", "-d", "-t", "dir"]).expect("a target");
        assert_eq!(receives.direction, Direction::Receive(b"dir".to_vec()));
        assert!(receives.target_must_be_dir && receives.verbose && !receives.recursive);
    }

    #[test]
    fn refusals_are_records_of_the_protocol() {
        for words in [&["-t"][..], &["-t", "a", "b"]] {
            let refused = interpreted(words).expect_err("no single target");
            assert_eq!(refused.record(), b"\x01scp: ambiguous target\n");
        }
        let refused = interpreted(&["-Z", "-t", "a"]).expect_err("not spoken");
        let text = b"\x02scp: -Z is not supported in the old protocol; copies over SFTP are resumed\n";
        assert_eq!(refused.record(), text);
    }
}
