//! Longhaul's client in memory, against a server that inserts messages.

use std::time::Instant;

use lh_auth::client::{Client as Login, Event as LoginEvent};
use lh_connection::{
    ChannelId, ChannelOptions, Config as ConnectionConfig, Connection, Event as ConnectionEvent,
};
use lh_testkit::Seeded;
use lh_transport::{AcceptedHostKey, Config, Event, Transport};
use lh_wire::{PacketSink, Writer};

use super::memory::{Keys, MOST_QUEUED, Outcome, TestRandom, guarded, put, take};
use super::play::Play;
use super::sequence::{Reaction, Sequence};
use crate::packets::{End, Received, Wire};

const USER: &str = "root";
const ALGORITHM: &str = "ssh-ed25519";

/// The client.
struct MemoryClient<'a> {
    keys: &'a Keys,
    now: Instant,
    transport: Transport,
    login: Option<Login>,
    /// Number of USERAUTH_REQUESTs sent.
    requests: u32,
    connection: Option<Connection>,
    session: Option<ChannelId>,
    /// The command's exit status has arrived.
    ran: bool,
    over: bool,
    broken: Vec<String>,
}

impl<'a> MemoryClient<'a> {
    fn new(keys: &'a Keys, seed: u64) -> Self {
        let now = Instant::now();
        let random = Box::new(TestRandom(Seeded::new(seed)));
        Self {
            keys,
            now,
            transport: Transport::new(Config::client(), random, now),
            login: None,
            requests: 0,
            connection: None,
            session: None,
            ran: false,
            over: false,
            broken: Vec::new(),
        }
    }

    fn poll(&mut self) {
        while !self.over {
            match self.transport.poll(self.now) {
                Ok(Some(event)) => self.on_event(event),
                Ok(None) => break,
                Err(_) => self.over = true,
            }
        }
        if self.transport.queued_bytes() > MOST_QUEUED {
            self.broken.push(format!("{} bytes wait for the server", self.transport.queued_bytes()));
        }
    }

    fn end(&mut self, reason: u32) {
        self.transport.disconnect(reason, "protocol error");
        self.over = true;
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::HostKey { blob, .. } => {
                if blob != self.keys.host.public().blob() {
                    self.broken.push("another host key was proved".to_owned());
                }
                let accepted = AcceptedHostKey::dangerous_vouch_for(&blob);
                self.over |= self.transport.host_key_accepted(&accepted).is_err();
            }
            Event::KexDone { first: true, .. } => {
                let session = self.transport.session_id().unwrap_or_default();
                let mut login = Login::new(USER, session, self.transport.host_key());
                login.start(&mut self.transport);
                self.login = Some(login);
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
        let Some(login) = &mut self.login else {
            self.broken.push(format!("message {} came before the keys", payload[0]));
            return;
        };
        match login.handle(payload) {
            Ok(LoginEvent::Ready) => {
                self.requests += 1;
                login.none(&mut self.transport);
            }
            Ok(LoginEvent::ChooseMethod { .. } | LoginEvent::Methods(_)) => {
                self.requests += 1;
                let blob = self.keys.user.public().blob();
                let data = login.signature_data(ALGORITHM, blob);
                let signature = self.keys.user.sign(ALGORITHM, &data).expect("a signature");
                login.signed_key(ALGORITHM, blob, &signature, &mut self.transport);
            }
            Ok(LoginEvent::Prompts { prompts, .. }) => {
                login.responses(&vec![b"answer"; prompts.len()], &mut self.transport);
            }
            Ok(LoginEvent::Success) => {
                if self.requests == 0 {
                    self.broken.push("a success that nobody asked for".to_owned());
                }
                self.transport.set_authenticated();
                let mut connection = Connection::new(ConnectionConfig::default());
                let options = ChannelOptions::default();
                self.session = connection.open("session", b"", &options, &mut self.transport).ok();
                self.connection = Some(connection);
            }
            Ok(_) => {}
            Err(error) => self.end(error.disconnect_reason()),
        }
    }

    fn serve(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let sink: &mut dyn PacketSink = &mut self.transport;
        while let Some(event) = connection.poll_event() {
            match event {
                ConnectionEvent::Opened { id, .. } => {
                    let mut command = Vec::new();
                    command.put_string(b"true");
                    connection.request(id, "exec", true, &command, sink);
                }
                ConnectionEvent::OpenRequested { id, .. } => {
                    connection.refuse(id, 1, "not asked for", sink);
                }
                ConnectionEvent::Data { id, data, .. } => {
                    connection.consumed(id, data.len(), self.now, sink);
                }
                ConnectionEvent::Request { id, name, want_reply, .. } => {
                    self.ran |= name == "exit-status" && Some(id) == self.session;
                    if want_reply {
                        connection.reply(id, false, sink);
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

impl Wire for MemoryClient<'_> {
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

/// Runs one sequence and checks the invariants.
pub fn check(keys: &Keys, sequence: &Sequence, seed: u64) -> Outcome {
    guarded(|| {
        let mut play = Play::new(MemoryClient::new(keys, seed), &keys.host, sequence);
        let end = play.play().and_then(|_| match play.server.receive() {
            // The client's remaining messages are encrypted now.
            Ok(_) | Err(End::Silent) => Ok(()),
            Err(end) => Err(end),
        });
        let reached = play.reached;
        let client = play.server.wire();
        let mut broken = std::mem::take(&mut client.broken);
        let succeeds =
            |number| sequence.insertions.iter().any(|insertion| insertion.message.number() == number);
        if client.connection.is_some() && !sequence.authenticates && !succeeds(52) {
            broken.push("the client believes it is in, and nobody said so".to_owned());
        }
        if client.ran && sequence.breaks_strict() {
            broken.push("strict key exchange took a message that it forbids".to_owned());
        }
        if sequence.insertions.is_empty() && sequence.authenticates && !client.ran {
            broken.push(format!("an honest server failed: {reached:?} {end:?}"));
        }
        Outcome { reaction: Some(Reaction { reached, end, answers: Vec::new() }), broken }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_servers_are_used() {
        let keys = Keys::generate();
        for strict in [true, false] {
            for rekeys in [true, false] {
                let sequence = Sequence { rekeys, ..Sequence::honest(strict) };
                let outcome = check(&keys, &sequence, 1);
                assert_eq!(outcome.broken, Vec::<String>::new());
                assert_eq!(outcome.reaction.unwrap().end, Ok(()), "{}", sequence.text());
            }
        }
    }

    #[test]
    fn no_lying_server_confuses_the_client() {
        let keys = Keys::generate();
        let mut random = Seeded::new(11);
        let many: Vec<Sequence> = (0..2000).map(|_| Sequence::random(&mut random)).collect();
        for sequence in Sequence::singles().chain(many) {
            let outcome = check(&keys, &sequence, 1);
            assert_eq!(outcome.broken, Vec::<String>::new(), "{}", sequence.text());
        }
    }
}
