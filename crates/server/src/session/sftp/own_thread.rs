//! A thread that has one SFTP engine for as long as its channel lives.
//!
//! It has a table of descriptors of its own. A program that the session starts gets a copy of all that is open in the loop's
//! table and closes it, and closing a file of a file system that hangs blocks, before the program even runs. So where a file
//! system can hang, the session's files are open in this thread only.

use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use lh_sftp::server::{Backlog, Server};

use super::visit::Visit;
use super::workers::Address;

/// What the thread is to do.
enum Order {
    /// Serve as far as the replies have room.
    Serve { input: Vec<Bytes>, replies: Backlog },
    /// Give an account of open files, close them, and end.
    Close,
}

/// See the module documentation.
pub(super) struct OwnThread {
    orders: Sender<Order>,
    closing: bool,
}

impl OwnThread {
    /// Starts the thread; results go to `address`. `own_umask`: the engine changes the umask. Returns the engine where there is no
    /// such thread to be had.
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
            // The loop's descriptor is let go while the loop still has it.
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

    /// Has requests served.
    pub(super) fn serve(&self, input: Vec<Bytes>, replies: Backlog) {
        // Fails after the thread has ended, which it does only when told to.
        let _ = self.orders.send(Order::Serve { input, replies });
    }

    /// Has everything closed, once. The last visit follows when all open files are accounted for.
    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.closing, true) {
            let _ = self.orders.send(Order::Close);
        }
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
