//! Why a command could not do its work, by where the fault is. The command decides the exit status.

use std::io;
use std::path::{Path, PathBuf};

use lh_cli::flags::LONGHAUL;
use lh_client::UnknownUid;
use lh_config::ConfigError;
use lh_instrument::{BadList, NoResults};
use lh_metrics::ReadError;
use lh_sys::errno_text;

/// Exit status of mistakes on the command line.
pub(crate) const USAGE: u8 = 2;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A mistake on the command line.
    #[error("{0}")]
    Usage(String),
    /// A file of this machine cannot be read or written.
    #[error("{}: {}", path.display(), errno_text(error))]
    File { path: PathBuf, error: io::Error },
    /// A file is not what it should be.
    #[error("{}: {fault}", path.display())]
    Content { path: PathBuf, fault: Content },
    /// Standard output cannot be written.
    #[error("standard output: {}", errno_text(.0))]
    Output(io::Error),
    /// Something else of this machine.
    #[error("{what}: {}", errno_text(error))]
    System { what: &'static str, error: io::Error },
    /// The configuration of SSH.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// The user who runs the program has no account.
    #[error(transparent)]
    Account(#[from] UnknownUid),
    /// A word of the command line is no destination.
    #[error("\"{word}\": {error}")]
    Destination { word: String, error: Box<dyn std::error::Error + Send + Sync> },
    /// A process cannot be looked into.
    #[error(
        "process {number}: {}. Its user or root may look into it (and kernel.yama.ptrace_scope may forbid it to its \
             user): give the host in place of the process",
        errno_text(error)
    )]
    Process { number: i32, error: io::Error },
    /// A process is not there.
    #[error("process {0}: No such process")]
    NoProcess(String),
    /// A measurement.
    #[error(transparent)]
    Measurement(#[from] lh_instrument::Fault),
    /// The connection ended, or there was none: why has been said.
    #[error("Connection closed")]
    Closed,
    /// The server broke the rules of SFTP.
    #[error("Bad message from the SFTP server")]
    BrokenRules,
    /// A server or another program refuses: its words.
    #[error("{0}")]
    Refused(String),
}

/// Fault in the content of a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Content {
    /// Not UTF-8.
    #[error("not a text file (UTF-8)")]
    NotText,
    /// More than a file of its kind ever has.
    #[error("longer than {0} MiB: not a list of hosts")]
    TooLong(u64),
    /// A list of paths.
    #[error(transparent)]
    List(#[from] BadList),
    /// No results of `bench`.
    #[error("not the results of longhaul bench")]
    OtherFormat,
    /// A line of results of `bench` is not complete, or not JSON.
    #[error("line {line}: {}", if *.cut { "the line is cut short (no complete JSON object)" } else { "not JSON: these are not the results of longhaul bench" })]
    Json { line: usize, cut: bool },
    /// A line of results is longer than one ever is.
    #[error("line {line}: longer than {most} MiB: not the results of longhaul bench")]
    LongLine { line: usize, most: u64 },
    /// A line of results cannot be used.
    #[error("line {line}: {fault}")]
    Results { line: usize, fault: NoResults },
    /// There are several runs where one is compared.
    #[error("more than one run")]
    SeveralRuns,
    /// More runs than a page can show.
    #[error("more than {0} runs with those before: give a part of them")]
    TooManyRuns(usize),
    /// A file of metrics.
    #[error(transparent)]
    Metrics(#[from] ReadError),
    /// A manifest.
    #[error("{0}")]
    Manifest(String),
}

impl Fault {
    /// For `map_err`: the file cannot be read or written.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    /// For `map_err`: the file is not what it should be.
    pub(crate) fn content<E: Into<Content>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        |fault| Self::Content { path, fault: fault.into() }
    }

    /// For `map_err`: something of this machine.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    /// For `map_err`: a word of the command line is no destination.
    pub(crate) fn destination<E: std::error::Error + Send + Sync + 'static>(
        word: &str,
    ) -> impl FnOnce(E) -> Self {
        let word = lh_client::sanitise(word);
        |error| Self::Destination { word, error: Box::new(error) }
    }

    /// Says it on standard error; returns the exit status: `status`, or that of mistakes on the command line.
    pub(crate) fn report(&self, status: u8) -> u8 {
        if let Self::Usage(text) = self {
            return LONGHAUL.usage_error(text).print();
        }
        say(&self.to_string());
        status
    }
}

/// A message of the program.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    // Standard error may be a pipe without a reader.
    let _ = writeln!(io::stderr(), "{}: {text}", LONGHAUL.called());
}
