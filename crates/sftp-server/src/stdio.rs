//! An SFTP server on two descriptors.

use std::io;
use std::os::fd::OwnedFd;

use bytes::BytesMut;
use lh_sftp::server::{Backlog, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::BAD_CLIENT;

/// Limit of replies that wait for the client, bytes. Above it no request is served.
const PENDING: usize = 1 << 20;

/// Limit of requests that are read before they are served, bytes.
const HELD: usize = 1 << 20;

/// Size of one read, bytes.
const READ: usize = 256 * 1024;

/// Writes pending replies as far as the client accepts them.
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

/// Serves the requests on `from`, with replies on `to`, until the end of input and until all are answered.
/// Returns the exit status. Both descriptors become non-blocking.
///
/// # Errors
/// Reading from or writing to the client failed.
pub fn serve(mut server: Server, from: &OwnedFd, to: &OwnedFd) -> io::Result<u8> {
    lh_sys::fd::set_nonblocking(from, true)?;
    lh_sys::fd::set_nonblocking(to, true)?;
    let mut pending = Backlog::new(PENDING);
    let mut buffer = BytesMut::new();
    let mut held = 0;
    let mut ended = false;
    loop {
        let Ok(progress) = server.poll(&mut pending) else {
            // The server has logged the reason.
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
        // Replies that did not fit the backlog when they were made may fit now.
        let again = progress.more || (pending.is_empty() && !server.is_idle());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds[..], again.then_some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = fds[1].revents().intersects(PollFlags::ERR | PollFlags::NVAL);
        if gone && fds[0].revents().is_empty() {
            // The client has closed its end, so replies cannot be delivered.
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
