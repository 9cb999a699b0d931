//! The descriptors of a connection.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use lh_sys::fd::set_nonblocking;
use lh_sys::socket::PEER_CLOSED;
use lh_sys::tcp_info::TcpInfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Limit of unsent bytes in the kernel before the path is measured.
const FIRST_UNSENT: u32 = 512 << 10;

/// A two-way stream of bytes. Reads and writes never block.
#[derive(Debug)]
pub struct Stream {
    read: OwnedFd,
    /// `None` when one descriptor serves both directions.
    write: Option<OwnedFd>,
    /// Another process passes on what is written, and lives longer than this one.
    is_carried: bool,
}

impl Stream {
    /// Wraps a connected socket: TCP, or an end of a socket pair whose other end a channel of another
    /// connection serves (that keeps ProxyJump in one process). TCP sockets get TCP_NODELAY.
    ///
    /// # Errors
    /// The descriptor cannot be made non-blocking.
    pub fn socket(socket: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&socket, true)?;
        if lh_sys::socket::is_internet(&socket) {
            // A failure is not worth losing the connection.
            let _ = lh_sys::socket::set_nodelay(&socket, true);
            let _ = lh_sys::socket::set_unsent_limit(&socket, FIRST_UNSENT);
        }
        Ok(Self { read: socket, write: None, is_carried: false })
    }

    /// Wraps two pipes, as with ProxyCommand: `read` supplies the peer's bytes, `write` takes ours. Both
    /// become non-blocking, so they must not be shared with another process.
    ///
    /// # Errors
    /// A descriptor cannot be made non-blocking.
    pub fn pipes(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&read, true)?;
        set_nonblocking(&write, true)?;
        Ok(Self { read, write: Some(write), is_carried: false })
    }

    /// Records that another process passes on what is written to this socket, also when this process has
    /// ended.
    pub const fn set_carried(&mut self) {
        self.is_carried = true;
    }

    /// Limits the bytes that wait in the kernel without having been sent once. Has no effect on other than
    /// TCP sockets.
    pub(crate) fn set_unsent_limit(&self, bytes: usize) {
        if lh_sys::socket::is_internet(self.write_fd()) {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let _ = lh_sys::socket::set_unsent_limit(self.write_fd(), bytes);
        }
    }

    /// Descriptor to poll for reading.
    pub fn read_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Descriptor to poll for writing.
    pub fn write_fd(&self) -> BorrowedFd<'_> {
        self.write.as_ref().map_or_else(|| self.read.as_fd(), AsFd::as_fd)
    }

    /// Reads available bytes; 0 is the end.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.read, &mut *buffer))?)
    }

    /// Writes as many bytes as the descriptor takes.
    pub(crate) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::writev(self.write_fd(), slices))?)
    }

    /// Tells the peer that no more bytes follow: ends the sending direction of a socket, or closes the pipe.
    /// Nothing may be written afterwards.
    pub(crate) fn end_writing(&mut self) {
        if self.write.take().is_none() {
            // A socket that has failed already has nothing to end.
            let _ = rustix::net::shutdown(&self.read, rustix::net::Shutdown::Write);
        }
    }

    /// Reads and drops available bytes, not more than some MiB; returns whether that was the end.
    pub(crate) fn discard(&self) -> io::Result<bool> {
        let mut buffer = [0; 64 << 10];
        for _ in 0..64 {
            match self.read(&mut buffer) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Ok(0) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Waits until there are bytes to read, or space to write if `write`, for at most `timeout`.
    pub(crate) fn wait_either(&self, write: bool, timeout: Duration) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, write);
        let mut fds =
            [PollFd::new(&self.read, PollFlags::IN), PollFd::from_borrowed_fd(self.write_fd(), flags)];
        // An error shows at the next read or write.
        let _ = poll(&mut fds, Timespec::try_from(timeout).ok().as_ref());
    }

    /// Returns true when a close of the socket now destroys nothing on its way to the peer: it is a TCP
    /// connection on which little is unacknowledged, so that everything has left this machine, or another
    /// process [carries](Self::set_carried) the bytes on. False for other local sockets and for pipes, behind
    /// which a thread or a command still has to pass the bytes on.
    pub(crate) fn delivers_by_itself(&self) -> bool {
        /// The smallest first window of TCP, segments (RFC 6928).
        const AT_ONCE: u64 = 10;
        if self.is_carried {
            return true;
        }
        let info = TcpInfo::of(&self.read).filter(|_| self.write.is_none());
        info.is_some_and(|info| {
            let few = |name, most| info.get(name).is_some_and(|count| count <= most);
            few("unacked", AT_ONCE) && few("notsent_bytes", 0)
        })
    }

    /// Returns true unless the kernel knows of written bytes that the other end has not acknowledged.
    pub(crate) fn has_arrived(&self) -> bool {
        let info = TcpInfo::of(self.write_fd());
        let none = |info: &TcpInfo, name| info.get(name).is_none_or(|count| count == 0);
        info.is_none_or(|info| none(&info, "unacked") && none(&info, "notsent_bytes"))
    }

    /// Returns whether the kernel knows, after [`end_writing`](Self::end_writing), of written bytes that the
    /// other end has not acknowledged. The end of the direction itself may be on its way.
    pub(crate) fn lacks_acknowledgements(&self) -> bool {
        lh_sys::socket::unacknowledged(self.write_fd()).is_some_and(|bytes| bytes > 1)
    }

    /// Waits without reading, and for space to write if `write`. Returns true if the peer has closed its end;
    /// bytes received before may still be unread.
    pub(crate) fn wait_paused(&self, write: bool, timeout: Option<Duration>) -> io::Result<bool> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, write);
        let mut fds =
            [PollFd::new(&self.read, PEER_CLOSED), PollFd::from_borrowed_fd(self.write_fd(), flags)];
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let ended = PEER_CLOSED | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        Ok(fds.iter().any(|fd| fd.revents().intersects(ended)))
    }
}
