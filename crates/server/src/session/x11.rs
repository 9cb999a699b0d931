//! X11 forwarding, the server's side: a display for the programs of one session, whose connections are
//! forwarded to the client.
//!
//! It listens on the TCP port of a display number, as X servers do, and gives the client's cookie to xauth.
//! The client checks the cookies of connecting programs; the server does not.

use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lh_driver::{Accepted, Bound, ChannelCx, ControlCx, Family, ListenOn, Listening, SourceId, listen_tcp};
use lh_sys::spawn::PrecedingProgram;
use lh_wire::{Reader, WireError, Writer};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::forward::forwarded;
use super::rc::pipe_with;
use super::shared::Shared;
use crate::log::{debug, error};

/// TCP port of display 0; display N has this port plus N.
const FIRST_PORT: u32 = 6000;
/// Largest number of displays; OpenSSH's value.
const MOST_DISPLAYS: u32 = 1000;

/// Fields of a client's request (RFC 4254 section 6.3.1).
struct Request {
    /// Only one connection is accepted.
    single: bool,
    protocol: String,
    cookie: Zeroizing<String>,
    screen: u32,
}

/// A display for the programs of a session.
pub(super) struct Display {
    /// Value of `DISPLAY`.
    name: String,
    /// Name of the display for xauth.
    authority: String,
    protocol: String,
    cookie: Zeroizing<String>,
    xauth: PathBuf,
    sources: Sources,
}

type Sources = Rc<RefCell<Vec<SourceId>>>;

/// Opens a display. `None` when the login may not have one, the request is malformed, or no number is free.
pub(super) fn start(shared: &Rc<Shared>, fields: &[u8], cx: &mut ChannelCx<'_>) -> Option<Display> {
    let request = match Request::read(fields) {
        Ok(request) => request,
        Err(problem) => {
            error!(shared.requests_log, "Invalid X11 forwarding data: {problem}");
            return None;
        }
    };
    let settings = &shared.settings;
    let xauth = settings.xauth_location.value.as_deref().map(Path::new).filter(|path| path.exists());
    let refusal = match xauth {
        _ if shared.modules.problem.is_some() => {
            Some("X11 forwarding is not possible: PAM refused the session.")
        }
        _ if shared.restricted() => Some("X11 forwarding is not possible before the password is changed."),
        _ if !shared.options.x11_forwarding => Some("X11 forwarding disabled by key options."),
        _ if !settings.x11_forwarding.value || settings.disable_forwarding.value => {
            Some("X11 forwarding disabled in server configuration file.")
        }
        None => Some("No xauth program; cannot forward X11."),
        Some(_) => None,
    };
    if let Some(text) = refusal {
        debug!(shared.log, "{text}");
        cx.debug_message(false, text);
        return None;
    }
    let local = settings.x11_use_localhost.value;
    let on = if local { ListenOn::Loopback } else { ListenOn::Everywhere };
    let Some((number, sockets)) = listen(&on, family(shared), settings.x11_display_offset.value) else {
        error!(shared.requests_log, "Failed to allocate internet-domain X11 display socket.");
        return None;
    };
    let sources = Sources::default();
    for (socket, _) in sockets {
        let listening = listening(socket, shared, request.single.then(|| Rc::clone(&sources)));
        let source = cx.add_source(Box::new(listening));
        sources.borrow_mut().push(source);
    }
    let screen = request.screen;
    let (name, authority) = if local {
        (format!("localhost:{number}.{screen}"), format!("unix:{number}.{screen}"))
    } else {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        (format!("{host}:{number}.{screen}"), format!("{host}:{number}.{screen}"))
    };
    debug!(shared.log, "X11 display {name}");
    let Request { protocol, cookie, .. } = request;
    Some(Display { name, authority, protocol, cookie, xauth: xauth?.to_path_buf(), sources })
}

fn family(shared: &Shared) -> Family {
    use lh_config::enums::AddressFamily;
    match shared.settings.address_family.value {
        AddressFamily::Any => Family::Any,
        AddressFamily::Inet => Family::Inet,
        AddressFamily::Inet6 => Family::Inet6,
    }
}

/// Returns the first number from `offset` whose port is free on all addresses, with its sockets.
fn listen(on: &ListenOn, family: Family, offset: u32) -> Option<(u32, Vec<(OwnedFd, SocketAddr)>)> {
    (offset..offset.saturating_add(MOST_DISPLAYS)).find_map(|number| {
        let port = FIRST_PORT.checked_add(number).and_then(|port| u16::try_from(port).ok())?;
        let Bound { bound, failed } = listen_tcp(&on.addresses(port, family).ok()?);
        // A machine may lack one address family. But a number that is in use in one family counts as used in
        // both.
        let taken =
            failed.iter().any(|(_, problem)| problem.raw_os_error() == Some(Errno::ADDRINUSE.raw_os_error()));
        (!taken && !bound.is_empty()).then_some((number, bound))
    })
}

/// `only_one`: the listeners to remove after the first connection.
fn listening(socket: OwnedFd, shared: &Rc<Shared>, only_one: Option<Sources>) -> Listening {
    let shared = Rc::clone(shared);
    Listening::tcp(socket, move |accepted: Accepted, cx: &mut ControlCx<'_>| {
        let from = accepted.as_ref().ok().and_then(|(_, from)| *from);
        if let (Some(sources), true) = (&only_one, accepted.is_ok()) {
            let mut sources = sources.borrow_mut();
            if sources.is_empty() {
                // Another connection was accepted in this turn.
                return;
            }
            sources.drain(..).for_each(|source| cx.remove_source(source));
        }
        let mut fields = Vec::new();
        fields.put_string(from.map_or_else(String::new, |from| from.ip().to_string()).as_bytes());
        fields.put_u32(from.map_or(0, |from| from.port().into()));
        forwarded(&shared, "x11", &fields, accepted, cx);
    })
}

impl Display {
    /// Returns the value of `DISPLAY`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the input for `~/.ssh/rc` (sshd(8), SSHRC).
    pub(super) fn for_rc(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{} {}\n", self.protocol, *self.cookie))
    }

    /// Returns the xauth command to run before the session's program.
    ///
    /// # Errors
    /// A pipe cannot be created, or the program's path contains a NUL.
    pub(super) fn xauth(&self) -> io::Result<PrecedingProgram> {
        let (name, protocol, cookie) = (&self.authority, &self.protocol, &*self.cookie);
        let input = Zeroizing::new(format!("remove {name}\nadd {name} {protocol} {cookie}\n"));
        let words = [self.xauth.as_os_str().as_bytes(), b"-q", b"-"].map(CString::new);
        let words = words.into_iter().collect::<Result<_, _>>()?;
        Ok(PrecedingProgram { words, stdin: pipe_with(&input)? })
    }

    /// Stops accepting connections at the session's end. Open ones stay.
    pub(super) fn end(self, cx: &mut ChannelCx<'_>) {
        self.sources.borrow_mut().drain(..).for_each(|source| cx.remove_source(source));
    }
}

impl Request {
    fn read(fields: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(fields);
        let single = reader.boolean()?;
        let protocol = word(reader.text()?)?;
        let cookie = Zeroizing::new(word(reader.text()?)?);
        let screen = reader.u32()?;
        reader.finish()?;
        Ok(Self { single, protocol, cookie, screen })
    }
}

/// Reads the fields of a request. Its words cannot be more than words of xauth's commands.
#[cfg(fuzzing)]
pub(super) fn fuzz_fields(fields: &[u8]) {
    if let Ok(request) = Request::read(fields) {
        for word in [&request.protocol, &*request.cookie] {
            assert!(word.split_ascii_whitespace().eq([word.as_str()]), "{word:?} is not one word");
        }
    }
}

/// Both values become words of xauth's commands.
fn word(text: &str) -> Result<String, WireError> {
    let sound = |c: char| c.is_ascii_alphanumeric() || ".:/-_".contains(c);
    if text.is_empty() || text.len() > 1024 || !text.chars().all(sound) {
        return Err(WireError::Invalid { what: "X11 authentication" });
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(protocol: &str, cookie: &str) -> Vec<u8> {
        let mut fields = Vec::new();
        fields.put_bool(true);
        fields.put_string(protocol.as_bytes());
        fields.put_string(cookie.as_bytes());
        fields.put_u32(3);
        fields
    }

    #[test]
    fn cookies_that_xauth_would_read_as_commands_are_refused() {
        let request = Request::read(&fields("MIT-MAGIC-COOKIE-1", "00ff")).unwrap();
        assert!(request.single);
        assert_eq!((request.protocol.as_str(), request.cookie.as_str()), ("MIT-MAGIC-COOKIE-1", "00ff"));
        assert_eq!(request.screen, 3);
        for cookie in ["", "00\nadd x", "00 11", "00;"] {
            assert!(Request::read(&fields("MIT-MAGIC-COOKIE-1", cookie)).is_err(), "{cookie:?}");
        }
        assert!(Request::read(&fields("M T", "00")).is_err());
    }

    #[test]
    fn a_number_in_use_is_passed_over() {
        let (first, _held) = listen(&ListenOn::Loopback, Family::Any, 700).unwrap();
        let (second, _) = listen(&ListenOn::Loopback, Family::Any, 700).unwrap();
        assert!(second > first);
        assert!(listen(&ListenOn::Loopback, Family::Any, u32::MAX).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(fields in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Request::read(&fields);
        }
    }
}
