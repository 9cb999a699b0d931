//! Files that a copy leaves for programs: what was copied (`--manifest-out`), and what failed
//! (`--failed-out`).
//!
//! The displays of the copies pass their events on to [`Outputs`]. The files are written when all copies have
//! ended.

mod destination;
mod failed;
mod files;
mod manifest;
mod sorted;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lh_cli::flags::SCP;
use lh_ssh_transfer::place::Place;
use lh_sys::errno_text;
use lh_transfer::manifest_file::Header;
use lh_transfer::{Event, Shard, SumAlgorithm};

use self::destination::destination;
use self::failed::Failed;
use self::files::{replace, unnamed_file_beside};
pub(crate) use self::manifest::LocalEnd;
use self::manifest::Spool;

const MANIFEST_OUT: &str = "--manifest-out";
const FAILED_OUT: &str = "--failed-out";

/// Output files that the command line asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputSettings {
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) algorithm: SumAlgorithm,
    pub(crate) failed: Option<PathBuf>,
}

/// One of the files cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {}: {}", .path.display(), errno_text(.error))]
pub(crate) struct OutputError {
    /// The flag that names the file.
    flag: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl OutputError {
    /// Returns a function for `map_err`.
    pub(crate) fn of(flag: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { flag, path: path.to_owned(), error }
    }
}

/// The output files of one command. Clones refer to the same files.
#[derive(Debug, Clone)]
pub(crate) struct Outputs {
    wanted: OutputSettings,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether copying has begun. A refused command line leaves the files alone.
    begun: bool,
    copied: Option<Spool>,
    failed: Failed,
    /// Failures of the current attempt at a copy.
    failing: Failed,
    error: Option<io::Error>,
}

/// How a copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    Complete,
    /// Something was not copied.
    Failed,
    /// It was stopped by a signal, or lost its connection.
    Stopped,
}

/// Facts about the command that the files contain.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) id: &'a str,
    /// When it began, RFC 3339.
    pub(crate) start: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) target: &'a Place,
    /// `-P`.
    pub(crate) port: Option<u16>,
    pub(crate) shard: Option<Shard>,
}

impl Run<'_> {
    /// Returns the first line of the manifest. `is_target`: the copied file is the target itself.
    fn header(&self, algorithm: SumAlgorithm, is_target: bool) -> Header {
        Header {
            algorithm,
            destination: destination(self.target, self.port, is_target),
            run: self.id.to_owned(),
            time: self.start.to_owned(),
            shard: self.shard,
        }
    }
}

impl Outputs {
    pub(crate) fn new(wanted: OutputSettings) -> Self {
        Self { wanted, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kind of sums to make, if a manifest is wanted.
    pub(crate) fn sums(&self) -> Option<SumAlgorithm> {
        self.wanted.manifest.is_some().then_some(self.wanted.algorithm)
    }

    /// Returns true if failed items are listed (`--failed-out`).
    pub(crate) const fn list_failed(&self) -> bool {
        self.wanted.failed.is_some()
    }

    /// Returns the first flag that is given, for messages.
    pub(crate) fn flags(&self) -> Option<&'static str> {
        match (&self.wanted.manifest, &self.wanted.failed) {
            (Some(_), _) => Some(MANIFEST_OUT),
            (_, Some(_)) => Some(FAILED_OUT),
            _ => None,
        }
    }

    /// Checks that the files can be written, before anything is copied.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(crate) fn begin(&self) -> Result<(), OutputError> {
        if let Some(path) = &self.wanted.failed {
            unnamed_file_beside(path).map_err(OutputError::of(FAILED_OUT, path))?;
        }
        if let Some(path) = &self.wanted.manifest {
            let spool = Spool::create(path).map_err(OutputError::of(MANIFEST_OUT, path))?;
            self.lock().copied = Some(spool);
        }
        self.lock().begun = true;
        Ok(())
    }

    /// Notes which end of the next copy is on this host.
    pub(crate) fn copy_begins(&self, here: LocalEnd) {
        if let Some(spool) = &mut self.lock().copied {
            spool.copy_begins(here);
        }
    }

    /// Handles an event of a copy.
    pub(crate) fn event(&self, event: &Event) {
        match event {
            Event::Copied(copied) => {
                let mut state = self.lock();
                if let Some(spool) = &mut state.copied
                    && let Err(error) = spool.add(copied)
                {
                    state.error.get_or_insert(error);
                }
            }
            Event::Missed { path: Some(path) } => {
                self.lock().failing.paths.insert(path.clone());
            }
            Event::Missed { path: None } => self.lock().failing.named = true,
            _ => {}
        }
    }

    /// Forgets what failed in the last attempt, because the copy is made once more.
    pub(crate) fn retry(&self) {
        self.lock().failing = Failed::default();
    }

    /// Notes the end of a copy.
    pub(crate) fn copy_ended(&self, end: CopyEnd) {
        let mut state = self.lock();
        let mut failing = std::mem::take(&mut state.failing);
        let names_nothing = failing.paths.is_empty() && !failing.named;
        if end == CopyEnd::Stopped || (end == CopyEnd::Failed && names_nothing) {
            failing.add_everything();
        }
        state.failed.merge(failing);
    }

    /// Writes the files when everything has ended. Returns `false` if that failed; the reason was printed.
    pub(crate) fn finish(&self, run: &Run<'_>) -> bool {
        let mut state = self.lock();
        let mut good = true;
        let mut tell = |error: OutputError| {
            say(&error.to_string());
            good = false;
        };
        if let Some(path) = self.wanted.failed.as_ref().filter(|_| state.begun) {
            let text = state.failed.text();
            if let Err(error) = replace(path, |out| out.write_all(&text)) {
                tell(OutputError::of(FAILED_OUT, path)(error));
            }
        }
        if let (Some(path), Some(spool), true) = (&self.wanted.manifest, state.copied.take(), state.begun) {
            let result = match state.error.take() {
                Some(error) => Err(error),
                None => {
                    let header = run.header(self.wanted.algorithm, spool.is_target());
                    spool.write(path, &header, run.outcome, say)
                }
            };
            if let Err(error) = result {
                tell(OutputError::of(MANIFEST_OUT, path)(error));
            }
        }
        good
    }
}

/// Prints a message of the program.
fn say(text: &str) {
    eprintln!("{}: {text}", SCP.called());
}
