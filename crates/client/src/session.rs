//! Session channels: the requests sent when one opens, and the server's messages about its program.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_config::client_table::ClientSettings;
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ControlCx, ControlEvent, IdleTimer, Interests, Ready,
};
use lh_wire::msg::open_failure;
use lh_wire::{Reader, Writer};

use crate::x11::{self, X11Request};

/// Program of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The login shell.
    Shell,
    /// A command, for the login shell to run.
    Exec(Vec<u8>),
    /// A subsystem, such as `sftp`.
    Subsystem(String),
}

impl Start {
    /// The request's name.
    pub const fn request(&self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Exec(_) => "exec",
            Self::Subsystem(_) => "subsystem",
        }
    }

    /// The session type's name in `ChannelTimeout`.
    pub fn kind(&self) -> String {
        match self {
            Self::Shell => "session:shell".to_owned(),
            Self::Exec(_) => "session:command".to_owned(),
            Self::Subsystem(name) => format!("session:subsystem:{name}"),
        }
    }
}

/// A terminal to request (RFC 4254 section 6.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pty {
    /// Value of `TERM`.
    pub term: String,
    /// Width in characters.
    pub columns: u32,
    /// Height in characters.
    pub rows: u32,
    /// Width in pixels, 0 if unknown.
    pub width: u32,
    /// Height in pixels, 0 if unknown.
    pub height: u32,
    /// Encoded terminal modes (RFC 4254 section 8).
    pub modes: Vec<u8>,
}

/// All requests to send when a session channel opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetup {
    /// The terminal to request, if any.
    pub pty: Option<Pty>,
    /// Environment variables to send; servers silently drop most of them.
    pub env: Vec<(String, String)>,
    /// The channel request for agent forwarding, if wanted: see [`AgentForward`](crate::AgentForward).
    pub agent_request: Option<&'static str>,
    /// The channel request for X11 forwarding, if wanted: see [`X11Forward`](crate::X11Forward).
    pub x11: Option<X11Request>,
    /// Program to run.
    pub start: Start,
    /// Idle time after which the channel is closed (`ChannelTimeout`).
    pub idle: Option<Duration>,
}

impl SessionSetup {
    /// Runs `start` without a terminal or environment.
    pub const fn new(start: Start) -> Self {
        Self { pty: None, env: Vec::new(), agent_request: None, x11: None, start, idle: None }
    }

    /// Applies `ChannelTimeout` for this kind of session: `session:shell`, `session:command` or
    /// `session:subsystem:NAME` before `session`. The first matching pattern counts; 0 means no limit.
    /// `global` concerns all channels together ([`IdleChannels`](lh_driver::IdleChannels)).
    #[must_use]
    pub fn with_timeout(mut self, settings: &ClientSettings) -> Self {
        let kind = match &self.start {
            Start::Shell => "session:shell".to_owned(),
            Start::Exec(_) => "session:command".to_owned(),
            Start::Subsystem(name) => format!("session:subsystem:{name}"),
        };
        self.idle = settings.channel_timeout.of_any(&[&kind, "session"]);
        self
    }

    /// ssh's debug messages about a session whose channel has this number.
    pub fn announcement(&self, channel: u32) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.env.is_empty() {
            lines.push("Sending environment.".to_owned());
        }
        let variable =
            |(name, value): &(String, String)| format!("channel {channel}: setting env {name} = \"{value}\"");
        lines.extend(self.env.iter().map(variable));
        match &self.start {
            Start::Shell => {}
            Start::Exec(command) => {
                lines.push(format!("Sending command: {}", String::from_utf8_lossy(command)))
            }
            Start::Subsystem(name) => lines.push(format!("Sending subsystem: {name}")),
        }
        lines
    }

    /// Applies `SendEnv` and `SetEnv`.
    #[must_use]
    pub fn with_environment(mut self, settings: &ClientSettings) -> Self {
        let patterns = &settings.send_env.0;
        if !patterns.is_empty() {
            for (name, value) in std::env::vars() {
                let wanted =
                    patterns.iter().any(|p| lh_config::pattern::wildcard(name.as_bytes(), p.as_bytes()));
                if wanted {
                    self.env.push((name, value));
                }
            }
        }
        self.env.extend(settings.set_env.0.iter().cloned());
        self
    }
}

/// Events in the life of a session's program, sent with [`ChannelCx::notify`]. The control gets them as
/// [`ControlEvent::Note`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionNote {
    /// The channel could not be opened.
    OpenFailed {
        /// One of [`lh_wire::msg::open_failure`].
        reason: u32,
        /// The server's text; untrusted.
        description: String,
    },
    /// The channel is open.
    Opened,
    /// The server refused the terminal.
    PtyRefused,
    /// The server refused X11 forwarding.
    X11Refused,
    /// The channel was idle for the limit of `ChannelTimeout` and is being closed.
    Idle,
    /// The server accepted the program (or shell, or subsystem).
    Started,
    /// The server refused to run it.
    StartRefused {
        /// `shell`, `exec` or `subsystem`.
        request: &'static str,
    },
    /// The program ended by itself.
    ExitStatus(u32),
    /// A signal ended the program.
    ExitSignal {
        /// Signal name without `SIG`; untrusted.
        name: String,
        /// True if a core file was written.
        core_dumped: bool,
        /// The server's text; untrusted.
        message: String,
    },
}

/// Sends the setup's requests as soon as the channel is open, then passes all events to `inner`. `inner` need
/// not wait for the replies: data may follow the requests at once.
pub struct SessionChannel {
    setup: Option<SessionSetup>,
    start: &'static str,
    inner: Box<dyn ChannelHandler>,
    /// `ChannelTimeout`.
    idle: IdleTimer,
    /// See [`returning`](SessionChannel::returning).
    returns_to: Option<RefusedHandler>,
}

/// Place for the handler of a session that the server has refused.
pub type RefusedHandler = Rc<RefCell<Option<Box<dyn ChannelHandler>>>>;

/// Stands for a handler that was returned.
struct Returned;

impl ChannelHandler for Returned {
    fn on_event(&mut self, _event: ChannelEvent, _cx: &mut ChannelCx<'_>) {}
}

impl SessionChannel {
    /// Wraps the handler of the channel's data.
    pub fn new(setup: SessionSetup, inner: Box<dyn ChannelHandler>) -> Self {
        let idle = IdleTimer::new(setup.idle);
        Self { start: setup.start.request(), idle, setup: Some(setup), inner, returns_to: None }
    }

    /// If the channel cannot be opened, the handler is not told but returned in `place`, for a session over
    /// another connection.
    #[must_use]
    pub fn returning(self, place: &RefusedHandler) -> Self {
        Self { returns_to: Some(Rc::clone(place)), ..self }
    }
}

impl ChannelHandler for SessionChannel {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match &event {
            ChannelEvent::Data { .. } => self.idle.touch(cx.now()),
            ChannelEvent::Closed => self.idle.stop(),
            ChannelEvent::Opened { .. } => {
                self.idle.start(cx.now());
                cx.notify(SessionNote::Opened);
                if let Some(setup) = self.setup.take() {
                    send_requests(&setup, cx);
                }
            }
            ChannelEvent::OpenFailed { reason, description } => {
                cx.notify(SessionNote::OpenFailed { reason: *reason, description: description.clone() });
                if let Some(place) = self.returns_to.take() {
                    *place.borrow_mut() = Some(std::mem::replace(&mut self.inner, Box::new(Returned)));
                    return;
                }
            }
            ChannelEvent::RequestReply { name, ok } if name == "pty-req" => {
                if !ok {
                    cx.notify(SessionNote::PtyRefused);
                }
                return;
            }
            ChannelEvent::RequestReply { name, ok } if name == x11::REQUEST => {
                if !ok {
                    cx.notify(SessionNote::X11Refused);
                }
                return;
            }
            ChannelEvent::RequestReply { name, ok } if name == self.start => {
                cx.notify(if *ok {
                    SessionNote::Started
                } else {
                    SessionNote::StartRefused { request: self.start }
                });
                return;
            }
            ChannelEvent::Request { name, want_reply, fields } => {
                if let Some(note) = exit_note(name, fields) {
                    if *want_reply {
                        cx.reply(true);
                    }
                    cx.notify(note);
                    return;
                }
            }
            _ => {}
        }
        self.inner.on_event(event, cx);
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.inner.on_batch_end(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.inner.on_writable(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.inner.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.idle.touch(cx.now());
        self.inner.on_ready(token, ready, cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.inner.next_deadline(), self.idle.deadline()].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        if self.idle.deadline().is_some_and(|deadline| deadline <= cx.now()) {
            self.idle.stop();
            cx.notify(SessionNote::Idle);
            cx.close();
        }
        if self.inner.next_deadline().is_some_and(|deadline| deadline <= cx.now()) {
            self.inner.on_timeout(cx);
        }
    }

    fn finished(&self) -> bool {
        self.inner.finished()
    }
}

fn send_requests(setup: &SessionSetup, cx: &mut ChannelCx<'_>) {
    if let Some(request) = &setup.x11 {
        cx.request(x11::REQUEST, true, request.fields());
    }
    if let Some(name) = setup.agent_request {
        // As in ssh, no reply is requested: the session also works without agent forwarding.
        cx.request(name, false, b"");
    }
    if let Some(pty) = &setup.pty {
        let mut fields = Vec::new();
        fields.put_string(pty.term.as_bytes());
        for size in [pty.columns, pty.rows, pty.width, pty.height] {
            fields.put_u32(size);
        }
        fields.put_string(&pty.modes);
        cx.request("pty-req", true, &fields);
    }
    for (name, value) in &setup.env {
        let mut fields = Vec::new();
        fields.put_string(name.as_bytes());
        fields.put_string(value.as_bytes());
        cx.request("env", false, &fields);
    }
    let mut fields = Vec::new();
    match &setup.start {
        Start::Shell => {}
        Start::Exec(command) => fields.put_string(command),
        Start::Subsystem(name) => fields.put_string(name.as_bytes()),
    }
    cx.request(setup.start.request(), true, &fields);
}

/// Parses exit messages (RFC 4254 section 6.10). A malformed request is ignored.
fn exit_note(name: &str, fields: &Bytes) -> Option<SessionNote> {
    let mut reader = Reader::new(fields);
    match name {
        "exit-status" => reader.u32().ok().map(SessionNote::ExitStatus),
        "exit-signal" => {
            let name = String::from_utf8_lossy(reader.string().ok()?).into_owned();
            let core_dumped = reader.boolean().ok()?;
            let message = String::from_utf8_lossy(reader.string().ok()?).into_owned();
            Some(SessionNote::ExitSignal { name, core_dumped, message })
        }
        _ => None,
    }
}

/// Reads the fields of an exit message.
#[cfg(fuzzing)]
pub(crate) fn fuzz_fields(fields: &[u8]) {
    let fields = Bytes::copy_from_slice(fields);
    let _ = exit_note("exit-status", &fields);
    let _ = exit_note("exit-signal", &fields);
}

/// A client's default replies to server requests. It refuses channels (forwards have handlers of their own),
/// and answers unknown global requests, keepalives included, with failure: any reply counts.
pub fn answer_by_default(event: ControlEvent, cx: &mut ControlCx<'_>) {
    match event {
        ControlEvent::OpenRequested { id, .. } => {
            cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "not allowed");
        }
        ControlEvent::GlobalRequest { want_reply: true, .. } => cx.reply_global(false, b""),
        ControlEvent::HostKey { .. } => {
            eprint!("{}\r\n", crate::handshake::KEY_CHANGED_AT_REKEY.replace('\n', "\r\n"));
            cx.disconnect(
                lh_wire::msg::disconnect::HOST_KEY_NOT_VERIFIABLE,
                "Host key changed during rekeying",
            );
            cx.stop(255);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exit_requests_are_parsed() {
        let mut fields = Vec::new();
        fields.put_u32(7);
        assert_eq!(exit_note("exit-status", &fields.into()), Some(SessionNote::ExitStatus(7)));
        let mut fields = Vec::new();
        fields.put_string(b"TERM");
        fields.put_bool(true);
        fields.put_string(b"why");
        fields.put_string(b"");
        let note =
            SessionNote::ExitSignal { name: "TERM".to_owned(), core_dumped: true, message: "why".to_owned() };
        assert_eq!(exit_note("exit-signal", &fields.into()), Some(note));
        assert_eq!(exit_note("exit-status", &Bytes::new()), None);
        assert_eq!(exit_note("eow@openssh.com", &Bytes::new()), None);
    }

    /// Covers: ssh_config ChannelTimeout
    #[test]
    fn most_specific_channel_timeout_counts() {
        let idle = |start, rules: &[(&str, u64)]| {
            let mut request = lh_config::client::Request::new("h", crate::local_account().expect("a user"));
            request.user_file = lh_config::client::UserFile::None;
            request.system_file = None;
            let mut config = lh_config::client::load(&request, &crate::SystemEnvironment).expect("loads");
            let rule = |(kind, seconds): &(&str, u64)| lh_config::special::ChannelTimeout {
                kind: (*kind).to_owned(),
                limit: Duration::from_secs(*seconds),
                text: seconds.to_string(),
            };
            config.channel_timeout.value.0 = rules.iter().map(rule).collect();
            SessionSetup::new(start).with_timeout(&config).idle.map(|idle| idle.as_secs())
        };
        assert_eq!(idle(Start::Shell, &[]), None);
        assert_eq!(idle(Start::Shell, &[("session", 5), ("session:shell", 3)]), Some(3));
        assert_eq!(idle(Start::Exec(vec![]), &[("session", 5), ("session:shell", 3)]), Some(5));
        assert_eq!(idle(Start::Subsystem("sftp".to_owned()), &[("session:subsystem:s*", 7)]), Some(7));
        assert_eq!(idle(Start::Shell, &[("global", 9), ("direct-tcpip", 1)]), None);
        assert_eq!(idle(Start::Shell, &[("session:*", 0), ("session", 9)]), None);
    }

    proptest! {
        #[test]
        fn exit_requests_never_panic(fields in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = exit_note("exit-status", &fields.clone().into());
            let _ = exit_note("exit-signal", &fields.into());
        }
    }
}
