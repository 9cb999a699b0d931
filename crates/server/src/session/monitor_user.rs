//! The monitor after the login: signs with host keys, serves a waiting session, and writes records of
//! transfers.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use lh_sys::signals::Signals;
use rustix::process::{Signal, kill_process};

use super::common::Address;
use super::monitor_child::{Child, bury};
use super::monitor_wait::{Stop, WaitEnd, answer, wait};
use super::resumable::Resumable;
use super::shared_sockets::{EndReason, SharedSockets};
use super::terminal;
use super::usage_log::UsageLog;
use crate::exit_status::EXIT_FAILURE;
use crate::log::{Log, debug, error, info};
use crate::monitor::{Monitor, Unexpected};
use crate::monitor_ipc::{
    MAX_MONITOR_REQUEST, MOST_LAST_READS, MonitorRequest, MonitorSocket, MonitorSocketError, encode_last,
};
use crate::usage::ConnectionUsage;

/// The usage log, and the socket on which the listener is told.
pub(super) struct UsageSinks<'a, 'b> {
    pub(super) usage_log: &'a mut UsageLog<'b>,
    pub(super) control: &'a File,
}

/// Serves the user session process: signatures by host keys, records, resumption. Returns the exit status.
pub(super) fn after(
    user: &mut Child,
    monitor: &mut Monitor,
    signals: &mut Signals,
    sinks: &mut UsageSinks<'_, '_>,
    address: &Address,
    shared_sockets: &mut SharedSockets,
) -> i32 {
    let log = &address.log;
    let stop = loop {
        if let Err(stop) = serve_user(&mut user.ipc, monitor, signals, sinks, address, shared_sockets) {
            break stop;
        }
    };
    match stop {
        Stop::MonitorSocket(MonitorSocketError::Closed) => {}
        Stop::Signal => {
            let _ = kill_process(user.pid, Signal::TERM);
        }
        Stop::Refused => {
            info!(log, "session ends: its user may not have it any more");
            let _ = kill_process(user.pid, Signal::TERM);
        }
        Stop::Ended(_) => {
            info!(log, "{stop}");
            let _ = kill_process(user.pid, Signal::TERM);
        }
        problem => {
            error!(log, "fatal: process of the user: {problem}");
            let _ = kill_process(user.pid, Signal::TERM);
        }
    }
    let status = bury(user.pid);
    // A session that ends right after it was resumed is logged as resumed, too.
    shared_sockets.hear_last(monitor, sinks.control);
    drain_requests(&mut user.ipc, monitor, sinks, shared_sockets);
    status.and_then(|status| status.exit_status()).unwrap_or(EXIT_FAILURE)
}

/// Reads the reports that the user session process had sent before it was killed.
fn drain_requests(
    ipc: &mut MonitorSocket,
    monitor: &mut Monitor,
    sinks: &mut UsageSinks<'_, '_>,
    shared_sockets: &SharedSockets,
) {
    if ipc.socket().set_nonblocking(true).is_err() {
        return;
    }
    for _ in 0..MOST_LAST_READS {
        while let Ok(Some(message)) = ipc.next(MAX_MONITOR_REQUEST) {
            match MonitorRequest::decode(&message) {
                Ok(MonitorRequest::Transfer(transfer)) => sinks.usage_log.transfer(&transfer, sinks.control),
                Ok(MonitorRequest::Operation(operation)) => sinks.usage_log.operation(&operation),
                Ok(MonitorRequest::ConnectionUsage(usage)) => {
                    tell_moved(&usage, monitor, shared_sockets, sinks.control);
                    sinks.usage_log.usage(usage, sinks.control);
                }
                _ => {}
            }
        }
        if ipc.read().is_err() {
            return;
        }
    }
}

/// Reports transferred bytes to the listener, where the user has a quota.
fn tell_moved(
    usage: &ConnectionUsage,
    monitor: &mut Monitor,
    shared_sockets: &SharedSockets,
    control: &File,
) {
    if let Some(moved) = monitor.count_moved(usage.bytes_in.saturating_add(usage.bytes_out)) {
        // A listener that has ended counts nothing.
        let _ = shared_sockets.notices(control).write_all(&moved.encode());
    }
}

/// Lets the session outlive its connection, where its rules allow that. The process that asks gets its end of
/// a socket pair for this, or a byte without a descriptor as refusal.
fn begin_resumable(
    ipc: &MonitorSocket,
    handle: [u8; 16],
    export: &[u8],
    monitor: &mut Monitor,
    log: &Log,
) -> Result<Option<Resumable>, Stop> {
    let address = monitor.peer().ip();
    let begun =
        monitor.take_terms()?.map(|terms| Resumable::new(handle, export, terms, address, log.clone()));
    let problem = match begun {
        Some(Ok((resumable, theirs))) => {
            lh_sys::pass::send_fd(ipc.socket(), theirs.as_fd())?;
            return Ok(Some(resumable));
        }
        Some(Err(problem)) => problem.to_string(),
        None => "its rules do not allow it".to_owned(),
    };
    debug!(log, "the session ends with its connection: {problem}");
    { ipc.socket() }.write_all(&[0])?;
    Ok(None)
}

pub(super) fn serve_user(
    ipc: &mut MonitorSocket,
    monitor: &mut Monitor,
    signals: &mut Signals,
    sinks: &mut UsageSinks<'_, '_>,
    address: &Address,
    shared_sockets: &mut SharedSockets,
) -> Result<(), Stop> {
    while let Some(message) = ipc.next(MAX_MONITOR_REQUEST)? {
        let signature = match MonitorRequest::decode(&message).map_err(MonitorSocketError::from)? {
            MonitorRequest::Sign { key_index, algorithm, hash } => {
                monitor.sign_again(key_index, &algorithm, &hash)?
            }
            MonitorRequest::Prove { algorithm, key } => monitor.prove(&algorithm, &key)?,
            MonitorRequest::Arrived { line, pid } => {
                ipc.send(&encode_last(monitor.arrived(&line, pid)?.as_ref()))?;
                continue;
            }
            MonitorRequest::Left { line } => {
                monitor.left(Some(&line));
                continue;
            }
            MonitorRequest::Terminal => {
                let pty = monitor.terminal()?;
                if let Err(problem) = &pty {
                    error!(address.log.of_requests(), "cannot allocate a terminal: {problem}");
                }
                terminal::answer(ipc, pty.ok())?;
                continue;
            }
            MonitorRequest::Record(facts) => {
                match monitor.record(sinks.usage_log.session(), &facts)? {
                    Some(file) => lh_sys::pass::send_fd(ipc.socket(), file.as_fd())?,
                    None => { ipc.socket() }.write_all(&[0])?,
                }
                continue;
            }
            MonitorRequest::Ticket { key } => {
                ipc.send(&[u8::from(monitor.ticket(&key)?)])?;
                continue;
            }
            MonitorRequest::Resumable { handle, export } => {
                shared_sockets.resumable = begin_resumable(ipc, handle, &export, monitor, &address.log)?;
                if let Some(resumable) = &shared_sockets.resumable {
                    resumable.notify(&mut shared_sockets.notices(sinks.control));
                }
                continue;
            }
            MonitorRequest::Programs(programs) => {
                if let Some(listed) = &mut shared_sockets.listed {
                    listed.set_programs(programs);
                }
                continue;
            }
            MonitorRequest::Transfer(transfer) => {
                sinks.usage_log.transfer(&transfer, sinks.control);
                continue;
            }
            MonitorRequest::Operation(operation) => {
                sinks.usage_log.operation(&operation);
                continue;
            }
            MonitorRequest::ConnectionUsage(usage) => {
                tell_moved(&usage, monitor, shared_sockets, sinks.control);
                sinks.usage_log.usage(usage, sinks.control);
                continue;
            }
            _ => return Err(Unexpected::Time.into()),
        };
        answer(ipc, signature, address)?;
    }
    match wait(ipc, signals, None, Some(shared_sockets))? {
        WaitEnd::Requests { own, shared } => {
            if own {
                ipc.read()?;
            }
            // A session process that sends without end keeps no other request waiting: it could not be ended.
            if !shared {
                return Ok(());
            }
        }
        WaitEnd::Signal => return Err(Stop::Signal),
        WaitEnd::TooLate => {}
    }
    shared_sockets.serve(monitor, sinks.control, address.known).map_err(|over| match over {
        EndReason::Refused => Stop::Refused,
        EndReason::Dismissed => Stop::Signal,
        EndReason::Ended(uid) => Stop::Ended(uid),
    })
}
