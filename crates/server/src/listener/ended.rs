//! The end of session processes, and the penalties of their clients.

use std::time::{Duration, Instant};

use lh_sys::spawn::NOT_EXECUTED;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process};

use super::startup::Startup;
use super::waiting::Owner;
use super::{Listener, Running, exporter};
use crate::log::{debug, error, info};
use crate::penalties::{Consequence, Offence};

/// A session process that has been waited for.
struct Ended {
    pid: Pid,
    status: WaitStatus,
    running: Running,
    /// It had not said whether a user has logged in.
    startup: Option<Startup>,
}

/// Seconds with one decimal where there is one.
fn in_tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

impl Listener {
    pub(super) fn kill_overdue(&mut self) {
        let now = Instant::now();
        for startup in &mut self.startups {
            if startup.deadline.is_some_and(|deadline| deadline <= now) {
                startup.deadline = None;
                let (ip, port) = (startup.peer.ip(), startup.peer.port());
                info!(self.log, "Timeout before authentication for {ip} port {port}: session process killed");
                if let Some(running) = self.sessions.running.get_mut(&startup.pid) {
                    running.overdue = true;
                }
                let _ = kill_process(startup.pid, Signal::KILL);
            }
        }
    }

    /// Waits for processes that have ended, reads what processes have said until now, and decides what their
    /// ends mean. In this order: what a session said before another one ended counts for that. False where
    /// none has ended.
    pub(super) fn reap(&mut self) -> bool {
        let mut ended = self.wait_for_ended();
        if ended.is_empty() {
            return false;
        }
        match self.look(Some(Duration::ZERO)) {
            Ok(events) => self.handle_messages(&events),
            Err(problem) => error!(self.log, "{problem}"),
        }
        // A session that ended as well may have been there for a connection that was lost.
        ended.sort_by_key(|one| one.startup.is_none());
        for one in ended {
            self.judge(one);
        }
        true
    }

    /// Their ids may be given to other processes from now on.
    fn wait_for_ended(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            debug!(self.log, "session process {} ended: {status:?}", pid.as_raw_nonzero());
            let Some(running) = self.sessions.running.remove(&pid) else { continue };
            let startup = self.startups.iter().position(|startup| startup.pid == pid);
            let startup = startup.map(|at| self.startups.swap_remove(at));
            if startup.is_some() {
                self.admission.end(pid);
            }
            ended.push(Ended { pid, status, running, startup });
        }
        ended
    }

    /// Takes the last words of a process, forgets it, and punishes what it ended with.
    fn judge(&mut self, ended: Ended) {
        let Ended { pid, status, mut running, startup } = ended;
        if let Some(startup) = startup {
            self.on_first_message(startup, &mut running);
        }
        self.read_last(&mut running);
        self.users.tickets.void(pid);
        self.sessions.end_resumable(Owner::Process(pid));
        self.users.end(&Owner::Process(pid));
        if status.exit_status() == Some(NOT_EXECUTED) {
            error!(self.log, "cannot start a session process: the program cannot be executed");
            exporter::count(&mut self.exporter, |seen| seen.errors += 1);
            return;
        }
        let offence = match (status.exit_status(), status.terminating_signal()) {
            _ if running.overdue => Some(Offence::GraceExceeded),
            _ if running.replaced => None,
            (Some(status), _) => Offence::of_status(status),
            // Ended from outside.
            (_, Some(signal)) if [15, 9, 2, 1].contains(&signal) => None,
            _ => Some(Offence::Crash),
        };
        exporter::count(&mut self.exporter, |seen| seen.ended(offence.as_ref(), running.authenticated));
        if let Some(offence) = offence.filter(|_| !running.authenticated) {
            let is = |kind: fn(i32) -> bool| status.exit_status().is_some_and(kind);
            let lost = is(Offence::may_be_a_lost_path);
            // The session may have begun to wait after this connection did.
            if lost && (running.excused || self.sessions.waiting.excuse(running.source, Instant::now())) {
                debug!(self.log, "{}: no penalty: a session waits for its client", running.address);
            } else if is(Offence::may_be_a_lost_resumption)
                && self.sessions.connected.excuse(running.source, Instant::now())
            {
                debug!(self.log, "{}: no penalty: a session there may have lost its path", running.address);
            } else {
                self.punish(&running, offence);
            }
        }
    }

    fn punish(&mut self, running: &Running, offence: Offence) {
        let address = running.address;
        match self.penalties.punish(address, running.source, offence, Instant::now()) {
            Consequence::None => {}
            Consequence::Activated(time, reason) => {
                let seconds = in_tenths(time);
                info!(self.log, "{address}: activating penalty of {seconds} seconds for {reason}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_told_in_tenths_of_seconds() {
        let in_seconds = |nanos: u64| in_tenths(Duration::from_nanos(nanos)).to_string();
        assert_eq!(in_seconds(60_000_000_000), "60");
        assert_eq!(in_seconds(14_999_999_123), "15");
        assert_eq!(in_seconds(16_523_001_456), "16.5");
    }
}
