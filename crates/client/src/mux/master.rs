//! The mux master: listens on the control socket and serves its clients.

use std::cell::RefCell;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lh_driver::{Accepted, ControlCx, ControlEvent, Listening, UnixListener};
use lh_sys::errno_text;

use super::connection::Connection;
use super::state::Shared;
use crate::log::Logger;
use crate::ui::{LogLevel, Permission};
use crate::{Forwards, X11Forward};

/// Umask: control sockets are accessible only to their owner.
const MASK: u32 = 0o177;

/// Result of [`Master::listen`].
#[derive(Debug)]
pub enum Listen {
    /// The master listens.
    Yes,
    /// Another process listens at the path; OpenSSH's message about it.
    Taken(String),
}

/// A master of a shared connection. Clones share it.
#[derive(Clone)]
pub struct Master(Rc<Shared>);

impl Master {
    /// Returns a master that does not listen yet. `agent` is the request for agent forwarding, if the agent
    /// is forwarded; `permission` asks the user before each request.
    pub fn new(
        forwards: Forwards,
        logger: Logger,
        host: &str,
        permission: Option<Permission>,
        agent: Option<&'static str>,
    ) -> Self {
        let state = RefCell::default();
        let host = host.to_owned();
        Self(Rc::new(Shared { forwards, logger, host, permission, agent, x11: None, state }))
    }

    /// Allows mux clients to use this display.
    #[must_use]
    pub fn with_x11(mut self, x11: X11Forward) -> Self {
        if let Some(shared) = Rc::get_mut(&mut self.0) {
            shared.x11 = Some(x11);
        }
        self
    }

    /// Listens on `path`. The socket appears there complete: a client that finds it can connect.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn listen(&self, path: &Path, cx: &mut ControlCx<'_>) -> io::Result<Listen> {
        let listener = match bind(path) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let path = path.display();
                let text = format!("ControlSocket {path} already exists, disabling multiplexing");
                return Ok(Listen::Taken(text));
            }
            Err(error) => return Err(error),
        };
        self.0.logger.debug(|| format!("setting up multiplex master socket: {}", path.display()));
        let master = self.clone();
        let accepted = move |accepted: Accepted, cx: &mut ControlCx<'_>| master.accepted(accepted, cx);
        let file = listener.file();
        let source = cx.add_source(Box::new(Listening::unix(listener, accepted)));
        self.0.state.borrow_mut().listener = Some((source, file));
        Ok(Listen::Yes)
    }

    fn accepted(&self, accepted: Accepted, cx: &mut ControlCx<'_>) {
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                let text = format!("multiplex: accept: {}", errno_text(&error));
                return self.0.logger.say(LogLevel::Error, &text);
            }
        };
        let here = rustix::process::getuid().as_raw();
        match lh_sys::pass::peer_uid(&socket) {
            Ok(there) if there == here || there == 0 => {
                Connection::start(&self.0, UnixStream::from(socket), cx)
            }
            Ok(there) => {
                let text = format!("multiplex uid mismatch: peer euid {there} != uid {here}");
                self.0.logger.say(LogLevel::Error, &text);
            }
            Err(error) => {
                self.0.logger.say(LogLevel::Error, &format!("multiplex: {}", errno_text(&error)));
            }
        }
    }

    /// True when a client has sent `-O stop`: a master that only serves others then need not stay after its
    /// last client.
    pub fn has_stopped(&self) -> bool {
        self.0.state.borrow().stopped
    }

    /// True when a client has asked to end the connection.
    pub fn terminated(&self) -> bool {
        self.0.state.borrow().terminate
    }

    /// Handles the events that concern mux clients; returns the others.
    pub fn on_event(&self, event: ControlEvent, cx: &mut ControlCx<'_>) -> Option<ControlEvent> {
        match event {
            ControlEvent::Note { handler, id, note } => {
                let mut state = self.0.state.borrow_mut();
                let Some(session) = state.sessions.get_mut(&handler) else {
                    return Some(ControlEvent::Note { handler, id, note });
                };
                if let Some(note) = note.downcast_ref() {
                    session.on_note(note, cx);
                }
                None
            }
            ControlEvent::ChannelGone { id, handler } => {
                let session = self.0.state.borrow_mut().sessions.remove(&handler);
                if let Some(session) = session {
                    session.end();
                }
                // Other components count channels.
                Some(ControlEvent::ChannelGone { id, handler })
            }
            ControlEvent::Relayed { id, message } => {
                let relay = self.0.state.borrow().relayed.get(&id).cloned();
                if let Some(relay) = relay {
                    relay.on_server(id, &message, cx);
                }
                None
            }
            event => Some(event),
        }
    }

    /// Sends queued messages to clients in proxy mode, at the end of a turn of the loop.
    pub fn before_wait(&self) {
        let dirty = std::mem::take(&mut self.0.state.borrow_mut().dirty);
        dirty.iter().for_each(|client| client.flush());
    }

    /// True while there are clients in proxy mode, or channels of such clients.
    pub fn is_used(&self) -> bool {
        let state = self.0.state.borrow();
        state.proxies > 0 || !state.relayed.is_empty()
    }

    /// Sends changed window sizes: a terminal that was resized may belong to a mux client.
    pub fn window_changed(&self, cx: &mut ControlCx<'_>) {
        for session in self.0.state.borrow().sessions.values() {
            session.send_window_size(cx);
        }
    }
}

/// Creates the socket under a temporary name and links it to `path`. So it is complete once visible, and no
/// other process's socket is replaced.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let mut tries = 0;
    loop {
        let suffix = RandomState::new().build_hasher().finish();
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{suffix:016x}"));
        let temporary = PathBuf::from(name);
        match UnixListener::bind(&temporary, MASK, false) {
            Ok(listener) => return listener.link_to(path),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < 8 => tries += 1,
            Err(error) => return Err(error),
        }
    }
}
