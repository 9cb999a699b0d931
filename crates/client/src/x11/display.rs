//! The local display: parses `DISPLAY` and connects to it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use lh_driver::{ControlCx, Family, Resolver, Target, dial};

/// TCP port of display 0; display N has this port plus N.
const FIRST_PORT: u32 = 6000;
/// Directory of the sockets of local displays.
const SOCKET_DIRECTORY: &str = "/tmp/.X11-unix";

/// The X server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A local display, by number.
    Number(u32),
    /// A socket path (as launchd sets it).
    Socket(PathBuf),
    /// Another machine, or this one over TCP.
    Tcp { host: String, port: u16 },
}

/// A display, and the default screen for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Display {
    /// The value of `DISPLAY`.
    pub(super) text: String,
    pub(super) screen: u32,
    place: Place,
}

impl Display {
    /// Parses `[host]:number[.screen]`, `unix:number[.screen]` or a socket path with an optional number. Text
    /// with characters that no display has is refused, because it becomes an argument of xauth.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ":/.-_".contains(c);
        if text.is_empty() || text.starts_with('-') || !text.chars().all(allowed) {
            return None;
        }
        if text.starts_with('/') {
            let (path, screen) = socket(text)?;
            return Some(Self { text: text.to_owned(), screen, place: Place::Socket(path) });
        }
        let (host, numbers) = text.rsplit_once(':')?;
        let (number, screen) = match numbers.split_once('.') {
            Some((number, screen)) => (number, screen.parse().ok()?),
            None => (numbers, 0),
        };
        let number: u32 = number.parse().ok()?;
        let place = match host {
            "" | "unix" => Place::Number(number),
            host => {
                let port = FIRST_PORT.checked_add(number).and_then(|port| u16::try_from(port).ok())?;
                Place::Tcp { host: host.to_owned(), port }
            }
        };
        Some(Self { text: text.to_owned(), screen, place })
    }

    /// Returns the display's name for xauth: one at the loopback address has the cookie of the local one.
    pub(super) fn authority_name(&self) -> String {
        match self.text.strip_prefix("localhost:") {
            Some(numbers) => format!("unix:{numbers}"),
            None => self.text.clone(),
        }
    }

    /// Connects; calls `done` with the result.
    pub(super) fn connect(
        &self,
        resolver: &Resolver,
        cx: &mut ControlCx<'_>,
        done: impl FnOnce(io::Result<OwnedFd>, &mut ControlCx<'_>) + 'static,
    ) {
        let target = match &self.place {
            Place::Number(number) => {
                let path = format!("{SOCKET_DIRECTORY}/X{number}");
                // On Linux, X servers also listen on an abstract socket with this name.
                if let Ok(socket) = connect_abstract(path.as_bytes()) {
                    return done(Ok(socket), cx);
                }
                Target::Unix(PathBuf::from(path))
            }
            Place::Socket(path) => Target::Unix(path.clone()),
            Place::Tcp { host, port } => Target::Tcp { host: host.clone(), port: *port },
        };
        dial(&target, Family::Any, resolver, cx, done);
    }
}

/// Splits a socket path from the display and screen numbers behind it.
fn socket(text: &str) -> Option<(PathBuf, u32)> {
    let is_socket =
        |path: &str| std::fs::metadata(Path::new(path)).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket(text) {
        return Some((text.into(), 0));
    }
    let (path, screen) = text.rsplit_once('.')?;
    is_socket(path).then(|| Some((path.into(), screen.parse().ok()?))).flatten()
}

/// Returns an error: only Linux has abstract sockets.
#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &[u8]) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn connect_abstract(name: &[u8]) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, connect};
    let socket = lh_sys::socket::stream(AddressFamily::UNIX)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_display_is_parsed() {
        let place = |text: &str| Display::parse(text).map(|display| (display.place, display.screen));
        assert_eq!(place(":0"), Some((Place::Number(0), 0)));
        assert_eq!(place("unix:12.3"), Some((Place::Number(12), 3)));
        let tcp = |host: &str, port| Place::Tcp { host: host.to_owned(), port };
        assert_eq!(place("localhost:10.0"), Some((tcp("localhost", 6010), 0)));
        assert_eq!(place("::1:1"), Some((tcp("::1", 6001), 0)));
        for text in ["", "x", ":", ":x", ":1.x", "h:60000", "$(id):0", "-f:0", "a b:0", "/nowhere/socket"] {
            assert_eq!(place(text), None, "{text:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("org.x:0");
        let text = path.to_str().unwrap().to_owned();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(place(&text), Some((Place::Socket(path.clone()), 0)));
        assert_eq!(place(&format!("{text}.1")), Some((Place::Socket(path), 1)));
    }

    #[test]
    fn loopback_display_uses_the_local_cookie() {
        let name = |text: &str| Display::parse(text).unwrap().authority_name();
        assert_eq!(name("localhost:10.0"), "unix:10.0");
        assert_eq!(name("far:1"), "far:1");
    }
}
