//! Pseudo terminals.
//!
//! A session allocates its terminal after it has become the user. The kernel's devpts then makes the user the
//! slave's owner (group and mode come from mount options, usually `tty` and 620), and no privileged helper is
//! needed. A session inside a chroot, which may have no devpts, gets both ends from a process outside
//! ([`Pty::from_parts`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The master side of a terminal, non-blocking, and the name of its slave.
#[derive(Debug)]
pub struct Pty {
    master: OwnedFd,
    name: PathBuf,
    /// The slave, where its name leads nowhere in this process.
    slave: Option<OwnedFd>,
}

impl Pty {
    /// Allocates a terminal. Fails with the kernel's error when there is no devpts or no free terminal.
    pub fn allocate() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        #[cfg(not(target_os = "macos"))]
        let master = openpt(flags | OpenptFlags::CLOEXEC)?;
        #[cfg(target_os = "macos")]
        let master = openpt(flags)?;
        #[cfg(target_os = "macos")]
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let name = PathBuf::from(std::ffi::OsString::from(name.to_string_lossy().into_owned()));
        crate::fd::set_nonblocking(&master, true)?;
        Ok(Self { master, name, slave: None })
    }

    /// A terminal that another process has allocated, with its slave already open.
    pub fn from_parts(master: OwnedFd, slave: OwnedFd, name: PathBuf) -> Self {
        Self { master, name, slave: Some(slave) }
    }

    /// Makes the user with this id the slave's owner. Needs root's rights.
    pub fn set_owner(&self, uid: u32) -> io::Result<()> {
        let slave = self.open_slave()?;
        Ok(rustix::fs::fchown(slave, Some(rustix::process::Uid::from_raw(uid)), None)?)
    }

    /// Path of the slave, such as `/dev/pts/3`, for `SSH_TTY`.
    pub fn name(&self) -> &std::path::Path {
        &self.name
    }

    /// Opens the slave, without making it a controlling terminal.
    pub fn open_slave(&self) -> io::Result<OwnedFd> {
        if let Some(slave) = &self.slave {
            return slave.try_clone();
        }
        Ok(open(&self.name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Closes the slave that came with [`from_parts`](Self::from_parts): the master then sees when programs
    /// have closed theirs.
    pub fn close_slave(&mut self) {
        self.slave = None;
    }

    /// Sets the size in characters and pixels; programs in the terminal get `SIGWINCH`.
    pub fn resize(&self, size: Winsize) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, size)?)
    }

    /// A duplicate of the master's descriptor.
    pub fn try_clone_master(&self) -> io::Result<OwnedFd> {
        self.master.try_clone()
    }

    /// Drops the name and returns the master.
    pub fn into_master(self) -> OwnedFd {
        self.master
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{child::Watched, spawn::Program};
    use rustix::event::{PollFd, PollFlags, poll};

    /// Reads until every descriptor of the slave is closed (EIO on Linux).
    fn drain(pty: &Pty) -> String {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            poll(&mut [PollFd::new(pty, PollFlags::IN)], None).unwrap();
            match rustix::io::read(pty, &mut buffer) {
                Ok(0) | Err(rustix::io::Errno::IO) => return String::from_utf8_lossy(&text).into_owned(),
                Ok(n) => text.extend_from_slice(&buffer[..n]),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn terminal_of_another_process_works_without_its_name() {
        let Ok(allocated) = Pty::allocate() else {
            return lh_testkit::skip_unavailable(
                "terminal_of_another_process_works_without_its_name",
                "no pseudo terminal here",
            );
        };
        let slave = allocated.open_slave().unwrap();
        allocated.set_owner(rustix::process::getuid().as_raw()).unwrap();
        let mut pty = Pty::from_parts(allocated.into_master(), slave, "/dev/pts/not-here".into());
        let slave = pty.open_slave().unwrap();
        let child = Program::new("/bin/sh")
            .arg("-c")
            .arg("echo on >/dev/tty")
            .stdio(slave.try_clone().unwrap(), slave.try_clone().unwrap(), slave)
            .controlling_terminal()
            .spawn()
            .unwrap();
        pty.close_slave();
        assert!(pty.open_slave().is_err());
        assert_eq!(drain(&pty), "on\r\n");
        Watched::new(child).unwrap().wait().unwrap();
    }

    #[test]
    fn program_gets_size_and_controlling_terminal() {
        let pty = match Pty::allocate() {
            Ok(pty) => pty,
            Err(error) => {
                let why = format!("no pseudo terminal here: {error}");
                return lh_testkit::skip_unavailable("program_gets_size_and_controlling_terminal", &why);
            }
        };
        pty.resize(Winsize { ws_row: 41, ws_col: 117, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let slave = pty.open_slave().unwrap();
        let child = Program::new("/bin/sh")
            .arg("-c")
            .arg("stty size; tty; echo tty >/dev/tty; exit 4")
            .stdio(slave.try_clone().unwrap(), slave.try_clone().unwrap(), slave)
            .controlling_terminal()
            .spawn()
            .unwrap();
        let mut watched = Watched::new(child).unwrap();
        let text = drain(&pty);
        assert_eq!(text, format!("41 117\r\n{}\r\ntty\r\n", pty.name().display()));
        assert_eq!(watched.wait().unwrap(), crate::child::Ended::Exit(4));
    }
}
