//! Messages of a client in proxy mode: reads them from its socket, checks them, and forwards them to the
//! server.

use std::cell::{Cell, RefCell};
use std::os::fd::AsFd as _;
use std::rc::Rc;

use lh_config::forward::Endpoint;
use lh_driver::{ChannelId, ControlCx, Interest, Interests, Ready, Source};
use lh_wire::Message as _;
use lh_wire::msg::{self, Rest, open_failure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::state::{Channel, Client, MAX_CHANNELS, Relay, Violation, packet_size_for_peer};
use crate::forward::ForwardError;
use crate::mux::frames;
use crate::mux::line::Line;
use crate::mux::state::{ProxyClient as _, Shared};
use crate::ui::LogLevel;

/// Largest number of bytes read from one client per turn of the loop.
const READ_PER_TURN: usize = 512 << 10;
/// Largest number of bytes per read call.
const READ_SIZE: usize = 128 << 10;

impl Relay {
    /// Serves the client at the other end of this control connection.
    pub(in crate::mux) fn start(master: &Rc<Shared>, line: &Line, cx: &mut ControlCx<'_>) {
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

    /// Handles the client's acceptance of a connection to a listener at the server.
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

    /// Handles a message about an open channel. Its recipient field already is the server's number.
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

    fn global(&self, request: &msg::GlobalRequest<'_>, cx: &mut ControlCx<'_>) -> Result<(), Violation> {
        let slot = request.want_reply.then(|| {
            let mut state = self.0.state.borrow_mut();
            state.answers.push_back(None);
            state.answered + state.answers.len() as u64 - 1
        });
        let forward = frames::listener(request.name, request.fields.0).map_err(|_| "a malformed message")?;
        let forwards = &self.0.master.forwards;
        match forward {
            // A client of a shared connection may not send requests about the connection as a whole.
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
}

/// The source that reads the client's socket.
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
