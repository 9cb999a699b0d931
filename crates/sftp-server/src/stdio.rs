//! A server on two descriptors.

use std::io;
use std::os::fd::OwnedFd;

use bytes::BytesMut;
use lh_sftp::server::{Backlog, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::BAD_CLIENT;

/// Replies that wait for the client at most. With more no request is served.
const PENDING: usize = 1 << 20;

/// Requests that are taken before they are served.
const HELD: usize = 1 << 20;

/// Bytes that are read at once.
const READ: usize = 256 * 1024;

/// Writes what waits, as far as the client takes it.
fn flush(backlog: &mut Backlog, to: &OwnedFd) -> io::Result<()> {
    while !backlog.is_empty() {
        match rustix::io::write(to, backlog.rest()) {
            Ok(written) => backlog.advance(written),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Serves what comes on `from`, with replies on `to`, until there is no more and all is answered. Returns the exit
/// status. Both descriptors become non-blocking.
///
/// # Errors
/// The client cannot be read from or written to.
pub fn serve(mut server: Server, from: &OwnedFd, to: &OwnedFd) -> io::Result<u8> {
    lh_sys::fd::set_nonblocking(from, true)?;
    lh_sys::fd::set_nonblocking(to, true)?;
    let mut pending = Backlog::new(PENDING);
    let mut buffer = BytesMut::new();
    let mut held = 0;
    let mut ended = false;
    loop {
        let Ok(progress) = server.poll(&mut pending) else {
            // What it said is in the log.
            flush(&mut pending, to)?;
            return Ok(BAD_CLIENT);
        };
        held -= progress.consumed.min(held);
        flush(&mut pending, to)?;
        if ended && !progress.more && pending.is_empty() && server.is_idle() {
            return Ok(0);
        }
        let reads = if !ended && held < HELD { PollFlags::IN } else { PollFlags::empty() };
        let writes = if pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [PollFd::new(from, reads), PollFd::new(to, writes)];
        // Replies that found no room when they were made may find some now.
        let again = progress.more || (pending.is_empty() && !server.is_idle());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds[..], again.then_some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = fds[1].revents().intersects(PollFlags::ERR | PollFlags::NVAL);
        if gone && fds[0].revents().is_empty() {
            // Nobody reads what we would say.
            return Err(Errno::PIPE.into());
        }
        if ended || reads.is_empty() || fds[0].revents().is_empty() {
            continue;
        }
        buffer.resize(READ, 0);
        match rustix::io::read(from, &mut buffer[..]) {
            Ok(0) => ended = true,
            Ok(read) => {
                held += read;
                server.input(buffer.split_to(read).freeze());
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
