//! `-R` without a target: clients at the server send SOCKS requests to us through their channel.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, FdPump, Interests, Ready, Target};

use super::socks::{Handshake, Outcome, Request, Step, Version, answer};
use super::state::Forwards;
use crate::log::sanitise;
use crate::ui::LogLevel;

/// Time limit for the client's SOCKS request; after it the channel is closed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(120);

/// The handler of one channel: first the handshake, then a pump.
pub(super) struct RemoteSocks {
    forwards: Forwards,
    limit: Option<Duration>,
    state: State,
    /// Data received after the request while the target is being connected. The window bounds it, because it
    /// is not consumed.
    held: Vec<u8>,
    ended: bool,
    until: Option<Instant>,
}

/// Result of a connect, read by the handler.
type Outbox = Rc<RefCell<Option<io::Result<OwnedFd>>>>;

enum State {
    Asking(Handshake),
    Dialling(Version, Outbox),
    Connected(Box<FdPump>),
    Over,
}

impl RemoteSocks {
    pub(super) fn new(forwards: Forwards, limit: Option<Duration>) -> Self {
        Self {
            forwards,
            limit,
            state: State::Asking(Handshake::default()),
            held: Vec::new(),
            ended: false,
            until: None,
        }
    }

    fn end(&mut self, reply: &[u8], cx: &mut ChannelCx<'_>) {
        cx.send(reply);
        cx.eof();
        cx.close();
        self.state = State::Over;
        self.until = None;
    }

    fn data(&mut self, data: &Bytes, cx: &mut ChannelCx<'_>) {
        let State::Asking(handshake) = &mut self.state else {
            self.held.extend_from_slice(data);
            return;
        };
        let mut rest = &data[..];
        loop {
            let step = handshake.feed(&mut rest);
            match step {
                Step::More => return cx.consumed(data.len()),
                Step::Reply(bytes) => {
                    cx.send(&bytes);
                }
                Step::Refuse(bytes) => return self.end(&bytes, cx),
                Step::Request(request) => {
                    self.held.extend_from_slice(rest);
                    cx.consumed(data.len() - rest.len());
                    return self.request(request, cx);
                }
            }
        }
    }

    fn request(&mut self, request: Request, cx: &mut ChannelCx<'_>) {
        let Request { version, host, port } = request;
        let shared = &self.forwards.0;
        if !shared.rules.permit_remote_open.allows(&host, port) {
            let text = format!("rejected remote dynamic forward to {} port {port}", sanitise(&host));
            shared.logger.say(LogLevel::Error, &text);
            return self.end(&answer(version, Outcome::Forbidden), cx);
        }
        let outbox = Outbox::default();
        self.state = State::Dialling(version, Rc::clone(&outbox));
        self.until = None;
        let target = Target::Tcp { host: host.clone(), port };
        let (id, logger) = (cx.id(), shared.logger.clone());
        cx.dial(&target, shared.rules.family, &shared.resolver, move |result, cx| {
            if let Err(problem) = &result {
                let words = lh_sys::errno_text(problem);
                let text = format!("connect_to {} port {port}: failed: {words}", sanitise(&host));
                logger.say(LogLevel::Error, &text);
            }
            *outbox.borrow_mut() = Some(result);
            // If the channel has closed meanwhile, the handler that reuses its number gets one needless call.
            if let Some(mut channel) = cx.channel(id) {
                channel.want_writable();
            }
        });
        self.dialled(cx);
    }

    /// Continues after the connect has succeeded or failed.
    fn dialled(&mut self, cx: &mut ChannelCx<'_>) {
        let State::Dialling(version, outbox) = &self.state else { return };
        let version = *version;
        let Some(result) = outbox.borrow_mut().take() else { return };
        let Ok(fd) = result.and_then(|socket| self.forwards.forwarded(socket)) else {
            return self.end(&answer(version, Outcome::Failed), cx);
        };
        cx.send(&answer(version, Outcome::Connected));
        let mut pump = FdPump::socket(fd).idle_limit(self.limit);
        pump.on_event(ChannelEvent::Opened { fields: Bytes::new() }, cx);
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            pump.on_event(ChannelEvent::Data { ext: None, data: held.into() }, cx);
        }
        if self.ended {
            pump.on_event(ChannelEvent::Eof, cx);
        }
        pump.on_batch_end(cx);
        self.state = State::Connected(Box::new(pump));
    }
}

impl ChannelHandler for RemoteSocks {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let State::Connected(pump) = &mut self.state {
            return pump.on_event(event, cx);
        }
        match event {
            ChannelEvent::Opened { .. } => self.until = Some(cx.now() + HANDSHAKE_TIMEOUT),
            ChannelEvent::Data { ext: None, data } if !matches!(self.state, State::Over) => {
                self.data(&data, cx)
            }
            ChannelEvent::Data { data, .. } => cx.consumed(data.len()),
            // An unfinished handshake, or a client that closes its sending side but still waits for the
            // reply.
            ChannelEvent::Eof => match self.state {
                State::Asking(_) => self.end(b"", cx),
                _ => self.ended = true,
            },
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            ChannelEvent::Closed => {
                self.state = State::Over;
                self.until = None;
            }
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        if let State::Connected(pump) = &mut self.state {
            pump.on_batch_end(cx);
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        match &mut self.state {
            State::Connected(pump) => pump.on_writable(cx),
            _ => self.dialled(cx),
        }
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let State::Connected(pump) = &self.state {
            pump.interests(out);
        }
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        if let State::Connected(pump) = &mut self.state {
            pump.on_ready(token, ready, cx);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Connected(pump) => pump.next_deadline(),
            _ => self.until,
        }
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        match &mut self.state {
            State::Connected(pump) => pump.on_timeout(cx),
            _ => self.end(b"", cx),
        }
    }

    fn finished(&self) -> bool {
        match &self.state {
            State::Connected(pump) => pump.finished(),
            _ => true,
        }
    }
}
