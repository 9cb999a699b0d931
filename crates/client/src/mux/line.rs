//! The control socket of a mux client, shared by all components that answer it.

use std::os::unix::net::UnixStream;
use std::rc::Rc;

use rustix::net::{SendFlags, send};

use super::wire::Reply;

/// The shared socket: replies are sent when forwards are set up, exit statuses when programs end.
#[derive(Clone)]
pub(super) struct Line(Rc<UnixStream>);

impl Line {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self(Rc::new(socket))
    }

    /// Returns the socket for reading; in proxy mode it carries another protocol.
    pub(super) fn socket(&self) -> &UnixStream {
        &self.0
    }

    /// Closes the connection, which its reader detects.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Both);
    }

    /// Sends one message without waiting. A client that does not read these few bytes loses them, and the
    /// protocol loses its synchronization.
    pub(super) fn say(&self, message: &[u8]) {
        let mut framed = Vec::with_capacity(message.len() + 4);
        lh_wire::Writer::put_string(&mut framed, message);
        let sent = send(&*self.0, &framed, SendFlags::DONTWAIT | lh_sys::socket::NO_SIGNAL);
        if sent != Ok(framed.len()) {
            self.hang_up();
        }
    }

    pub(super) fn reply(&self, id: u32, reply: &Reply) {
        self.say(&reply.encode(id));
    }
}
