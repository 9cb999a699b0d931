//! A mux client in proxy mode (OpenSSH's PROTOCOL.mux): it writes and parses the messages of its channels
//! itself; the master forwards them with translated channel numbers.
//!
//! The client is a process of the same user, but its mistakes must not end a connection that others share. A
//! message that the server would punish (another client's channel, data beyond a window, malformed fields)
//! ends only the client. Its bulk data is read only while the output buffer has space, in turn with others'.
//! Data from the server is bounded by the windows that the client has granted.
//!
//! Only the announced packet sizes are not forwarded unchanged. Each end chose them for the peer that it
//! knows, which is this master. So both get the size that the RFCs require every implementation to accept.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd as _;
use std::rc::Rc;

use bytes::Bytes;
use lh_config::forward::{Endpoint, Forward};
use lh_driver::{ChannelId, ControlCx, Interest, Interests, Ready, Source};
use lh_wire::Message as _;
use lh_wire::msg::{self, Rest, open_failure};
use lh_wire::peer::STOCK_CHANNEL_PACKET;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::frames::{self, Queue};
use super::line::Line;
use super::state::{ProxyClient, Shared};
use crate::forward::ForwardError;
use crate::ui::LogLevel;

/// Most channels of one client.
const MAX_CHANNELS: usize = 4096;
/// Most bytes read from one client per turn of the loop.
const READ_PER_TURN: usize = 512 << 10;
/// Most bytes per read call.
const READ_SIZE: usize = 128 << 10;

/// State of a channel.
struct Channel {
    /// The client's channel number, once known.
    client: Option<u32>,
    /// The server's channel number, once known.
    server: Option<u32>,
    /// Bytes that the server still accepts (in one packet: `max_packet`).
    window: u64,
    max_packet: u32,
    /// The client has sent EOF, or CLOSE.
    eof: bool,
    closed_here: bool,
    closed_there: bool,
}

/// A client in proxy mode. Clones share it.
#[derive(Clone)]
pub(super) struct Relay(Rc<Client>);

struct Client {
    master: Rc<Shared>,
    line: Line,
    state: RefCell<State>,
    /// The client's socket buffer is full.
    stuck: Cell<bool>,
    over: Cell<bool>,
}

#[derive(Default)]
struct State {
    channels: HashMap<ChannelId, Channel>,
    /// Channels by the server's number.
    theirs: HashMap<u32, ChannelId>,
    /// The client's remote forwards.
    listening: Vec<Forward>,
    out: Queue,
    /// Replies to global requests, in the order of the requests; `None` for those still awaited.
    answers: VecDeque<Option<Vec<u8>>>,
    answered: u64,
}

/// A violation by the client; ends it.
type Violation = &'static str;

/// The packet size to announce to one end for the other.
fn packet_size_for_peer(announced: u32) -> u32 {
    announced.min(STOCK_CHANNEL_PACKET)
}

impl Relay {
    /// Serves the client at the other end of this control connection.
    pub(super) fn start(master: &Rc<Shared>, line: &Line, cx: &mut ControlCx<'_>) {
        let client = Client {
            master: Rc::clone(master),
            line: line.clone(),
            state: RefCell::default(),
            stuck: Cell::new(false),
            over: Cell::new(false),
        };
        let relay = Self(Rc::new(client));
        master.state.borrow_mut().proxies += 1;
        cx.add_source(Box::new(FromClient { relay, input: Vec::new(), waits: false }));
    }

    // ---- from the client

    fn on_client(&self, message: &[u8], cx: &mut ControlCx<'_>) -> Result<(), Violation> {
        let malformed = |_| "a malformed message";
        match message.first().copied().unwrap_or(0) {
            msg::GlobalRequest::NUMBER => {
                let request = msg::GlobalRequest::decode(message).map_err(malformed)?;
                self.global(&request, cx)
            }
            msg::ChannelOpen::NUMBER => {
                let open = msg::ChannelOpen::decode(message).map_err(malformed)?;
                self.open(&open, cx)
            }
            msg::ChannelOpenConfirmation::NUMBER => {
                let accepted = msg::ChannelOpenConfirmation::decode(message).map_err(malformed)?;
                self.accepted(&accepted, cx)
            }
            msg::ChannelOpenFailure::NUMBER => {
                let refused = msg::ChannelOpenFailure::decode(message).map_err(malformed)?;
                let id = self.by_server(refused.recipient, |channel| channel.client.is_none())?;
                cx.send_message(message);
                self.free(id, cx);
                Ok(())
            }
            number @ msg::ChannelWindowAdjust::NUMBER..=msg::ChannelFailure::NUMBER => {
                self.of_channel(number, message, cx)
            }
            // Unsolicited replies, and messages that concern no channel.
            _ => Ok(()),
        }
    }

    fn open(&self, open: &msg::ChannelOpen<'_>, cx: &mut ControlCx<'_>) -> Result<(), Violation> {
        let mut state = self.0.state.borrow_mut();
        let id = if state.channels.len() < MAX_CHANNELS { cx.relay() } else { None };
        let Some(id) = id else {
            let text = b"too many channels";
            let reason = open_failure::RESOURCE_SHORTAGE;
            let refused = msg::ChannelOpenFailure::new(open.sender, reason, text, b"").to_payload();
            drop(state);
            self.to_client(refused.into());
            return Ok(());
        };
        state.channels.insert(id, Channel::new(Some(open.sender), None));
        self.0.master.state.borrow_mut().relayed.insert(id, Rc::new(self.clone()));
        let (window, max_packet, fields) =
            (open.window, packet_size_for_peer(open.max_packet), Rest(open.fields.0));
        let passed = msg::ChannelOpen::new(open.kind, id.number(), window, max_packet, fields);
        cx.send_message(&passed.to_payload());
        Ok(())
    }

    /// The client accepts a connection to a listener at the server.
    fn accepted(
        &self,
        accepted: &msg::ChannelOpenConfirmation<'_>,
        cx: &mut ControlCx<'_>,
    ) -> Result<(), Violation> {
        let server = accepted.recipient;
        let id = self.by_server(server, |channel| channel.client.is_none())?;
        if let Some(channel) = self.0.state.borrow_mut().channels.get_mut(&id) {
            channel.client = Some(accepted.sender);
        }
        let (window, max_packet, fields) =
            (accepted.window, packet_size_for_peer(accepted.max_packet), Rest(accepted.fields.0));
        let passed = msg::ChannelOpenConfirmation::new(server, id.number(), window, max_packet, fields);
        cx.send_message(&passed.to_payload());
        Ok(())
    }

    /// Handles a message about an open channel. Its recipient already is the server's number.
    fn of_channel(&self, number: u8, message: &[u8], cx: &mut ControlCx<'_>) -> Result<(), Violation> {
        let (server, data) = frames::check(message).map_err(|_| "a malformed message")?;
        if !cx.can_send_message(message.len()) {
            return Err("a message that is too long for the server");
        }
        let id = self.by_server(server, |channel| channel.client.is_some())?;
        let mut state = self.0.state.borrow_mut();
        let Some(channel) = state.channels.get_mut(&id) else { return Ok(()) };
        if channel.closed_here {
            return Err("a message behind CLOSE");
        }
        if let Some(length) = data {
            if channel.eof {
                return Err("data behind EOF");
            }
            if length as u64 > channel.window || length > channel.max_packet as usize {
                return Err("data beyond the window");
            }
            channel.window -= length as u64;
        }
        channel.eof |= number == msg::ChannelEof::NUMBER;
        channel.closed_here |= number == msg::ChannelClose::NUMBER;
        let over = channel.closed_here && channel.closed_there;
        drop(state);
        cx.send_message(message);
        if over {
            self.free(id, cx);
        }
        Ok(())
    }

    /// The client's channel with this number at the server.
    fn by_server(&self, server: u32, is_it: impl Fn(&Channel) -> bool) -> Result<ChannelId, Violation> {
        let state = self.0.state.borrow();
        let id = state.theirs.get(&server).copied().ok_or("a message for a channel that it has not")?;
        state.channels.get(&id).filter(|channel| is_it(channel)).ok_or("a message out of turn")?;
        Ok(id)
    }

    fn global(&self, request: &msg::GlobalRequest<'_>, cx: &mut ControlCx<'_>) -> Result<(), Violation> {
        let slot = request.want_reply.then(|| {
            let mut state = self.0.state.borrow_mut();
            state.answers.push_back(None);
            state.answered + state.answers.len() as u64 - 1
        });
        let forward = frames::listener(request.name, request.fields.0).map_err(|_| "a malformed message")?;
        let forwards = &self.0.master.forwards;
        match forward {
            // A client of a shared connection may not send requests about the whole of it.
            None => self.answer(slot, &frames::answer(None)),
            Some((forward, true)) => {
                let mut state = self.0.state.borrow_mut();
                let known = state.listening.iter().position(|each| *each == forward);
                let known = known.map(|index| state.listening.swap_remove(index)).is_some();
                drop(state);
                let done = known && forwards.cancel_remote(&forward, cx);
                self.answer(slot, &frames::answer(done.then_some(0)));
            }
            Some((mut forward, false)) => {
                let (this, offered) = (self.clone(), self.clone());
                let asked = forward.clone();
                let done = move |result: Result<u16, ForwardError>, cx: &mut ControlCx<'_>| {
                    let port = result.ok();
                    if let (Some(port), Endpoint::Tcp { port: chosen @ 0, .. }) = (port, &mut forward.listen)
                    {
                        *chosen = port;
                    }
                    this.answer(slot, &frames::answer(port));
                    match port {
                        Some(_) if this.0.over.get() => {
                            this.0.master.forwards.cancel_remote(&forward, cx);
                        }
                        Some(_) => this.0.state.borrow_mut().listening.push(forward),
                        None => {}
                    }
                };
                let taker = move |id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>| {
                    offered.offer(id, kind, fields, cx);
                };
                forwards.add_remote_for(&asked, Rc::new(taker), cx, Box::new(done));
            }
        }
        Ok(())
    }

    fn answer(&self, slot: Option<u64>, message: &[u8]) {
        let Some(slot) = slot else { return };
        let mut ready = Vec::new();
        {
            let mut state = self.0.state.borrow_mut();
            let index = usize::try_from(slot.saturating_sub(state.answered)).unwrap_or(usize::MAX);
            if let Some(place) = state.answers.get_mut(index) {
                *place = Some(message.to_vec());
            }
            while let Some(Some(_)) = state.answers.front() {
                ready.extend(state.answers.pop_front().flatten());
                state.answered += 1;
            }
        }
        ready.into_iter().for_each(|message| self.to_client(message.into()));
    }

    // ---- from the server

    /// Offers the client a connection to its listener at the server.
    fn offer(&self, id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>) {
        if self.0.over.get() || self.0.state.borrow().channels.len() >= MAX_CHANNELS {
            return cx.refuse(id, open_failure::CONNECT_FAILED, "open failed");
        }
        let Some(asked) = cx.hand_over(id) else { return };
        let mut channel = Channel::new(None, Some(asked.remote_id));
        (channel.window, channel.max_packet) = (asked.window.into(), packet_size_for_peer(asked.max_packet));
        {
            let mut state = self.0.state.borrow_mut();
            state.channels.insert(id, channel);
            state.theirs.insert(asked.remote_id, id);
        }
        self.0.master.state.borrow_mut().relayed.insert(id, Rc::new(self.clone()));
        // The client replies to the server's own number.
        let (server, window, max_packet) =
            (asked.remote_id, asked.window, packet_size_for_peer(asked.max_packet));
        let open = msg::ChannelOpen::new(kind.as_bytes(), server, window, max_packet, Rest(fields));
        self.to_client(open.to_payload().into());
    }

    fn free(&self, id: ChannelId, cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        if let Some(server) = state.channels.remove(&id).and_then(|channel| channel.server) {
            state.theirs.remove(&server);
        }
        self.0.master.state.borrow_mut().relayed.remove(&id);
        cx.end_relay(id);
    }

    // ---- to the client

    fn to_client(&self, message: Bytes) {
        self.queue(|out| out.push(message));
    }

    /// Queues a message with the client's number for the channel.
    fn to_client_as(&self, client: u32, message: &Bytes) {
        self.queue(|out| out.push_for(client, message));
    }

    fn queue(&self, push: impl FnOnce(&mut Queue)) {
        if self.0.over.get() {
            return;
        }
        let mut state = self.0.state.borrow_mut();
        if state.out.is_empty() {
            // Sent at the end of the turn, many in one call.
            self.0.master.state.borrow_mut().dirty.push(Rc::new(self.clone()));
        }
        push(&mut state.out);
    }

    /// Cleans up after a client that has gone.
    fn end(&self, cx: &mut ControlCx<'_>) {
        if self.0.over.replace(true) {
            return;
        }
        self.0.master.state.borrow_mut().proxies -= 1;
        self.0.stuck.set(false);
        let listening = std::mem::take(&mut self.0.state.borrow_mut().listening);
        for forward in listening {
            self.0.master.forwards.cancel_remote(&forward, cx);
        }
        let mut free = Vec::new();
        {
            let mut state = self.0.state.borrow_mut();
            state.out = Queue::default();
            for (id, channel) in &mut state.channels {
                match (channel.client, channel.server) {
                    (None, Some(server)) => {
                        let reason = open_failure::CONNECT_FAILED;
                        let refused = msg::ChannelOpenFailure::new(server, reason, b"open failed", b"");
                        cx.send_message(&refused.to_payload());
                        free.push(*id);
                    }
                    (_, Some(_)) => {
                        channel.close(cx);
                        if channel.closed_there {
                            free.push(*id);
                        }
                    }
                    // Closed as soon as it opens.
                    (_, None) => {}
                }
            }
        }
        free.into_iter().for_each(|id| self.free(id, cx));
    }
}

impl ProxyClient for Relay {
    fn on_server(&self, id: ChannelId, message: &Bytes, cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        let State { channels, theirs, .. } = &mut *state;
        let Some(channel) = channels.get_mut(&id) else { return };
        let (mut over, mut changed) = (false, None);
        match message.first().copied().unwrap_or(0) {
            msg::ChannelOpenConfirmation::NUMBER if channel.server.is_none() => {
                let Ok(accepted) = msg::ChannelOpenConfirmation::decode(message) else { return };
                channel.server = Some(accepted.sender);
                channel.window = accepted.window.into();
                channel.max_packet = packet_size_for_peer(accepted.max_packet);
                theirs.insert(accepted.sender, id);
                if channel.max_packet != accepted.max_packet {
                    let (max_packet, fields) = (channel.max_packet, accepted.fields);
                    let (sender, window) = (accepted.sender, accepted.window);
                    let passed =
                        msg::ChannelOpenConfirmation::new(id.number(), sender, window, max_packet, fields);
                    changed = Some(Bytes::from(passed.to_payload()));
                }
                if self.0.over.get() {
                    channel.close(cx);
                }
            }
            msg::ChannelOpenFailure::NUMBER => over = true,
            msg::ChannelWindowAdjust::NUMBER => {
                let adjust = msg::ChannelWindowAdjust::decode(message);
                channel.window += adjust.map_or(0, |adjust| u64::from(adjust.bytes));
            }
            msg::ChannelClose::NUMBER => {
                channel.closed_there = true;
                if self.0.over.get() {
                    channel.close(cx);
                }
                over = channel.closed_here;
            }
            _ => {}
        }
        let client = channel.client;
        drop(state);
        if let Some(client) = client {
            self.to_client_as(client, changed.as_ref().unwrap_or(message));
        }
        if over {
            self.free(id, cx);
        }
    }

    fn flush(&self) {
        match self.0.state.borrow_mut().out.flush(self.0.line.socket()) {
            Ok(stuck) => self.0.stuck.set(stuck),
            // The read side detects the client's end.
            Err(_) => {
                self.0.stuck.set(false);
                self.0.line.hang_up();
            }
        }
    }
}

impl Channel {
    const fn new(client: Option<u32>, server: Option<u32>) -> Self {
        Self { client, server, window: 0, max_packet: 0, eof: false, closed_here: false, closed_there: false }
    }

    /// Sends CLOSE on the client's behalf, unless it was sent.
    fn close(&mut self, cx: &mut ControlCx<'_>) {
        if let (Some(server), false) = (self.server, self.closed_here) {
            self.closed_here = true;
            cx.send_message(&msg::ChannelClose::new(server).to_payload());
        }
    }
}

/// The client's socket.
struct FromClient {
    relay: Relay,
    /// An incomplete message.
    input: Vec<u8>,
    /// Messages are waiting for space in the output buffer.
    waits: bool,
}

impl FromClient {
    fn take(&mut self, cx: &mut ControlCx<'_>) -> Result<(), Violation> {
        let mut read = 0;
        loop {
            let mut at = 0;
            let result = loop {
                match frames::next(&self.input[at..])? {
                    None => break true,
                    Some(_) if !cx.has_room() => break false,
                    Some((message, length)) => {
                        self.relay.on_client(message, cx)?;
                        at += length;
                    }
                }
            };
            self.input.drain(..at);
            self.waits = !result;
            if self.waits || read >= READ_PER_TURN {
                return Ok(());
            }
            let have = self.input.len();
            self.input.resize(have + READ_SIZE, 0);
            let got = recv(self.relay.0.line.socket(), &mut self.input[have..], RecvFlags::DONTWAIT);
            self.input.truncate(have + got.map_or(0, |(got, _)| got));
            match got {
                Ok((0, _)) => return Err(""),
                Ok((got, _)) => read += got,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(""),
            }
        }
    }

    fn go_on(&mut self, cx: &mut ControlCx<'_>) {
        if let Err(why) = self.take(cx) {
            if !why.is_empty() {
                let text = format!("multiplex client in proxy mode sent {why}");
                self.relay.0.master.logger.say(LogLevel::Error, &text);
            }
            self.relay.end(cx);
        }
    }
}

impl Source for FromClient {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let shared = &self.relay.0;
        let interest = Interest { read: !self.waits, write: shared.stuck.get() };
        if !shared.over.get() && (interest.read || interest.write) {
            out.add(0, shared.line.socket().as_fd(), interest);
        }
    }

    fn on_ready(&mut self, _token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        if ready.writable {
            self.relay.flush();
        }
        if (ready.readable || ready.hangup) && !self.waits {
            self.go_on(cx);
        }
    }

    fn waits_for_room(&self) -> bool {
        self.waits && !self.relay.0.over.get()
    }

    fn on_room(&mut self, cx: &mut ControlCx<'_>) {
        self.go_on(cx);
    }

    fn finished(&self) -> bool {
        self.relay.0.over.get()
    }
}
