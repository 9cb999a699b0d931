//! `TransferLog`: one line for each connection and each transfer, for scripts and log servers.
//!
//! The monitor writes it. For each line it opens the file and appends with a single write. So lines of
//! concurrent sessions do not mix, and renaming the file is enough to rotate it.

mod record;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lh_config::accounting::TransferLog as Target;
use lh_config::enums::TransferLogFormat as Format;
use lh_config::server_table::ServerSettings;
use lh_sys::journal::{self, Journal};
use lh_sys::syslog::{Facility, Severity, Syslog};

pub(crate) use record::Record;

/// Program name in the system's logs.
const NAME: &str = "lhsshd-transfer";

/// Destination and format of the lines.
#[derive(Debug)]
pub(crate) struct TransferLog {
    target: Target,
    format: Format,
    facility: Facility,
}

impl TransferLog {
    /// Returns the configured log, or `None` if there is none.
    pub(crate) fn new(settings: &ServerSettings) -> Option<Self> {
        let target = settings.transfer_log.value.clone();
        let facility = Facility::by_name(settings.syslog_facility.value.word()).unwrap_or(Facility::AUTH);
        (target != Target::None).then_some(Self {
            target,
            format: settings.transfer_log_format.value,
            facility,
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(crate) fn write(&self, record: &Record) -> Result<(), TransferLogError> {
        let time = lh_sys::time::utc_text(SystemTime::now());
        for line in record.lines(self.format) {
            match &self.target {
                Target::None => {}
                Target::Syslog => Syslog::open(self.facility, NAME).line(Severity::Info, &line),
                Target::Journald => Journal::open(Path::new(journal::SOCKET), NAME)
                    .and_then(|journal| journal.write(Severity::Info, &line, &record.journal_fields()))
                    .map_err(|problem| TransferLogError { place: journal::SOCKET.into(), problem })?,
                Target::File(path) => {
                    let line = match self.format {
                        Format::Json => format!("{}\n", record::with_time(&line, &time)),
                        Format::Text | Format::Hpn => format!("{time} {line}\n"),
                    };
                    append(path, &line)
                        .map_err(|problem| TransferLogError { place: path.into(), problem })?;
                }
            }
        }
        Ok(())
    }
}

/// Why a record could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", place.display())]
pub(crate) struct TransferLogError {
    /// Path of the file, or of the journal's socket.
    place: PathBuf,
    problem: io::Error,
}

/// Appends a line to a file; a new file is readable only by root. A pipe without a reader is an error and
/// does not block.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    file.write_all(line.as_bytes())
}
