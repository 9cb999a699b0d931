//! `TransferLog`: a line for each connection and each transfer, for people's own scripts and for log servers.
//!
//! The monitor writes it. A file is opened anew for each line and gets it with one write at its end: sessions of any number do not mix
//! their lines, and to rotate the file it is enough to rename it.

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

/// The name that stands in the logs of the system.
const NAME: &str = "lhsshd-transfer";

/// Where the lines go, and how they look.
#[derive(Debug)]
pub(crate) struct TransferLog {
    target: Target,
    format: Format,
    facility: Facility,
}

impl TransferLog {
    /// What the configuration asks for, if it asks for any.
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
    /// It cannot be written.
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

/// A record that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", place.display())]
pub(crate) struct TransferLogError {
    /// The file, or the journal's socket.
    place: PathBuf,
    problem: io::Error,
}

/// Adds a line to a file that only root may read, if it is new. A pipe without a reader is an error and not a wait.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    file.write_all(line.as_bytes())
}
