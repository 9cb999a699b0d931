//! The service manager that has started this process: its notification socket, its watchdog, and the sockets
//! that it has opened for this process (systemd's sd_notify(3) and sd_listen_fds(3)).
#![expect(unsafe_code, reason = "numbers and variables of the environment are taken over")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::io::FdFlags;

/// Variable with the process id and the numbers of the sockets that a process keeps for its next program.
const KEPT: &str = "LHSSHD_SOCKETS";
/// Number of the first passed socket.
const FIRST: RawFd = 3;
/// Limit of passed sockets.
const MOST: i32 = 256;
/// Time limit for queueing a notification.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A socket that the manager has opened.
#[derive(Debug)]
pub struct PassedSocket {
    /// The socket, under the number that it was passed as.
    pub socket: OwnedFd,
    /// Its name in the manager's configuration (`FileDescriptorName=`); empty when it has none.
    pub name: String,
}

/// Information from the manager for this process.
#[derive(Debug, Default)]
pub struct Service {
    notify: Option<OsString>,
    watchdog: Option<Duration>,
    sockets: Vec<PassedSocket>,
    kept: Vec<OwnedFd>,
}

impl Service {
    /// Reads the variables `NOTIFY_SOCKET`, `WATCHDOG_*` and `LISTEN_*` and removes them, so that programs
    /// started by this process do not use them. Call it once, first in `main`.
    pub fn take() -> Self {
        let own = std::process::id().to_string();
        let variable = |name: &str| {
            let value = std::env::var_os(name);
            if value.is_some() {
                // SAFETY: the process has one thread: nothing has been started yet.
                unsafe { std::env::remove_var(name) };
            }
            value
        };
        let [notify, usec, watched, fds, listener, names] =
            ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"]
                .map(variable);
        let number = |value: Option<OsString>| value?.to_str()?.parse::<u64>().ok();
        let is_ours = |pid: &Option<OsString>| pid.as_ref().is_none_or(|pid| *pid == *own);
        let watchdog = number(usec).filter(|usec| *usec > 0 && is_ours(&watched)).map(Duration::from_micros);
        // Without a process id the sockets may be meant for another process.
        let count = number(fds).filter(|_| listener.is_some() && is_ours(&listener)).unwrap_or(0);
        let names = names.unwrap_or_default();
        let mut names = names.as_bytes().split(|byte| *byte == b':');
        let mut sockets = Vec::new();
        for fd in FIRST..FIRST + i32::try_from(count).unwrap_or(MOST).min(MOST) {
            let name = names.next().map(|name| String::from_utf8_lossy(name).into_owned());
            if let Ok(socket) = take_over(fd) {
                sockets.push(PassedSocket { socket, name: name.unwrap_or_default() });
            }
        }
        let kept = variable(KEPT).unwrap_or_default();
        let kept = match kept.to_str().and_then(|kept| kept.split_once(':')) {
            Some((pid, numbers)) if pid == own => {
                numbers.split(',').filter_map(|fd| fd.parse().ok()).collect()
            }
            _ => Vec::new(),
        };
        let kept = kept.into_iter().filter(|fd| *fd >= FIRST).filter_map(|fd| take_over(fd).ok()).collect();
        Self { notify: notify.filter(|address| !address.is_empty()), watchdog, sockets, kept }
    }

    /// Returns the sockets that this process kept before it executed its program again
    /// ([`kept`](Self::kept)), once.
    pub fn take_kept(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.kept)
    }

    /// Returns the variable that passes these sockets to this process's next program. They stay open in it.
    ///
    /// # Errors
    /// A descriptor cannot be kept open.
    pub fn kept(sockets: &[OwnedFd]) -> io::Result<(&'static str, OsString)> {
        let mut numbers = Vec::new();
        for socket in sockets {
            rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
            numbers.push(socket.as_raw_fd().to_string());
        }
        Ok((KEPT, format!("{}:{}", std::process::id(), numbers.join(",")).into()))
    }

    /// Numbers of the descriptors that have been taken over.
    pub fn numbers(&self) -> Vec<RawFd> {
        let passed = self.sockets.iter().map(|passed| &passed.socket);
        passed.chain(&self.kept).map(AsRawFd::as_raw_fd).collect()
    }

    /// Returns the sockets that the manager passed, once.
    pub fn take_sockets(&mut self) -> Vec<PassedSocket> {
        std::mem::take(&mut self.sockets)
    }

    /// Returns the interval at which to send `WATCHDOG=1`: half of the manager's time limit.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|whole| whole / 2)
    }

    /// Sends assignments, such as `READY=1`, one per line, to the manager. Does nothing without a manager.
    ///
    /// # Errors
    /// The manager's socket is gone, or full.
    pub fn notify(&self, assignments: &str) -> io::Result<()> {
        let Some(address) = &self.notify else { return Ok(()) };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let sent = match address.as_bytes().split_first() {
            // Only Linux has sockets without a path.
            #[cfg(target_os = "linux")]
            Some((b'@', name)) => {
                use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};
                socket.send_to_addr(assignments.as_bytes(), &SocketAddr::from_abstract_name(name)?)
            }
            _ => socket.send_to(assignments.as_bytes(), address),
        };
        sent.map(drop)
    }

    /// Returns the variables for this process's next program, which continues the same service. `sockets` are
    /// the sockets from [`take_sockets`](Self::take_sockets), in their order; they stay open in it.
    ///
    /// # Errors
    /// A descriptor cannot be kept open.
    pub fn variables<'a>(
        &self,
        sockets: impl IntoIterator<Item = (&'a OwnedFd, &'a str)>,
    ) -> io::Result<Vec<(&'static str, OsString)>> {
        let own = OsString::from(std::process::id().to_string());
        let mut variables = Vec::new();
        variables.extend(self.notify.clone().map(|address| ("NOTIFY_SOCKET", address)));
        if let Some(whole) = self.watchdog {
            variables.push(("WATCHDOG_USEC", whole.as_micros().to_string().into()));
            variables.push(("WATCHDOG_PID", own.clone()));
        }
        let mut names = Vec::new();
        for (socket, name) in sockets {
            rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
            names.push(name);
        }
        if !names.is_empty() {
            variables.push(("LISTEN_FDS", names.len().to_string().into()));
            variables.push(("LISTEN_PID", own));
            variables.push(("LISTEN_FDNAMES", names.join(":").into()));
        }
        Ok(variables)
    }
}

/// Takes over a descriptor that the parent process has left open, and marks it close-on-exec.
fn take_over(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: borrowed only for the call, which fails where the number is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_setfd(borrowed.as_fd(), FdFlags::CLOEXEC)?;
    // SAFETY: the number is open, and the parent has passed it for this process to own; it is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(borrowed.as_raw_fd()) })
}

/// Returns the time of the monotonic clock, microseconds, for `MONOTONIC_USEC`.
pub fn monotonic_usec() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

/// Returns true if standard error is a socket of the journal: `JOURNAL_STREAM` has its device and inode.
pub fn stderr_is_journal() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some_and(|stream| is_stream(&stream, rustix::stdio::stderr()))
}

fn is_stream(stream: &OsStr, fd: impl AsFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| *stream == *format!("{}:{}", stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

    #[test]
    fn notifications_reach_path_and_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("lh-test-{}-{}", std::process::id(), monotonic_usec());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listeners = [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{abstract_name}").into()),
        ];
        for (listener, address) in listeners {
            let service = Service { notify: Some(address), ..Service::default() };
            service.notify("READY=1\nSTATUS=here").unwrap();
            let mut got = [0; 100];
            let n = listener.recv(&mut got).unwrap();
            assert_eq!(&got[..n], b"READY=1\nSTATUS=here");
        }
        let gone = Service { notify: Some("/no/such/socket".into()), ..Service::default() };
        assert!(gone.notify("READY=1").is_err());
        Service::default().notify("READY=1").unwrap();
    }

    #[test]
    fn next_program_gets_the_same_variables() {
        let socket = OwnedFd::from(UnixDatagram::unbound().unwrap());
        let service = Service {
            notify: Some("@x".into()),
            watchdog: Some(Duration::from_secs(3)),
            ..Service::default()
        };
        assert_eq!(service.watchdog_interval(), Some(Duration::from_millis(1500)));
        let own = OsString::from(std::process::id().to_string());
        let expected: [(&str, OsString); 6] = [
            ("NOTIFY_SOCKET", "@x".into()),
            ("WATCHDOG_USEC", "3000000".into()),
            ("WATCHDOG_PID", own.clone()),
            ("LISTEN_FDS", "2".into()),
            ("LISTEN_PID", own),
            ("LISTEN_FDNAMES", "a:b".into()),
        ];
        assert_eq!(service.variables([(&socket, "a"), (&socket, "b")]).unwrap(), expected);
        assert!(Service::default().variables([]).unwrap().is_empty());
        let kept = Service::kept(std::slice::from_ref(&socket)).unwrap();
        assert_eq!(kept, (KEPT, format!("{}:{}", std::process::id(), socket.as_raw_fd()).into()));
        assert_eq!(rustix::io::fcntl_getfd(&socket).unwrap(), FdFlags::empty());
    }

    #[test]
    fn journal_is_known_by_device_and_inode() {
        let (socket, other) = (UnixDatagram::unbound().unwrap(), UnixDatagram::unbound().unwrap());
        let stat = rustix::fs::fstat(&socket).unwrap();
        let name = OsString::from(format!("{}:{}", stat.st_dev, stat.st_ino));
        assert!(is_stream(&name, &socket));
        assert!(!is_stream(&name, &other));
        assert!(!is_stream(OsStr::new("junk"), &socket));
    }
}
