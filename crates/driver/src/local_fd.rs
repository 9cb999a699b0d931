//! Local descriptors that are read and written without blocking, whoever else uses them.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lh_sys::fd::set_nonblocking;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// What an inherited descriptor is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To read from.
    Read,
    /// To write to.
    Write,
}

/// How blocking is avoided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The open file is ours alone and non-blocking.
    Nonblocking,
    /// A socket: each call says that it must not block.
    Socket,
    /// A regular file, or a device that is memory: never waits for anybody.
    File,
    /// A shared open file that could not be opened a second time: asked with `poll` before each call, and written
    /// in pieces that a pipe is sure to take.
    AskFirst,
}

/// A local descriptor: pipe, socket, terminal or file. Clones share it.
#[derive(Debug, Clone)]
pub struct LocalFd {
    fd: Arc<OwnedFd>,
    way: Way,
    terminal: bool,
}

/// What a pipe takes at once when `poll` says it is writable (POSIX: PIPE_BUF, at least 512; Linux: 4096).
const SURE_PIECE: usize = 4096;

impl LocalFd {
    /// A descriptor whose open file no other process uses (a pipe end whose other end a child has, the master of
    /// a pty, an accepted socket). It becomes non-blocking; a pipe is made as large as the kernel allows, to
    /// 1 MiB.
    ///
    /// # Errors
    /// The descriptor's flags cannot be changed.
    pub fn owned(fd: OwnedFd) -> io::Result<Self> {
        let way = match file_type(&fd)? {
            FileType::Socket => {
                enlarge_socket(&fd);
                Way::Socket
            }
            FileType::RegularFile | FileType::BlockDevice => Way::File,
            kind => {
                set_nonblocking(&fd, true)?;
                if kind == FileType::Fifo {
                    enlarge(&fd);
                }
                Way::Nonblocking
            }
        };
        let terminal = rustix::termios::isatty(&fd);
        Ok(Self { fd: Arc::new(fd), way, terminal })
    }

    /// A descriptor that was inherited (stdin, stdout, stderr) and is probably shared with other processes: its
    /// open file must stay as it is, or a program that runs after us finds its terminal non-blocking.
    ///
    /// Pipes and terminals are opened a second time through `/proc/self/fd`, which gives an open file of our own;
    /// where that fails, `poll` is asked before each call.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn inherited(fd: BorrowedFd<'_>, direction: Direction) -> io::Result<Self> {
        let kind = file_type(fd)?;
        let terminal = rustix::termios::isatty(fd);
        let duplicate = || rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let (fd, way) = match kind {
            FileType::Socket => {
                let own = duplicate()?;
                enlarge_socket(&own);
                (own, Way::Socket)
            }
            FileType::RegularFile | FileType::BlockDevice => (duplicate()?, Way::File),
            FileType::CharacterDevice if is_memory(fd)? => (duplicate()?, Way::File),
            // Other devices may do something on open (a tape rewinds), so only those two are opened again.
            _ if kind == FileType::Fifo || terminal => match reopen(fd, direction) {
                Ok(own) => (own, Way::Nonblocking),
                Err(_) => (duplicate()?, Way::AskFirst),
            },
            _ => (duplicate()?, Way::AskFirst),
        };
        if kind == FileType::Fifo {
            enlarge(&fd);
        }
        Ok(Self { fd: Arc::new(fd), way, terminal })
    }

    /// True for a terminal or the master of a pty.
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Reads what is there into the slices; 0 is the end. The end of a pty (EIO) and a reset connection read as
    /// the end too.
    pub(crate) fn read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.way == Way::AskFirst && !self.poll(PollFlags::IN)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = retry_on_intr(|| match self.way {
            Way::Socket => {
                let mut control = RecvAncillaryBuffer::default();
                rustix::net::recvmsg(&self.fd, slices, &mut control, RecvFlags::DONTWAIT).map(|got| got.bytes)
            }
            _ => rustix::io::readv(&self.fd, slices),
        });
        match result {
            Err(Errno::IO) if self.terminal => Ok(0),
            Err(Errno::CONNRESET) => Ok(0),
            result => Ok(result?),
        }
    }

    /// Writes as much as fits.
    pub(crate) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = retry_on_intr(|| match self.way {
            Way::Socket => rustix::net::sendmsg(
                &self.fd,
                slices,
                &mut SendAncillaryBuffer::default(),
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ),
            Way::AskFirst => {
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

    /// Says "no more comes" to the other end of a socket. Elsewhere dropping the descriptor says it.
    pub(crate) fn shutdown_write(&self) {
        if self.way == Way::Socket {
            // Fails only when the peer is gone, who then need not be told.
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

/// True for `/dev/null`, `zero`, `full`, `random` and `urandom`, which take or give any length at once.
fn is_memory(fd: BorrowedFd<'_>) -> io::Result<bool> {
    /// Numbers of such devices (Linux, `Documentation/admin-guide/devices.txt`); others of this kind (`kmsg`) can block.
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

/// Fewer wake-ups per megabyte. Who is over his pipe budget keeps the small one, which works as well.
fn enlarge(fd: &OwnedFd) {
    if rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|size| size < lh_sys::fd::PIPE_LEN) {
        let _ = rustix::pipe::fcntl_setpipe_size(fd, lh_sys::fd::PIPE_LEN);
    }
}

/// The same for a local socket, whose writer's buffer is the only one: as much as an unprivileged process may have
/// (`/proc/sys/net/core/wmem_max`). That of a TCP connection the kernel sizes by itself.
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

    fn pipe(way: Way) -> (OwnedFd, LocalFd) {
        let (read, write) = lh_sys::fd::pipe().unwrap();
        (read, LocalFd { fd: Arc::new(write), way, terminal: false })
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
        let (_read, write) = pipe(Way::AskFirst);
        assert!(fill(&write) >= 65536);
        let (read, _write) = lh_sys::fd::pipe().unwrap();
        let read = LocalFd { fd: Arc::new(read), way: Way::AskFirst, terminal: false };
        let error = read.read_vectored(&mut [IoSliceMut::new(&mut [0; 4])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn sockets_are_not_made_nonblocking() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = LocalFd::owned(ours.into()).unwrap();
        assert!(fill(&fd) > 0);
        assert!(!rustix::fs::fcntl_getfl(fd.as_fd()).unwrap().contains(OFlags::NONBLOCK));
        drop(theirs);
        assert!(fd.write_vectored(&[IoSlice::new(b"x")]).is_err(), "an error, not a signal");
    }

    #[test]
    fn the_end_of_a_terminal_is_an_end() {
        let pty = lh_sys::pty::Pty::allocate().unwrap();
        // Opened and closed again: now the master knows that nobody is left.
        drop(pty.open_slave().unwrap());
        let master = LocalFd::owned(pty.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(master.is_terminal());
        assert_eq!(master.read_vectored(&mut [IoSliceMut::new(&mut [0; 4])]).unwrap(), 0);
    }

    #[test]
    fn what_goes_to_the_null_device_goes_at_once() {
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let fd = LocalFd::inherited(null.as_fd(), Direction::Write).unwrap();
        assert!(!fd.is_terminal());
        let much = vec![0; 1 << 20];
        let written = fd.write_vectored(&[IoSlice::new(&much), IoSlice::new(&much)]).unwrap();
        assert_eq!(written, 2 << 20, "not in the pieces that a terminal gets");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let fd = LocalFd::inherited(full.as_fd(), Direction::Write).unwrap();
        let error = fd.write_vectored(&[IoSlice::new(&much)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_local_socket_holds_what_it_may() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let before = fill(&LocalFd {
            fd: Arc::new(ours.try_clone().unwrap().into()),
            way: Way::Socket,
            terminal: false,
        });
        drop(_theirs);
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let after = fill(&LocalFd::owned(ours.into()).unwrap());
        let most: usize =
            std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap().trim().parse().unwrap();
        let usual: usize =
            std::fs::read_to_string("/proc/sys/net/core/wmem_default").unwrap().trim().parse().unwrap();
        assert!(after >= before, "{after} < {before}");
        assert!(after >= before * 2 || most < usual * 2, "{after} after {before}, though {most} is allowed");
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
