//! One connection from its first byte to its last, in three processes.
//!
//! The process that the listener started becomes the *monitor* ([`monitor_process`]): it has root's rights
//! (where the server has them) and the host keys, and reads nothing from the network. Before it has a private
//! key it forks twice. The *pre-auth process* ([`preauth`]) has no rights and does key exchange and
//! authentication. The *user session process* ([`user`]) waits until a user has logged in, switches to that
//! user for good, and continues the connection. Forking without executing costs a fraction of a millisecond,
//! and no process has seen another's secrets.

mod agent;
mod auth_info;
mod authenticated;
mod become_user;
mod channel;
mod command;
mod command_usage;
mod common;
mod control;
mod credentials;
mod environment;
mod forward;
mod greeting;
#[cfg(test)]
mod hostile_processes;
mod joined_path;
mod listed;
mod listed_program;
mod login;
mod monitor_child;
mod monitor_process;
mod monitor_user;
mod monitor_wait;
pub(crate) mod names;
mod pam_holder;
mod parts;
mod preauth;
mod process;
mod rc;
mod recording;
mod resolve;
mod resumable;
mod resuming;
mod sftp;
mod shared;
mod shared_sockets;
mod terminal;
pub(crate) mod title;
mod tunnel;
mod usage_log;
mod usage_reporter;
mod user;
mod user_rates;
mod x11;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::exit_status::{EXIT_FAILURE, EXIT_REFUSED};
use crate::hand_over::{CoreLimit, HandOver, STARTED, Secrets, Session, receive_secrets};
use crate::listener::priority::Lowered;
use crate::listener::{CLIENT_FLAG, NICE_FLAG, SESSION_FLAG, SESSION_NAME, oom};
use crate::log::{debug, error, info};
use crate::monitor::Monitor;
use crate::monitor_ipc::MonitorSocket;
use crate::proxy_header::{self, Client, Incoming};
use common::{Common, Connection, Failure, Refused, offers_sha1};
use monitor_child::Child;
use monitor_process::Children;
use usage_log::UsageLog;

/// The arguments of a session process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Started {
    /// Descriptor number for writing, where it differs from the one for reading.
    write: Option<i32>,
    /// The client's address, where the connection comes from a load balancer.
    client: Option<SocketAddr>,
    /// The process's priority until the login, where it is lowered.
    lowered: Option<Lowered>,
}

impl Started {
    fn parse(arguments: &[OsString]) -> Result<Self, Failure> {
        let mut started = Self::default();
        for argument in arguments {
            let text = argument.to_str().ok_or("bad argument")?;
            if text.starts_with(title::ROOM_FLAG) {
                continue;
            }
            match (text.strip_prefix(CLIENT_FLAG), text.strip_prefix(NICE_FLAG)) {
                (Some(address), _) => started.client = Some(address.parse()?),
                (None, Some(nice)) => started.lowered = Some(nice.parse()?),
                (None, None) => started.write = Some(text.parse()?),
            }
        }
        Ok(started)
    }
}

/// Runs a session process with these arguments, started by a listener or by [`inetd`]. Returns the exit
/// status.
pub fn main(arguments: &[OsString]) -> i32 {
    title::begin();
    match Started::parse(arguments).and_then(|started| Ok((begin(&started)?, started))) {
        Ok(((session, connection, control), started)) => serve(session, connection, &started, control),
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "session process: {problem}");
            EXIT_FAILURE
        }
    }
}

fn begin(started: &Started) -> Result<(Session, Connection, File), Failure> {
    let (read, control) = lh_sys::fd::take_stdin_stdout()?;
    let mut control = File::from(control);
    let mut session = Session::receive(&mut control)?;
    if let Some(score) = session.oom_score {
        oom::restore(score);
    }
    // Before anything secret is read. The two forked processes inherit it.
    let limit = lh_sys::dumps::forbid()?;
    session.core_limit.get_or_insert(CoreLimit(limit));
    let connection = match started.write {
        None => Connection::Socket(read),
        Some(number) => Connection::Pipes(read, lh_sys::fd::inherited(number)?),
    };
    Ok((session, connection, control))
}

/// `-i`: serves the connection on descriptors 0 and 1. The program starts again as a session process, so that
/// forked processes do not have the keys that it has read. Returns only on failure.
pub fn inetd(hand_over: HandOver) -> i32 {
    let begin_again = || -> Result<std::convert::Infallible, Failure> {
        let (stdin, stdout) = lh_sys::fd::take_stdin_stdout()?;
        let mut file = File::from(rustix::fs::memfd_create("hand-over", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(&hand_over.to_bytes())?;
        file.rewind()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(SESSION_NAME).arg(SESSION_FLAG);
        let socket = is_for_both(&stdin, &stdout);
        if let Some(client) = behind_balancer(&stdin, &hand_over)? {
            command.arg(format!("{CLIENT_FLAG}{client}"));
        }
        if !socket {
            rustix::io::fcntl_setfd(&stdout, rustix::io::FdFlags::empty())?;
            command.arg(stdout.as_raw_fd().to_string());
        }
        command.arg(title::room());
        Err(command.stdin(stdin).stdout(file).exec().into())
    };
    let Err(problem) = begin_again();
    let _ = writeln!(std::io::stderr(), "{problem}");
    EXIT_FAILURE
}

/// Returns whether standard input is a connection for both directions. A program that a session starts may
/// have a socket as its standard input which the other end never reads.
fn is_for_both(stdin: &OwnedFd, stdout: &OwnedFd) -> bool {
    let file = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    rustix::net::sockopt::socket_type(stdin).is_ok()
        && (lh_sys::socket::peer_address(stdin).is_some() || file(stdin) == file(stdout))
}

/// Returns the client's address, where a load balancer names it.
fn behind_balancer(socket: &OwnedFd, hand_over: &HandOver) -> Result<Option<SocketAddr>, Failure> {
    let from = hand_over.config.proxy_protocol_from.0.as_deref();
    let Some(peer) = lh_sys::socket::peer_address(socket) else { return Ok(None) };
    if !proxy_header::is_required(peer.ip(), from) {
        return Ok(None);
    }
    match Incoming::default().wait(socket) {
        Ok(Client::Address(client)) => Ok(Some(client)),
        Ok(Client::Unknown) => Ok(None),
        Err(problem) => {
            info!(hand_over.log(), "Connection from {} port {} closed: {problem}", peer.ip(), peer.port());
            Err(problem.into())
        }
    }
}

fn serve(session: Session, connection: Connection, started: &Started, control: File) -> i32 {
    let log = session.log();
    let common = match Common::new(session, &connection, started.client, &log) {
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
    // Each process opens its own log. The pre-auth process must not have the log's descriptor.
    drop(log);
    match split(common, connection, control, started.lowered.map(|lowered| lowered.own)) {
        Ok(status) => status,
        Err((common, problem)) => {
            error!(common.log(), "{problem}");
            EXIT_FAILURE
        }
    }
}

/// The function that a forked process runs.
type Rest = fn(Box<Common>, Connection, UnixStream) -> i32;

/// Forks twice; each of the three processes returns its own exit status.
fn split(
    common: Box<Common>,
    connection: Connection,
    mut control: File,
    nice: Option<i32>,
) -> Result<i32, (Box<Common>, Failure)> {
    let mut children = Vec::new();
    for rest in [preauth::run as Rest, user::run as Rest] {
        let pair = UnixStream::pair().and_then(|pair| Ok((lh_sys::background::split()?, pair)));
        match pair {
            Ok((Some(pid), (ours, _theirs))) => children.push((pid, ours)),
            Ok((None, (_ours, theirs))) => {
                // Close the monitor's descriptors before anything else happens.
                drop((control, children, _ours));
                return Ok(rest(common, connection, theirs));
            }
            // Processes already forked end when our end of their socket is closed.
            Err(problem) => return Err((common, problem.into())),
        }
    }
    // For the session that this connection may take over.
    let socket = match connection {
        Connection::Socket(socket) => Some(socket),
        Connection::Pipes(..) => None,
    };
    let mut sockets = Vec::new();
    for (pid, socket) in children {
        match MonitorSocket::new(socket) {
            Ok(ipc) => sockets.push(Child { pid, ipc }),
            Err(problem) => return Err((common, problem.into())),
        }
    }
    let Ok([preauth, user]) = <[Child; 2]>::try_from(sockets) else { return Ok(EXIT_FAILURE) };
    // Private keys are read only after both forks, and only in the monitor.
    let Secrets { host_keys, delay_key } = match receive_secrets(&mut control) {
        Ok(secrets) => secrets,
        Err(problem) => return Err((common, problem.into())),
    };
    // Ignored: a listener that has been restarted does not count us any more.
    let _ = control.write_all(STARTED);
    if let Err(problem) = lh_sys::dumps::exclude_written_memory() {
        debug!(common.log(), "host keys cannot be excluded from core dumps: {problem}");
    }
    let address = common.address(common.log());
    let id = common.id.clone();
    let usage_log = UsageLog::new(&common.session.config, &address, &id);
    let sha1 = offers_sha1(&names::algorithms(&common.settings));
    let Common { session, settings, host_name, deadline, .. } = *common;
    let mut monitor =
        Monitor::new(session.config, host_keys, address.peer, address.local, address.log.clone())
            .with_sha1(sha1)
            .with_delay_key(delay_key)
            .with_host_name(host_name)
            .with_deadline(deadline);
    // Without a listener (inetd mode) the descriptor is a file.
    if rustix::net::sockopt::socket_type(&control).is_ok()
        && let Ok(listener) = control.try_clone()
    {
        monitor = monitor.with_tickets(OwnedFd::from(listener).into());
    }
    if crate::pam_use::uses_pam(&settings) {
        match user.ipc.socket().try_clone().and_then(MonitorSocket::new) {
            Ok(ipc) => monitor = monitor.with_modules(ipc),
            Err(problem) => {
                error!(address.log, "{problem}");
                return Ok(EXIT_FAILURE);
            }
        }
    }
    let children = Children { preauth, user, socket, nice };
    Ok(monitor_process::run(monitor, children, control, deadline, usage_log, &address))
}

/// Reads the fields of a logged-in client's requests.
#[cfg(fuzzing)]
pub(crate) fn fuzz_fields(fields: &[u8]) {
    channel::fuzz_fields(fields);
    forward::fuzz_fields(fields);
    tunnel::fuzz_fields(fields);
    x11::fuzz_fields(fields);
}

/// Reads a user's file of variables.
#[cfg(fuzzing)]
pub(crate) use environment::fuzz_user_file;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_descriptor_and_client() {
        let parse = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Started::parse(&words).ok()
        };
        assert_eq!(parse(&[]), Some(Started::default()));
        assert_eq!(parse(&["--title=   "]), Some(Started::default()));
        assert_eq!(parse(&["7"]), Some(Started { write: Some(7), ..Started::default() }));
        let client = "[2001:db8::7]:22".parse().ok();
        assert_eq!(parse(&["--client=[2001:db8::7]:22"]), Some(Started { client, ..Started::default() }));
        assert_eq!(
            parse(&["--nice=-5,10"]),
            Some(Started { lowered: "-5,10".parse().ok(), ..Started::default() })
        );
        for wrong in ["x", "--client=", "--client=192.0.2.7", "--nice=x"] {
            assert_eq!(parse(&[wrong]), None, "{wrong}");
        }
    }
}
