//! X11 forwarding, the client's side: programs at the server draw on the local display.
//!
//! The server never learns the display's cookie. It gets a fake one of equal length, which each program must
//! present; the first message of the connection is rewritten with the real one ([`gate`]). For untrusted
//! programs (`ForwardX11Trusted no`) the X server makes a cookie that isolates them from others, and only for
//! `ForwardX11Timeout`.

mod channel;
mod cookie;
mod display;
mod gate;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_config::client::ClientConfig;
use lh_crypto::{Random as _, SystemRandom};
use lh_driver::{ChannelOptions, ControlCx, ControlEvent, FdPump, LocalFd, Resolver};
use lh_wire::msg::open_failure;
use lh_wire::{Reader, Writer};
use zeroize::Zeroizing;

use crate::log::{Logger, sanitise};
use crate::ui::LogLevel;
use channel::X11Channel;
use cookie::{Cookie, WaitFor};
use display::Display;
use gate::Gate;

/// The channel request for X11 forwarding.
pub(crate) const REQUEST: &str = "x11-req";
/// The channel type's name in `ChannelTimeout`.
const TIMEOUT_KIND: &str = "x11-connection";

/// The fields of the request. They contain nothing that gives access to the local display.
#[derive(Clone, PartialEq, Eq)]
pub struct X11Request(Rc<[u8]>);

impl X11Request {
    /// Returns the encoded fields.
    pub(crate) fn fields(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for X11Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("X11Request")
    }
}

/// The display that programs at the server may use. Clones share it.
#[derive(Clone)]
pub struct X11Forward {
    /// `None`: nothing is forwarded, and a server that opens an X11 channel is refused with a warning.
    shared: Option<Rc<Shared>>,
    logger: Logger,
}

struct Shared {
    display: Display,
    cookie: Cookie,
    /// The fake cookie that the server gets.
    fake: Zeroizing<Vec<u8>>,
    /// Time from which connections are refused (`ForwardX11Timeout`).
    refuse_from: Option<Instant>,
    idle: Option<Duration>,
    /// Whether the kernel probes forwarded X11 connections too (`TCPKeepAlive all`).
    probes: bool,
    resolver: Resolver,
}

impl X11Forward {
    /// Evaluates `ForwardX11`. Runs xauth and calls `wait_for` to wait for it; without a display or a cookie
    /// nothing is forwarded.
    pub fn new(config: &ClientConfig, logger: Logger, wait_for: &mut dyn FnMut(BorrowedFd<'_>)) -> Self {
        let shared = if *config.forward_x11 { prepare(config, &logger, wait_for) } else { None };
        Self { shared: shared.map(Rc::new), logger }
    }

    /// Returns a forward without a display.
    pub const fn none(logger: Logger) -> Self {
        Self { shared: None, logger }
    }

    /// Returns the channel request, if a display is forwarded.
    pub fn request(&self) -> Option<X11Request> {
        let shared = self.shared.as_ref()?;
        self.logger.debug(|| "Requesting X11 forwarding with authentication spoofing.".to_owned());
        let mut fields = Vec::new();
        // `single connection` is false.
        fields.put_bool(false);
        fields.put_string(shared.cookie.protocol.as_bytes());
        fields.put_string(cookie::to_hex(&shared.fake).as_bytes());
        fields.put_u32(shared.display.screen);
        Some(X11Request(fields.into()))
    }

    /// Handles the event if it concerns X11; returns all others.
    pub fn on_event(&self, event: ControlEvent, cx: &mut ControlCx<'_>) -> Option<ControlEvent> {
        let ControlEvent::OpenRequested { id, kind, fields } = event else { return Some(event) };
        if kind != "x11" {
            return Some(ControlEvent::OpenRequested { id, kind, fields });
        }
        let Some(shared) = self.shared.clone() else {
            self.logger.say(LogLevel::Error, "Warning: ssh server tried X11 forwarding.");
            self.logger
                .say(LogLevel::Error, "Warning: this is probably a break-in attempt by a malicious server.");
            cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
            return None;
        };
        let Ok(from) = originator(&fields) else {
            cx.refuse(id, open_failure::CONNECT_FAILED, "malformed request");
            return None;
        };
        if shared.refuse_from.is_some_and(|from| from <= cx.now()) {
            let text = "Rejected X11 connection after ForwardX11Timeout expired";
            self.logger.say(LogLevel::Verbose, text);
            cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
            return None;
        }
        self.logger.debug(|| format!("client_request_x11: request from {from}"));
        let logger = self.logger.clone();
        let resolver = shared.resolver.clone();
        let display = shared.display.clone();
        display.connect(&resolver, cx, move |result, cx| match result.and_then(LocalFd::owned) {
            Ok(socket) => {
                if shared.probes {
                    let _ = lh_sys::socket::set_keepalive(&socket, true);
                }
                let pump = FdPump::socket(socket).idle_limit(shared.idle);
                let gate = Gate::new(&shared.cookie, &shared.fake);
                let channel = X11Channel::new(pump, gate, shared.refuse_from, logger);
                cx.accept(id, &ChannelOptions::default(), b"", Box::new(channel));
            }
            Err(error) => {
                let text = format!("connect {}: {}", shared.display.text, lh_sys::errno_text(&error));
                logger.say(LogLevel::Error, &text);
                cx.refuse(id, open_failure::CONNECT_FAILED, "open failed");
            }
        });
        None
    }
}

fn prepare(config: &ClientConfig, logger: &Logger, wait_for: &mut WaitFor<'_>) -> Option<Shared> {
    let Some(text) = std::env::var("DISPLAY").ok().filter(|text| !text.is_empty()) else {
        logger.debug(|| "X11 forwarding requested but DISPLAY not set".to_owned());
        return None;
    };
    let Some(display) = Display::parse(&text) else {
        let text = format!("DISPLAY \"{}\" invalid; disabling X11 forwarding", sanitise(&text));
        logger.say(LogLevel::Info, &text);
        return None;
    };
    let xauth = config.xauth_location.as_deref().unwrap_or_default();
    let timeout = Duration::from_secs(config.forward_x11_timeout.0);
    let trusted = *config.forward_x11_trusted;
    let cookie = Cookie::of(&display, Path::new(xauth), trusted, timeout, logger, wait_for)?;
    let refuse_from = (!trusted && !timeout.is_zero()).then(|| Instant::now().checked_add(timeout)).flatten();
    let mut fake = Zeroizing::new(vec![0; cookie.value.len()]);
    SystemRandom.fill(&mut fake);
    let idle = config.channel_timeout.of(TIMEOUT_KIND);
    let probes = *config.tcp_keep_alive == lh_config::enums::TcpKeepAlive::All;
    Some(Shared { display, cookie, fake, refuse_from, idle, probes, resolver: Resolver::new() })
}

/// Returns address and port of an `x11` open (RFC 4254 section 6.3.2), for the log.
fn originator(fields: &[u8]) -> lh_wire::Result<String> {
    let mut reader = Reader::new(fields);
    let address = String::from_utf8_lossy(reader.string()?).into_owned();
    let port = reader.u32()?;
    reader.finish()?;
    Ok(sanitise(&format!("{address} {port}")))
}

/// Parses xauth's list and `DISPLAY`, and checks the first message of a program by the cookie of the list.
#[cfg(fuzzing)]
pub(crate) fn fuzz_setup(list: &str, message: &[u8], piece: usize) {
    // A path would make it look for a socket.
    if !list.starts_with('/') {
        let _ = Display::parse(list.split(' ').next().unwrap_or_default());
    }
    if let Some(cookie) = cookie::parse(list) {
        gate::fuzz(&cookie, message, piece);
    }
}

/// Reads the fields of an `x11` open.
#[cfg(fuzzing)]
pub(crate) fn fuzz_fields(fields: &[u8]) {
    if let Ok(from) = originator(fields) {
        assert!(!from.contains(|c: char| c.is_control() && !"\n\t".contains(c)), "{from:?}");
    }
}
