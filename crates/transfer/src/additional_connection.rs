//! Additional connections of a copy: who makes them, and how the loops of several wake each other.

use std::io::{Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use lh_driver::ChannelCx;

use crate::Load;

/// Makes additional connections for a copy, on threads of its own. Each ends in a call of the
/// [`Job`](crate::Job): a channel of [`Job::additional_handler`](crate::Job::additional_handler) opens, or
/// [`Job::connection_failed`](crate::Job::connection_failed). The job may be locked during these calls: they
/// must not call it themselves.
pub trait AdditionalConnections: Send + Sync {
    /// A connection in place of an additional channel, where that does better. True: it is under way.
    fn instead(&self, cx: &mut ChannelCx<'_>) -> bool;

    /// A connection for a channel that the server has refused. True: it is under way.
    fn beyond(&self) -> bool;

    /// A connection with `channels` channels, because the first one has been found to hold the copy up. True:
    /// it is under way; [`Job::additional_connection`](crate::Job::additional_connection) or
    /// [`Job::another_failed`](crate::Job::another_failed) is called when it is done.
    fn another(&self, channels: usize, cx: &mut ChannelCx<'_>) -> bool;

    /// Returns the load of the first connection since the last call. Called on the thread of its loop.
    fn load(&self) -> Load;
}

/// Wakes the loop of one connection, from the threads of others.
#[derive(Debug)]
pub(crate) struct Waker {
    sender: UnixStream,
    receiver: UnixStream,
    /// Notified since the last call of [`Waker::drain`].
    notified: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { sender, receiver, notified: AtomicBool::new(false) })
    }

    pub(crate) fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            let _ = (&self.sender).write(&[0]);
        }
    }

    /// To be called before looking at what the notification was for.
    pub(crate) fn drain(&self) {
        let mut drained = [0; 16];
        while let Ok(1..) = (&self.receiver).read(&mut drained) {}
        self.notified.store(false, Ordering::Release);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
