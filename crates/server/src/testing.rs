//! Helpers for this crate's tests.

use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use lh_config::ServerConfig;
use lh_config::server_table::ServerSettings;
use lh_sys::users::User;

/// Closes a socket although a child of another test may have a copy of it for a moment, between fork and
/// exec.
pub(crate) fn close(socket: &UnixStream) {
    socket.shutdown(Shutdown::Both).unwrap();
}

/// Time after which what does not come fails a test.
pub(crate) const LATE: Duration = Duration::from_secs(60);

/// Accepts a connection at a socket that does not block. The connection's messages are waited for [`LATE`].
pub(crate) fn accept(listening: &UnixListener) -> UnixStream {
    let end = Instant::now() + LATE;
    loop {
        match listening.accept() {
            Ok((socket, _)) => {
                socket.set_read_timeout(Some(LATE)).unwrap();
                return socket;
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(Instant::now() < end, "no connection");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for what follows from a closed descriptor, which a child of another test may hold until its exec.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + LATE;
    while !is_so() {
        assert!(Instant::now() < end, "not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the configuration made of these lines of `sshd_config`.
pub(crate) fn config(lines: &str) -> ServerConfig {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sshd_config");
    std::fs::write(&path, lines).unwrap();
    ServerConfig::load(Some(&path), &[], &crate::surroundings::Host).unwrap()
}

/// Returns the settings of [`config`].
pub(crate) fn settings(lines: &str) -> ServerSettings {
    config(lines).settings
}

/// Returns the user `ada` with this home directory and shell.
pub(crate) fn user(uid: u32, home: &std::path::Path, shell: &str) -> User {
    User {
        name: "ada".to_owned(),
        uid,
        gid: 1000,
        home: home.into(),
        shell: shell.into(),
        gecos: String::new(),
    }
}
