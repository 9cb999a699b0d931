//! Longhaul's server in memory: transport, authentication and connection, joined as in the server's processes
//! but without a socket. Also the invariants that hold for every client.

use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use lh_auth::server::{Attempt, Method, Server};
use lh_connection::{ChannelOptions, Config as ConnectionConfig, Connection, Event as ConnectionEvent};
use lh_crypto::{KeyType, PrivateKey, PublicKey, Random};
use lh_testkit::Seeded;
use lh_transport::{Config, Event, HostKey, Transport};
use lh_wire::{PacketSink, Writer};

use super::sequence::{Login, Reaction, Sequence, run};
use crate::client::{Client, Received, Wire};

/// Limit of bytes that wait for a client that does not read.
pub(super) const MOST_QUEUED: usize = 4 << 20;

pub(super) struct TestRandom(pub(super) Seeded);

impl Random for TestRandom {
    fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
}

/// Keys of one campaign.
pub struct Keys {
    pub(super) host: PrivateKey,
    pub(super) user: PrivateKey,
}

impl Keys {
    /// Generates new keys.
    pub fn generate() -> Self {
        let key = || PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
        Self { host: key(), user: key() }
    }
}

/// The server.
struct MemoryServer<'a> {
    keys: &'a Keys,
    now: Instant,
    transport: Transport,
    auth: Option<Server>,
    connection: Option<Connection>,
    /// A client has proved that it has the user's key.
    proved: bool,
    /// A command has run.
    ran: bool,
    over: bool,
    /// Broken invariants.
    broken: Vec<String>,
    flaw: Flaw,
}

/// A vulnerability put into the server, to check that the campaign finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Any request logs in, as in CVE-2018-10933.
    Gullible,
    /// Messages of the connection protocol are processed at any time, as in CVE-2025-32433.
    Premature,
}

impl<'a> MemoryServer<'a> {
    fn new(keys: &'a Keys, seed: u64, flaw: Flaw) -> Self {
        let now = Instant::now();
        let blob = keys.host.public().blob().to_vec();
        let config = Config::server(vec![HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob }]);
        Self {
            keys,
            now,
            transport: Transport::new(config, Box::new(TestRandom(Seeded::new(seed))), now),
            auth: None,
            connection: None,
            proved: false,
            ran: false,
            over: false,
            broken: Vec::new(),
            flaw,
        }
    }

    fn poll(&mut self) {
        while !self.over {
            match self.transport.poll(self.now) {
                Ok(Some(event)) => self.on_event(event),
                Ok(None) => break,
                Err(error) => {
                    self.over = true;
                    if self.transport.poll(self.now) != Err(error) {
                        self.broken.push("an error did not stay".to_owned());
                    }
                }
            }
        }
        if self.transport.queued_bytes() > MOST_QUEUED {
            self.broken.push(format!("{} bytes wait for the client", self.transport.queued_bytes()));
        }
    }

    fn end(&mut self, reason: u32) {
        self.transport.disconnect(reason, "protocol error");
        self.over = true;
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::SignExchangeHash { algorithm, data, .. } => {
                let signature = self.keys.host.sign(&algorithm, &data).expect("a signature");
                if self.transport.exchange_hash_signed(&signature).is_err() {
                    self.over = true;
                }
            }
            Event::KexDone { first: true, .. } => {
                let session = self.transport.session_id().unwrap_or_default();
                let mut auth = Server::new(session, self.transport.host_key().unwrap_or_default());
                auth.allow_early_data(256 << 10);
                self.auth = Some(auth);
            }
            Event::Packet(payload) => match &mut self.connection {
                None => self.on_login(&payload),
                Some(connection) => match connection.handle(payload, self.now, &mut self.transport) {
                    Ok(()) => self.serve(),
                    Err(error) => self.end(error.disconnect_reason()),
                },
            },
            Event::Disconnected { .. } => self.over = true,
            _ => {}
        }
    }

    fn on_login(&mut self, payload: &[u8]) {
        if self.flaw == Flaw::Premature && payload[0] == 90 {
            self.transport.set_authenticated();
            let mut connection = Connection::new(ConnectionConfig::default());
            let _ = connection.handle(payload.to_vec().into(), self.now, &mut self.transport);
            self.connection = Some(connection);
            return self.serve();
        }
        let Some(auth) = &mut self.auth else {
            self.broken.push(format!("message {} came before the keys", payload[0]));
            return;
        };
        match auth.handle(payload, &mut self.transport) {
            Ok(None) => {}
            Ok(Some(attempt)) => {
                if self.proves(&attempt) {
                    self.proved = true;
                    if let Some(auth) = &mut self.auth {
                        auth.accept(&mut self.transport);
                    }
                    self.transport.set_authenticated();
                    self.connection = Some(Connection::new(ConnectionConfig::default()));
                } else if let Some(auth) = &mut self.auth {
                    match attempt.method {
                        Method::KeyboardInteractive(_) => {
                            auth.prompts("", "", &[("Password: ", false)], &mut self.transport);
                        }
                        _ => auth.reject(&["publickey"], false, &mut self.transport),
                    }
                }
            }
            Err(error) => self.end(error.disconnect_reason()),
        }
    }

    fn proves(&self, attempt: &Attempt) -> bool {
        if self.flaw == Flaw::Gullible && !matches!(attempt.method, Method::None) {
            return true;
        }
        let Method::PublicKey(request) = &attempt.method else { return false };
        let Some(signature) = &request.signature else { return false };
        let right = request.key == self.keys.user.public().blob() && attempt.user == "root";
        right
            && PublicKey::from_blob(&request.key)
                .is_ok_and(|key| key.verify(&request.algorithm, &request.signed, signature).is_ok())
    }

    fn serve(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let sink: &mut dyn PacketSink = &mut self.transport;
        while let Some(event) = connection.poll_event() {
            match event {
                ConnectionEvent::OpenRequested { id, kind, .. } if kind == "session" => {
                    connection.accept(id, &ChannelOptions::default(), b"", sink);
                }
                ConnectionEvent::OpenRequested { id, .. } => {
                    connection.refuse(id, 3, "unknown channel type", sink);
                }
                ConnectionEvent::Data { id, data, .. } => {
                    connection.consumed(id, data.len(), self.now, sink);
                }
                ConnectionEvent::Request { id, name, want_reply, .. } => {
                    let runs = name == "exec";
                    if want_reply {
                        connection.reply(id, runs, sink);
                    }
                    if runs {
                        self.ran = true;
                        let mut status = Vec::new();
                        status.put_u32(0);
                        connection.request(id, "exit-status", false, &status, sink);
                        connection.close(id, sink);
                    }
                }
                ConnectionEvent::GlobalRequest { want_reply: true, .. } => {
                    connection.reply_global(false, b"", sink);
                }
                _ => {}
            }
        }
    }
}

/// Passes a transport as many bytes as it accepts, and returns the rest.
pub(super) fn put<'a>(transport: &mut Transport, bytes: &'a [u8]) -> &'a [u8] {
    let space = transport.recv_space();
    let n = space.len().min(bytes.len());
    space[..n].copy_from_slice(&bytes[..n]);
    transport.received(n);
    &bytes[n..]
}

/// Appends the bytes that a transport has to send.
pub(super) fn take(transport: &mut Transport, now: Instant, is_over: bool, out: &mut Vec<u8>) -> Received {
    transport.output(now);
    let before = out.len();
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    transport.output_slices(&mut slices);
    slices.iter().for_each(|slice| out.extend_from_slice(slice));
    drop(slices);
    transport.written(out.len() - before);
    match (out.len() > before, is_over) {
        (true, _) => Received::Bytes,
        (false, true) => Received::Closed,
        (false, false) => Received::Silent,
    }
}

/// Runs a sequence; a panic counts as a broken rule.
pub(super) fn guarded(run: impl FnOnce() -> Outcome) -> Outcome {
    let panicked = |_| Outcome { reaction: None, broken: vec!["panic".to_owned()] };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked)
}

impl Wire for MemoryServer<'_> {
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.over {
            bytes = put(&mut self.transport, bytes);
            self.poll();
        }
    }

    fn receive(&mut self, out: &mut Vec<u8>) -> Received {
        self.poll();
        take(&mut self.transport, self.now, self.over, out)
    }
}

/// Result of a sequence.
pub struct Outcome {
    /// The reaction, in the form that is compared between servers.
    pub reaction: Option<Reaction>,
    /// Broken rules; empty on success.
    pub broken: Vec<String>,
}

/// Runs one sequence and checks the invariants.
pub fn check(keys: &Keys, sequence: &Sequence, seed: u64) -> Outcome {
    check_with(keys, sequence, seed, Flaw::None)
}

fn check_with(keys: &Keys, sequence: &Sequence, seed: u64, flaw: Flaw) -> Outcome {
    guarded(|| {
        let mut client = Client::new(MemoryServer::new(keys, seed, flaw), sequence.strict);
        let login = Login { user: "root", key: &keys.user };
        let reaction = run(&mut client, sequence, &login);
        let server = client.wire();
        let mut broken = std::mem::take(&mut server.broken);
        if server.ran && !server.proved {
            broken.push("a command ran before anybody had logged in".to_owned());
        }
        if server.proved && !sequence.authenticates {
            broken.push("a client got in without its key".to_owned());
        }
        if reaction.end.is_ok() && sequence.breaks_strict() {
            broken.push("strict key exchange took a message that it forbids".to_owned());
        }
        if sequence.insertions.is_empty() && sequence.authenticates && reaction.end.is_err() {
            broken.push(format!("an honest client failed: {reaction:?}"));
        }
        Outcome { reaction: Some(reaction), broken }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_clients_get_in() {
        let keys = Keys::generate();
        for strict in [true, false] {
            for rekeys in [true, false] {
                let sequence = Sequence { rekeys, ..Sequence::honest(strict) };
                let outcome = check(&keys, &sequence, 1);
                assert_eq!(outcome.broken, Vec::<String>::new());
                assert_eq!(outcome.reaction.unwrap().class(), "completed[]", "{}", sequence.text());
            }
        }
    }

    #[test]
    fn planted_flaws_are_noticed() {
        use super::super::message::{Message, Variant};
        use super::super::sequence::{Insertion, Place};
        let keys = Keys::generate();
        let message = |name: &str| Message::all().find(|message| message.name() == name).unwrap();
        for (flaw, name, expected) in [
            (Flaw::Gullible, "password", "a client got in without its key"),
            (Flaw::Premature, "open-session", "a command ran before anybody had logged in"),
        ] {
            let insertion =
                Insertion { place: Place::Refusal, message: message(name), variant: Variant::Right };
            let sequence = Sequence { authenticates: false, ..Sequence::with(true, insertion) };
            assert_eq!(check(&keys, &sequence, 1).broken, Vec::<String>::new(), "{name}");
            assert_eq!(check_with(&keys, &sequence, 1, flaw).broken, [expected], "{name}");
        }
    }

    #[test]
    fn no_sequence_gets_in_without_authenticating() {
        let keys = Keys::generate();
        let mut random = Seeded::new(7);
        let singles = Sequence::singles().filter(|sequence| !sequence.rekeys);
        let pairs = (0..2000).map(|_| Sequence::random(&mut random));
        for sequence in singles.chain(pairs.collect::<Vec<_>>()) {
            let sequence = Sequence { authenticates: false, ..sequence };
            let outcome = check(&keys, &sequence, 1);
            assert_eq!(outcome.broken, Vec::<String>::new(), "{}", sequence.text());
            let end = outcome.reaction.unwrap().end;
            assert!(end.is_err(), "{}", sequence.text());
        }
    }

    #[test]
    fn strict_exchange_ends_at_every_other_message() {
        let keys = Keys::generate();
        for sequence in Sequence::singles().filter(Sequence::breaks_strict) {
            let outcome = check(&keys, &sequence, 1);
            assert_eq!(outcome.broken, Vec::<String>::new(), "{}", sequence.text());
        }
    }
}
