//! `-t` and `-f`: the remote side of the old protocol, on standard input and output.
//!
//! Started by the `scp -O` of another host, by WinSCP, or by network equipment.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

use lh_metrics::copied::{self, Copied};
use lh_transfer::Current;
use lh_transfer::rcp::{self, Options, RcpRole, Request, Sink, Source};

use crate::command_line::{Direction, RefusedArguments, RemoteArguments};
use crate::outcome::FAILURE;
use crate::show::say;

/// Serves one copy; returns the exit status.
pub(crate) fn run(arguments: Result<RemoteArguments, RefusedArguments>) -> u8 {
    let streams = || -> io::Result<(File, File)> {
        Ok((
            io::stdin().as_fd().try_clone_to_owned()?.into(),
            io::stdout().as_fd().try_clone_to_owned()?.into(),
        ))
    };
    let Ok((mut input, mut output)) = streams() else { return FAILURE };
    let RemoteArguments { direction, recursive, preserve, target_must_be_dir, verbose } = match arguments {
        Ok(arguments) => arguments,
        Err(refused) => {
            let _ = output.write_all(&refused.record());
            return FAILURE;
        }
    };
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
