//! The client's requests on a session channel (RFC 4254 sections 6.2 to 6.9): those that prepare its program,
//! start it, and act on it while it runs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::rc::Rc;

use bytes::Bytes;
use lh_driver::{ChannelCx, ChannelEvent};
use lh_transport::Unencrypted;
use lh_wire::Reader;

use super::fields::{one_string, window_size};
use super::program::Terminal;
use super::{SessionChannel, State};
use crate::log::{error, info};
use crate::session::command::RequestedProgram;
use crate::session::{agent, terminal, x11};

impl SessionChannel {
    /// Handles a request of the client. Requests that start a program send their own answer, so that it
    /// precedes the first byte of output. For the others, the returned result is sent as the answer.
    pub(super) fn request(&mut self, name: &str, want_reply: bool, fields: Bytes, cx: &mut ChannelCx<'_>) {
        let preparing = matches!(self.state, State::Preparing);
        let wanted = match name {
            "shell" if preparing && fields.is_empty() => Some(RequestedProgram::Shell),
            "exec" if preparing => {
                one_string(&fields).map(|text| RequestedProgram::Command(OsString::from_vec(text)))
            }
            "subsystem" if preparing => one_string(&fields)
                .and_then(|text| String::from_utf8(text).ok())
                .map(RequestedProgram::Subsystem),
            _ => None,
        };
        if let Some(wanted) = wanted {
            return self.start(&wanted, want_reply, cx);
        }
        let done = match name {
            "pty-req" if preparing => self.allocate_terminal(&fields, cx).unwrap_or(false),
            "env" if preparing => self.set_variable(&fields).unwrap_or(false),
            "x11-req" if preparing && self.display.is_none() => {
                self.display = x11::start(&Rc::clone(&self.shared), &fields, cx);
                self.display.is_some()
            }
            "window-change" => self.resize(&fields).unwrap_or(false),
            "signal" => self.signal(&fields).unwrap_or(false),
            name if agent::is_request(name) && preparing => agent::start(&Rc::clone(&self.shared), name, cx),
            "break" => match &self.state {
                State::Running(process) => process.send_break(),
                _ => false,
            },
            "eow@openssh.com" => {
                if let Some(handler) = self.running() {
                    let event = ChannelEvent::Request { name: name.to_owned(), want_reply: false, fields };
                    handler.on_event(event, cx);
                }
                true
            }
            _ => false,
        };
        if want_reply {
            cx.reply(done);
        }
    }

    fn allocate_terminal(&mut self, fields: &[u8], cx: &mut ChannelCx<'_>) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let kind = reader.string()?;
        let size = window_size(&mut reader)?;
        let modes = reader.string()?;
        reader.finish()?;
        let allowed = self.shared.settings.permit_tty.value && self.shared.options.pty;
        if !allowed || self.terminal.is_some() {
            return Ok(false);
        }
        if !cx.is_encrypted() {
            info!(
                self.shared.requests_log,
                "terminal refused: the connection is not encrypted (NoneEnabled)"
            );
            return Ok(false);
        }
        let inside_chroot = self.shared.programs.start.inside_chroot;
        let allocated = terminal::allocate(&mut self.shared.monitor.borrow_mut(), inside_chroot);
        let allocated = allocated.and_then(|pty| {
            let slave = pty.open_slave()?;
            lh_sys::termios::set_modes(&slave, modes)?;
            pty.resize(size)?;
            Ok(pty)
        });
        match allocated {
            Ok(pty) => {
                let kind = String::from_utf8_lossy(kind).into_owned();
                self.terminal = Some(Terminal { pty, kind });
                // Typed text stays encrypted: later requests of the client cannot change that.
                cx.set_unencrypted(Unencrypted::Refused);
                Ok(true)
            }
            Err(problem) => {
                error!(self.shared.requests_log, "cannot allocate a terminal: {problem}");
                Ok(false)
            }
        }
    }

    fn set_variable(&mut self, fields: &[u8]) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let name = reader.text()?;
        let value = OsString::from_vec(reader.string()?.to_vec());
        reader.finish()?;
        Ok(self.variables.offer(&self.shared.settings.accept_env.0, name, value))
    }

    fn resize(&self, fields: &[u8]) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let size = window_size(&mut reader)?;
        reader.finish()?;
        match (&self.state, &self.terminal) {
            (State::Running(process), _) => process.resize(size),
            (_, Some(terminal)) => drop(terminal.pty.resize(size)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sends a signal to the program. Forced commands get none, as in OpenSSH: they may not expect any.
    fn signal(&self, fields: &[u8]) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let name = reader.text()?;
        reader.finish()?;
        let State::Running(process) = &self.state else { return Ok(false) };
        match lh_sys::signals::by_name(name) {
            Some(signal) if !self.forced => Ok(process.signal(signal).is_ok()),
            _ => Ok(false),
        }
    }
}
