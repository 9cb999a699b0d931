//! The end of files and of the session: usage records and log lines.

use super::handles::Open;
use super::jobs::Jobs;
use super::state::{Phase, Server};

/// Files and directories that were open when the session ended ([`Server::close`]).
#[derive(Default)]
#[must_use = "dropping it closes the files, which may block"]
pub struct OpenFiles {
    _files: Vec<Open>,
    _jobs: Jobs,
}

impl Server {
    /// Ends the session: records each open file and logs the end. Dropping the server does the same. The
    /// files are closed when the returned value is dropped, which may block like any other call on a file.
    pub fn close(&mut self) -> OpenFiles {
        if matches!(self.phase, Phase::Closed(_)) {
            return OpenFiles::default();
        }
        self.phase = Phase::Closed(None);
        let jobs = std::mem::take(&mut self.jobs);
        let mut files: Vec<_> = self.handles.drain().collect();
        for open in &mut files {
            self.log.close(open, true);
            if let Open::File(file) = open {
                self.discard(file);
            }
        }
        self.log.session("closed", &self.options);
        OpenFiles { _files: files, _jobs: jobs }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.close());
    }
}
