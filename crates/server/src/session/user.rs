//! The user session process: waits until a user has logged in, switches to that user, and serves the user's
//! requests.
//!
//! It is forked before the first byte of the network and the first private key are read, so its memory
//! contains neither. It receives the connection as bytes that the pre-auth process wrote, and parses them
//! with the user's rights.

use std::cell::{Cell, RefCell};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_auth::FirstFlight;
use lh_config::accounting::TransferLog;
use lh_config::server_table::ServerSettings;
use lh_crypto::SystemRandom;
use lh_driver::{Driver, DriverError, InputLimit, Link, LinkError, WindowPolicy, Workers};
use lh_sys::signals::Signals;
use lh_transport::{Transport, TransportError, Unencrypted};
use lh_wire::msg::{Debug, disconnect};
use lh_wire::{Message as _, PacketSink as _};
use rustix::process::Signal;

use super::auth_info::AuthInfo;
use super::authenticated::Login;
use super::become_user;
use super::become_user::Start;
use super::common::{self, Address, Common, Connection, Failure};
use super::control::Serving;
use super::credentials::Credentials;
use super::pam_holder::{Holder, Inherited};
use super::resuming::{self, Resuming};
use super::sftp::mounts::Mounts;
use super::shared::{self, ClientLink, FileAccess, ModulesSession, ProgramContext, Shared};
use super::title::{self, UserTitle};
use super::usage_reporter;
use super::user_rates::UserRates;
use crate::exit_status::EXIT_FAILURE;
use crate::grant::Grant;
use crate::hosts::shown_endpoint;
use crate::log::{Field, error, info, shown_reason};
use crate::monitor_ipc::{MonitorSocket, MonitorSocketError};

/// Part of a second of `ReceiveRate` that a client that has sent nothing may send at once.
const BURST_PER_SECOND: u64 = 10;

/// Longest time for sending the last messages to a client.
const GOODBYE: Duration = Duration::from_secs(2);

/// Waits for the monitor's orders and serves the session. Returns the exit status.
pub(super) fn run(common: Box<Common>, connection: Connection, monitor: UnixStream) -> i32 {
    // PAM's modules may hang without limit while this process holds the client's socket, so it must end with
    // the monitor.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let received =
        monitor.try_clone().and_then(MonitorSocket::new).map_err(MonitorSocketError::from).and_then(|ipc| {
            let mut holder = Holder::new(ipc, common.log());
            let grant = Grant::decode(&holder.obey()?)?;
            Ok((holder, grant, MonitorSocket::new(monitor)?))
        });
    let (holder, mut grant, ipc) = match received {
        Ok(received) => received,
        // The login failed.
        Err(MonitorSocketError::Closed) => return 0,
        Err(problem) => {
            error!(common.log(), "fatal: {problem}");
            return EXIT_FAILURE;
        }
    };
    // From here on, an end must close the PAM session, so the kill signal is switched off.
    let _ = rustix::process::set_parent_process_death_signal(None);
    let log = common.log();
    log.set_level(grant.level);
    log.set_field(Field::User, &grant.user.name);
    log.set_field(Field::Fingerprint, &grant.key);
    // Before PAM's modules run, because they may set another limit.
    if let Some(limit) = common.session.core_limit {
        lh_sys::dumps::restore_core_limit(limit.0);
    }
    // A connection that is refused needs no PAM session.
    let session = if grant.refusal.is_some() { None } else { holder.open(&mut grant, &log) };
    let inherited = match session {
        None => None,
        // This process stays root and closes the PAM session at the end. Its child switches to the user.
        Some(session) => match lh_sys::background::split() {
            Ok(None) => Some(session.inherit()),
            Ok(Some(child)) => {
                title::modules(&grant.user.name);
                drop((connection, grant));
                let status = session.hold(child, &log);
                // The monitor waits for this socket to close.
                drop(ipc);
                return status;
            }
            Err(problem) => {
                error!(log, "fatal: {problem}");
                return EXIT_FAILURE;
            }
        },
    };
    let address = common.address(log);
    match begin(common, connection, grant, inherited, ipc, &address) {
        Ok(Some((shared, link, host_keys, resuming))) => serve(shared, link, host_keys, resuming),
        Ok(None) => 0,
        Err(problem) => {
            error!(address.log, "fatal: {problem}");
            EXIT_FAILURE
        }
    }
}

type Begun = (Rc<Shared>, Link, Vec<lh_crypto::PublicKey>, Option<Resuming>);

/// Switches to the user, and only then parses the connection. `None` for a connection that is refused.
fn begin(
    common: Box<Common>,
    connection: Connection,
    grant: Grant,
    inherited: Option<Inherited>,
    mut monitor: MonitorSocket,
    address: &Address,
) -> Result<Option<Begun>, Failure> {
    let Grant { user, ids, groups, options, must_change_password, proofs, said, .. } = grant;
    let Grant { credentials, session_id, state, joined, refusal, remarks, .. } = grant;
    let facts = crate::facts::with_user(&common.facts, &user.name, Some(&user), &groups);
    let settings = common.session.config.for_connection(&facts)?.settings;
    let mut config = common.transport_config();
    // `Match` blocks that depend on the user apply from here on.
    config.rekey = common::rekey_limit(&settings);
    let stream = connection.into_stream()?;
    let login = Login {
        user,
        ids,
        settings,
        options,
        must_change_password,
        joined,
        proofs,
        said,
        credentials,
        inherited,
    };
    // While this process is still root, which may set more than a user.
    common::tune(stream.read_fd(), &login.settings, &address.log);
    common::bound_receive_buffer(stream.read_fd(), &login.settings);
    let mounts = Mounts::open();
    let rates = UserRates::open(&login.settings, login.user.uid, &common.session.host_keys, &address.log)?;
    let start = become_user::become_user(&login)?;
    // Without the monitor no key exchange can be signed, so the session must end with it. (A change of ids
    // would reset this setting.)
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let mut transport = Transport::thaw(&state, config.clone(), Box::new(SystemRandom), Instant::now())?;
    drop(state);
    if transport.session_id() != Some(&session_id[..]) {
        return Err("the connection is not the one that was authenticated".into());
    }
    if let Some(text) = refusal {
        Link::new(transport, stream).disconnect(disconnect::TOO_MANY_CONNECTIONS, &text, GOODBYE);
        return Ok(None);
    }
    let unencrypted = unencrypted(&login.settings);
    transport.set_unencrypted(unencrypted);
    // Directly after the end of the login, before any message of the session.
    let resuming = resuming::offer(&mut transport, &mut monitor, &login.settings, &config, unencrypted);
    for remark in &remarks {
        transport.payload(&Debug::new(false, remark.as_bytes(), b"").to_payload());
    }
    let mut link = Link::new(transport, stream);
    if let Some(rates) = rates {
        rates.limit(&mut link);
    }
    let shared = Rc::new(share(login, start, mounts, monitor, address, &link));
    Ok(Some((shared, link, common.session.host_keys, resuming)))
}

fn serve(
    shared: Rc<Shared>,
    mut link: Link,
    host_keys: Vec<lh_crypto::PublicKey>,
    resuming: Option<Resuming>,
) -> i32 {
    let negotiated = link.negotiated().map(|names| names.host_key.clone()).unwrap_or_default();
    let session = resuming.as_ref().map(|resuming| resuming.session().clone());
    // Before any thread is started.
    let signals = match Signals::collect(&[Signal::TERM]) {
        Ok(signals) => Some(signals),
        Err(problem) => {
            error!(shared.log, "signals: {problem}");
            None
        }
    };
    let mut serving = Serving::new(Rc::clone(&shared), host_keys, negotiated, resuming, signals);
    // Before the driver: it requests the kernel's receive space by the limit.
    if let Some(rate) = shared.settings.receive_rate.value.bytes_per_second() {
        link.limit_input(InputLimit::new(rate, rate / BURST_PER_SECOND, Instant::now()));
    }
    let mut driver = Driver::new(link, channels(&shared.settings));
    driver.control().survive_breaks(session);
    driver.set_workers(Workers::configured(shared.settings.disable_mt_aes.value));
    if let Some((interval, count_max)) = resuming::keepalive(&shared.settings, shared.joined) {
        driver.set_keepalive(interval, count_max);
    }
    driver.control().keep_first(FirstFlight::WINDOW);
    serving.count(&mut driver.control());
    serving.announce_host_keys(&mut driver.control());
    let end = driver.run(&mut serving);
    log_end(&end, &shared);
    if end.is_ok() || matches!(end, Err(DriverError::Connection(_) | DriverError::KeepaliveTimeout)) {
        driver.finish(GOODBYE);
    }
    let usage = usage_reporter::at_the_end(&mut driver, &end);
    // Drops the channels' handlers, so terminals hang up.
    drop(driver);
    shared.end_parts();
    serving.last_word(&usage);
    if matches!(
        end,
        Ok(0) | Err(DriverError::Disconnected { .. } | DriverError::Link(LinkError::Closed { .. }))
    ) {
        0
    } else {
        EXIT_FAILURE
    }
}

/// Returns the configuration of channel windows.
fn channels(settings: &ServerSettings) -> lh_connection::Config {
    let bulk_window = if settings.hpn_disabled.value {
        WindowPolicy::configured(false, None)
    } else {
        WindowPolicy::configured(settings.tcp_rcv_buf_poll.value, settings.hpn_buffer_size.value.bytes())
    };
    lh_connection::Config { bulk_window, ..lh_connection::Config::default() }
}

/// Returns the effect of `NoneEnabled` and `NoneMacEnabled` for this user at this address.
fn unencrypted(settings: &ServerSettings) -> Unencrypted {
    if settings.none_enabled.value {
        Unencrypted::Allowed { without_mac: settings.none_mac_enabled.value }
    } else {
        Unencrypted::Refused
    }
}

fn share(
    login: Login,
    start: Start,
    mounts: Mounts,
    monitor: MonitorSocket,
    address: &Address,
    link: &Link,
) -> Shared {
    let Login { user, settings, options, must_change_password, joined, proofs, .. } = login;
    let Login { said, credentials, inherited, .. } = login;
    let credentials = credentials.and_then(|given| {
        let cleanup = settings.gssapi_cleanup_credentials.value;
        Credentials::write(&given, user.uid, cleanup)
            .map_err(|problem| error!(address.log, "cannot store delegated credentials: {problem}"))
            .ok()
    });
    let permit = &settings.permit_user_environment.value;
    let key_environment = shared::permitted_environment(permit, &options.environment);
    let auth_info = settings.expose_auth_info.value.then(|| AuthInfo::write(&proofs));
    let auth_info = match auth_info {
        Some(Ok(info)) => Some(info),
        Some(Err(problem)) => {
            error!(address.log, "ExposeAuthInfo: cannot write the file: {problem}");
            None
        }
        None => None,
    };
    let decide = inherited.is_some();
    let (environment, problem) = inherited.map(|from| (from.environment, from.problem)).unwrap_or_default();
    let logs = settings.transfer_log.value != TransferLog::None;
    let accounts = logs
        || settings.prometheus_listen.value.0.is_some()
        || settings.per_user_transfer_quota.value.0.is_some();
    let operations = logs && settings.transfer_log_operations.value;
    let socket = link.stream().read_fd().try_clone_to_owned().ok().filter(|_| address.known);
    let title = UserTitle::new(&user.name);
    Shared {
        user,
        settings,
        options,
        must_change_password,
        joined,
        requests_log: address.log.of_requests(),
        log: address.log.clone(),
        client: ClientLink {
            peer: Cell::new(address.peer),
            endpoints: Cell::new(address.known.then_some((address.peer, address.local))),
            socket: RefCell::new(socket.filter(|socket| lh_sys::socket::is_internet(socket.as_fd()))),
            is_away: Cell::default(),
        },
        modules: ModulesSession { decide, problem, said, environment },
        programs: ProgramContext {
            start,
            key_environment,
            auth_info,
            credentials,
            agent: RefCell::default(),
            title,
            has_begun: Cell::default(),
            running: Cell::default(),
        },
        files: FileAccess::new(mounts),
        monitor: RefCell::new(monitor),
        accounts,
        operations,
    }
}

/// Logs the end of the connection on one line, in OpenSSH's words.
fn log_end(end: &Result<i32, DriverError>, shared: &Shared) {
    let log = &shared.log;
    log.report_left_out();
    let peer = shared.client.peer.get();
    let from = shown_endpoint(peer);
    let client = format!("user {} {from}", shared.user.name);
    match end {
        Ok(_) => {}
        Err(DriverError::Disconnected { reason, description }) => {
            let description = shown_reason(description);
            info!(log, "Received disconnect from {from}:{reason}: {description}");
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
