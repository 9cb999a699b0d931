//! The listener's interface to the service manager (systemd's `Type=notify-reload`): the sockets that it
//! passes, state notifications and the watchdog.

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lh_sys::service::{PassedSocket, Service, monotonic_usec};
use rustix::net::sockopt;

use super::options::ListenError;
use crate::log::{Log, debug, info, verbose};

/// The service manager. Without one, nothing is sent and no deadline is set. See the module documentation.
pub(super) struct Manager {
    service: Service,
    log: Log,
    /// Names of the passed sockets, in their order.
    names: Vec<String>,
    /// The addresses that the server listens on, for status messages.
    listening: String,
    /// The watchdog's interval, and the time of the next report.
    watchdog: Option<(Duration, Instant)>,
}

impl Manager {
    pub(super) fn new(service: Service, log: Log) -> Self {
        let watchdog = service.watchdog_interval().map(|every| (every, Instant::now()));
        Self { service, log, names: Vec::new(), listening: String::new(), watchdog }
    }

    /// Returns the passed sockets, which replace every `ListenAddress` and `Port`; `None` where there are
    /// none.
    ///
    /// # Errors
    /// A passed socket cannot accept network connections.
    pub(super) fn sockets(&mut self) -> Result<Option<Vec<OwnedFd>>, ListenError> {
        let mut sockets = Vec::new();
        for PassedSocket { socket, name } in self.service.take_sockets() {
            if !sockopt::socket_acceptconn(&socket).unwrap_or(false) || !lh_sys::socket::is_internet(&socket)
            {
                return Err(ListenError::Passed { name });
            }
            lh_sys::fd::set_nonblocking(&socket, true)
                .map_err(super::options::system("cannot use a passed socket"))?;
            if let Some(bound) = lh_sys::socket::local_address(&socket) {
                info!(self.log, "Server listening on {} port {}.", bound.ip(), bound.port());
                verbose!(self.log, "Socket {} was passed by the service manager.", name.escape_default());
            }
            self.names.push(name);
            sockets.push(socket);
        }
        Ok((!sockets.is_empty()).then_some(sockets))
    }

    /// Returns the sockets that were open before the program was restarted.
    pub(super) fn kept(&mut self) -> Vec<OwnedFd> {
        self.service.take_kept()
    }

    /// Notifies the manager that connections are accepted from now on.
    pub(super) fn ready(&mut self, sockets: &[OwnedFd]) {
        let addresses = sockets.iter().filter_map(lh_sys::socket::local_address);
        let addresses: Vec<_> =
            addresses.map(|bound| format!("{} port {}", bound.ip(), bound.port())).collect();
        self.listening = addresses.join(", ");
        let pid = std::process::id();
        self.tell(&format!("READY=1\nMAINPID={pid}\nSTATUS=Listening on {}", self.listening));
    }

    /// Notifies the manager that the configuration is about to be read again.
    pub(super) fn reloading(&self) {
        let now = monotonic_usec();
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=Reading the configuration again"));
    }

    /// Notifies the manager that the new configuration is invalid and the server keeps the old one.
    pub(super) fn kept_old(&self, problem: impl Display) {
        let problem = one_line(&problem.to_string());
        let status = format!("Listening on {} with the old configuration: {problem}", self.listening);
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=Stopping; sessions go on");
    }

    /// Reports to the watchdog, if a report is due.
    pub(super) fn feed_watchdog(&mut self, now: Instant) {
        let Some((every, due)) = &mut self.watchdog else { return };
        if *due <= now {
            *due = now + *every;
            self.tell("WATCHDOG=1");
        }
    }

    /// Returns the time at which the next watchdog report is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.watchdog.map(|(_, due)| due)
    }

    /// Returns environment variables for the program that is about to be restarted in this process. The
    /// sockets stay open, so clients that connect meanwhile wait.
    pub(super) fn variables(&self, sockets: &[OwnedFd]) -> io::Result<Vec<(&'static str, OsString)>> {
        let mut variables =
            self.service.variables(sockets.iter().zip(self.names.iter().map(String::as_str)))?;
        if self.names.is_empty() {
            variables.push(Service::kept(sockets)?);
        }
        Ok(variables)
    }

    fn tell(&self, assignments: &str) {
        if let Err(problem) = self.service.notify(assignments) {
            debug!(self.log, "cannot notify the service manager: {problem}");
        }
    }
}

/// Replaces line breaks, because each notification is one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_cannot_add_an_assignment() {
        assert_eq!(one_line("bad\nMAINPID=1\r\n"), "bad MAINPID=1  ");
    }
}
