//! A thread that owns one SFTP engine for the lifetime of its channel.
//!
//! It has its own table of descriptors. A program that the session starts inherits a copy of the loop's
//! descriptors and closes them. On a hanging file system that close would block before the program even runs.
//! So where a file system can hang, the session's files are open in this thread only.

use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use lh_sftp::server::{Backlog, Server};

use super::visit::Visit;
use super::workers::Address;

/// A command to the thread.
enum Order {
    /// Serve requests as long as the replies have room.
    Serve { input: Vec<Bytes>, replies: Backlog },
    /// The client is away, or back.
    Follow { is_away: bool },
    /// Record the open files, close them, and end.
    Close,
}

/// A thread that owns an engine. See the module documentation.
pub(super) struct OwnThread {
    orders: Sender<Order>,
    closing: bool,
}

impl OwnThread {
    /// Starts the thread; results go to `address`. `own_umask`: the engine changes the umask. Returns the
    /// engine where no such thread can be started.
    pub(super) fn start(
        server: Box<Server>,
        address: Address<Visit>,
        own_umask: bool,
    ) -> Result<Self, Box<Server>> {
        let (orders, received) = channel();
        let (give, take) = channel();
        let (begun, begins) = channel();
        let thread = move || {
            let mine = lh_sys::threads::own_descriptors(address.fd());
            let fit = mine.is_ok() && (!own_umask || lh_sys::threads::own_umask().is_ok());
            // Replaces the loop's descriptor while the loop still has it open.
            let address = mine.map(|mine| address.with_descriptor(mine));
            if begun.send(fit).is_ok()
                && fit
                && let (Ok(server), Ok(address)) = (take.recv(), address)
            {
                serve(server, &received, &address);
            }
        };
        let started = std::thread::Builder::new().name("files".to_owned()).spawn(thread);
        if started.is_err() || begins.recv() != Ok(true) {
            return Err(server);
        }
        match give.send(server) {
            Ok(()) => Ok(Self { orders, closing: false }),
            Err(back) => Err(back.0),
        }
    }

    /// Sends requests to the thread.
    pub(super) fn serve(&self, input: Vec<Bytes>, replies: Backlog) {
        // Fails only after the thread has ended, which requires [`Order::Close`].
        let _ = self.orders.send(Order::Serve { input, replies });
    }

    /// Reports that the client is away, or back.
    pub(super) fn follow(&self, is_away: bool) {
        let _ = self.orders.send(Order::Follow { is_away });
    }

    /// Closes all files, once. The thread's last visit follows when all are recorded.
    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.closing, true) {
            let _ = self.orders.send(Order::Close);
        }
    }
}

/// Tells an engine that its client is away, or back.
pub(super) fn follow(server: &mut Server, is_away: bool) {
    if is_away {
        server.on_client_away();
    } else {
        server.on_client_back();
    }
}

fn serve(mut server: Box<Server>, orders: &Receiver<Order>, address: &Address<Visit>) {
    for order in orders {
        let visit = match order {
            Order::Serve { input, mut replies } => {
                input.into_iter().for_each(|data| server.input(data));
                let result = server.poll(&mut replies);
                Visit { server: None, replies, idle: server.is_idle(), result: Some(result), closed: false }
            }
            Order::Follow { is_away } => {
                follow(&mut server, is_away);
                continue;
            }
            Order::Close => {
                let files = server.close();
                let replies = Backlog::new(0);
                address.deliver(Visit { server: None, replies, idle: true, result: None, closed: true });
                drop(files);
                return;
            }
        };
        address.deliver(visit);
    }
}
