//! Simulation of a session: two ends, all their connections, and the programs' part in the extension.

use std::time::{Duration, Instant};

use lh_crypto::Zeroizing;
use lh_resume::message::{self, Accepted, Acknowledge, Message, Request, Session};
use lh_resume::{ClientSecret, Handle, Pace, Receipts, Refused, SECRET_LEN, ServerSecret, is_counted};
use lh_testkit::{Chunking, Clock, Link, Pipe, Seeded};
use lh_transport::{Event, ResumeError, Transport, TransportError};
use lh_wire::msg::Ping;
use lh_wire::{Message as _, PacketSink};

use crate::application::{Application, Recorded, digest};
use crate::transports::{SUITES, client_config, fetch, flush, poll, server_config, transport};

/// Memory for unacknowledged messages, bytes: so small that data has to wait for it.
const BUDGET: usize = 40_000;

/// Size of a slab of the transport, bytes: the tolerance of budget checks.
const SLAB: usize = 288 * 1024;

const PACE: Pace = Pace { bytes: 4096, time: Duration::from_millis(200) };

const USER: &str = "alice";

/// State of either end besides its secret.
pub(crate) struct End {
    pub(crate) application: Application,
    /// Transport that gets the messages. It may be broken.
    pub(crate) transport: Transport,
    pub(crate) receipts: Receipts,
    /// Digests of the messages that were sent and acted on.
    sent: Vec<u64>,
    acted_on: Vec<u64>,
}

impl End {
    pub(crate) fn act(&mut self, random: &mut Seeded, now: Instant) {
        let mut sink = Recorded { transport: &mut self.transport, sent: &mut self.sent };
        self.application.act(random, now, &mut sink);
    }

    fn act_fully(&mut self, now: Instant) {
        let mut sink = Recorded { transport: &mut self.transport, sent: &mut self.sent };
        self.application.act_fully(now, &mut sink);
    }

    /// Acts on a message of the session.
    fn take(&mut self, payload: bytes::Bytes, now: Instant) {
        if is_counted(payload[0]) {
            self.receipts.on_message(payload.len(), now);
            self.acted_on.push(digest(&payload));
            let mut sink = Recorded { transport: &mut self.transport, sent: &mut self.sent };
            self.application.handle(payload, now, &mut sink);
            return;
        }
        match Message::decode(&payload).unwrap() {
            Message::Acknowledge(Acknowledge { received }) => self.transport.acknowledge(received).unwrap(),
            Message::Session(_) => panic!("a second session"),
        }
    }

    /// Queues the acknowledgement that is due.
    fn acknowledge(&mut self, now: Instant) {
        let riding = self.transport.queued_bytes() > 0;
        if self.transport.is_resumable() {
            return;
        }
        if let Some(received) = self.receipts.due(riding, now) {
            self.transport.payload(&Acknowledge { received }.to_payload());
            self.receipts.on_acknowledged(received);
        }
    }

    fn check_memory(&self) {
        let kept = self.transport.retained_bytes();
        assert!(kept <= BUDGET + SLAB, "{kept} bytes are kept");
        let (acknowledged, sent) = self.transport.message_counts().unwrap();
        assert!((sent - acknowledged) as usize <= 1000, "{} messages are kept", sent - acknowledged);
    }
}

/// A connection that the client has not given up, or that the server still has.
struct Path {
    link: Link,
    number: u64,
}

/// A connection before its login, at one end.
struct Newcomer {
    transport: Transport,
    link: u64,
    request: Option<Request>,
    answer: Option<Accepted>,
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) random: Seeded,
    pub(crate) client: End,
    pub(crate) server: End,
    client_secret: Option<ClientSecret>,
    server_secret: Option<ServerSecret>,
    paths: Vec<Path>,
    client_link: u64,
    server_link: u64,
    /// The client's new connection, while it has no other.
    client_new: Option<Newcomer>,
    /// The client's second connection, beside the one that carries the session.
    client_beside: Option<Newcomer>,
    /// Connections at the server that are not authenticated.
    server_new: Vec<Newcomer>,
    /// Count of a successful resumption that waits for the end of a key exchange.
    client_waits: Option<u64>,
    suites: usize,
    channels: usize,
    next_link: u64,
    pub(crate) resumed: u64,
    pub(crate) overtaken: u64,
    pub(crate) broken_claims: u64,
    /// Second connections that took the session over, and earlier answers to PINGs on second connections.
    pub(crate) taken_over: u64,
    pub(crate) pongs: u64,
}

impl World {
    /// Logs in over a first connection. `suites`: index of its suite; connections use the suites in turn.
    pub(crate) fn new(seed: u64, suites: usize, channels: Vec<(u32, u32)>) -> Self {
        let mut random = Seeded::new(seed);
        let clock = Clock::default();
        let suite = SUITES[suites % SUITES.len()];
        let now = clock.now();
        let client = transport(client_config(suite), &mut random, now);
        let server = transport(server_config(suite), &mut random, now);
        let count = channels.len();
        let end = |transport, is_client, channels| End {
            application: Application::new(is_client, channels),
            transport,
            receipts: Receipts::new(PACE),
            sent: Vec::new(),
            acted_on: Vec::new(),
        };
        let mut world = Self {
            clock,
            random,
            client: end(client, true, channels),
            server: end(server, false, Vec::new()),
            client_secret: None,
            server_secret: None,
            paths: vec![Path { link: Link::direct(), number: 0 }],
            client_link: 0,
            server_link: 0,
            client_new: None,
            client_beside: None,
            server_new: Vec::new(),
            client_waits: None,
            suites,
            channels: count,
            next_link: 1,
            resumed: 0,
            overtaken: 0,
            broken_claims: 0,
            taken_over: 0,
            pongs: 0,
        };
        world.log_in();
        world
    }

    /// Exchanges keys, logs in and announces the session.
    fn log_in(&mut self) {
        let now = self.clock.now();
        let mut asked = false;
        while self.client_secret.is_none() {
            let link = &mut self.paths[0].link;
            flush(&mut self.client.transport, &mut link.up, now);
            flush(&mut self.server.transport, &mut link.down, now);
            fetch(&mut self.client.transport, &mut link.down, now);
            fetch(&mut self.server.transport, &mut link.up, now);
            while let Some(event) = poll(&mut self.server.transport, now).unwrap() {
                if let Event::Packet(_) = event {
                    let handle = Handle(*b"a public session");
                    let server = &mut self.server.transport;
                    server.payload(&[52]);
                    server.set_authenticated();
                    server.retain(BUDGET).unwrap();
                    self.server_secret = Some(ServerSecret::new(handle, &export(server, handle)));
                    server.payload(&Session { handle, grace: 600 }.to_payload());
                }
            }
            while let Some(event) = poll(&mut self.client.transport, now).unwrap() {
                let client = &mut self.client.transport;
                match event {
                    Event::KexDone { .. } if !asked => {
                        asked = true;
                        client.payload(&[50]);
                    }
                    Event::Packet(payload) if payload[0] == 52 => {
                        client.set_authenticated();
                        client.retain(BUDGET).unwrap();
                    }
                    Event::Packet(payload) => match Message::decode(&payload).unwrap() {
                        Message::Session(Session { handle, .. }) => {
                            self.client_secret = Some(ClientSecret::new(handle, &export(client, handle)));
                        }
                        other => panic!("{other:?}"),
                    },
                    _ => {}
                }
            }
        }
    }

    /// Limits the connection that the client uses to this many further bytes each way.
    pub(crate) fn cut_after(&mut self, up: u64, down: u64) {
        let link = self.client_new.as_ref().map_or(self.client_link, |new| new.link);
        let path = self.paths.iter_mut().find(|path| path.number == link).unwrap();
        let (sent_up, sent_down) = (path.link.up.sent(), path.link.down.sent());
        path.link.up.cut_at(sent_up + up);
        path.link.down.cut_at(sent_down + down);
    }

    /// Sets the pieces in which bytes arrive on the connection that the client uses.
    pub(crate) fn set_pieces(&mut self, size: usize) {
        let link = self.client_new.as_ref().map_or(self.client_link, |new| new.link);
        let seed = self.random.next_u64();
        let path = self.paths.iter_mut().find(|path| path.number == link).unwrap();
        // The pipe is new, so no bytes are lost.
        path.link = Link::new(Duration::ZERO, Chunking::Random(Seeded::new(seed), size));
    }

    /// Gives up the client's connection and makes a new one.
    pub(crate) fn reconnect(&mut self) {
        let now = self.clock.now();
        if let Some(given_up) = self.client_new.take() {
            self.broken_claims += u64::from(given_up.request.is_some());
            self.close(given_up.link);
        }
        self.client.transport.link_lost();
        assert!(self.client.transport.is_resumable());
        self.close(self.client_link);
        if let Some(beside) = self.client_beside.take() {
            self.close(beside.link);
        }
        self.client_new = Some(self.connect(now));
    }

    /// Starts another connection. Returns the client's end.
    fn connect(&mut self, now: Instant) -> Newcomer {
        let number = self.next_link;
        self.next_link += 1;
        let suite = SUITES[(self.suites + number as usize) % SUITES.len()];
        self.paths.push(Path { link: Link::direct(), number });
        let newcomer = |transport| Newcomer { transport, link: number, request: None, answer: None };
        let client = newcomer(transport(client_config(suite), &mut self.random, now));
        self.server_new.push(newcomer(transport(server_config(suite), &mut self.random, now)));
        client
    }

    /// Makes a second connection of the client beside the one that carries the session.
    pub(crate) fn connect_beside(&mut self) {
        if self.client_new.is_none() && self.client_beside.is_none() {
            let now = self.clock.now();
            self.client_beside = Some(self.connect(now));
        }
    }

    /// Gives up the connection that carries the session in favour of the second one, if the second one has
    /// exchanged keys.
    pub(crate) fn take_over(&mut self) {
        let Some(mut beside) = self.client_beside.take_if(|new| new.transport.session_id().is_some()) else {
            return;
        };
        self.client.transport.link_lost();
        self.close(self.client_link);
        self.request(&mut beside);
        self.client_new = Some(beside);
        self.taken_over += 1;
    }

    /// Claims the session on a connection.
    fn request(&mut self, new: &mut Newcomer) {
        let id = new.transport.session_id().unwrap().to_vec();
        let secret = self.client_secret.as_mut().unwrap();
        let request = secret.request(USER, &id, self.client.receipts.received());
        new.transport.payload(&request.to_payload());
        new.request = Some(request);
    }

    /// Sends PINGs on the client's second connection and reads the answers. No other messages arrive there.
    pub(crate) fn use_beside(&mut self) {
        let now = self.clock.now();
        let Some(new) = &mut self.client_beside else { return };
        let Some(path) = self.paths.iter_mut().find(|path| path.number == new.link) else { return };
        if new.transport.answers_pings() {
            new.transport.payload(&Ping::new(&[7; 300]).to_payload());
        }
        flush(&mut new.transport, &mut path.link.up, now);
        fetch(&mut new.transport, &mut path.link.down, now);
        while let Some(event) = poll(&mut new.transport, now).unwrap() {
            match event {
                Event::Pong(_) => self.pongs += 1,
                Event::Packet(payload) => panic!("{payload:?} on the second connection"),
                _ => {}
            }
        }
    }

    /// Closes the client's end of a connection. Bytes in flight to the server may still arrive.
    fn close(&mut self, link: u64) {
        if let Some(path) = self.paths.iter_mut().find(|path| path.number == link) {
            path.link.up.close();
        }
    }

    /// Moves bytes from the client to its connection.
    pub(crate) fn client_writes(&mut self) {
        let now = self.clock.now();
        self.client.acknowledge(now);
        let (transport, link) = match &mut self.client_new {
            Some(new) => (&mut new.transport, new.link),
            None => (&mut self.client.transport, self.client_link),
        };
        if let Some(path) = self.paths.iter_mut().find(|path| path.number == link) {
            flush(transport, &mut path.link.up, now);
        }
    }

    /// Moves bytes from the server to all its connections.
    pub(crate) fn server_writes(&mut self) {
        let now = self.clock.now();
        self.server.acknowledge(now);
        for path in &mut self.paths {
            let new = self.server_new.iter_mut().find(|new| new.link == path.number);
            match new {
                Some(new) => flush(&mut new.transport, &mut path.link.down, now),
                None if path.number == self.server_link => {
                    flush(&mut self.server.transport, &mut path.link.down, now);
                }
                None => {}
            }
        }
    }

    /// Reads the client's connection once; returns false when nothing happened. A break is noticed here.
    pub(crate) fn client_reads(&mut self) -> bool {
        let now = self.clock.now();
        let link = self.client_new.as_ref().map_or(self.client_link, |new| new.link);
        let Some(path) = self.paths.iter_mut().find(|path| path.number == link) else { return false };
        if self.client_new.is_some() {
            return self.client_reads_new();
        }
        let moved = fetch(&mut self.client.transport, &mut path.link.down, now);
        loop {
            match poll(&mut self.client.transport, now) {
                Ok(Some(Event::Packet(payload))) => self.client.take(payload, now),
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.client.check_memory();
                    return moved;
                }
                Err(error) => {
                    assert!(error.is_break(), "{error}");
                    self.reconnect();
                    return true;
                }
            }
        }
    }

    fn client_reads_new(&mut self) -> bool {
        let now = self.clock.now();
        let Some(mut new) = self.client_new.take() else { return false };
        if let Some(received) = self.client_waits {
            return self.client_resumes(new, received);
        }
        let Some(path) = self.paths.iter_mut().find(|path| path.number == new.link) else { return false };
        let moved = fetch(&mut new.transport, &mut path.link.down, now);
        loop {
            match poll(&mut new.transport, now) {
                Ok(Some(Event::KexDone { first: true, .. })) => {
                    self.request(&mut new);
                }
                Ok(Some(Event::Packet(payload))) if payload[0] == message::ACCEPTED => {
                    new.answer = Some(Accepted::decode(&payload).unwrap());
                }
                Ok(Some(Event::Packet(payload))) => {
                    assert_eq!(payload[..], [52]);
                    new.transport.set_authenticated();
                    let (request, answer) = (new.request.take().unwrap(), new.answer.take().unwrap());
                    let id = new.transport.session_id().unwrap().to_vec();
                    let export = export(&new.transport, request.handle);
                    let secret = self.client_secret.as_mut().unwrap();
                    let received = secret.accepted(&request, &id, &export, &answer).unwrap();
                    return self.client_resumes(new, received);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.client_new = Some(new);
                    return moved;
                }
                Err(error) => {
                    assert!(matches!(error, TransportError::Closed { .. }), "{error}");
                    self.client_new = Some(new);
                    self.reconnect();
                    return true;
                }
            }
        }
    }

    fn client_resumes(&mut self, mut new: Newcomer, received: u64) -> bool {
        self.client_waits = None;
        match new.transport.resume_from(&mut self.client.transport, received) {
            Ok(()) => {}
            Err(ResumeError::Busy) => {
                self.client_waits = Some(received);
                self.client_new = Some(new);
                return false;
            }
            Err(error) => panic!("{error}"),
        }
        let count = self.client.receipts.received();
        new.transport.payload(&Acknowledge { received: count }.to_payload());
        self.client.receipts.on_acknowledged(count);
        self.client.transport = new.transport;
        self.client_link = new.link;
        true
    }

    /// Reads one of the server's connections once; returns false when nothing happened.
    pub(crate) fn server_reads(&mut self, choice: usize) -> bool {
        let now = self.clock.now();
        let choice = choice % (self.server_new.len() + 1);
        if choice < self.server_new.len() {
            return self.server_reads_new(choice);
        }
        let link = self.server_link;
        let Some(path) = self.paths.iter_mut().find(|path| path.number == link) else { return false };
        if self.server.transport.is_resumable() {
            return false;
        }
        let moved = fetch(&mut self.server.transport, &mut path.link.up, now);
        loop {
            match poll(&mut self.server.transport, now) {
                Ok(Some(Event::Packet(payload))) => {
                    self.server_secret.as_mut().unwrap().confirm();
                    self.server.take(payload, now);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.server.check_memory();
                    return moved;
                }
                Err(error) => {
                    // The session now waits for its client.
                    assert!(error.is_break(), "{error}");
                    // The client may still be waiting for its answer on this link.
                    if let Some(path) = self.paths.iter_mut().find(|path| path.number == link) {
                        path.link.down.close();
                    }
                    return true;
                }
            }
        }
    }

    fn server_reads_new(&mut self, choice: usize) -> bool {
        let now = self.clock.now();
        let mut new = self.server_new.swap_remove(choice);
        let link = new.link;
        let Some(path) = self.paths.iter_mut().find(|path| path.number == link) else { return true };
        let moved = fetch(&mut new.transport, &mut path.link.up, now);
        loop {
            match poll(&mut new.transport, now) {
                Ok(Some(Event::Packet(payload))) => {
                    let request = Request::decode(&payload).unwrap();
                    self.server_is_asked(new, &request);
                    return true;
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.server_new.push(new);
                    return moved;
                }
                Err(error) => {
                    assert!(matches!(error, TransportError::Closed { .. }), "{error}");
                    path.link.down.close();
                    return true;
                }
            }
        }
    }

    fn server_is_asked(&mut self, mut new: Newcomer, request: &Request) {
        let id = new.transport.session_id().unwrap().to_vec();
        let secret = self.server_secret.as_mut().unwrap();
        let is_current = self.client_new.as_ref().is_some_and(|client| client.link == new.link);
        let claim = match secret.verify(request, &id) {
            Ok(claim) => claim,
            Err(Refused::Overtaken | Refused::WrongProof) if !is_current => {
                self.overtaken += 1;
                if let Some(path) = self.paths.iter_mut().find(|path| path.number == new.link) {
                    path.link.down.close();
                }
                return;
            }
            Err(error) => panic!("{error}: the session is lost"),
        };
        // The previous connection is dead from here on.
        self.server.transport.link_lost();
        let received = self.server.receipts.received();
        let answer = secret.accept(&claim, &export(&new.transport, request.handle), received).unwrap();
        new.transport.payload(&answer.to_payload());
        new.transport.payload(&[52]);
        new.transport.set_authenticated();
        new.transport.resume_from(&mut self.server.transport, claim.received()).unwrap();
        self.server.receipts.on_acknowledged(received);
        self.server.transport = new.transport;
        if let Some(path) = self.paths.iter_mut().find(|path| path.number == self.server_link) {
            path.link.down.close();
        }
        self.server_link = new.link;
        self.resumed += 1;
    }

    /// Continues without further breaks until all channels are closed and everything is acknowledged.
    pub(crate) fn finish(&mut self) {
        for _ in 0..3000 {
            let now = self.clock.now();
            self.client.act_fully(now);
            self.server.act_fully(now);
            let mut moved = false;
            self.client_writes();
            self.server_writes();
            // Bytes may arrive one by one.
            for choice in 0..=self.server_new.len() {
                moved |= (0..500).take_while(|_| self.server_reads(choice)).count() > 0;
            }
            moved |= (0..500).take_while(|_| self.client_reads()).count() > 0;
            if !moved {
                if self.is_done() {
                    return self.check();
                }
                self.clock.advance(PACE.time.max(Pace::AT_REST));
            }
        }
        panic!("the session does not come to rest: {}", self.state());
    }

    /// Describes why a session makes no progress.
    fn state(&self) -> String {
        let end = |end: &End| {
            format!(
                "resumable {}, {:?}, counts {:?}, received {}, done {}, queued {}",
                end.transport.is_resumable(),
                end.transport.negotiated().map(|names| &names.cipher_c2s),
                end.transport.message_counts(),
                end.receipts.received(),
                end.application.is_done(self.channels),
                end.transport.queued_bytes()
            )
        };
        let pipe = |pipe: &Pipe| (pipe.sent(), pipe.at_eof(), pipe.next_arrival().is_some());
        let path = |path: &Path| (path.number, pipe(&path.link.up), pipe(&path.link.down));
        let paths: Vec<_> = self.paths.iter().rev().take(2).map(path).collect();
        format!(
            "client on {} ({}, new {:?}), server on {} ({}), paths {paths:?}",
            self.client_link,
            end(&self.client),
            self.client_new.as_ref().map(|new| new.link),
            self.server_link,
            end(&self.server)
        )
    }

    fn is_done(&self) -> bool {
        let acknowledged = |end: &End| end.transport.message_counts().is_some_and(|(a, sent)| a == sent);
        self.client.application.is_done(self.channels)
            && self.server.application.is_done(self.channels)
            && acknowledged(&self.client)
            && acknowledged(&self.server)
    }

    fn check(&self) {
        assert!(self.client.sent == self.server.acted_on, "messages of the client");
        assert!(self.server.sent == self.client.acted_on, "messages of the server");
        assert_eq!((self.client.transport.retained_bytes(), self.server.transport.retained_bytes()), (0, 0));
    }

    /// Returns the number of times that data had to wait for the memory of unacknowledged messages, or for a
    /// connection.
    pub(crate) fn waits(&self) -> u64 {
        self.client.application.refused + self.server.application.refused
    }

    /// Returns the number of messages of the session, both ways.
    pub(crate) fn messages(&self) -> u64 {
        (self.client.sent.len() + self.server.sent.len()) as u64
    }
}

fn export(transport: &Transport, handle: Handle) -> Zeroizing<[u8; SECRET_LEN]> {
    transport.export(lh_resume::NAME, &handle.0).unwrap()
}
