//! The state that the three processes of a session share before they split: connection, configuration,
//! addresses.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use lh_auth::{FIRST_FLIGHT, FirstFlight, TICKET};
use lh_config::ConnectionFacts;
use lh_config::enums::TcpKeepAlive;
use lh_config::server_table::ServerSettings;
use lh_driver::Stream;
use lh_sys::tuning::Tuning;
use lh_transport::{Config, RekeyLimit};

use super::names;
use crate::hand_over::Session;
use crate::hosts::{self, shown_endpoint, shown_ip};
use crate::log::{Field, Log, error, verbose};

/// Addresses of a connection, for log lines.
pub(super) struct Address {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// False when the connection is not over TCP (inetd mode over pipes), so that the addresses mean nothing.
    pub(super) known: bool,
    pub(super) log: Log,
}

/// The descriptors of the client's connection.
pub(super) enum Connection {
    Socket(OwnedFd),
    Pipes(OwnedFd, OwnedFd),
}

impl Connection {
    pub(super) fn into_stream(self) -> std::io::Result<Stream> {
        match self {
            Self::Socket(socket) => Stream::socket(socket),
            Self::Pipes(read, write) => Stream::pipes(read, write),
        }
    }
}

pub(super) type Failure = Box<dyn std::error::Error>;

/// `RefuseConnection` applies before the first byte.
#[derive(Debug, thiserror::Error)]
#[error("administratively prohibited connection from {}", shown_endpoint(*from))]
pub(super) struct Refused {
    from: SocketAddr,
}

/// The state that all three processes start with.
pub(super) struct Common {
    pub(super) session: Session,
    pub(super) facts: ConnectionFacts,
    /// The settings for this connection before the user is known.
    pub(super) settings: ServerSettings,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) known: bool,
    /// The client's host name, where `UseDNS` has found one.
    pub(super) host_name: Option<String>,
    /// The end of LoginGraceTime.
    pub(super) deadline: Option<Instant>,
    /// Identifier of the connection in logs.
    pub(super) id: String,
}

impl Common {
    /// `client` is the client's address where the connection comes from a load balancer.
    pub(super) fn new(
        session: Session,
        connection: &Connection,
        client: Option<SocketAddr>,
        log: &Log,
    ) -> Result<Box<Self>, Failure> {
        let (peer, local) = match connection {
            Connection::Socket(socket) => {
                (lh_sys::socket::peer_address(socket), lh_sys::socket::local_address(socket))
            }
            Connection::Pipes(..) => (None, None),
        };
        let peer = client.or(peer);
        let known = peer.is_some() && local.is_some();
        let (peer, local) = (peer.unwrap_or(hosts::UNKNOWN), local.unwrap_or(hosts::UNKNOWN));
        let id = connection_id();
        name_connection(log, peer, &id);
        let (from, to) = (shown_endpoint(peer), shown_endpoint(local));
        verbose!(log, "Connection from {from} on {to}");
        let grace = session.config.login_grace_time.value.0.map(Duration::from_secs);
        let deadline = grace.and_then(|grace| Instant::now().checked_add(grace));
        // Slow name servers use up the client's login time; the listener ends a session that takes too long.
        let wanted = known && session.config.use_dns.value;
        let host_name = wanted.then(|| lh_sys::reverse_lookup::checked_host_name(peer.ip())).flatten();
        let facts = crate::facts::of_connection(peer, local, host_name.as_deref());
        let settings = session.config.for_connection(&facts)?.settings;
        if settings.refuse_connection.value {
            return Err(Refused { from: peer }.into());
        }
        if let (Connection::Socket(socket), true) = (connection, known) {
            let _ = lh_sys::socket::set_keepalive(
                socket,
                session.config.tcp_keep_alive.value != TcpKeepAlive::No,
            );
            tune(socket, &settings, log);
        }
        Ok(Box::new(Self { session, facts, settings, peer, local, known, host_name, deadline, id }))
    }

    /// Opens a log for one of the processes; its journal entries name the connection.
    pub(super) fn log(&self) -> Log {
        let log = self.session.log();
        name_connection(&log, self.peer, &self.id);
        log
    }

    pub(super) fn address(&self, log: Log) -> Address {
        Address { peer: self.peer, local: self.local, known: self.known, log }
    }

    /// Returns the transport's configuration, for the pre-auth process and after it. Reads the file of moduli
    /// where it may be needed.
    pub(super) fn transport_config(&self) -> Config {
        let settings = &self.settings;
        let algorithms = names::algorithms(settings);
        let sha1 = offers_sha1(&algorithms);
        let needs_moduli = algorithms.kex.iter().any(|name| name.contains("group-exchange"));
        let moduli = settings.moduli_file.value.as_deref().filter(|_| needs_moduli);
        let host_keys = &self.session.host_keys;
        let host_keys = host_keys.iter().map(|key| crate::host_keys::for_transport(key, sha1)).collect();
        let keys = settings.pubkey_authentication.value && settings.authentication_methods.0.is_empty();
        let first_flight = FirstFlight { window: FirstFlight::WINDOW, keys };
        Config {
            algorithms,
            rekey: rekey_limit(settings),
            moduli: moduli.and_then(|path| std::fs::read_to_string(path).ok()),
            server_sig_algs: names::user_key_algorithms(settings),
            // The extension names that RFC 9987 registers for agent forwarding.
            extensions: [
                (lh_agent::names::AGENT_FORWARD, "0".to_owned()),
                (FIRST_FLIGHT, first_flight.encode()),
                (TICKET, "0".to_owned()),
                (lh_resume::NAME, lh_resume::VERSION.to_owned()),
            ]
            .into_iter()
            .filter(|(name, _)| *name != TICKET || settings.longhaul_tickets.value)
            .filter(|(name, _)| *name != lh_resume::NAME || settings.resume_grace.duration().is_some())
            .map(|(name, value)| (name.to_owned(), value.into_bytes()))
            .collect(),
            comments: settings.version_addendum.command().map(str::to_owned).unwrap_or_default(),
            ..Config::server(host_keys)
        }
    }
}

/// Returns an identifier that is unique on this machine: the time, and the process id.
fn connection_id() -> String {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{}", time.as_micros(), std::process::id())
}

fn name_connection(log: &Log, peer: SocketAddr, id: &str) {
    log.set_field(Field::RemoteAddr, &shown_ip(peer).to_string());
    log.set_field(Field::Session, id);
}

/// Applies the configuration to a client's socket.
pub(super) fn tune(socket: impl AsFd, settings: &ServerSettings, log: &Log) {
    let tuning = Tuning {
        receive_buffer: settings.tcp_rcv_buf.value.bytes(),
        congestion: settings.tcp_congestion.value.clone(),
        pacing: settings.tcp_pacing.value.bytes_per_second(),
        segment: None,
    };
    for refused in tuning.apply(socket) {
        error!(log, "{refused}");
    }
}

/// Time for which the receive buffer of a limited connection holds data, besides a round trip.
const AHEAD: Duration = Duration::from_millis(250);
/// Smallest receive buffer, bytes: one of a packet's largest size fits.
const LEAST_BUFFER: u64 = 64 << 10;
/// Size from which the kernel's own choice is left alone, bytes.
const USUAL_BUFFER: u64 = 4 << 20;

/// Bounds the receive buffer of a connection that is logged in by its `ReceiveRate` or `PerUserReceiveRate`.
/// The kernel would let it grow to seconds of a low rate, and a keystroke or a keepalive waits behind what it
/// holds.
pub(super) fn bound_receive_buffer(socket: impl AsFd, settings: &ServerSettings) {
    let rates = [&settings.receive_rate, &settings.per_user_receive_rate];
    let rate = rates.into_iter().filter_map(|rate| rate.value.bytes_per_second()).min();
    let round_trip = lh_sys::socket::round_trip(&socket).unwrap_or_default();
    if let (Some(rate), None) = (rate, settings.tcp_rcv_buf.value.bytes())
        && let Some(bytes) = limited_buffer(rate, round_trip)
    {
        lh_sys::tuning::bound_receive_buffer(socket, bytes);
    }
}

/// Returns the receive buffer for a rate in bytes per second: the window must hold a round trip of it. `None`
/// where the kernel's own buffer is no larger.
fn limited_buffer(rate: u64, round_trip: Duration) -> Option<u32> {
    let bytes = u128::from(rate) * (AHEAD + round_trip).as_millis() / 1000;
    let bytes = u64::try_from(bytes).ok()?.max(LEAST_BUFFER);
    (bytes < USUAL_BUFFER).then(|| u32::try_from(bytes).ok()).flatten()
}

pub(super) fn offers_sha1(algorithms: &lh_transport::Algorithms) -> bool {
    algorithms.host_key.iter().any(|name| lh_crypto::key_algorithms::SHA1.contains(&name.as_str()))
}

/// Returns the value of `RekeyLimit`.
pub(super) fn rekey_limit(settings: &ServerSettings) -> RekeyLimit {
    let limit = &settings.rekey_limit.value;
    RekeyLimit { bytes: limit.bytes, interval: limit.interval }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_buffer_of_a_limited_connection_fits_the_path() {
        let buffer = |rate, millis| limited_buffer(rate, Duration::from_millis(millis));
        // 80 Mbit/s.
        assert_eq!(buffer(10_000_000, 60), Some(3_100_000));
        assert_eq!(buffer(10_000_000, 0), Some(2_500_000));
        // 2 Mbit/s on a path by satellite, where a quarter of a second is less than a round trip.
        assert_eq!(buffer(250_000, 600), Some(212_500));
        assert_eq!(buffer(1000, 60), Some(64 << 10), "a packet fits");
        assert_eq!(buffer(10_000_000, 200), None, "the kernel's buffer is as large");
        assert_eq!(buffer(u64::MAX, 60), None);
    }
}
