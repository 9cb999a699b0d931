//! The monitor after the login: signs with host keys, serves a waiting session, and writes records of
//! transfers.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use lh_sys::signals::Signals;
use rustix::process::{Signal, kill_process};

use super::common::Address;
use super::lasting::{EndReason, SharedSockets};
use super::monitor_child::{Child, bury};
use super::monitor_wait::{Stop, WaitEnd, answer, wait};
use super::resumable::Resumable;
use super::terminal;
use super::usage_log::UsageLog;
use crate::exit_status::EXIT_FAILURE;
use crate::log::{Log, debug, error, info};
use crate::monitor::{Monitor, Unexpected};
use crate::monitor_ipc::{
    MAX_MONITOR_REQUEST, MonitorRequest, MonitorSocket, MonitorSocketError, encode_last,
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
    books: &mut UsageSinks<'_, '_>,
    address: &Address,
    lasting: &mut SharedSockets,
) -> i32 {
    let log = &address.log;
    let stop = loop {
        if let Err(stop) = serve_user(&mut user.ipc, monitor, signals, books, address, lasting) {
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
    hear_out(&mut user.ipc, monitor, books, lasting);
    status.and_then(|status| status.exit_status()).unwrap_or(EXIT_FAILURE)
}

/// Reads the reports that the user session process had sent before it was killed.
fn hear_out(
    ipc: &mut MonitorSocket,
    monitor: &mut Monitor,
    books: &mut UsageSinks<'_, '_>,
    lasting: &SharedSockets,
) {
    if ipc.socket().set_nonblocking(true).is_err() {
        return;
    }
    loop {
        while let Ok(Some(message)) = ipc.next(MAX_MONITOR_REQUEST) {
            match MonitorRequest::decode(&message) {
                Ok(MonitorRequest::Transfer(transfer)) => books.usage_log.transfer(&transfer, books.control),
                Ok(MonitorRequest::Operation(operation)) => books.usage_log.operation(&operation),
                Ok(MonitorRequest::ConnectionUsage(conduct)) => {
                    tell_moved(&conduct, monitor, lasting, books.control);
                    books.usage_log.conduct(conduct, books.control);
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
fn tell_moved(conduct: &ConnectionUsage, monitor: &mut Monitor, lasting: &SharedSockets, control: &File) {
    if let Some(moved) = monitor.count_moved(conduct.bytes_in.saturating_add(conduct.bytes_out)) {
        // A listener that has ended counts nothing.
        let _ = lasting.notices(control).write_all(&moved.encode());
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

fn serve_user(
    ipc: &mut MonitorSocket,
    monitor: &mut Monitor,
    signals: &mut Signals,
    books: &mut UsageSinks<'_, '_>,
    address: &Address,
    lasting: &mut SharedSockets,
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
                    error!(address.log, "cannot allocate a terminal: {problem}");
                }
                terminal::answer(ipc, pty.ok())?;
                continue;
            }
            MonitorRequest::Record(facts) => {
                match monitor.record(books.usage_log.session(), &facts)? {
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
                lasting.resumable = begin_resumable(ipc, handle, &export, monitor, &address.log)?;
                if let Some(resumable) = &lasting.resumable {
                    resumable.notify(&mut lasting.notices(books.control));
                }
                continue;
            }
            MonitorRequest::Programs(programs) => {
                if let Some(listed) = &mut lasting.listed {
                    listed.set_programs(programs);
                }
                continue;
            }
            MonitorRequest::Transfer(transfer) => {
                books.usage_log.transfer(&transfer, books.control);
                continue;
            }
            MonitorRequest::Operation(operation) => {
                books.usage_log.operation(&operation);
                continue;
            }
            MonitorRequest::ConnectionUsage(conduct) => {
                tell_moved(&conduct, monitor, lasting, books.control);
                books.usage_log.conduct(conduct, books.control);
                continue;
            }
            _ => return Err(Unexpected::Time.into()),
        };
        answer(ipc, signature, address)?;
    }
    match wait(ipc, signals, None, Some(lasting))? {
        WaitEnd::Message => return Ok(ipc.read()?),
        WaitEnd::Signal => return Err(Stop::Signal),
        WaitEnd::SharedSockets | WaitEnd::TooLate => {}
    }
    lasting.serve(monitor, books.control, address.known).map_err(|over| match over {
        EndReason::Refused => Stop::Refused,
        EndReason::Dismissed => Stop::Signal,
        EndReason::Ended(uid) => Stop::Ended(uid),
    })
}
