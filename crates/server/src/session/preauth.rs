//! The pre-auth process: parses all network input before authentication, sandboxed, without rights.
//!
//! An attacker who controls it has an unprivileged process in an empty directory. It can compute, use the
//! connection, and send the monitor the requests that any client can cause.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lh_crypto::{Random, SystemRandom};
use lh_driver::{InputLimit, Link};
use lh_sys::ids::{Ids, is_root};
use lh_sys::sandbox::{Confinement, OnViolation, confine};
use lh_transport::Transport;
use lh_wire::msg::disconnect;

use super::common::{Address, Common, Connection, Failure};
use super::login::{MonitorClient, NoLogin, log_in};
use super::title;
use crate::exit_status::{EXIT_FAILURE, EXIT_GRACE};
use crate::log::{Log, error};
use crate::monitor_ipc::MonitorSocket;
use crate::preauth_ids;

/// Empty directories that only root may write to, in order of preference.
const EMPTY_DIRECTORIES: [&str; 2] = ["/run/sshd", "/var/empty"];

/// Bytes that a client may send before its login at full speed: more than any login needs, with the early
/// data of `first-flight@longhaul` and the queries of an agent with a hundred keys. Waiting earns no more.
const INPUT_AT_ONCE: u64 = 512 << 10;
/// Rate at which further bytes are read, bytes/s. Two hundred flooding clients then cost a fraction of one
/// core, even with the most expensive messages, key exchanges.
const INPUT_PER_SECOND: u64 = 16 << 10;

/// Environment variable. With the value `report`, a debug build writes forbidden system calls to the kernel's
/// audit log instead of ending the process.
const REPORT: &str = "LHSSHD_SANDBOX";

/// Serves the connection until a user has logged in. Returns the exit status.
pub(super) fn run(common: Box<Common>, connection: Connection, monitor: UnixStream) -> i32 {
    title::preauth();
    let socket = match monitor.try_clone() {
        Ok(socket) => socket,
        // There is no log to report it to.
        Err(_) => return EXIT_FAILURE,
    };
    let log = Log::monitor(common.session.log_level(), socket);
    log.set_places(&common.session.config.log_verbose);
    report_panics(log.clone());
    let address = common.address(log);
    match serve(&common, connection, monitor, &address) {
        Ok(status) => status,
        Err(problem) => {
            error!(address.log, "{problem}");
            EXIT_FAILURE
        }
    }
}

fn serve(
    common: &Common,
    connection: Connection,
    monitor: UnixStream,
    address: &Address,
) -> Result<i32, Failure> {
    let ipc = MonitorSocket::new(monitor)?;
    // This process must write to the log only through the monitor, not to the log's file.
    lh_sys::fd::replace_stderr(lh_sys::fd::null()?)?;
    let config = common.transport_config();
    let stream = connection.into_stream()?;
    let preauth = preauth(common.session.preauth_ids.clone())?;
    // Seed the generator now: the sandbox may forbid opening its source later.
    SystemRandom.fill(&mut [0; 32]);
    confine(&preauth)
        .map_err(|problem| format!("cannot confine the pre-authentication process: {problem}"))?;

    let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
    let mut link = Link::new(transport, stream);
    link.limit_input(InputLimit::new(INPUT_PER_SECOND, INPUT_AT_ONCE, Instant::now()));
    let mut monitor = MonitorClient::new(ipc);
    match log_in(&mut link, &mut monitor, address, common.deadline, common.settings.warn_weak_crypto.value) {
        Ok(()) => {}
        Err(NoLogin::GraceTime) => return Ok(EXIT_GRACE),
        Err(NoLogin::Ended) => return Ok(EXIT_FAILURE),
    }
    match link.freeze() {
        Ok(state) => monitor.hand_over(state)?,
        Err(problem) => {
            // A client that begins another key exchange before its login is disconnected, as OpenSSH does not
            // support that either.
            link.disconnect(disconnect::PROTOCOL_ERROR, &problem.to_string(), Duration::from_secs(2));
            return Err(problem.into());
        }
    }
    Ok(0)
}

/// Sends a panic's message to the log, because standard error is closed.
fn report_panics(log: Log) {
    std::panic::set_hook(Box::new(move |panic| error!(log, "{panic}")));
}

/// Returns the restrictions of this process. `known` are the ids that the listener has looked up.
fn preauth(known: Option<Ids>) -> Result<Confinement, Failure> {
    let report = cfg!(debug_assertions) && std::env::var_os(REPORT).is_some_and(|value| value == "report");
    let on_violation = if report { OnViolation::Report } else { OnViolation::Kill };
    let elsewhere = if is_root() {
        let ids = match known {
            Some(ids) => ids,
            None => preauth_ids::look_up()?,
        };
        Some((empty_directory()?, ids))
    } else {
        None
    };
    Ok(Confinement { elsewhere, on_violation })
}

fn empty_directory() -> Result<PathBuf, Failure> {
    for path in EMPTY_DIRECTORIES {
        // /run is empty after a boot, so the directory may be missing.
        match DirBuilder::new().mode(0o755).create(path) {
            Ok(()) => {}
            Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => continue,
        }
        let metadata = std::fs::symlink_metadata(path)?;
        if !metadata.is_dir() || metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
            return Err(format!("{path} must be owned by root and not group or world-writable.").into());
        }
        return Ok(Path::new(path).to_owned());
    }
    Err(format!("Missing privilege separation directory: {}", EMPTY_DIRECTORIES.join(", ")).into())
}
