//! Values of the server's log and metrics keywords: `TransferLog`, `TransferLogFormat`, `TransferLogRate`,
//! `RecordTerminal`, `PrometheusListen`.
//! OpenSSH does not know them, so a file that both programs read needs `IgnoreUnknown` or an `Include`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::line::{Arguments, join_words};
use crate::table::Value;
use crate::units::parse_time;
use crate::value_error::{Syntax, ValueError, ValueFault};

/// Destination of the log lines about connections and transfers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TransferLog {
    /// No log.
    #[default]
    None,
    /// Syslog.
    Syslog,
    /// systemd's journal.
    Journald,
    /// Path of a file to append to.
    File(PathBuf),
}

impl Value for TransferLog {
    const KIND: &'static str = "absolute path, syslog, journald or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        Ok(match word.to_ascii_lowercase().as_str() {
            "none" => Self::None,
            "syslog" => Self::Syslog,
            "journald" => Self::Journald,
            _ if word.starts_with('/') => Self::File(word.into()),
            _ => return Err(args.malformed(Syntax::LogTarget, &word)),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::None => format!("{name} none"),
            Self::Syslog => format!("{name} syslog"),
            Self::Journald => format!("{name} journald"),
            Self::File(path) => format!("{name} {}", quoted(path)),
        });
    }
}

/// Largest number of records about the transfers of one connection in a period, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferLogRate(pub Option<RecordRate>);

/// A number of records that may be written in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRate {
    /// Number of records, at least one.
    pub records: u32,
    /// The period, in whole seconds.
    pub period: Duration,
}

impl Value for TransferLogRate {
    const KIND: &'static str = "number / time, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let rate = word.split_once('/').and_then(|(records, period)| {
            let records = records.parse().ok().filter(|records| *records > 0)?;
            let period = parse_time(period).filter(|seconds| *seconds > 0)?;
            Some(RecordRate { records, period: Duration::from_secs(period) })
        });
        rate.map(|rate| Self(Some(rate))).ok_or_else(|| args.malformed(Syntax::Spec, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0 {
            None => format!("{name} none"),
            Some(RecordRate { records, period }) => format!("{name} {records}/{}", period.as_secs()),
        });
    }
}

/// A directory with an absolute path, or `none`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbsoluteDirectory(pub Option<PathBuf>);

impl Value for AbsoluteDirectory {
    const KIND: &'static str = "absolute path of a directory, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        if word.contains('%') {
            return Err(args.malformed(Syntax::NoTokens, &word));
        }
        if !word.starts_with('/') {
            return Err(args.malformed(Syntax::AbsolutePath, &word));
        }
        Ok(Self(Some(word.into())))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let path = self.0.as_deref().unwrap_or("none".as_ref());
        out.push(format!("{name} {}", quoted(path)));
    }
}

/// The path as one word of a configuration file.
fn quoted(path: &Path) -> String {
    join_words(&[path.display().to_string()])
}

/// Address of the Prometheus endpoint: a loopback address, or any other one followed by the word `public`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrometheusListen(pub Option<SocketAddr>);

impl Value for PrometheusListen {
    const KIND: &'static str = "address:port [public] or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let address: SocketAddr = word.parse().map_err(|_| args.malformed(Syntax::SocketAddress, &word))?;
        let public = match args.next_word() {
            None => false,
            Some(word) if word.eq_ignore_ascii_case("public") => true,
            Some(word) => return Err(args.unknown_word(&word)),
        };
        if !address.ip().to_canonical().is_loopback() && !public {
            return Err(args.refused(ValueFault::NotLoopback(address.ip())));
        }
        Ok(Self(Some(address)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0 {
            None => format!("{name} none"),
            Some(address) if address.ip().to_canonical().is_loopback() => format!("{name} {address}"),
            Some(address) => format!("{name} {address} public"),
        });
    }
}
