//! A session process: one connection from its first byte to its last.
//!
//! The order is fixed: key exchange and authentication with root's rights (where the server has them) but without
//! touching anything of the user's; then the process becomes the user, for good; then channels are served.

mod become_user;
mod channel;
mod command;
mod control;
mod direct;
mod environment;
mod login;
mod names;
mod process;
mod sftp;
mod shared;

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_crypto::SystemRandom;
use lh_driver::{Driver, DriverError, Link, LinkError, Stream, Workers};
use lh_transport::{Config, RekeyLimit, Transport, TransportError};

use crate::hand_over::{AUTHENTICATED, HandOver};
use crate::log::{Log, error, info, verbose};
use crate::monitor::{Login, Monitor};
use control::Serving;
use login::NoLogin;
use shared::Shared;

/// Exit status when `LoginGraceTime` is over, as sshd-session's.
const EXIT_GRACE: i32 = 3;
/// Exit status of every other session that did not end in order, as sshd's.
const EXIT_FAILURE: i32 = 255;

/// How long the last words to a client may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Who is connected, for log lines.
pub(crate) struct Address {
    peer: SocketAddr,
    local: SocketAddr,
    /// False when the connection is no TCP connection (inetd mode over pipes) and the addresses mean nothing.
    known: bool,
    log: Log,
}

/// `main` of a session process that a listener started. Returns the exit status.
pub fn main() -> i32 {
    let (socket, control) = match lh_sys::fd::take_stdin_stdout() {
        Ok(fds) => fds,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "session process: {problem}");
            return EXIT_FAILURE;
        }
    };
    let mut control = UnixStream::from(control);
    match HandOver::receive(&mut control) {
        Ok(hand_over) => serve(hand_over, Connection::Socket(socket), Some(control)),
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "session process: {problem}");
            EXIT_FAILURE
        }
    }
}

/// `-i`: serves the connection on descriptors 0 and 1 in this process.
pub fn inetd(hand_over: HandOver) -> i32 {
    match lh_sys::fd::take_stdin_stdout() {
        Ok((stdin, stdout)) => {
            let socket = rustix::net::sockopt::socket_type(&stdin).is_ok();
            let connection =
                if socket { Connection::Socket(stdin) } else { Connection::Pipes(stdin, stdout) };
            serve(hand_over, connection, None)
        }
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem}");
            EXIT_FAILURE
        }
    }
}

/// What the client is connected by.
enum Connection {
    Socket(OwnedFd),
    Pipes(OwnedFd, OwnedFd),
}

fn address_of(connection: &Connection, log: Log) -> Address {
    let nobody = SocketAddr::from(([0, 0, 0, 0], 65_535));
    let (peer, local) = match connection {
        Connection::Socket(socket) => {
            (lh_sys::socket::peer_address(socket), lh_sys::socket::local_address(socket))
        }
        Connection::Pipes(..) => (None, None),
    };
    let known = peer.is_some() && local.is_some();
    Address { peer: peer.unwrap_or(nobody), local: local.unwrap_or(nobody), known, log }
}

fn serve(hand_over: HandOver, connection: Connection, control: Option<UnixStream>) -> i32 {
    let log = hand_over.log();
    let address = address_of(&connection, log.clone());
    let (peer, local) = (address.peer, address.local);
    verbose!(
        log,
        "Connection from {} port {} on {} port {}",
        peer.ip(),
        peer.port(),
        local.ip(),
        local.port()
    );
    match prepare(hand_over, connection, &address) {
        Ok((link, monitor)) => run(link, monitor, &address, control),
        Err(problem) => {
            error!(log, "{problem}");
            EXIT_FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

/// Puts transport and monitor together.
fn prepare(
    hand_over: HandOver,
    connection: Connection,
    address: &Address,
) -> Result<(Link, Monitor), Failure> {
    let HandOver { config, host_keys, .. } = hand_over;
    if let Connection::Socket(socket) = &connection
        && address.known
    {
        let _ = lh_sys::socket::set_keepalive(socket, config.tcp_keep_alive.value);
    }
    let monitor = Monitor::new(config, host_keys, address.peer, address.local, address.log.clone());
    let settings = monitor.connection_settings()?;
    let algorithms = names::algorithms(&settings);
    let sha1 = algorithms.host_key.iter().any(|name| name == "ssh-rsa");
    let needs_moduli = algorithms.kex.iter().any(|name| name.contains("group-exchange"));
    let moduli = settings.moduli_file.value.as_deref().filter(|_| needs_moduli);
    let transport_config = Config {
        algorithms,
        rekey: RekeyLimit {
            bytes: settings.rekey_limit.value.bytes,
            interval: settings.rekey_limit.value.interval,
        },
        moduli: moduli.and_then(|path| std::fs::read_to_string(path).ok()),
        server_sig_algs: names::user_key_algorithms(&settings),
        ..Config::server(monitor.host_keys(sha1))
    };
    let stream = match connection {
        Connection::Socket(socket) => Stream::socket(socket)?,
        Connection::Pipes(read, write) => Stream::pipes(read, write)?,
    };
    let transport = Transport::new(transport_config, Box::new(SystemRandom), Instant::now());
    Ok((Link::new(transport, stream), monitor))
}

fn run(mut link: Link, mut monitor: Monitor, address: &Address, control: Option<UnixStream>) -> i32 {
    let log = &address.log;
    let grace = monitor.login_grace_time();
    let deadline = grace.map(|grace| Instant::now() + grace);
    match login::log_in(&mut link, &mut monitor, address, deadline) {
        Ok(()) => {}
        Err(NoLogin::GraceTime) => return EXIT_GRACE,
        Err(NoLogin::Ended) => return EXIT_FAILURE,
    }
    if let Some(mut control) = control {
        // A listener that has been restarted does not count us any more.
        let _ = control.write_all(AUTHENTICATED);
    }
    let Some((login, host_keys)) = monitor.into_login() else {
        error!(log, "login without a user");
        return EXIT_FAILURE;
    };
    let home_problem = match become_user::become_user(&login) {
        Ok(problem) => problem,
        Err(problem) => {
            error!(log, "fatal: {problem}");
            link.disconnect(lh_wire::msg::disconnect::BY_APPLICATION, "cannot start a session", GOODBYE);
            return EXIT_FAILURE;
        }
    };
    let session_id = link.transport_ref().session_id().unwrap_or_default().to_vec();
    let negotiated =
        link.transport_ref().negotiated().map(|names| names.host_key.clone()).unwrap_or_default();
    let shared = Rc::new(share(login, home_problem, address, &link));
    let mut serving = Serving::new(Rc::clone(&shared), host_keys, &session_id, negotiated);
    let mut driver = Driver::new(link, lh_connection::Config::default());
    driver.set_workers(Workers::from_environment());
    if let Some(interval) = shared.settings.client_alive_interval.value.duration() {
        driver.set_keepalive(interval, shared.settings.client_alive_count_max.value);
    }
    serving.announce_host_keys(&mut driver.control());
    let end = driver.run(&mut serving);
    log_end(&end, &shared);
    if end.is_ok() || matches!(end, Err(DriverError::Connection(_) | DriverError::KeepaliveTimeout)) {
        driver.finish(GOODBYE);
    }
    // Handlers go here: terminals hang up.
    drop(driver);
    if matches!(
        end,
        Ok(0) | Err(DriverError::Disconnected { .. } | DriverError::Link(LinkError::Closed { .. }))
    ) {
        0
    } else {
        EXIT_FAILURE
    }
}

fn share(login: Login, home_problem: Option<String>, address: &Address, link: &Link) -> Shared {
    let Login { user, settings, options, must_change_password, .. } = login;
    let permit = &settings.permit_user_environment.value;
    let key_environment = shared::permitted_environment(permit, &options.environment);
    let user_environment = match permit {
        lh_config::server_values::PermitUserEnvironment::No => None,
        // Read with the user's rights: this process is the user by now.
        _ => std::fs::read_to_string(user.home.join(".ssh/environment")).ok(),
    };
    let socket = link.stream().read_fd().try_clone_to_owned().ok().filter(|_| address.known);
    Shared {
        connection: address.known.then_some((address.peer, address.local)),
        peer: address.peer,
        log: address.log.clone(),
        user,
        settings,
        options,
        must_change_password,
        key_environment,
        user_environment,
        home_problem,
        socket: socket.filter(|socket| lh_sys::socket::is_internet(socket.as_fd())),
    }
}

/// One line about how the connection ended, in OpenSSH's words.
fn log_end(end: &Result<i32, DriverError>, shared: &Shared) {
    let log = &shared.log;
    let (ip, port) = (shared.peer.ip(), shared.peer.port());
    let client = format!("user {} {ip} port {port}", shared.user.name);
    match end {
        Ok(_) => {}
        Err(DriverError::Disconnected { reason, description }) => {
            info!(log, "Received disconnect from {ip} port {port}:{reason}: {description}");
            info!(log, "Disconnected from {client}");
        }
        Err(DriverError::Link(
            LinkError::Closed { .. } | LinkError::Transport(TransportError::Closed { .. }),
        )) => info!(log, "Connection closed by {client}"),
        Err(DriverError::Link(LinkError::Io { source, .. }))
            if source.raw_os_error() == Some(rustix::io::Errno::CONNRESET.raw_os_error()) =>
        {
            info!(log, "Connection reset by {client}");
        }
        Err(DriverError::KeepaliveTimeout) => info!(log, "Timeout, client not responding from {client}"),
        Err(problem) => error!(log, "Disconnecting {client}: {problem}"),
    }
}
