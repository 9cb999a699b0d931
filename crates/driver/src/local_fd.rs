//! Local descriptors that are read and written without blocking, even when other processes share them.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lh_sys::fd::set_nonblocking;
use lh_sys::pipe::PipeGrowth;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// Direction in which an inherited descriptor is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// For reading.
    Read,
    /// For writing.
    Write,
}

/// Method of avoiding blocking calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoMethod {
    /// The open file description is ours alone and non-blocking.
    Nonblocking,
    /// A socket: each call has the MSG_DONTWAIT flag.
    Socket,
    /// A regular file or a memory device: never blocks for a peer.
    File,
    /// A shared open file description that could not be reopened: polled before each call, and written in
    /// pieces that a pipe is sure to take.
    AskFirst,
}

/// A local descriptor: pipe, socket, terminal or file. Clones share it.
#[derive(Debug, Clone)]
pub struct LocalFd {
    fd: Arc<OwnedFd>,
    method: IoMethod,
    terminal: bool,
    growth: Arc<PipeGrowth>,
}

/// Bytes that a pipe takes at once when `poll` reports it writable (POSIX: PIPE_BUF, at least 512; Linux:
/// 4096).
const SURE_PIECE: usize = 4096;

impl LocalFd {
    /// Wraps a descriptor whose open file description no other process uses (a pipe end whose other end a
    /// child has, the master of a pty, an accepted socket). It becomes non-blocking. A pipe is enlarged, up
    /// to [`lh_sys::fd::PIPE_LEN`], when it is found full.
    ///
    /// # Errors
    /// The descriptor's flags cannot be changed.
    pub fn owned(fd: OwnedFd) -> io::Result<Self> {
        let kind = file_type(&fd)?;
        let method = match kind {
            FileType::Socket => {
                enlarge_socket(&fd);
                IoMethod::Socket
            }
            FileType::RegularFile | FileType::BlockDevice => IoMethod::File,
            _ => {
                set_nonblocking(&fd, true)?;
                IoMethod::Nonblocking
            }
        };
        let terminal = rustix::termios::isatty(&fd);
        Ok(Self::new(fd, method, terminal, kind))
    }

    /// Wraps an inherited descriptor (stdin, stdout, stderr), which is probably shared with other processes.
    /// Its open file description must not change, or a program that runs afterwards finds its terminal
    /// non-blocking.
    ///
    /// Pipes and terminals are reopened through `/proc/self/fd`, which gives an open file description of our
    /// own. Where that fails, `poll` is called before each operation.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn inherited(fd: BorrowedFd<'_>, direction: Direction) -> io::Result<Self> {
        let kind = file_type(fd)?;
        let terminal = rustix::termios::isatty(fd);
        let duplicate = || rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let (fd, method) = match kind {
            FileType::Socket => {
                let own = duplicate()?;
                enlarge_socket(&own);
                (own, IoMethod::Socket)
            }
            FileType::RegularFile | FileType::BlockDevice => (duplicate()?, IoMethod::File),
            FileType::CharacterDevice if is_memory(fd)? => (duplicate()?, IoMethod::File),
            // Opening other devices may have effects (a tape rewinds), so only pipes and terminals are
            // reopened.
            _ if kind == FileType::Fifo || terminal => match reopen(fd, direction) {
                Ok(own) => (own, IoMethod::Nonblocking),
                Err(_) => (duplicate()?, IoMethod::AskFirst),
            },
            _ => (duplicate()?, IoMethod::AskFirst),
        };
        Ok(Self::new(fd, method, terminal, kind))
    }

    fn new(fd: OwnedFd, method: IoMethod, terminal: bool, kind: FileType) -> Self {
        let growth = if kind == FileType::Fifo { PipeGrowth::of(&fd) } else { PipeGrowth::never() };
        Self { fd: Arc::new(fd), method, terminal, growth: Arc::new(growth) }
    }

    /// True for a terminal or the master of a pty.
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Reads available bytes into the slices; 0 is the end. The end of a pty (EIO) and a reset connection
    /// count as the end too.
    pub(crate) fn read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.method == IoMethod::AskFirst && !self.poll(PollFlags::IN)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = retry_on_intr(|| match self.method {
            IoMethod::Socket => {
                let mut control = RecvAncillaryBuffer::default();
                rustix::net::recvmsg(&self.fd, slices, &mut control, RecvFlags::DONTWAIT).map(|got| got.bytes)
            }
            _ => rustix::io::readv(&self.fd, slices),
        });
        match result {
            Err(Errno::IO) if self.terminal => Ok(0),
            Err(Errno::CONNRESET) => Ok(0),
            result => {
                let n = result?;
                self.growth.grow(&self.fd, n);
                Ok(n)
            }
        }
    }

    /// Writes as many bytes as the descriptor takes.
    pub(crate) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.try_write(slices);
        let wanted = || slices.iter().map(|slice| slice.len()).sum();
        match &result {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && self.growth.grow(&self.fd, wanted()) =>
            {
                self.try_write(slices)
            }
            _ => result,
        }
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = retry_on_intr(|| match self.method {
            IoMethod::Socket => rustix::net::sendmsg(
                &self.fd,
                slices,
                &mut SendAncillaryBuffer::default(),
                SendFlags::DONTWAIT | lh_sys::socket::NO_SIGNAL,
            ),
            IoMethod::AskFirst => {
                if !self.poll(PollFlags::OUT).map_err(|_| Errno::IO)? {
                    return Err(Errno::AGAIN);
                }
                let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
                rustix::io::write(&self.fd, &first[..first.len().min(SURE_PIECE)])
            }
            _ => rustix::io::writev(&self.fd, slices),
        });
        Ok(result?)
    }

    /// Signals the end of output to the peer of a socket. For other descriptors, dropping them does that.
    pub(crate) fn shutdown_write(&self) {
        if self.method == IoMethod::Socket {
            // Fails only when the peer is gone and needs no signal.
            let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
        }
    }

    fn poll(&self, flags: PollFlags) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.fd, flags)];
        Ok(rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
    }
}

impl AsFd for LocalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn file_type(fd: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// True for `/dev/null`, `zero`, `full`, `random` and `urandom`, which accept or supply any length at once.
fn is_memory(fd: BorrowedFd<'_>) -> io::Result<bool> {
    /// Major number of memory devices (Linux, `Documentation/admin-guide/devices.txt`). Others with it
    /// (`kmsg`) can block.
    const MEMORY: u32 = 1;
    let device = rustix::fs::fstat(fd)?.st_rdev;
    Ok(rustix::fs::major(device) == MEMORY && matches!(rustix::fs::minor(device), 3 | 5 | 7 | 8 | 9))
}

fn reopen(fd: BorrowedFd<'_>, direction: Direction) -> io::Result<OwnedFd> {
    let access = match direction {
        Direction::Read => OFlags::RDONLY,
        Direction::Write => OFlags::WRONLY,
    };
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Enlarges the send buffer of a local socket, its only buffer, as far as an unprivileged process may
/// (`/proc/sys/net/core/wmem_max`). The kernel sizes the buffer of a TCP connection itself.
fn enlarge_socket(fd: &OwnedFd) {
    use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
    if !lh_sys::socket::is_internet(fd)
        && socket_send_buffer_size(fd).is_ok_and(|size| size < lh_sys::fd::PIPE_LEN)
    {
        let _ = set_socket_send_buffer_size(fd, lh_sys::fd::PIPE_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(method: IoMethod) -> (OwnedFd, LocalFd) {
        let (read, write) = lh_sys::fd::pipe().unwrap();
        (read, LocalFd::new(write, method, false, FileType::Fifo))
    }

    fn fill(fd: &LocalFd) -> usize {
        let block = [7; 10_000];
        let mut total = 0;
        loop {
            match fd.write_vectored(&[IoSlice::new(&[]), IoSlice::new(&block)]) {
                Ok(n) => total += n,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    return total;
                }
            }
        }
    }

    #[test]
    fn a_shared_pipe_is_filled_without_blocking() {
        let (_read, write) = pipe(IoMethod::AskFirst);
        assert!(fill(&write) >= 65536);
        let (read, _write) = lh_sys::fd::pipe().unwrap();
        let read = LocalFd::new(read, IoMethod::AskFirst, false, FileType::Fifo);
        let error = read.read_vectored(&mut [IoSliceMut::new(&mut [0; 4])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    /// Beyond 64 MiB of pipes the kernel gives a user pipes of 8 KiB, which make a session many times slower.
    #[test]
    fn pipes_grow_only_when_they_are_found_full() {
        let size = |fd: &LocalFd| rustix::pipe::fcntl_getpipe_size(&*fd.fd).unwrap();
        let (read, write) = lh_sys::fd::pipe().unwrap();
        let (read, write) = (LocalFd::owned(read).unwrap(), LocalFd::owned(write).unwrap());
        let first = size(&write);
        assert!(first <= 64 << 10, "a pipe that carries little takes {first} bytes");
        let mut buffer = vec![0; 2 << 20];
        for _ in 0..100 {
            let sent = write.write_vectored(&[IoSlice::new(&[1; 1000])]).unwrap();
            assert_eq!(read.read_vectored(&mut [IoSliceMut::new(&mut buffer)]).unwrap(), sent);
        }
        assert_eq!(size(&write), first);
        // A full pipe grows, if the kernel allows it, as soon as more data waits for it.
        let sent = write.write_vectored(&[IoSlice::new(&buffer)]).unwrap();
        assert_eq!(sent, first);
        let more = write.write_vectored(&[IoSlice::new(&buffer)]);
        assert!(size(&write) > first || more.is_err());
        // It also grows when one read has emptied it.
        let (read, write) = lh_sys::fd::pipe().unwrap();
        let (read, mut write) = (LocalFd::owned(read).unwrap(), std::fs::File::from(write));
        std::io::Write::write_all(&mut write, &buffer[..first]).unwrap();
        assert_eq!(read.read_vectored(&mut [IoSliceMut::new(&mut buffer)]).unwrap(), first);
        assert!(size(&read) > first || read.growth.is_fixed());
    }

    #[test]
    fn sockets_are_not_made_nonblocking() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = LocalFd::owned(ours.into()).unwrap();
        assert!(fill(&fd) > 0);
        assert!(!rustix::fs::fcntl_getfl(fd.as_fd()).unwrap().contains(OFlags::NONBLOCK));
        drop(theirs);
        assert!(fd.write_vectored(&[IoSlice::new(b"x")]).is_err(), "must be an error, not SIGPIPE");
    }

    #[test]
    fn closed_terminal_reads_as_eof() {
        let pty = lh_sys::pty::Pty::allocate().unwrap();
        // Opened and closed once, so that the master sees that no slave is open.
        drop(pty.open_slave().unwrap());
        let master = LocalFd::owned(pty.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(master.is_terminal());
        assert_eq!(master.read_vectored(&mut [IoSliceMut::new(&mut [0; 4])]).unwrap(), 0);
    }

    #[test]
    fn null_device_takes_any_length_at_once() {
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let fd = LocalFd::inherited(null.as_fd(), Direction::Write).unwrap();
        assert!(!fd.is_terminal());
        let much = vec![0; 1 << 20];
        let written = fd.write_vectored(&[IoSlice::new(&much), IoSlice::new(&much)]).unwrap();
        assert_eq!(written, 2 << 20, "written whole, not in the pieces used for a terminal");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let fd = LocalFd::inherited(full.as_fd(), Direction::Write).unwrap();
        let error = fd.write_vectored(&[IoSlice::new(&much)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn local_socket_buffer_is_enlarged() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let before =
            fill(&LocalFd::new(ours.try_clone().unwrap().into(), IoMethod::Socket, false, FileType::Socket));
        drop(_theirs);
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let after = fill(&LocalFd::owned(ours.into()).unwrap());
        let most: usize =
            std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap().trim().parse().unwrap();
        let usual: usize =
            std::fs::read_to_string("/proc/sys/net/core/wmem_default").unwrap().trim().parse().unwrap();
        assert!(after >= before, "{after} < {before}");
        assert!(after >= before * 2 || most < usual * 2, "{after} after {before}, the limit is {most}");
    }

    #[test]
    fn files_and_devices_can_be_inherited() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = LocalFd::inherited(file.as_fd(), Direction::Read).unwrap();
        assert_eq!(fd.read_vectored(&mut [IoSliceMut::new(&mut [0; 4])]).unwrap(), 4);
        let null = std::fs::File::open("/dev/null").unwrap();
        let fd = LocalFd::inherited(null.as_fd(), Direction::Read).unwrap();
        assert_eq!(fd.read_vectored(&mut [IoSliceMut::new(&mut [0; 4])]).unwrap(), 0);
    }
}
