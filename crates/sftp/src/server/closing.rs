//! The end of files and of the session: usage records and log lines.

use super::handles::Open;
use super::jobs::{CheckJob, CopyJob};
use super::log::{FileEvent, FileOutcome, LogLevel, Shown};
use super::state::Server;

/// What a client had open when its session ended ([`Server::close`]).
#[derive(Default)]
#[must_use = "dropping it closes the files, which may block"]
pub struct OpenFiles {
    _files: Vec<Open>,
    _jobs: (Option<CopyJob>, Option<CheckJob>),
}

impl Server {
    /// Ends the session: records each open file and logs the end. Dropping the server does so too. The files
    /// are closed when the returned value is dropped, which may block like every other call on a file.
    pub fn close(&mut self) -> OpenFiles {
        if std::mem::replace(&mut self.closed, true) {
            return OpenFiles::default();
        }
        let jobs = (self.copy.take(), self.check.take());
        let mut files: Vec<_> = self.handles.drain().collect();
        for open in &mut files {
            self.log_close(open, true);
            if let Open::File(file) = open {
                self.discard(file);
            }
        }
        self.log_session("closed");
        OpenFiles { _files: files, _jobs: jobs }
    }

    pub(super) fn log_close(&mut self, open: &mut Open, forced: bool) {
        let verb = if forced { "forced close" } else { "close" };
        match open {
            Open::File(file) => {
                if forced {
                    file.event.outcome = FileOutcome::Abandoned;
                }
                if file.event.start == u64::MAX {
                    file.event.start = 0;
                }
                self.log_file_close(&file.event, verb);
            }
            Open::Dir(dir) => {
                let verb = if forced { verb } else { "closedir" };
                self.log_line(LogLevel::Info, format_args!("{verb} \"{}\"", Shown(&dir.path)));
            }
        }
    }

    pub(super) fn log_file_close(&mut self, event: &FileEvent, verb: &str) {
        self.log_line(
            LogLevel::Info,
            format_args!(
                "{verb} \"{}\" bytes read {} written {}",
                Shown(&event.path),
                event.bytes_read,
                event.bytes_written
            ),
        );
        self.log.file_closed(event);
    }

    pub(super) fn log_session(&mut self, what: &str) {
        if LogLevel::Info <= self.log.level() {
            let line = format!(
                "session {what} for local user {} from [{}]",
                self.options.user, self.options.address
            );
            self.log.line(LogLevel::Info, format_args!("{line}"));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.close());
    }
}
