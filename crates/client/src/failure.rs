//! Error messages for a connection that ended before the session ran, in the words that scripts match.

use lh_driver::{LinkError, Stage};
use lh_transport::TransportError;
use lh_wire::LONGEST_TEXT;

use crate::error::{ClientError, ConnectionLoss};
use crate::log::{sanitise, sanitise_start};
use crate::ui::LogLevel;

/// The peer's name in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerName {
    /// The socket's address; behind a proxy, OpenSSH's placeholders.
    pub(crate) address: String,
    pub(crate) port: u16,
}

impl PeerName {
    /// OpenSSH's placeholders, for a peer behind a proxy command.
    pub(crate) fn unknown() -> Self {
        Self { address: "UNKNOWN".to_owned(), port: 65535 }
    }

    fn is_unknown(&self) -> bool {
        *self == Self::unknown()
    }

    /// Returns `IP port N`.
    pub(crate) fn text(&self) -> String {
        format!("{} port {}", self.address, self.port)
    }
}

/// Returns the error for a link that failed during handshake or authentication.
pub(crate) fn link_failed(error: &LinkError, peer: &PeerName) -> ClientError {
    let at = peer.text();
    ClientError::Lost(match error {
        LinkError::Closed { stage: Stage::Identification } => {
            let cause = "kex_exchange_identification: Connection closed by remote host";
            ended_after(cause, format!("Connection closed by {at}"))
        }
        LinkError::Closed { .. } => ended(format!("Connection closed by {at}")),
        LinkError::Io { stage, source } => {
            let reset = source.kind() == std::io::ErrorKind::ConnectionReset;
            // A proxy that exits without reading our identification line resets its pipe. Report it like a
            // closed connection.
            if reset && *stage == Stage::Identification && peer.is_unknown() {
                return link_failed(&LinkError::Closed { stage: *stage }, peer);
            }
            let words = lh_sys::errno_text(source);
            let last = if reset {
                format!("Connection reset by {at}")
            } else {
                format!("Connection to {at}: {words}")
            };
            if *stage == Stage::Identification {
                ended_after(format!("kex_exchange_identification: read: {words}"), last)
            } else {
                ended(last)
            }
        }
        LinkError::Transport(error) => transport_failed(error, &at),
        LinkError::TimedOut => ended_after(
            "Connection timed out during banner exchange",
            format!("Connection to {at} timed out"),
        ),
    })
}

/// The end of a connection, in OpenSSH's last line about it.
fn ended(line: String) -> ConnectionLoss {
    ConnectionLoss::new(LogLevel::Info, line)
}

/// Longest reason of a peer for its disconnect that is shown, bytes; OpenSSH's limit.
const LONGEST_REASON: usize = 400;

/// The end of a connection because of an error.
fn ended_after(error: impl Into<String>, line: String) -> ConnectionLoss {
    ConnectionLoss::new(LogLevel::Error, error).with_line(LogLevel::Info, line)
}

fn transport_failed(error: &TransportError, at: &str) -> ConnectionLoss {
    let in_banner = |why: &str| format!("banner exchange: Connection to {at}: {why}");
    match error {
        TransportError::NoMatch { what, offer } => ended(format!(
            "Unable to negotiate with {at}: no matching {what} found. Their offer: {}",
            sanitise_start(offer, LONGEST_TEXT)
        )),
        TransportError::NotSsh(what) => ended_after(
            format!("kex_exchange_identification: {}", sanitise(what)),
            in_banner("invalid format"),
        ),
        TransportError::BadIdentification(_) => ended_after(error.to_string(), in_banner("invalid format")),
        TransportError::ProtocolVersion(_) => {
            ended_after(error.to_string(), in_banner("could not read protocol version"))
        }
        TransportError::PacketLength { length } => ended(format!("Bad packet length {length}.")).with_line(
            LogLevel::Info,
            format!("ssh_dispatch_run_fatal: Connection to {at}: Connection corrupted"),
        ),
        error => ended(format!("ssh_dispatch_run_fatal: Connection to {at}: {error}")),
    }
}

/// Returns the error for an SSH_MSG_DISCONNECT of the peer.
pub(crate) fn disconnected(reason: u32, description: &str, peer: &PeerName) -> ClientError {
    let (at, text) = (peer.text(), sanitise_start(description, LONGEST_REASON));
    ClientError::Lost(ended_after(
        format!("Received disconnect from {at}:{reason}: {text}"),
        format!("Disconnected from {at}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> PeerName {
        PeerName { address: "192.0.2.7".to_owned(), port: 2022 }
    }

    #[test]
    fn failures_use_the_words_that_scripts_match() {
        let text = |error| link_failed(&error, &peer()).to_string();
        assert_eq!(
            text(LinkError::Closed { stage: Stage::Identification }),
            "kex_exchange_identification: Connection closed by remote host\n\
             Connection closed by 192.0.2.7 port 2022"
        );
        assert_eq!(
            text(LinkError::Closed { stage: Stage::KeyExchange }),
            "Connection closed by 192.0.2.7 port 2022"
        );
        let reset = std::io::Error::from_raw_os_error(104);
        assert_eq!(
            text(LinkError::Io { stage: Stage::Established, source: reset }),
            "Connection reset by 192.0.2.7 port 2022"
        );
        assert_eq!(
            text(LinkError::Transport(TransportError::ProtocolVersion("1".to_owned()))),
            "Protocol major versions differ: 2 vs. 1\n\
             banner exchange: Connection to 192.0.2.7 port 2022: could not read protocol version"
        );
        assert_eq!(
            text(LinkError::Transport(TransportError::BadIdentification("SSH-2.0".to_owned()))),
            "Bad remote protocol version identification: 'SSH-2.0'\n\
             banner exchange: Connection to 192.0.2.7 port 2022: invalid format"
        );
        assert_eq!(
            text(LinkError::Transport(TransportError::NotSsh("banner line too long".to_owned()))),
            "kex_exchange_identification: banner line too long\n\
             banner exchange: Connection to 192.0.2.7 port 2022: invalid format"
        );
        let offer = TransportError::NoMatch { what: "cipher", offer: "3des-cbc".to_owned() };
        assert_eq!(
            text(LinkError::Transport(offer)),
            "Unable to negotiate with 192.0.2.7 port 2022: no matching cipher found. Their offer: 3des-cbc"
        );
        assert_eq!(
            disconnected(2, "Too many authentication failures", &peer()).to_string(),
            "Received disconnect from 192.0.2.7 port 2022:2: Too many authentication failures\n\
             Disconnected from 192.0.2.7 port 2022"
        );
    }

    #[test]
    fn long_reasons_of_a_server_are_cut() {
        let reason = disconnected(2, &"\x1b".repeat(30_000), &peer()).to_string();
        let shown = "\\033".repeat(LONGEST_REASON);
        assert_eq!(
            reason,
            format!(
                "Received disconnect from 192.0.2.7 port 2022:2: {shown}…\n\
                 Disconnected from 192.0.2.7 port 2022"
            )
        );
        let offer = TransportError::NoMatch { what: "cipher", offer: "x,".repeat(30_000) };
        let text = link_failed(&LinkError::Transport(offer), &peer()).to_string();
        assert!(text.len() < 2000 && text.ends_with('…'), "{} bytes", text.len());
    }
}
