//! The connection-wide requests of a client: channel opens, global requests, key exchanges.

use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use lh_auth::TICKET;
use lh_crypto::PublicKey;
use lh_driver::{
    ChannelId, ChannelOptions, ConnectionStats, Control, ControlCx, ControlEvent, IdleChannels, Interest,
    Interests, Ready,
};
use lh_metrics::{Counters, Sample, Source};
use lh_sys::signals::Signals;
use lh_transport::Negotiated;
use lh_wire::msg::{disconnect, open_failure};
use lh_wire::peer::Peer;
use lh_wire::{Reader, Writer};

use super::channel::SessionChannel;
use super::forward::{Forwards, Replies};
use super::joined_path::JoinedPath;
use super::resuming::Resuming;
use super::shared::Shared;
use super::tunnel;
use super::usage_reporter::{self, UsageReporter};
use crate::hosts::shown_endpoint;
use crate::log::{debug, error, info};
use crate::monitor_ipc::MonitorRequest;
use crate::usage::ConnectionUsage;

/// The server's [`Control`].
pub(super) struct Serving {
    shared: Rc<Shared>,
    /// Public halves of the host keys; the monitor has the private ones.
    host_keys: Vec<PublicKey>,
    sessions: Vec<ChannelId>,
    no_more_sessions: bool,
    /// The negotiated host key algorithm: RSA keys are proven with a hash that the client supports.
    negotiated: String,
    opened: u32,
    /// Number of refused session channels.
    refused_sessions: u32,
    forwards: Rc<RefCell<Forwards>>,
    replies: Replies,
    /// Reports usage of the connection to the monitor.
    usage_reporter: Option<UsageReporter>,
    /// Time at which a connection without channels is closed (`UnusedConnectionTimeout`).
    unused_until: Option<Instant>,
    /// Closes channels when all of them are idle (`ChannelTimeout global`).
    idle_channels: Option<IdleChannels>,
    /// The session's resumption; `None` where it may not outlive its connection.
    resuming: Option<Resuming>,
    /// `Some` where the connection has joined a session, and the configuration has no probes of its own.
    joined_path: Option<JoinedPath>,
    /// Signals that end the session (SIGTERM).
    signals: Option<Signals>,
}

/// Poll token of signals. The tokens of [`Resuming`] are smaller.
const SIGNALS: usize = 16;

impl Serving {
    pub(super) fn new(
        shared: Rc<Shared>,
        host_keys: Vec<PublicKey>,
        negotiated: String,
        resuming: Option<Resuming>,
        signals: Option<Signals>,
    ) -> Self {
        let forwards = Rc::new(RefCell::new(Forwards::new(Rc::clone(&shared))));
        // Counted from the start, because a client that never opens a channel causes no event.
        let unused = shared.settings.unused_connection_timeout.value.duration();
        let unused_until = unused.and_then(|time| Instant::now().checked_add(time));
        let idle = shared.settings.channel_timeout.of_all_channels();
        let asks = shared.settings.client_alive_interval.value.duration().is_some();
        Self {
            joined_path: (shared.joined && !asks).then(|| JoinedPath::new(Instant::now())),
            idle_channels: idle.map(|limit| IdleChannels::new(limit, Instant::now())),
            shared,
            host_keys,
            sessions: Vec::new(),
            no_more_sessions: false,
            negotiated,
            opened: 0,
            refused_sessions: 0,
            forwards,
            replies: Replies::default(),
            unused_until,
            usage_reporter: None,
            resuming,
            signals,
        }
    }

    /// Begins to count the connection's bytes, where usage is recorded.
    pub(super) fn count(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        self.usage_reporter = UsageReporter::new(&self.shared, cx.traffic(), now);
    }

    /// Reports the final usage of the connection to the monitor.
    pub(super) fn last_word(&mut self, usage: &ConnectionUsage) {
        if let Some(usage_reporter) = &mut self.usage_reporter {
            usage_reporter.tell(&self.shared, usage);
        }
    }

    /// Sends all host keys to the client (`hostkeys-00@openssh.com`), so that it learns new keys before old
    /// ones are removed.
    pub(super) fn announce_host_keys(&self, cx: &mut ControlCx<'_>) {
        let mut fields = Vec::new();
        // Clients do not store host certificates, only the authority's key.
        for key in self.host_keys.iter().filter(|key| key.certificate().is_none()) {
            fields.put_string(key.blob());
        }
        cx.global_request("hostkeys-00@openssh.com", false, &fields);
    }

    /// Handles SIGTERM, from the monitor or an administrator: ends the session.
    fn on_signal(&mut self, cx: &mut ControlCx<'_>) {
        if !self.signals.as_ref().is_some_and(|signals| matches!(signals.take(), Ok(Some(_)))) {
            return;
        }
        if cx.is_away() {
            return cx.give_up();
        }
        cx.disconnect(disconnect::BY_APPLICATION, "session ended on the server");
        cx.stop(255);
    }

    fn open(&mut self, id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>) {
        match kind {
            "session" if self.no_more_sessions => {
                let text = "Possible attack: attempt to open a session after additional sessions disabled";
                error!(self.shared.log, "{text}");
                cx.disconnect(disconnect::PROTOCOL_ERROR, text);
                cx.stop(255);
            }
            "session" => self.open_session(id, fields, cx),
            "tun@openssh.com" => tunnel::open(&self.shared, id, fields, cx),
            _ if self.forwards.borrow().open(id, kind, fields, cx) => {}
            _ => {
                debug!(self.shared.log, "refused to open a channel of type {kind}");
                cx.refuse(id, open_failure::UNKNOWN_CHANNEL_TYPE, "unknown channel type");
            }
        }
    }

    fn open_session(&mut self, id: ChannelId, fields: &[u8], cx: &mut ControlCx<'_>) {
        let most = self.shared.settings.max_sessions.value as usize;
        if self.sessions.len() >= most || !fields.is_empty() {
            self.log_refused_session();
            return cx.refuse(id, open_failure::CONNECT_FAILED, "open failed");
        }
        let handler = Box::new(SessionChannel::new(Rc::clone(&self.shared), self.opened));
        self.opened = self.opened.wrapping_add(1);
        if cx.accept(id, &ChannelOptions::default(), b"", handler) {
            self.sessions.push(id);
        }
    }

    /// Logs the first refusal, the second, the fourth and so on, because a client can request sessions
    /// without end.
    fn log_refused_session(&mut self) {
        self.refused_sessions = self.refused_sessions.saturating_add(1);
        match self.refused_sessions {
            1 => info!(self.shared.log, "error: no more sessions"),
            n if n.is_power_of_two() => info!(self.shared.log, "error: no more sessions ({n} refused)"),
            _ => {}
        }
    }

    /// Logs an unencrypted connection, once per key exchange, so that a log shows how much of it was
    /// readable.
    fn warn_of_plain_text(&self, names: &Negotiated) {
        let (user, peer) = (&self.shared.user.name, self.shared.client.peer.get());
        let from = shown_endpoint(peer);
        let (cipher, mac) = (&names.cipher_c2s, &names.mac_c2s);
        info!(
            self.shared.requests_log,
            "WARNING: not encrypted: user {user} {from} cipher {cipher} MAC {mac}"
        );
    }

    /// Signs a proof for each key the client asks about (`hostkeys-prove-00@openssh.com`).
    fn prove(&mut self, fields: &[u8]) -> Option<Vec<u8>> {
        let mut reader = Reader::new(fields);
        let mut proofs = Vec::new();
        while !reader.is_empty() {
            let blob = reader.string().ok()?;
            let key = self.host_keys.iter().find(|key| key.blob() == blob)?;
            let algorithms = key.signature_algorithms();
            let algorithm = match algorithms.iter().find(|name| **name == self.negotiated) {
                Some(name) => name,
                None => algorithms.first()?,
            };
            let request = MonitorRequest::Prove { algorithm: (*algorithm).to_owned(), key: blob.to_vec() };
            proofs.put_string(&self.shared.monitor.borrow_mut().ask_signature(&request).ok()?);
        }
        Some(proofs)
    }

    /// Turns the client's key into a ticket for an additional connection (`ticket@longhaul`).
    fn ticket(&self, fields: &[u8]) -> Option<Vec<u8>> {
        if self.shared.restricted() {
            return None;
        }
        let mut reader = Reader::new(fields);
        let key = reader.string().ok().filter(|_| reader.is_empty())?.to_vec();
        let answer = self.shared.monitor.borrow_mut().ask(&MonitorRequest::Ticket { key }).ok()?;
        let given = answer[..] == [1];
        self.shared.files.shares_files.fetch_or(given, Ordering::Relaxed);
        given.then(Vec::new)
    }
}

/// Returns this end's counters, which a sample is made from.
fn source(cx: &ControlCx<'_>) -> Source {
    // Destructured without `..`, so that a new field cannot be forgotten.
    let ConnectionStats { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } =
        cx.stats();
    Source {
        counters: Counters { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys },
        tcp: cx.tcp_info(),
        congestion_control: cx.congestion_control(),
        rate_limit: None,
    }
}

/// Returns a sample for the metrics request of HPN-SSH's clients and our own. Theirs read only the kernel's
/// values.
fn metrics(cx: &mut ControlCx<'_>) -> Option<Vec<u8>> {
    let (sample, version) = Sample::of(source(cx));
    let ours = cx.peer() == Peer::Longhaul;
    if version.is_none() && !ours {
        return None;
    }
    let mut fields = Vec::new();
    fields.put_string(&lh_metrics::answer(&sample, version.unwrap_or_default(), ours));
    Some(fields)
}

impl Control for Serving {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::OpenRequested { id, kind, fields } => self.open(id, &kind, &fields, cx),
            ControlEvent::GlobalRequest { name, want_reply, fields } => {
                debug!(
                    self.shared.log,
                    "server_input_global_request: rtype {name} want_reply {}",
                    u8::from(want_reply)
                );
                if self.replies.are_too_many() {
                    error!(self.shared.log, "too many global requests wait for their answers");
                    cx.disconnect(disconnect::PROTOCOL_ERROR, "too many global requests");
                    return cx.stop(255);
                }
                if Forwards::request(&self.forwards, &name, want_reply, &fields, &self.replies, cx) {
                    return;
                }
                let answer = match name.as_str() {
                    "no-more-sessions@openssh.com" => {
                        self.no_more_sessions = true;
                        Some(Vec::new())
                    }
                    "hostkeys-prove-00@openssh.com" => self.prove(&fields),
                    lh_metrics::REQUEST => metrics(cx),
                    TICKET => self.ticket(&fields),
                    _ => None,
                };
                let slot = self.replies.expect(want_reply);
                self.replies.answer(slot, answer, cx);
            }
            ControlEvent::SignExchangeHash { algorithm, key_index, data } => {
                let request = MonitorRequest::Sign { key_index, algorithm, hash: data };
                let signed = match self.shared.monitor.borrow_mut().ask_signature(&request) {
                    Ok(signature) => cx.exchange_hash_signed(&signature).is_ok(),
                    Err(_) => false,
                };
                if !signed {
                    error!(self.shared.log, "host key signature failed");
                    cx.disconnect(disconnect::KEY_EXCHANGE_FAILED, "host key signature failed");
                    cx.stop(255);
                }
            }
            ControlEvent::KexDone { names } => {
                debug!(self.shared.log, "rekeyed: {} {}", names.kex, names.cipher_s2c);
                if !cx.is_encrypted() {
                    self.warn_of_plain_text(&names);
                }
                self.negotiated = names.host_key;
            }
            ControlEvent::ChannelGone { id, .. } => self.sessions.retain(|session| *session != id),
            ControlEvent::Debug { text, .. } => {
                debug!(self.shared.log, "client says: {}", String::from_utf8_lossy(&text));
            }
            _ => {}
        }
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let Some(resuming) = &self.resuming {
            resuming.interests(out);
        }
        if let Some(signals) = &self.signals {
            out.add(SIGNALS, signals.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        if token == SIGNALS {
            return self.on_signal(cx);
        }
        if let Some(resuming) = &mut self.resuming {
            resuming.on_ready(&self.shared, cx);
        }
    }

    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        if let Some(resuming) = &mut self.resuming {
            resuming.before_wait(&self.shared, cx);
        }
        self.shared.client.is_away.set(cx.is_away());
        self.forwards.borrow_mut().before_wait(cx);
        if let Some(usage_reporter) = &mut self.usage_reporter {
            usage_reporter.turn(cx.traffic(), now);
        }
        if let Some(idle) = &mut self.idle_channels {
            idle.before_wait(cx);
        }
        if self.joined_path.as_mut().is_some_and(|path| path.check(cx)) {
            self.joined_path = None;
            let (user, peer) = (&self.shared.user.name, self.shared.client.peer.get());
            let from = shown_endpoint(peer);
            info!(self.shared.log, "Timeout, client not responding from user {user} {from}");
            cx.stop(255);
        }
        let Some(time) = self.shared.settings.unused_connection_timeout.value.duration() else { return };
        if cx.handler_count() > 0 {
            self.unused_until = None;
        } else if self.unused_until.is_none() {
            self.unused_until = cx.now().checked_add(time);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let usage_reporter = self.usage_reporter.as_ref().and_then(UsageReporter::due);
        let idle = self.idle_channels.as_ref().and_then(IdleChannels::next_deadline);
        let resuming = self.resuming.as_ref().and_then(Resuming::next_deadline);
        [usage_reporter, self.unused_until, idle, resuming].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        if let Some(resuming) = &mut self.resuming {
            resuming.on_timeout(&self.shared, cx);
        }
        if let Some(usage_reporter) = self
            .usage_reporter
            .as_mut()
            .filter(|usage_reporter| usage_reporter.due().is_some_and(|due| due <= now))
        {
            let figures = cx.stats();
            usage_reporter.tell(&self.shared, &usage_reporter::usage(cx, &figures));
        }
        if self.idle_channels.as_mut().is_some_and(|idle| idle.on_timeout(cx) > 0) {
            info!(self.shared.log, "global channel timeout: closing all channels");
        }
        if self.unused_until.is_none_or(|until| until > now) {
            return;
        }
        self.unused_until = None;
        let (user, peer) = (&self.shared.user.name, self.shared.client.peer.get());
        let from = shown_endpoint(peer);
        info!(self.shared.log, "terminating inactive connection from user {user} {from}");
        cx.stop(255);
    }
}
