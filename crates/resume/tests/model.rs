//! Model test of the extension's rules without a transport: whole messages, links that lose the messages in
//! flight, and delayed links that the client has given up. Exhaustive for short sessions, random for long
//! ones.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lh_crypto::{Hash, Zeroizing};
use lh_resume::message::{self, Accepted, Acknowledge, Message, Request};
use lh_resume::{
    ClientSecret, Export, Handle, Pace, Receipts, Refused, SECRET_LEN, ServerSecret, Unacknowledged,
    is_counted,
};
use lh_testkit::Seeded;

const HANDLE: Handle = Handle([3; 16]);
const PACE: Pace = Pace { bytes: 64, time: Duration::from_millis(200) };
/// Largest number of unacknowledged bytes at which an end still sends.
const BUDGET: usize = 256;
const SIZE: usize = 16;

/// One connection. Frames are whole messages.
#[derive(Default)]
struct Wire {
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
    /// Number of frames that each direction still delivers; then the connection is broken.
    up_left: usize,
    down_left: usize,
    client_gone: bool,
    server_gone: bool,
}

fn session_id(link: usize) -> Vec<u8> {
    Hash::Sha256.digest(&[b"session", &link.to_be_bytes()]).as_ref().to_vec()
}

fn export(link: usize) -> Export {
    let mut out = Zeroizing::new([0; SECRET_LEN]);
    out.copy_from_slice(Hash::Sha256.digest(&[b"export", &link.to_be_bytes()]).as_ref());
    out
}

/// State of either end.
struct End {
    unacknowledged: Unacknowledged<Vec<u8>>,
    receipts: Receipts,
    /// Numbers of the messages that were acted on.
    acted_on: Vec<u64>,
    most: usize,
}

impl End {
    fn new() -> Self {
        Self {
            unacknowledged: Unacknowledged::new(0),
            receipts: Receipts::new(PACE),
            acted_on: Vec::new(),
            most: 0,
        }
    }

    /// Returns the next message of the session; `None` while the budget is used up.
    fn produce(&mut self) -> Option<Vec<u8>> {
        if self.unacknowledged.bytes() >= BUDGET {
            return None;
        }
        let mut payload = vec![94];
        payload.extend_from_slice(&self.unacknowledged.sent().to_be_bytes());
        payload.resize(SIZE, 0);
        self.unacknowledged.push(payload.clone(), SIZE);
        self.most = self.most.max(self.unacknowledged.bytes());
        Some(payload)
    }

    fn take(&mut self, payload: &[u8], now: Instant) {
        if is_counted(payload[0]) {
            self.receipts.on_message(payload.len(), now);
            self.acted_on.push(u64::from_be_bytes(payload[1..9].try_into().unwrap()));
        } else {
            let Message::Acknowledge(Acknowledge { received }) = Message::decode(payload).unwrap() else {
                panic!("{payload:?}");
            };
            self.unacknowledged.acknowledge(received, drop).unwrap();
        }
    }

    /// Returns the acknowledgement that is due, encoded.
    fn acknowledgement(&mut self, riding: bool, now: Instant) -> Option<Vec<u8>> {
        let received = self.receipts.due(riding, now)?;
        self.receipts.on_acknowledged(received);
        Some(Acknowledge { received }.to_payload())
    }

    /// Returns the messages that the other end has not received.
    fn resume(&mut self, received: u64) -> Vec<Vec<u8>> {
        self.unacknowledged.acknowledge(received, drop).unwrap();
        self.receipts.on_acknowledged(self.receipts.received());
        self.unacknowledged.iter().cloned().collect()
    }
}

struct World {
    now: Instant,
    links: Vec<Wire>,
    client: End,
    server: End,
    client_secret: ClientSecret,
    server_secret: ServerSecret,
    /// Number of the client's connection. `claim` is the claim that waits for an answer.
    client_link: usize,
    claim: Option<Request>,
    server_link: usize,
    resumed: usize,
    overtaken: usize,
    /// Number of frames that the next links deliver, up and down.
    cuts: VecDeque<(usize, usize)>,
}

impl World {
    fn new(cuts: &[(usize, usize)]) -> Self {
        let mut world = Self {
            now: Instant::now(),
            links: Vec::new(),
            client: End::new(),
            server: End::new(),
            client_secret: ClientSecret::new(HANDLE, &export(0)),
            server_secret: ServerSecret::new(HANDLE, &export(0)),
            client_link: 0,
            claim: None,
            server_link: 0,
            resumed: 0,
            overtaken: 0,
            cuts: cuts.iter().copied().collect(),
        };
        world.connect();
        world
    }

    fn connect(&mut self) -> usize {
        let (up_left, down_left) = self.cuts.pop_front().unwrap_or((usize::MAX, usize::MAX));
        self.links.push(Wire { up_left, down_left, ..Wire::default() });
        self.links.len() - 1
    }

    /// Gives up the client's connection and claims the session over a new one.
    fn reconnect(&mut self) {
        self.links[self.client_link].client_gone = true;
        self.client_link = self.connect();
        let (link, received) = (self.client_link, self.client.receipts.received());
        let request = self.client_secret.request("alice", &session_id(link), received);
        self.links[link].up.push_back(request.to_payload());
        self.claim = Some(request);
    }

    fn client_sends(&mut self) {
        let Some(payload) = self.client.produce() else { return };
        // Messages are not sent before the answer.
        if self.claim.is_none() {
            let now = self.now;
            let ride = self.client.acknowledgement(true, now);
            self.links[self.client_link].up.extend([Some(payload), ride].into_iter().flatten());
        }
    }

    fn server_sends(&mut self) {
        let Some(payload) = self.server.produce() else { return };
        let now = self.now;
        let ride = self.server.acknowledgement(true, now);
        // If there is no other connection, it is written to the dead one.
        self.links[self.server_link].down.extend([Some(payload), ride].into_iter().flatten());
    }

    fn timers(&mut self) {
        let now = self.now;
        if self.claim.is_none() {
            let due = self.client.acknowledgement(false, now);
            self.links[self.client_link].up.extend(due);
        }
        let due = self.server.acknowledgement(false, now);
        self.links[self.server_link].down.extend(due);
    }

    /// Delivers a frame to the server; returns false when there is none.
    fn up(&mut self, link: usize) -> bool {
        let wire = &mut self.links[link];
        if wire.server_gone || wire.up_left == 0 {
            return false;
        }
        let Some(frame) = wire.up.pop_front() else { return false };
        wire.up_left -= 1;
        if frame[0] == 50 {
            self.claimed(link, &frame);
        } else if link == self.server_link {
            self.server_secret.confirm();
            self.server.take(&frame, self.now);
        }
        true
    }

    fn claimed(&mut self, link: usize, frame: &[u8]) {
        let request = Request::decode(frame).unwrap();
        let claim = match self.server_secret.verify(&request, &session_id(link)) {
            Ok(claim) => claim,
            Err(Refused::Overtaken) => {
                self.overtaken += 1;
                self.links[link].server_gone = true;
                return;
            }
            // The claim is so late that its secret is wiped.
            Err(Refused::WrongProof) if link != self.client_link => {
                self.overtaken += 1;
                self.links[link].server_gone = true;
                return;
            }
            Err(error) => panic!("{error}: the session is lost"),
        };
        // The previous connection is dead from here on.
        self.links[self.server_link].server_gone = true;
        let received = self.server.receipts.received();
        let answer = self.server_secret.accept(&claim, &export(link), received).unwrap();
        self.server_link = link;
        let again = self.server.resume(claim.received());
        self.links[link].down.push_back(answer.to_payload());
        self.links[link].down.extend(again);
        self.resumed += 1;
    }

    fn down(&mut self, link: usize) -> bool {
        let wire = &mut self.links[link];
        if wire.client_gone || wire.down_left == 0 {
            return false;
        }
        let Some(frame) = wire.down.pop_front() else { return false };
        wire.down_left -= 1;
        if frame[0] == message::ACCEPTED {
            let request = self.claim.take().unwrap();
            let answer = Accepted::decode(&frame).unwrap();
            let received = self
                .client_secret
                .accepted(&request, &session_id(link), &export(link), &answer)
                .expect("the answer is right");
            let again = self.client.resume(received);
            let confirmation = Acknowledge { received: self.client.receipts.received() };
            self.links[link].up.push_back(confirmation.to_payload());
            self.links[link].up.extend(again);
        } else {
            assert!(self.claim.is_none(), "a frame before the answer");
            self.client.take(&frame, self.now);
        }
        true
    }

    /// Continues without further breaks until everything has arrived.
    fn finish(&mut self) {
        for _ in 0..1000 {
            let mut moved = false;
            for link in 0..self.links.len() {
                while self.up(link) || self.down(link) {
                    moved = true;
                }
            }
            if !moved {
                self.now += PACE.time.max(Pace::AT_REST);
                self.timers();
                let wire = &self.links[self.client_link];
                if wire.up_left == 0 || wire.down_left == 0 || self.client_link != self.server_link {
                    self.reconnect();
                } else if self.client.unacknowledged.is_empty() && self.server.unacknowledged.is_empty() {
                    return self.check();
                }
            }
        }
        panic!("the session does not come to rest");
    }

    fn check(&self) {
        for (from, to) in [(&self.client, &self.server), (&self.server, &self.client)] {
            assert!(to.acted_on.iter().copied().eq(0..from.unacknowledged.sent()), "{:?}", to.acted_on);
            assert!(from.most < BUDGET + SIZE, "{} bytes kept", from.most);
        }
    }
}

/// Cuts the first and the second connection at each of all their frames.
#[test]
fn cuts_at_every_message_lose_and_double_nothing() {
    let mut schedules = 0;
    for first in 0..14 * 14 {
        for second in 0..8 * 8 {
            let mut world = World::new(&[(first / 14, first % 14), (second / 8, second % 8)]);
            for _ in 0..12 {
                world.client_sends();
                world.server_sends();
                world.up(0);
                world.down(0);
            }
            world.finish();
            assert!(world.resumed > 0);
            schedules += 1;
        }
    }
    println!("{schedules} schedules");
}

/// Number of random schedules: `LH_SCHEDULES`, else few enough for every test run.
fn schedules() -> u64 {
    std::env::var("LH_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(3000)
}

#[test]
fn random_breaks_lose_and_double_nothing() {
    let (mut resumed, mut overtaken, mut messages) = (0, 0, 0);
    for seed in 0..schedules() {
        let mut random = Seeded::new(seed);
        let mut world = World::new(&[]);
        let breaks = 1 + random.below(30);
        for _ in 0..random.below(400) {
            match random.below(100) {
                0..20 => world.client_sends(),
                20..40 => world.server_sends(),
                40..90 => {
                    // Delayed connections deliver messages too.
                    let link = match random.below(4) {
                        0 => random.below(world.links.len()),
                        1 => world.server_link,
                        _ => world.client_link,
                    };
                    if random.below(2) == 0 {
                        world.up(link)
                    } else {
                        world.down(link)
                    };
                }
                90..95 => {
                    world.now += Duration::from_millis(random.below(300) as u64);
                    world.timers();
                }
                _ if random.below(30) < breaks => {
                    // Messages in flight are lost, in part or in whole, and one end or both notice it.
                    let wire = world.links.last_mut().unwrap();
                    wire.up_left = random.below(4);
                    wire.down_left = random.below(4);
                    if random.below(2) == 0 {
                        wire.server_gone = true;
                    }
                    world.reconnect();
                }
                _ => {}
            }
        }
        world.finish();
        resumed += world.resumed;
        overtaken += world.overtaken;
        messages += world.client.unacknowledged.sent() + world.server.unacknowledged.sent();
    }
    println!("{messages} messages, {resumed} resumptions, {overtaken} overtaken attempts");
    assert!(overtaken > 0, "no delayed attempt was tried");
}
