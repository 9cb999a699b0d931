//! One connection from its first byte to its last, in three processes.
//!
//! The one that was started becomes the *monitor* ([`monitor_process`]): it has root's rights (where the
//! server has them) and the host keys, and reads nothing from the network. Before it knows a key it splits
//! twice. The *pre-auth process* ([`preauth`]) has no rights at all and does key exchange and authentication.
//! The *user session process* ([`user`]) waits until somebody has logged in, becomes that user for good, and
//! goes on with the connection. Splitting instead of executing costs a fraction of a millisecond, and none of
//! the three has seen another's secrets.

mod agent;
mod auth_info;
mod become_user;
mod channel;
mod command;
mod command_usage;
mod control;
mod credentials;
mod environment;
mod forward;
mod greeting;
mod login;
mod monitor_process;
pub(crate) mod names;
mod pam_holder;
mod parts;
mod preauth;
mod process;
mod rc;
mod sftp;
mod shared;
mod tunnel;
mod usage_log;
mod usage_reporter;
mod user;
mod x11;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use lh_auth::{FIRST_FLIGHT, FirstFlight, TICKET};
use lh_config::ConnectionFacts;
use lh_config::server_table::ServerSettings;
use lh_driver::Stream;
use lh_sys::tuning::Tuning;
use lh_transport::{Config, RekeyLimit};

use crate::hand_over::{CoreLimit, HandOver, Secrets, Session, receive_secrets};
use crate::listener::{SESSION_FLAG, SESSION_NAME, oom};
use crate::log::{Log, debug, error, info, verbose};
use crate::monitor::Monitor;
use crate::monitor_ipc::MonitorSocket;
use monitor_process::{Child, Children};
use usage_log::UsageLog;

/// Exit status when `LoginGraceTime` is over. These are sshd-session's, and what the listener's penalties go by.
pub(crate) const EXIT_GRACE: i32 = 3;
/// Exit status when the process before authentication has crashed.
pub(crate) const EXIT_CRASH: i32 = 4;
/// Exit status when somebody has tried to log in, in vain.
pub(crate) const EXIT_AUTH_ATTEMPTED: i32 = 5;
/// Exit status of connections that `RefuseConnection` refuses.
pub(crate) const EXIT_REFUSED: i32 = 6;
/// Exit status when somebody has tried to log in as a user who does not exist.
pub(crate) const EXIT_INVALID_USER: i32 = 7;
/// Exit status of every other session that did not end in order, as sshd's.
const EXIT_FAILURE: i32 = 255;

/// Who is connected, for log lines.
pub(crate) struct Address {
    peer: SocketAddr,
    local: SocketAddr,
    /// False when the connection is no TCP connection (inetd mode over pipes) and the addresses mean nothing.
    known: bool,
    log: Log,
}

/// `main` of a session process that a listener started, or [`inetd`]. `write`: the number of the descriptor to write to,
/// where that is not the one to read from. Returns the exit status.
pub fn main(write: Option<&OsStr>) -> i32 {
    match begin(write) {
        Ok((session, connection, control)) => serve(session, connection, control),
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "session process: {problem}");
            EXIT_FAILURE
        }
    }
}

fn begin(write: Option<&OsStr>) -> Result<(Session, Connection, File), Failure> {
    let (read, control) = lh_sys::fd::take_stdin_stdout()?;
    let mut control = File::from(control);
    let mut session = Session::receive(&mut control)?;
    if let Some(score) = session.oom_score {
        oom::restore(score);
    }
    // Before anything is read that others must not see; the two processes that split off inherit it.
    let limit = lh_sys::dumps::forbid()?;
    session.core_limit.get_or_insert(CoreLimit(limit));
    let connection = match write {
        None => Connection::Socket(read),
        Some(number) => {
            let number = number.to_str().and_then(|number| number.parse().ok()).ok_or("bad descriptor")?;
            Connection::Pipes(read, lh_sys::fd::inherited(number)?)
        }
    };
    Ok((session, connection, control))
}

/// `-i`: serves the connection on descriptors 0 and 1. The process starts again as a session, so that the keys it has
/// read are not in the memory of those that split off. Returns only when that fails.
pub fn inetd(hand_over: HandOver) -> i32 {
    let begin_again = || -> Result<std::convert::Infallible, Failure> {
        let (stdin, stdout) = lh_sys::fd::take_stdin_stdout()?;
        let mut file = File::from(rustix::fs::memfd_create("hand-over", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(&hand_over.to_bytes())?;
        file.rewind()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(SESSION_NAME).arg(SESSION_FLAG);
        let socket = rustix::net::sockopt::socket_type(&stdin).is_ok();
        if !socket {
            rustix::io::fcntl_setfd(&stdout, rustix::io::FdFlags::empty())?;
            command.arg(stdout.as_raw_fd().to_string());
        }
        Err(command.stdin(stdin).stdout(file).exec().into())
    };
    let Err(problem) = begin_again();
    let _ = writeln!(std::io::stderr(), "{problem}");
    EXIT_FAILURE
}

/// What the client is connected by.
enum Connection {
    Socket(OwnedFd),
    Pipes(OwnedFd, OwnedFd),
}

impl Connection {
    fn into_stream(self) -> std::io::Result<Stream> {
        match self {
            Self::Socket(socket) => Stream::socket(socket),
            Self::Pipes(read, write) => Stream::pipes(read, write),
        }
    }
}

type Failure = Box<dyn std::error::Error>;

/// `RefuseConnection`, before anybody has said a word.
#[derive(Debug, thiserror::Error)]
#[error("administratively prohibited connection from {} port {}", from.ip(), from.port())]
struct Refused {
    from: SocketAddr,
}

/// What all three processes know.
struct Common {
    session: Session,
    facts: ConnectionFacts,
    /// The rules for this connection as long as nobody has said who it is.
    settings: ServerSettings,
    peer: SocketAddr,
    local: SocketAddr,
    known: bool,
    /// The client's host name, where `UseDNS` found one.
    host_name: Option<String>,
    /// The end of LoginGraceTime.
    deadline: Option<Instant>,
}

impl Common {
    fn new(session: Session, connection: &Connection, log: &Log) -> Result<Box<Self>, Failure> {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 65_535));
        let (peer, local) = match connection {
            Connection::Socket(socket) => {
                (lh_sys::socket::peer_address(socket), lh_sys::socket::local_address(socket))
            }
            Connection::Pipes(..) => (None, None),
        };
        let known = peer.is_some() && local.is_some();
        let (peer, local) = (peer.unwrap_or(nobody), local.unwrap_or(nobody));
        let (from, to) = (peer.ip(), local.ip());
        verbose!(log, "Connection from {from} port {} on {to} port {}", peer.port(), local.port());
        let grace = session.config.login_grace_time.value.0.map(Duration::from_secs);
        let deadline = grace.and_then(|grace| Instant::now().checked_add(grace));
        // Name servers that do not answer cost the client its time to log in; the listener ends what takes longer.
        let wanted = known && session.config.use_dns.value;
        let host_name = wanted.then(|| lh_sys::reverse_lookup::checked_host_name(peer.ip())).flatten();
        let facts = crate::facts::of_connection(peer, local, host_name.as_deref());
        let settings = session.config.for_connection(&facts)?.settings;
        if settings.refuse_connection.value {
            return Err(Refused { from: peer }.into());
        }
        if let (Connection::Socket(socket), true) = (connection, known) {
            let _ = lh_sys::socket::set_keepalive(socket, session.config.tcp_keep_alive.value);
            tune(socket, &settings, log);
        }
        Ok(Box::new(Self { session, facts, settings, peer, local, known, host_name, deadline }))
    }

    fn address(&self, log: Log) -> Address {
        Address { peer: self.peer, local: self.local, known: self.known, log }
    }

    /// What the transport is told, before the pre-auth process and after it. Reads the file of moduli where
    /// it may be needed.
    fn transport_config(&self) -> Config {
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
            // The names RFC 9987 registers for agent forwarding are understood.
            extensions: [
                (lh_agent::names::AGENT_FORWARD, "0".to_owned()),
                (FIRST_FLIGHT, first_flight.encode()),
                (TICKET, "0".to_owned()),
            ]
            .into_iter()
            .filter(|(name, _)| *name != TICKET || settings.longhaul_tickets.value)
            .map(|(name, value)| (name.to_owned(), value.into_bytes()))
            .collect(),
            comments: settings.version_addendum.command().map(str::to_owned).unwrap_or_default(),
            ..Config::server(host_keys)
        }
    }
}

/// Sets what the configuration says about a client's socket.
fn tune(socket: impl AsFd, settings: &ServerSettings, log: &Log) {
    let tuning = Tuning {
        receive_buffer: settings.tcp_rcv_buf.value.bytes(),
        congestion: settings.tcp_congestion.value.clone(),
        pacing: settings.tcp_pacing.value.bytes_per_second(),
    };
    for refused in tuning.apply(socket) {
        error!(log, "{refused}");
    }
}

fn offers_sha1(algorithms: &lh_transport::Algorithms) -> bool {
    algorithms.host_key.iter().any(|name| lh_crypto::key_algorithms::SHA1.contains(&name.as_str()))
}

fn serve(session: Session, connection: Connection, control: File) -> i32 {
    let log = session.log();
    let common = match Common::new(session, &connection, &log) {
        Ok(common) => common,
        Err(problem) if problem.is::<Refused>() => {
            info!(log, "{problem}");
            return EXIT_REFUSED;
        }
        Err(problem) => {
            error!(log, "{problem}");
            return EXIT_FAILURE;
        }
    };
    // Each process opens its own, and the pre-auth process none: it must not have the descriptor.
    drop(log);
    match split(common, connection, control) {
        Ok(status) => status,
        Err((common, problem)) => {
            error!(common.session.log(), "{problem}");
            EXIT_FAILURE
        }
    }
}

/// What a process does after the split.
type Rest = fn(Box<Common>, Connection, UnixStream) -> i32;

/// Becomes three; each returns its own exit status.
fn split(
    common: Box<Common>,
    connection: Connection,
    mut control: File,
) -> Result<i32, (Box<Common>, Failure)> {
    let mut children = Vec::new();
    for rest in [preauth::run as Rest, user::run as Rest] {
        let pair = UnixStream::pair().and_then(|pair| Ok((lh_sys::background::split()?, pair)));
        match pair {
            Ok((Some(pid), (ours, _theirs))) => children.push((pid, ours)),
            Ok((None, (_ours, theirs))) => {
                // What is the monitor's is closed here before anything else happens.
                drop((control, children, _ours));
                return Ok(rest(common, connection, theirs));
            }
            // What has been started ends when our end of its socket does.
            Err(problem) => return Err((common, problem.into())),
        }
    }
    drop(connection);
    let mut sockets = Vec::new();
    for (pid, socket) in children {
        match MonitorSocket::new(socket) {
            Ok(ipc) => sockets.push(Child { pid, ipc }),
            Err(problem) => return Err((common, problem.into())),
        }
    }
    let Ok([preauth, user]) = <[Child; 2]>::try_from(sockets) else { return Ok(EXIT_FAILURE) };
    // Only now, and only here.
    let Secrets { host_keys, delay_key } = match receive_secrets(&mut control) {
        Ok(secrets) => secrets,
        Err(problem) => return Err((common, problem.into())),
    };
    if let Err(problem) = lh_sys::dumps::exclude_written_memory() {
        debug!(common.session.log(), "host keys cannot be excluded from core dumps: {problem}");
    }
    let address = common.address(common.session.log());
    let usage_log = UsageLog::new(&common.session.config, &address);
    let sha1 = offers_sha1(&names::algorithms(&common.settings));
    let Common { session, settings, host_name, deadline, .. } = *common;
    let mut monitor =
        Monitor::new(session.config, host_keys, address.peer, address.local, address.log.clone())
            .with_sha1(sha1)
            .with_delay_key(delay_key)
            .with_host_name(host_name)
            .with_deadline(deadline);
    // Without a listener (inetd mode) it is a file.
    if rustix::net::sockopt::socket_type(&control).is_ok()
        && let Ok(listener) = control.try_clone()
    {
        monitor = monitor.with_tickets(OwnedFd::from(listener).into());
    }
    if crate::uses_pam(&settings) {
        match user.ipc.socket().try_clone().and_then(MonitorSocket::new) {
            Ok(ipc) => monitor = monitor.with_modules(ipc),
            Err(problem) => {
                error!(address.log, "{problem}");
                return Ok(EXIT_FAILURE);
            }
        }
    }
    Ok(monitor_process::run(monitor, Children { preauth, user }, control, deadline, usage_log, &address))
}

/// `RekeyLimit`.
fn rekey_limit(settings: &ServerSettings) -> RekeyLimit {
    let limit = &settings.rekey_limit.value;
    RekeyLimit { bytes: limit.bytes, interval: limit.interval }
}
