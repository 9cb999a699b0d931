//! Tests of two transports on a virtual link, in virtual time.

mod compression;
mod early;
mod freezing;
mod handshake;
mod hostile;
mod jobs;
mod peers;
mod random_input;
mod rekeying;
mod relayed;
mod resuming;
mod slabs;
mod unencrypted;

use std::io::IoSlice;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lh_crypto::{KeyType, PrivateKey, Random};
use lh_testkit::{Chunking, Clock, Link, Pipe, Seeded};
use lh_wire::PacketSink;

use crate::{AcceptedHostKey, Config, Event, HostKey, Transport, TransportError};

/// The testkit's generator as a [`Random`].
pub(crate) struct TestRandom(pub(crate) Seeded);

impl Random for TestRandom {
    fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
}

pub(crate) fn random(seed: u64) -> Box<dyn Random + Send> {
    Box::new(TestRandom(Seeded::new(seed)))
}

/// Returns one key of each type, generated once.
pub(crate) fn keys() -> &'static [PrivateKey] {
    static KEYS: OnceLock<Vec<PrivateKey>> = OnceLock::new();
    KEYS.get_or_init(|| {
        [
            (KeyType::Ed25519, None),
            (KeyType::EcdsaP256, None),
            (KeyType::EcdsaP384, None),
            (KeyType::EcdsaP521, None),
            (KeyType::Rsa, Some(2048)),
        ]
        .into_iter()
        .map(|(kind, bits)| PrivateKey::generate(kind, bits).unwrap())
        .collect()
    })
}

pub(crate) fn host_keys() -> Vec<HostKey> {
    keys()
        .iter()
        .map(|key| HostKey {
            algorithms: key.public().signature_algorithms().iter().map(|name| (*name).to_owned()).collect(),
            blob: key.public().blob().to_vec(),
        })
        .collect()
}

pub(crate) fn server_config() -> Config {
    Config::server(host_keys())
}

pub(crate) fn set(list: &mut Vec<String>, names: &[&str]) {
    *list = names.iter().map(|name| (*name).to_owned()).collect();
}

/// Sets the algorithms of both directions.
pub(crate) fn set_cipher(config: &mut Config, cipher: &str, mac: &str) {
    for list in [&mut config.algorithms.cipher_c2s, &mut config.algorithms.cipher_s2c] {
        set(list, &[cipher]);
    }
    for list in [&mut config.algorithms.mac_c2s, &mut config.algorithms.mac_s2c] {
        set(list, &[mac]);
    }
}

pub(crate) fn set_compression(config: &mut Config, name: &str) {
    for list in [&mut config.algorithms.compression_c2s, &mut config.algorithms.compression_s2c] {
        set(list, &[name]);
    }
}

/// One end, with the events and packets it received.
pub(crate) struct End {
    pub(crate) transport: Transport,
    pub(crate) events: Vec<Event>,
    pub(crate) packets: Vec<Vec<u8>>,
    pub(crate) error: Option<TransportError>,
    /// Answers host key and signature events automatically.
    pub(crate) answers: bool,
    /// Writes its output to the link.
    pub(crate) writes: bool,
    /// Workers that run this end's jobs.
    pub(crate) helpers: Option<jobs::Helpers>,
}

impl End {
    pub(crate) fn new(transport: Transport) -> Self {
        Self {
            transport,
            events: Vec::new(),
            packets: Vec::new(),
            error: None,
            answers: true,
            writes: true,
            helpers: None,
        }
    }

    fn flush(&mut self, now: Instant, out: &mut Pipe) -> bool {
        self.transport.output(now);
        if !self.writes {
            return false;
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        self.transport.output_slices(&mut slices);
        let total = slices.iter().map(|slice| slice.len()).sum();
        for slice in &slices {
            out.push(now, slice);
        }
        self.transport.written(total);
        total > 0
    }

    fn fetch(&mut self, now: Instant, from: &mut Pipe) -> bool {
        let n = from.pop(now, self.transport.recv_space());
        self.transport.received(n);
        if from.at_eof() {
            self.transport.received_eof();
        }
        n > 0
    }

    fn poll(&mut self, now: Instant) -> bool {
        let mut progress = false;
        loop {
            match self.transport.poll(now) {
                Ok(None) => return progress,
                Ok(Some(event)) => {
                    progress = true;
                    if self.answers {
                        answer(&mut self.transport, &event);
                    }
                    match event {
                        Event::Packet(payload) => {
                            if payload[..] == [52] {
                                // USERAUTH_SUCCESS, as a client handles it.
                                self.transport.set_authenticated();
                            }
                            self.packets.push(payload.to_vec());
                        }
                        event => self.events.push(event),
                    }
                }
                Err(error) => {
                    progress |= self.error.is_none();
                    self.error = Some(error);
                    return progress;
                }
            }
        }
    }

    /// Runs some outstanding jobs; returns true when there were any.
    pub(crate) fn help(&mut self) -> bool {
        self.helpers.as_mut().is_some_and(|helpers| helpers.work(&mut self.transport))
    }

    pub(crate) fn kex_done(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::KexDone { .. })).count()
    }

    pub(crate) fn send(&mut self, payload: &[u8]) {
        self.transport.payload(payload);
    }

    pub(crate) fn disconnected(&self) -> Option<u32> {
        self.events.iter().find_map(|event| match event {
            Event::Disconnected { reason, .. } => Some(*reason),
            _ => None,
        })
    }
}

/// Answers an event like an honest caller.
pub(crate) fn answer(transport: &mut Transport, event: &Event) {
    match event {
        Event::HostKey { blob, .. } => {
            transport.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(blob)).unwrap();
        }
        Event::SignExchangeHash { algorithm, key_index, data } => {
            let signature = keys()[*key_index].sign(algorithm, data).unwrap();
            transport.exchange_hash_signed(&signature).unwrap();
        }
        _ => {}
    }
}

pub(crate) struct Pair {
    pub(crate) clock: Clock,
    pub(crate) link: Link,
    pub(crate) client: End,
    pub(crate) server: End,
}

impl Pair {
    pub(crate) fn new(client: Config, server: Config) -> Self {
        Self::over(Link::direct(), client, server)
    }

    pub(crate) fn over(link: Link, client: Config, server: Config) -> Self {
        let clock = Clock::default();
        let client = Transport::new(client, random(1), clock.now());
        let server = Transport::new(server, random(2), clock.now());
        Self { clock, link, client: End::new(client), server: End::new(server) }
    }

    /// Returns a pair with the first exchange complete and both sides authenticated.
    pub(crate) fn established(client: Config, server: Config) -> Self {
        let mut pair = Self::new(client, server);
        pair.establish();
        pair
    }

    pub(crate) fn establish(&mut self) {
        self.drive();
        assert_eq!((self.client.kex_done(), self.server.kex_done()), (1, 1), "{:?}", self.errors());
        self.client.transport.set_authenticated();
        self.server.transport.set_authenticated();
    }

    /// Processes everything possible at the current time; returns true when something happened.
    pub(crate) fn step(&mut self) -> bool {
        let now = self.clock.now();
        let mut progress = self.client.flush(now, &mut self.link.up);
        progress |= self.server.flush(now, &mut self.link.down);
        progress |= self.client.fetch(now, &mut self.link.down);
        progress |= self.server.fetch(now, &mut self.link.up);
        progress |= self.client.help() | self.server.help();
        progress |= self.client.poll(now);
        progress |= self.server.poll(now);
        progress
    }

    /// Processes events and advances the time until nothing is in flight.
    pub(crate) fn drive(&mut self) {
        loop {
            while self.step() {}
            match self.link.next_arrival() {
                Some(arrival) if arrival > self.clock.now() => self.clock.advance_to(arrival),
                _ => return,
            }
        }
    }

    pub(crate) fn errors(&self) -> (Option<&TransportError>, Option<&TransportError>) {
        (self.client.error.as_ref(), self.server.error.as_ref())
    }

    pub(crate) fn assert_well(&self) {
        assert_eq!(self.errors(), (None, None));
    }

    /// Sends packets both ways and checks that they arrive unchanged.
    pub(crate) fn exchange(&mut self, sizes: &[usize]) {
        let payloads: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &size)| numbered(i, size)).collect();
        self.client.packets.clear();
        self.server.packets.clear();
        for payload in &payloads {
            self.client.send(payload);
            self.server.send(payload);
        }
        self.drive();
        self.assert_well();
        assert!(self.server.packets == payloads, "client to server");
        assert!(self.client.packets == payloads, "server to client");
    }
}

/// A recognisable CHANNEL_DATA-like payload.
pub(crate) fn numbered(number: usize, size: usize) -> Vec<u8> {
    let mut payload = vec![94];
    payload.extend((0..size).map(|i| (i * 7 + number * 13) as u8));
    payload
}

/// A one-way latency of 50 ms.
pub(crate) const LATENCY: Duration = Duration::from_millis(50);

pub(crate) fn far(chunking: Chunking) -> Link {
    Link::new(LATENCY, chunking)
}
