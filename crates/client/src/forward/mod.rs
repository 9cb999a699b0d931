//! Forwards of a client: local listeners (`-L`, `-D`), listeners at the server (`-R`), and standard input and
//! output as one end (`-W`).
//!
//! [`Forwards`] is a handle. The control of a connection passes events through it; the configuration, `~C`
//! and mux clients add and cancel forwards with it. A forwarded connection is an
//! [`FdPump`](lh_driver::FdPump), like session data: nothing is read from its socket before the other end has
//! connected, and never more than the budget allows.

mod channels;
mod error;
mod local;
mod remote;
mod remote_socks;
pub mod socks;
mod socks_listener;
mod state;
#[cfg(test)]
mod tests;
mod tunnel;
mod words;

use lh_config::forward::Forward;
use lh_driver::{ControlCx, ControlEvent};

pub use error::ForwardError;
pub use state::{Done, Forwards, configured, target};
pub use tunnel::TunnelEnd;
pub use words::allocated;

use crate::ui::LogLevel;

impl Forwards {
    /// Sets up the configured forwards and logs each failure. With `ExitOnForwardFailure`, a failure stops
    /// the loop and [`fatal`](Self::fatal) returns the reason.
    ///
    /// `relayed`: the connection belongs to a mux master. Not every master passes the server's replies about
    /// listeners on (OpenSSH's does not), so they are not waited for.
    pub fn start(&self, relayed: bool, cx: &mut ControlCx<'_>) {
        let (local, remote) = &self.0.configured;
        let waited_for = local.len() + if relayed { 0 } else { remote.len() };
        {
            let mut state = self.0.state.borrow_mut();
            (state.pending, state.relayed) = (waited_for, relayed);
        }
        for forward in local {
            self.0.logger.debug(|| words::local(forward, self.0.rules.gateway_ports));
            let this = self.clone();
            let done: Done = Box::new(move |result, cx| this.local_started(result.is_ok(), cx));
            self.add_local(forward, cx, done);
        }
        for forward in remote {
            self.0.logger.debug(|| words::remote(forward));
            let (this, what) = (self.clone(), forward.clone());
            self.add_remote(forward, cx, Box::new(move |result, cx| this.remote_started(&what, result, cx)));
        }
    }

    fn local_started(&self, ok: bool, cx: &mut ControlCx<'_>) {
        const TEXT: &str = "Could not request local forwarding.";
        let mut state = self.0.state.borrow_mut();
        state.pending -= 1;
        *if ok { &mut state.local_works } else { &mut state.local_failed } += 1;
        if state.local_works + state.local_failed < self.0.configured.0.len() || state.local_failed == 0 {
            return;
        }
        if self.0.rules.exit_on_failure {
            state.fatal.get_or_insert_with(|| TEXT.to_owned());
            cx.stop(255);
        } else if state.local_works == 0 {
            self.0.logger.say(LogLevel::Error, TEXT);
        }
    }

    fn remote_started(&self, forward: &Forward, result: Result<u16, ForwardError>, cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        if !state.relayed {
            state.pending -= 1;
        }
        match result {
            Ok(port) => {
                if let Some(text) = allocated(forward, port) {
                    self.0.logger.say(LogLevel::Info, &text);
                }
            }
            Err(text) if self.0.rules.exit_on_failure => {
                state.fatal.get_or_insert_with(|| format!("Error: {text}"));
                cx.stop(255);
            }
            Err(text) => self.0.logger.say(LogLevel::Info, &format!("Warning: {text}")),
        }
    }

    /// True while the result of a configured forward is still open.
    pub fn pending(&self) -> bool {
        self.0.state.borrow().pending > 0
    }

    /// Returns why the program must end (`ExitOnForwardFailure`).
    pub fn fatal(&self) -> Option<String> {
        self.0.state.borrow().fatal.clone()
    }

    /// Handles the events that concern forwards; returns the others.
    pub fn on_event(&self, event: ControlEvent, cx: &mut ControlCx<'_>) -> Option<ControlEvent> {
        match event {
            ControlEvent::OpenRequested { id, kind, fields }
                if matches!(kind.as_str(), "forwarded-tcpip" | "forwarded-streamlocal@openssh.com") =>
            {
                self.connect_back(id, &kind, &fields, cx);
                None
            }
            ControlEvent::GlobalReply { name, ok, fields }
                if matches!(name.as_str(), "tcpip-forward" | "streamlocal-forward@openssh.com") =>
            {
                self.answered(ok, &fields, cx);
                None
            }
            ControlEvent::ChannelGone { id, handler } => {
                self.0.state.borrow_mut().names.remove(&handler);
                Some(ControlEvent::ChannelGone { id, handler })
            }
            event => Some(event),
        }
    }
}

/// Reads the fields of opens of forwarded connections.
#[cfg(fuzzing)]
pub(crate) fn fuzz_fields(fields: &[u8]) {
    remote::fuzz_fields(fields);
}
