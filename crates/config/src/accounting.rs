//! Values of the keywords about what a server writes down: `TransferLog`, `TransferLogFormat`, `PrometheusListen`. They are
//! Longhaul's own; OpenSSH does not know them, so a file that both read wants `IgnoreUnknown` or an `Include` of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::line::Arguments;
use crate::table::Value;

/// Where the lines about connections and transfers go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TransferLog {
    /// Nowhere.
    #[default]
    None,
    /// To the system's log.
    Syslog,
    /// To systemd's journal.
    Journald,
    /// To the end of this file.
    File(PathBuf),
}

impl Value for TransferLog {
    const KIND: &'static str = "absolute path, syslog, journald or none";
    fn parse(args: &mut Arguments) -> Result<Self, String> {
        let word = args.required()?;
        Ok(match word.to_ascii_lowercase().as_str() {
            "none" => Self::None,
            "syslog" => Self::Syslog,
            "journald" => Self::Journald,
            _ if word.starts_with('/') => Self::File(word.into()),
            _ => return Err(format!("{} must be an absolute path, syslog, journald or none.", args.keyword)),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::None => format!("{name} none"),
            Self::Syslog => format!("{name} syslog"),
            Self::Journald => format!("{name} journald"),
            Self::File(path) => format!("{name} {}", path.display()),
        });
    }
}

/// Where the server's counters can be fetched: an address of this machine, unless the word `public` stands behind another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrometheusListen(pub Option<SocketAddr>);

impl Value for PrometheusListen {
    const KIND: &'static str = "address:port [public] or none";
    fn parse(args: &mut Arguments) -> Result<Self, String> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let keyword = args.keyword;
        let address: SocketAddr =
            word.parse().map_err(|_| format!("{keyword}: \"{word}\" is no address and port."))?;
        let public = match args.next_word() {
            None => false,
            Some(word) if word.eq_ignore_ascii_case("public") => true,
            Some(word) => return Err(format!("{keyword}: \"{word}\" is not public.")),
        };
        if !address.ip().to_canonical().is_loopback() && !public {
            return Err(format!(
                "{keyword}: {} is no loopback address; anybody could read there. Write public behind it to have it so.",
                address.ip()
            ));
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
