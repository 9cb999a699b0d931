//! One connection to a host, as far as its host key.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use lh_crypto::{PublicKey, SystemRandom, key_algorithms};
use lh_driver::{Link, LinkError, Stage, Stream};
use lh_transport::{Config, Event, Transport};

use crate::hosts::Job;
use crate::show::Show;

/// Permitted address families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Any,
    V4,
    V6,
}

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

/// Key type of `-t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    Ecdsa,
    Ed25519,
    EcdsaSk,
    Ed25519Sk,
    MlDsa44Ed25519,
}

impl KeyKind {
    /// Default key types, in the order of ssh-keyscan. Composite keys are not among them: servers use them
    /// only where configured, so clients must request them too.
    pub(crate) fn every() -> Vec<Self> {
        Self::ALL.iter().map(|(_, kind)| *kind).filter(|kind| *kind != Self::MlDsa44Ed25519).collect()
    }

    const ALL: [(&'static str, Self); 6] = [
        ("rsa", Self::Rsa),
        ("ecdsa", Self::Ecdsa),
        ("ed25519", Self::Ed25519),
        ("ecdsa-sk", Self::EcdsaSk),
        ("ed25519-sk", Self::Ed25519Sk),
        ("mldsa44-ed25519", Self::MlDsa44Ed25519),
    ];

    /// Finds a key type by its short or full name.
    fn by_name(name: &str) -> Option<Self> {
        let short = match name {
            "ssh-rsa" => "rsa",
            "ssh-ed25519" => "ed25519",
            "sk-ssh-ed25519@openssh.com" => "ed25519-sk",
            "sk-ecdsa-sha2-nistp256@openssh.com" => "ecdsa-sk",
            "ssh-mldsa44-ed25519@openssh.com" => "mldsa44-ed25519",
            name if name.starts_with("ecdsa-sha2-nistp") => "ecdsa",
            name => name,
        };
        Self::ALL.iter().find(|(known, _)| *known == short).map(|(_, kind)| *kind)
    }

    /// # Errors
    /// The line to print.
    pub(crate) fn parse(list: &str) -> Result<Vec<Self>, String> {
        let mut wanted = Vec::new();
        for name in list.split(',') {
            match Self::by_name(name) {
                Some(kind) => wanted.push(kind),
                None => return Err(format!("Unknown key type \"{name}\"")),
            }
        }
        // Each once, in a fixed order.
        Ok(Self::ALL.iter().map(|(_, kind)| *kind).filter(|kind| wanted.contains(kind)).collect())
    }

    fn algorithms(self) -> &'static [&'static str] {
        match self {
            Self::Rsa => &["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"],
            Self::Ecdsa => &["ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"],
            Self::Ed25519 => &["ssh-ed25519"],
            Self::EcdsaSk => &["sk-ecdsa-sha2-nistp256@openssh.com"],
            Self::Ed25519Sk => &["sk-ssh-ed25519@openssh.com"],
            Self::MlDsa44Ed25519 => &["ssh-mldsa44-ed25519@openssh.com"],
        }
    }

    fn names(self, certificates: bool) -> Vec<String> {
        let name = |plain: &&str| match certificates {
            true => key_algorithms::certified(plain),
            false => (*plain).to_owned(),
        };
        self.algorithms().iter().map(name).collect()
    }
}

/// Requests one key type from one host. Errors are printed.
pub(crate) fn ask(query: &Query, job: &Job, show: &Show) -> Option<PublicKey> {
    for name in job.addresses.split(',').filter(|name| !name.is_empty()) {
        if let Some((socket, address)) = connect(query, name, show) {
            match key(query, job.kind, name, socket, show) {
                Ok(key) => return Some(key),
                Err(why) => {
                    show.detail(&format!("{name} ({address}): {why}"));
                    return None;
                }
            }
        }
    }
    None
}

fn connect(query: &Query, name: &str, show: &Show) -> Option<(TcpStream, SocketAddr)> {
    let addresses = match resolve(query, name) {
        Ok(addresses) => addresses,
        Err(why) => {
            show.error(&format!("getaddrinfo {name}: {why}"));
            return None;
        }
    };
    for address in addresses {
        match TcpStream::connect_timeout(&address, query.timeout) {
            Ok(socket) => return Some((socket, address)),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                show.detail(&format!("connect (`{name}'): Connection timed out"));
            }
            Err(error) => {
                let text = error.to_string();
                let words = text.split(" (os error ").next().unwrap_or(&text);
                show.error(&format!("connect (`{name}'): {words}"));
            }
        }
    }
    None
}

fn resolve(query: &Query, name: &str) -> Result<Vec<SocketAddr>, String> {
    let allowed = |address: &IpAddr| match query.family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let found = (name, query.port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        text.rsplit("lookup address information: ").next().unwrap_or(&text).to_owned()
    })?;
    let found: Vec<SocketAddr> = found.filter(|address| allowed(&address.ip())).collect();
    if found.is_empty() { Err("No address associated with hostname".to_owned()) } else { Ok(found) }
}

fn key(
    query: &Query,
    kind: KeyKind,
    name: &str,
    socket: TcpStream,
    show: &Show,
) -> Result<PublicKey, String> {
    let mut config = Config::client();
    config.algorithms.host_key = kind.names(query.certificates);
    let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
    let stream = Stream::socket(socket.into()).map_err(|error| error.to_string())?;
    let mut link = Link::new(transport, stream);
    loop {
        let deadline = Instant::now() + query.timeout;
        let event = match link.next_event(Some(deadline)) {
            Ok(event) => event,
            Err(LinkError::Closed { stage: Stage::Identification }) => {
                // An overloaded server closes the connection like this, which is worth a message.
                show.error(&format!("{name}: Connection closed by remote host"));
                return Err("closed".to_owned());
            }
            Err(LinkError::Io { stage: Stage::Identification, source }) => {
                let text = source.to_string();
                let words = text.split(" (os error ").next().unwrap_or(&text);
                show.error(&format!("read ({name}): {words}"));
                return Err("broken".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        };
        match event {
            Event::PeerIdentification(line) => show.server(name, &line),
            Event::HostKey { blob, .. } => {
                return PublicKey::from_blob(&blob).map_err(|error| error.to_string());
            }
            Event::Disconnected { description, .. } => return Err(description),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_types_are_requested_in_a_fixed_order() {
        use KeyKind::{Ed25519, Rsa};
        assert_eq!(KeyKind::parse("ed25519,rsa,rsa"), Ok(vec![Rsa, Ed25519]));
        assert_eq!(KeyKind::parse("rsa1"), Err("Unknown key type \"rsa1\"".to_owned()));
        assert_eq!(KeyKind::Ed25519Sk.names(true), ["sk-ssh-ed25519-cert-v01@openssh.com"]);
    }
}
