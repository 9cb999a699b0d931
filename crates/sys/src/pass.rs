//! Passing descriptors to another process through a Unix socket.
#![expect(unsafe_code, reason = "the user at the other end, as the kernel tells it, has no safe call")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, recvmsg,
    sendmsg,
};

use crate::socket::NO_SIGNAL;

/// macOS has no such flag: received descriptors are marked right after the call.
#[cfg(not(target_os = "macos"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(target_os = "macos")]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

/// Sends one descriptor, with one data byte, which the kernel requires.
///
/// # Errors
/// The peer has gone, or the descriptor is not a Unix socket.
pub fn send_fd(socket: impl AsFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no space for a descriptor"));
    }
    let sent =
        rustix::io::retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(&[0])], &mut control, NO_SIGNAL))?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives one descriptor and its data byte without waiting; `None` for a byte without a descriptor.
/// Additional descriptors in the message are closed.
///
/// # Errors
/// `WouldBlock` when no message is there, `UnexpectedEof` when the peer has closed.
pub fn receive_fd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match receive(socket, RecvFlags::DONTWAIT)? {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (_, fd) => Ok(fd),
    }
}

/// Waits for a message and returns the descriptor in it. `None` for a message without a descriptor, and when
/// the peer has closed the socket.
///
/// # Errors
/// Those of recvmsg(2).
pub fn wait_for_fd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    Ok(rustix::io::retry_on_intr(|| receive(&socket, RecvFlags::empty()))?.1)
}

/// Receives at most one byte and returns the number of bytes, and the first descriptor.
fn receive(socket: impl AsFd, flags: RecvFlags) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags | CLOSE_ON_EXEC)?;
    let mut first = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                #[cfg(target_os = "macos")]
                rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
                first.get_or_insert(fd);
            }
        }
    }
    Ok((got.bytes, first))
}

/// User id of the process at the other end of a connected Unix socket.
///
/// # Errors
/// The descriptor is not a Unix socket.
#[cfg(target_os = "linux")]
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    // rustix is not used, because its process id cannot be 0. The kernel reports 0 for a process in another
    // pid namespace.
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes, the size of `found`, whose fields are integers.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.uid)
}

/// User id of the process at the other end of a connected Unix socket.
///
/// # Errors
/// The descriptor is not a Unix socket.
#[cfg(not(target_os = "linux"))]
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: the descriptor is open during the call, and both pointers are to numbers of ours.
    match unsafe { libc::getpeereid(socket.as_fd().as_raw_fd(), &raw mut uid, &raw mut gid) } {
        0 => Ok(uid),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn passed_descriptor_is_usable() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(receive_fd(&theirs).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_fd(&ours, writer.as_fd()).unwrap();
        drop(writer);
        let passed = receive_fd(&theirs).unwrap().unwrap();
        std::fs::File::from(passed).write_all(b"through").unwrap();
        let mut got = String::new();
        reader.read_to_string(&mut got).unwrap();
        assert_eq!(got, "through");
        (&ours).write_all(b"x").unwrap();
        assert!(receive_fd(&theirs).unwrap().is_none());
        assert_eq!(peer_uid(&theirs).unwrap(), rustix::process::getuid().as_raw());
        drop(ours);
        assert_eq!(receive_fd(&theirs).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
