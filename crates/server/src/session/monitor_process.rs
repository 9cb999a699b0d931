//! The monitor's loop: answers the other two processes, waits for their ends, and reports to the listener.
//!
//! [`Monitor`] makes the decisions.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lh_sys::sandbox::VIOLATION;
use lh_sys::signals::Signals;
use rustix::process::Signal;
use zeroize::Zeroizing;

use super::common::Address;
use super::listed::Listed;
use super::monitor_child::{Child, bury, end};
use super::monitor_user::{UsageSinks, after};
use super::monitor_wait::{Stop, WaitEnd, answer, wait};
use super::shared_sockets::SharedSockets;
use super::title;
use super::usage_log::UsageLog;
use crate::exit_status::{
    EXIT_AUTH_ATTEMPTED, EXIT_CRASH, EXIT_FAILURE, EXIT_GRACE, EXIT_GRACE_ATTEMPTED, EXIT_GRACE_LOGIN_BEGUN,
    EXIT_INVALID_USER, EXIT_LOGIN_BEGUN, EXIT_REFUSED,
};
use crate::hand_over::AUTHENTICATED;
use crate::hosts::shown_endpoint;
use crate::listener::priority;
use crate::log::{LONGEST_LINE, Log, at_most, debug, error, info};
use crate::modules::Order;
use crate::monitor::{Asked, Monitor, Unexpected};
use crate::monitor_ipc::{
    MAX_HAND_OVER, MAX_MONITOR_REQUEST, MonitorRequest, MonitorSocket, MonitorSocketError,
};
use crate::resuming::Claimant;

/// The pre-auth process ends itself at the end of LoginGraceTime. If it has not done so this much later, the
/// monitor kills it.
const GRACE_MARGIN: Duration = Duration::from_secs(3);

/// The monitor's two child processes, and what they need at the login.
pub(super) struct Children {
    pub(super) preauth: Child,
    pub(super) user: Child,
    /// The nice value for this process and `user` after the login.
    pub(super) nice: Option<i32>,
    /// The connection's socket, to hand over to the session that it may resume.
    pub(super) socket: Option<OwnedFd>,
}

/// How a connection ended, with the exit status.
enum End {
    /// The connection's own session has ended.
    Session(i32),
    /// The connection was handed over to another session.
    TakenOver(i32),
}

/// Serves both child processes until the session ends. Returns its exit status.
pub(super) fn run(
    mut monitor: Monitor,
    children: Children,
    control: File,
    deadline: Option<Instant>,
    mut usage_log: UsageLog<'_>,
    address: &Address,
) -> i32 {
    match supervise(&mut monitor, children, &control, deadline, &mut usage_log, address) {
        End::Session(status) => {
            usage_log.close(status, &monitor, &control);
            status
        }
        // The resumed session writes the usage records of this connection.
        End::TakenOver(status) => status,
    }
}

fn supervise(
    monitor: &mut Monitor,
    children: Children,
    mut control: &File,
    deadline: Option<Instant>,
    usage_log: &mut UsageLog<'_>,
    address: &Address,
) -> End {
    let log = &address.log;
    let Children { preauth, mut user, socket, nice } = children;
    let mut signals = match Signals::collect(&[Signal::TERM, Signal::INT, Signal::HUP]) {
        Ok(signals) => signals,
        Err(problem) => {
            error!(log, "signals: {problem}");
            return End::Session(EXIT_FAILURE);
        }
    };
    let deadline = deadline.and_then(|deadline| deadline.checked_add(GRACE_MARGIN));
    let state = match before(preauth, monitor, &mut signals, deadline, address) {
        Ok(state) => state,
        Err(status) => {
            let Child { pid, ipc } = user;
            // The process waits for a grant, and ends when no descriptor of its socket is open here.
            monitor.drop_modules();
            drop(ipc);
            let _ = bury(pid);
            return End::Session(status);
        }
    };
    if let Some(nice) = nice {
        priority::restore(user.pid, nice);
    }
    if let Some(claimant) = monitor.take_claimant() {
        return End::TakenOver(take_over(&claimant, socket, state, monitor, user, control, log));
    }
    drop(socket);
    usage_log.logged_in(monitor.who(), monitor.transfer_log_rate());
    let (mut listed, marks) = (None, monitor.marks());
    let moved = monitor.grant(state).map_err(|problem| problem.to_string()).and_then(|grant| {
        title::monitor(&grant.user.name);
        debug!(log, "User child is on pid {}", user.pid.as_raw_nonzero());
        listed = Listed::new(&grant.user, marks)
            .map_err(|problem| debug!(log, "the session is not listed: {problem}"))
            .ok();
        user.ipc.send(&Order::Grant(grant.encode()).encode()).map_err(|problem| problem.to_string())
    });
    if let Err(problem) = moved {
        error!(log, "cannot start a session: {problem}");
        end(user.pid);
        return End::Session(EXIT_FAILURE);
    }
    // Ignored: a listener that has been restarted does not count us any more.
    let _ = control.write_all(AUTHENTICATED);
    let mut sinks = UsageSinks { usage_log, control };
    let mut shared_sockets = SharedSockets { resumable: None, listed };
    let status = after(&mut user, monitor, &mut signals, &mut sinks, address, &mut shared_sockets);
    // A killed process has not reported that its terminals are free.
    monitor.left(None);
    End::Session(status)
}

/// Hands the connection over to the session that its client has claimed. Returns the exit status.
fn take_over(
    claimant: &Claimant,
    socket: Option<OwnedFd>,
    state: Zeroizing<Vec<u8>>,
    monitor: &mut Monitor,
    user: Child,
    mut control: &File,
    log: &Log,
) -> i32 {
    let _ = control.write_all(AUTHENTICATED);
    let delivered = match &socket {
        Some(socket) => claimant.deliver(socket, state).map_err(|problem| problem.to_string()),
        None => Err("the connection is no socket".to_owned()),
    };
    let Child { pid, ipc } = user;
    monitor.drop_modules();
    drop((ipc, socket));
    let _ = bury(pid);
    match delivered {
        Ok(()) => 0,
        Err(problem) => {
            error!(log, "cannot hand the connection over to its session: {problem}");
            EXIT_FAILURE
        }
    }
}

/// Serves the pre-auth process until the login. Returns the serialized connection, or the exit status. The
/// process has ended afterwards.
fn before(
    preauth: Child,
    monitor: &mut Monitor,
    signals: &mut Signals,
    deadline: Option<Instant>,
    address: &Address,
) -> Result<Zeroizing<Vec<u8>>, i32> {
    let log = &address.log;
    let Child { pid, mut ipc } = preauth;
    let from = shown_endpoint(address.peer);
    match converse(&mut ipc, monitor, signals, deadline, address) {
        Ok(state) => {
            // The process has completed its work.
            end(pid);
            Ok(state)
        }
        Err(Stop::MonitorSocket(MonitorSocketError::Closed)) => Err(match bury(pid) {
            Some(status) if status.terminating_signal() == Some(VIOLATION) => {
                error!(
                    log,
                    "fatal: pre-authentication process {} of {from} was killed: forbidden system call",
                    pid.as_raw_nonzero()
                );
                EXIT_CRASH
            }
            Some(status) if status.signaled() => {
                let signal = status.terminating_signal().unwrap_or_default();
                error!(
                    log,
                    "fatal: pre-authentication process {} of {from} was killed by signal {signal}",
                    pid.as_raw_nonzero()
                );
                EXIT_CRASH
            }
            // The process itself has logged the reason.
            Some(status) if status.exit_status() == Some(EXIT_GRACE) => grace_status(monitor.asked()),
            _ => failure_status(monitor.asked()),
        }),
        Err(Stop::Unexpected(Unexpected::Prohibited)) => {
            end(pid);
            Err(EXIT_REFUSED)
        }
        Err(problem) => {
            end(pid);
            match problem {
                Stop::TooLate => {
                    error!(log, "Timeout before authentication for {from}");
                    return Err(grace_status(monitor.asked()));
                }
                Stop::Signal => {
                    info!(log, "{problem}");
                    return Err(EXIT_FAILURE);
                }
                problem => error!(log, "fatal: pre-authentication process of {from}: {problem}"),
            }
            Err(failure_status(monitor.asked()))
        }
    }
}

/// Returns the exit status of a session without a login. A failed login must be distinguishable from a lost
/// path.
const fn failure_status(asked: Asked) -> i32 {
    match asked {
        Asked::Nothing => EXIT_FAILURE,
        Asked::Login => EXIT_LOGIN_BEGUN,
        Asked::Failed { exists: true } => EXIT_AUTH_ATTEMPTED,
        Asked::Failed { exists: false } => EXIT_INVALID_USER,
    }
}

/// Returns the exit status of a session whose `LoginGraceTime` is over.
const fn grace_status(asked: Asked) -> i32 {
    match asked {
        Asked::Nothing => EXIT_GRACE,
        Asked::Login => EXIT_GRACE_LOGIN_BEGUN,
        Asked::Failed { .. } => EXIT_GRACE_ATTEMPTED,
    }
}

pub(super) fn converse(
    ipc: &mut MonitorSocket,
    monitor: &mut Monitor,
    signals: &mut Signals,
    deadline: Option<Instant>,
    address: &Address,
) -> Result<Zeroizing<Vec<u8>>, Stop> {
    // Rate-limited, because an attacker may control the process and fill the log.
    let log = address.log.preauth().of_requests();
    loop {
        loop {
            let largest = if monitor.accepted() { MAX_HAND_OVER } else { MAX_MONITOR_REQUEST };
            let Some(message) = ipc.next(largest)? else { break };
            match MonitorRequest::decode(&message).map_err(MonitorSocketError::from)? {
                MonitorRequest::Log { level, text } => {
                    log.line(level, format_args!("{}", at_most(&text, LONGEST_LINE)));
                }
                MonitorRequest::Sign { key_index, algorithm, hash } => {
                    let signature = monitor.sign_first(key_index, &algorithm, &hash)?;
                    answer(ipc, signature, address)?;
                }
                MonitorRequest::Decide(attempt) => {
                    let decision = monitor.decide(&attempt)?;
                    ipc.send(&decision.encode())?;
                }
                MonitorRequest::HandOver(state) if monitor.accepted() => return Ok(state),
                MonitorRequest::HandOver(_)
                | MonitorRequest::Prove { .. }
                | MonitorRequest::Arrived { .. }
                | MonitorRequest::Left { .. }
                | MonitorRequest::Record(_)
                | MonitorRequest::Terminal
                | MonitorRequest::Transfer(_)
                | MonitorRequest::Operation(_)
                | MonitorRequest::Ticket { .. }
                | MonitorRequest::Resumable { .. }
                | MonitorRequest::Programs(_)
                | MonitorRequest::ConnectionUsage(_) => return Err(Unexpected::Time.into()),
            }
        }
        match wait(ipc, signals, deadline, None)? {
            WaitEnd::Requests { .. } => ipc.read()?,
            WaitEnd::Signal => return Err(Stop::Signal),
            WaitEnd::TooLate => return Err(Stop::TooLate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    use crate::log::{Level, Log};
    use lh_auth::server::{Attempt, Method};
    use rustix::process::Pid;

    /// Environment variable that tells the test binary, started again as the pre-auth process, which fault to
    /// commit.
    const CASE: &str = "LH_SERVER_TEST_PREAUTH";

    /// Returns what the monitor logs about a process with the fault `case`, and the session's exit status.
    #[expect(clippy::zombie_processes, reason = "what is tested waits for it")]
    fn session(case: &str) -> (Vec<String>, Option<i32>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "session::monitor_process::tests::preauth", "--nocapture", "--test-threads=1"])
            .env(CASE, case)
            .stdin(OwnedFd::from(theirs))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let nobody = ([127, 0, 0, 1], 7).into();
        let log = Log::lines(Level::Info);
        let address = Address { peer: nobody, local: nobody, known: true, log: log.clone() };
        let config = crate::testing::config("");
        let mut monitor = Monitor::new(config, Vec::new(), nobody, nobody, log.clone());
        let mut signals = Signals::collect(&[Signal::HUP]).unwrap();
        let preauth = Child { pid: Pid::from_child(&child), ipc: MonitorSocket::new(ours).unwrap() };
        let deadline = Some(Instant::now() + Duration::from_secs(if case == "hang" { 2 } else { 60 }));
        let status = before(preauth, &mut monitor, &mut signals, deadline, &address).err();
        let pid = format!(" {} ", child.id());
        (log.taken().into_iter().map(|line| line.replace(&pid, " PID ")).collect(), status)
    }

    /// The process under test.
    #[test]
    fn preauth() {
        let Some(case) = std::env::var_os(CASE) else { return };
        let (socket, _) = lh_sys::fd::take_stdin_stdout().unwrap();
        let ipc = MonitorSocket::new(UnixStream::from(socket)).unwrap();
        let say = |request: &MonitorRequest| drop(ipc.send(&request.encode()));
        lh_sys::sandbox::filter_system_calls(lh_sys::sandbox::OnViolation::Kill).unwrap();
        say(&MonitorRequest::Log { level: Level::Quiet, text: "here\nI am".into() });
        match case.to_str().unwrap() {
            "socket" => drop(std::net::TcpListener::bind("127.0.0.1:0")),
            "exec" => drop(std::process::Command::new("/bin/sh").arg("-c").arg("true").status()),
            "open" if std::fs::read("/etc/hostname").is_err() => {
                say(&MonitorRequest::Log { level: Level::Info, text: "refused".into() });
            }
            "hand over" => say(&MonitorRequest::HandOver(vec![0; 100].into())),
            "decide" => say(&MonitorRequest::Decide(Attempt { user: "root".into(), method: Method::None })),
            "prove" => say(&MonitorRequest::Prove { algorithm: "ssh-ed25519".into(), key: vec![] }),
            "nonsense" => drop(ipc.send(&[77; 10])),
            "lines" => (0..1000).for_each(|_| {
                say(&MonitorRequest::Log { level: Level::Error, text: "x".repeat(10_000) });
            }),
            "long" => drop({ ipc.socket() }.write_all(&[0xff; 4])),
            "hang" => std::thread::sleep(Duration::from_secs(100)),
            _ => {}
        }
        // An honest process closes its socket to the monitor last.
        std::process::exit(9);
    }

    #[test]
    fn failed_attempts_are_no_lost_paths() {
        use crate::penalties::Offence;
        for (asked, may_be_lost, may_be_resumption) in [
            (Asked::Failed { exists: true }, false, false),
            (Asked::Failed { exists: false }, false, false),
            (Asked::Login, true, false),
            (Asked::Nothing, true, true),
        ] {
            for status in [failure_status(asked), grace_status(asked)] {
                assert_eq!(Offence::may_be_a_lost_path(status), may_be_lost, "{asked:?}");
                assert_eq!(Offence::may_be_a_lost_resumption(status), may_be_resumption, "{asked:?}");
                assert!(Offence::of_status(status).is_some());
            }
            assert_eq!(Offence::of_status(grace_status(asked)), Some(Offence::GraceExceeded));
        }
    }

    #[test]
    fn each_violation_ends_the_session_with_one_line() {
        let violation = "error: fatal: pre-authentication process PID of 127.0.0.1 port 7 was killed: forbidden system call";
        let wrong = "error: fatal: pre-authentication process of 127.0.0.1 port 7: ";
        for (case, line) in [
            ("socket", violation.to_owned()),
            ("exec", violation.to_owned()),
            ("hand over", format!("{wrong}request at the wrong time")),
            ("decide", format!("{wrong}request at the wrong time")),
            ("prove", format!("{wrong}request at the wrong time")),
            ("nonsense", format!("{wrong}malformed message: invalid kind of request")),
            ("long", format!("{wrong}message of 4294967295 bytes")),
        ] {
            let (lines, status) = session(case);
            assert_eq!(lines, ["error: here\\nI am [preauth]", &line], "{case}");
            let expected = if line == violation { EXIT_CRASH } else { EXIT_FAILURE };
            assert_eq!(status, Some(expected), "{case}");
        }
        let (lines, status) = session("open");
        assert_eq!(lines, ["error: here\\nI am [preauth]", "refused [preauth]"]);
        assert_eq!(status, Some(EXIT_FAILURE));
        let (lines, _) = session("lines");
        let written = lines.iter().filter(|line| line.contains("xxx")).count();
        assert!((99..900).contains(&written), "{written}");
        assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE + 100));
        let (lines, status) = session("hang");
        assert_eq!(lines.last().unwrap(), "error: Timeout before authentication for 127.0.0.1 port 7");
        assert_eq!(status, Some(EXIT_GRACE));
    }
}
