//! One connection to a host, as far as its host key.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lh_client::resolve::{Family, resolve};
use lh_crypto::{PublicKey, SystemRandom};
use lh_driver::{Link, LinkError, Stage, Stream};
use lh_transport::{Config, Event, Transport};

use crate::error::HostError;
use crate::hosts::Job;
use crate::key_kind::KeyKind;
use crate::printer::Printer;

/// How often the time that the server may be silent for (`-T`) may pass before it is given up, also while it
/// sends.
const MOST_TIMEOUTS: u32 = 4;

/// Settings of the queries.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) port: u16,
    /// Time limit, once for connecting and once for the key exchange.
    pub(crate) timeout: Duration,
    pub(crate) family: Family,
    /// Request certificates instead of plain keys.
    pub(crate) certificates: bool,
    pub(crate) kinds: Vec<KeyKind>,
}

/// Requests one key type from one host. Errors are printed.
pub(crate) fn ask(query: &Query, job: &Job, printer: &Printer) -> Option<PublicKey> {
    for name in job.addresses.split(',').filter(|name| !name.is_empty()) {
        if let Some((socket, address)) = connect(query, name, printer) {
            match key(query, job.kind, name, socket, printer) {
                Ok(key) => return Some(key),
                Err(why) => {
                    printer.detail(&format!("{name} ({address}): {why}"));
                    return None;
                }
            }
        }
    }
    None
}

fn connect(query: &Query, name: &str, printer: &Printer) -> Option<(TcpStream, SocketAddr)> {
    let addresses = match resolve(name, query.port, query.family) {
        Ok(addresses) => addresses,
        Err(why) => {
            printer.error(&format!("getaddrinfo {name}: {why}"));
            return None;
        }
    };
    for address in addresses {
        match TcpStream::connect_timeout(&address, query.timeout) {
            Ok(socket) => return Some((socket, address)),
            Err(error) => {
                let timed_out = error.kind() == ErrorKind::TimedOut;
                let words =
                    if timed_out { "Connection timed out".to_owned() } else { lh_sys::errno_text(&error) };
                let text = format!("connect (`{name}'): {words}");
                // Most addresses of a network have no server: as with ssh-keyscan, that is no news.
                if timed_out || error.kind() == ErrorKind::ConnectionRefused {
                    printer.detail(&text);
                } else {
                    printer.error(&text);
                }
            }
        }
    }
    None
}

fn key(
    query: &Query,
    kind: KeyKind,
    name: &str,
    socket: TcpStream,
    printer: &Printer,
) -> Result<PublicKey, HostError> {
    let mut config = Config::client();
    config.algorithms.host_key = kind.names(query.certificates);
    let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
    let stream = Stream::socket(socket.into()).map_err(HostError::Local)?;
    let mut link = Link::new(transport, stream);
    // The time of `-T` begins anew with all that comes, as in ssh-keyscan: a tarpit that sends lines before
    // its identification without end would hold the scan for ever.
    let last = Instant::now() + MOST_TIMEOUTS * query.timeout;
    loop {
        let deadline = last.min(Instant::now() + query.timeout);
        let event = match link.next_event(Some(deadline)) {
            Ok(event) => event,
            Err(LinkError::Closed { stage: Stage::Identification }) => {
                // An overloaded server closes the connection like this, which is worth a message.
                printer.error(&format!("{name}: Connection closed by remote host"));
                return Err(HostError::Closed);
            }
            Err(LinkError::Io { stage: Stage::Identification, source }) => {
                let words = lh_sys::errno_text(&source);
                printer.error(&format!("read ({name}): {words}"));
                return Err(HostError::Broken);
            }
            Err(error) => return Err(HostError::Link(error)),
        };
        match event {
            Event::PeerIdentification(line) => printer.server(name, &line),
            Event::HostKey { blob, .. } => {
                return PublicKey::from_blob(&blob).map_err(HostError::Key);
            }
            Event::Disconnected { description, .. } => return Err(HostError::Disconnected(description)),
            _ => {}
        }
    }
}
