//! Child processes that an attacker controls: any bytes to the monitor, in any order. Tests only.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use lh_auth::gss::GssAttempt;
use lh_auth::server::{Attempt, HostBasedAttempt, Method, ResumeAttempt, TicketAttempt};
use lh_crypto::PublicKey;
use lh_session_list::Programs;
use lh_sys::signals::Signals;
use lh_testkit::Seeded;
use lh_wire::Writer as _;
use rustix::process::Signal;
use zeroize::Zeroizing;

use super::common::Address;
use super::listed::Listed;
use super::monitor_process::converse;
use super::monitor_user::{UsageSinks, serve_user};
use super::monitor_wait::Stop;
use super::shared_sockets::SharedSockets;
use super::usage_log::UsageLog;
use crate::log::Level;
use crate::monitor::tests::Scene;
use crate::monitor_ipc::{MonitorRequest, MonitorSocket, MonitorSocketError, TerminalFacts};
use crate::usage::Outcome;
use crate::usage::tests::{operation, transfer, usage};

/// Sequences of a test run. `LH_SEQUENCES` sets another number.
const SEQUENCES: u64 = 1200;

fn sequences() -> u64 {
    std::env::var("LH_SEQUENCES").ok().and_then(|number| number.parse().ok()).unwrap_or(SEQUENCES)
}

/// Pseudo-random numbers: a failure names the sequence, which is the seed.
struct Numbers(Seeded);

impl Numbers {
    fn new(sequence: u64) -> Self {
        // Spread, because neighbouring seeds give alike numbers at first.
        Self(Seeded::new(sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const IDS: [[u8; 32]; 2] = [[3; 32], [4; 32]];

fn any_method(scene: &Scene, host_keys: &[PublicKey], numbers: &mut Numbers) -> Method {
    let id = numbers.of(&IDS);
    let host_key = host_keys[numbers.below(host_keys.len())].blob();
    let blob = scene.key.public().blob().to_vec();
    match numbers.below(16) {
        0 => Method::None,
        1 => scene.query(scene.key.public()),
        2 => scene.query(&host_keys[0]),
        3..6 => scene.signed(&id, &scene.user, None),
        6 | 7 => scene.signed(&id, &scene.user, Some(host_key)),
        8 => scene.signed(&id, "another", None),
        9 => scene.signed(b"", &scene.user, None),
        10 => Method::KeyboardInteractive("pam".repeat(numbers.below(3))),
        11 => Method::Responses(vec![Zeroizing::new(b"x".to_vec()); numbers.below(3)]),
        12 => Method::Gss(match numbers.below(3) {
            0 => GssAttempt::Begin(vec![b"\x06\x01\x2a".to_vec()]),
            1 => GssAttempt::Token(vec![1; numbers.below(100)]),
            _ => GssAttempt::Complete,
        }),
        13 => Method::HostBased(HostBasedAttempt {
            algorithm: "ssh-ed25519".into(),
            key: blob.clone(),
            host: "localhost".into(),
            local_user: scene.user.clone(),
            signature: blob,
        }),
        14 => Method::Ticket(TicketAttempt { key: blob.clone(), signature: blob }),
        _ => {
            let length = numbers.below(200);
            Method::Resume(ResumeAttempt { fields: vec![7; length], export: Zeroizing::new(vec![8; 32]) })
        }
    }
}

fn any_request(scene: &Scene, host_keys: &[PublicKey], numbers: &mut Numbers) -> MonitorRequest {
    let text = |numbers: &mut Numbers| "pts/1\n".repeat(numbers.below(20));
    match numbers.below(24) {
        0..5 => MonitorRequest::Sign {
            key_index: numbers.of(&[0, 0, 1, 2, usize::MAX]),
            algorithm: numbers.of(&["ssh-ed25519", "ssh-ed25519", "ssh-rsa", ""]).to_owned(),
            hash: match numbers.below(8) {
                0 => vec![1; numbers.below(70)],
                _ => numbers.of(&IDS).to_vec(),
            },
        },
        5..12 => {
            let user = if numbers.one_in(10) { "another".to_owned() } else { scene.user.clone() };
            MonitorRequest::Decide(Attempt { user, method: any_method(scene, host_keys, numbers) })
        }
        12 | 13 => MonitorRequest::HandOver(vec![9; numbers.below(500)].into()),
        14 => MonitorRequest::Log { level: Level::Error, text: text(numbers) },
        15 => MonitorRequest::Prove { algorithm: "ssh-ed25519".into(), key: host_keys[0].blob().to_vec() },
        16 => MonitorRequest::Arrived { line: text(numbers), pid: 1 },
        17 => MonitorRequest::Left { line: text(numbers) },
        18 => MonitorRequest::Terminal,
        19 => MonitorRequest::Record(TerminalFacts { columns: 1, rows: u32::MAX, kind: text(numbers) }),
        20 => MonitorRequest::Transfer(transfer(text(numbers).as_bytes(), Outcome::Complete)),
        21 => match numbers.below(3) {
            0 => MonitorRequest::Operation(operation(b"/a", Outcome::Abandoned)),
            1 => MonitorRequest::ConnectionUsage(usage()),
            _ => MonitorRequest::Programs(Programs { shells: u32::MAX, commands: 1, subsystems: 0 }),
        },
        22 => MonitorRequest::Ticket { key: host_keys[1].blob().to_vec() },
        _ => MonitorRequest::Resumable { handle: [5; 16], export: vec![6; numbers.of(&[0, 32, 64])].into() },
    }
}

/// Returns a sequence of messages with their lengths, right ones and damaged ones.
fn any_bytes(scene: &Scene, host_keys: &[PublicKey], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Many sequences begin as an honest process does, so that they come far.
    if !numbers.one_in(4) {
        let hash = IDS[0].to_vec();
        bytes.put_string(
            &MonitorRequest::Sign { key_index: 0, algorithm: "ssh-ed25519".into(), hash }.encode(),
        );
        if numbers.one_in(2) {
            let method = scene.signed(&numbers.of(&[IDS[0], IDS[0], IDS[1]]), &scene.user, None);
            let attempt = Attempt { user: scene.user.clone(), method };
            bytes.put_string(&MonitorRequest::Decide(attempt).encode());
        }
    }
    for _ in 0..numbers.below(8) {
        let mut one = any_request(scene, host_keys, numbers).encode().to_vec();
        if numbers.one_in(8) {
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(one.len());
                match numbers.below(4) {
                    0 => one[at] ^= 1 << numbers.below(8),
                    1 => one.insert(at, numbers.of(&[0, 1, 0x7f, 0xff])),
                    2 => one.truncate(at + 1),
                    _ => one.extend_from_within(at..),
                }
            }
        }
        bytes.put_string(&one);
    }
    if numbers.one_in(2) {
        bytes.put_string(&MonitorRequest::HandOver(vec![10].into()).encode());
    }
    if numbers.one_in(8) && !bytes.is_empty() {
        let at = numbers.below(bytes.len());
        bytes[at] ^= 1 << numbers.below(8);
    }
    if numbers.one_in(16) {
        bytes.truncate(numbers.below(bytes.len() + 1));
    }
    bytes
}

/// What a sequence proves, as a model without the monitor's code: the hash that the first signature covers,
/// and whether a right signature of the user's over that session identifier follows.
fn proven_state(scene: &Scene, host_keys: &[PublicKey], mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut id: Option<(Vec<u8>, usize)> = None;
    let mut proven = false;
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (message, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        bytes = rest;
        match MonitorRequest::decode(message).ok()? {
            MonitorRequest::Sign { key_index, hash, .. } if id.is_none() => id = Some((hash, key_index)),
            MonitorRequest::Decide(Attempt { user, method: Method::PublicKey(attempt) }) => {
                let Some((id, key_index)) = &id else { continue };
                let Some(host_key) = host_keys.get(*key_index) else { continue };
                let bound = attempt.hostbound.then(|| host_key.blob());
                let Method::PublicKey(right) = scene.signed(id, &scene.user, bound) else { continue };
                proven |=
                    user == scene.user && (attempt.key, attempt.signature) == (right.key, right.signature);
            }
            MonitorRequest::HandOver(state) if proven => return Some(state.to_vec()),
            _ => {}
        }
    }
    None
}

/// Returns how many of the answers are signatures by a host key of one of these hashes.
fn signatures(answers: &[u8], host_keys: &[PublicKey]) -> usize {
    let mut bytes = answers;
    let mut found = 0;
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let Some((message, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        bytes = rest;
        let hashes = IDS.iter().map(|id| id.to_vec()).chain([32, 48, 64].map(|length| vec![1; length]));
        let signed =
            |hash: Vec<u8>| host_keys.iter().any(|key| key.verify("ssh-ed25519", &hash, message).is_ok());
        found += usize::from(hashes.into_iter().any(signed));
    }
    found
}

struct World {
    scene: Scene,
    host_keys: Vec<PublicKey>,
    signals: Signals,
    address: Address,
}

impl World {
    fn new() -> Self {
        let lines = "PasswordAuthentication no\nResumeGrace 1m\nHostbasedAuthentication yes\nMaxAuthTries 3\n\
                     PerUserTransferQuota 1G/1d";
        let mut scene = Scene::new(lines);
        let load =
            |path: std::path::PathBuf| crate::host_keys::HostKey::load(&path).unwrap().public().clone();
        let host_keys = scene.host_keys().map(load).into();
        let signals = Signals::collect(&[Signal::HUP]).unwrap();
        let peer = ([127, 0, 0, 1], 7).into();
        let address = Address { peer, local: peer, known: true, log: scene.log.clone() };
        scene.begin_again();
        Self { scene, host_keys, signals, address }
    }

    /// Serves a pre-auth process that sends these bytes. Returns the end and the answers.
    fn before(&mut self, bytes: &[u8]) -> (Result<Zeroizing<Vec<u8>>, Stop>, Vec<u8>) {
        self.scene.begin_again();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut ipc = MonitorSocket::new(ours).unwrap();
        let end = converse(&mut ipc, &mut self.scene.monitor, &mut self.signals, None, &self.address);
        drop(ipc);
        let mut answers = Vec::new();
        // Unread bytes reset the connection.
        let _ = theirs.read_to_end(&mut answers);
        (end, answers)
    }
}

/// A pre-auth process gets one signature, and a login only by a signature of the user's for this session.
#[test]
fn no_bytes_of_a_pre_auth_process_log_in() {
    let mut world = World::new();
    let (mut logins, mut signed) = (0, 0);
    for sequence in 0..sequences() {
        let mut numbers = Numbers::new(sequence);
        let bytes = any_bytes(&world.scene, &world.host_keys, &mut numbers);
        let (end, answers) = world.before(&bytes);
        let found = signatures(&answers, &world.host_keys);
        assert!(found <= 1, "sequence {sequence}: {found} signatures");
        signed += found;
        match end {
            Ok(state) => {
                let proven = proven_state(&world.scene, &world.host_keys, &bytes);
                assert_eq!(proven.as_deref(), Some(&state[..]), "sequence {sequence}");
                assert!(world.scene.monitor.accepted(), "sequence {sequence}");
                logins += 1;
            }
            Err(Stop::Signal | Stop::TooLate | Stop::Io(_)) => panic!("sequence {sequence}: no orderly end"),
            Err(_) => {}
        }
        // Lines have a rate, and this is one process's log.
        let lines = world.scene.log.taken();
        assert!(lines.len() <= 40 && lines.iter().all(|line| line.len() < 5000), "{sequence}: {lines:?}");
    }
    // The sequences come far enough to show something.
    assert!(logins > sequences() / 50 && signed as u64 > sequences() / 3, "{logins} {signed}");
}

/// A session process of a user who has logged in: no second login, no terminal, an orderly end.
#[test]
fn any_bytes_of_a_session_process_end_orderly() {
    let mut world = World::new();
    let control = File::create("/dev/null").unwrap();
    let settings = crate::testing::settings("");
    let sign = MonitorRequest::Sign { key_index: 0, algorithm: "ssh-ed25519".into(), hash: IDS[0].to_vec() };
    for sequence in 0..sequences() / 3 {
        let mut numbers = Numbers::new(sequence | 1 << 40);
        let right = world.scene.signed(&IDS[0], &world.scene.user, None);
        let mut login = Vec::new();
        login.put_string(&sign.encode());
        let attempt = Attempt { user: world.scene.user.clone(), method: right };
        login.put_string(&MonitorRequest::Decide(attempt).encode());
        login.put_string(&MonitorRequest::HandOver(vec![1].into()).encode());
        let state = world.before(&login).0.unwrap();
        world.scene.monitor.grant(state).unwrap();
        let bytes = any_bytes(&world.scene, &world.host_keys, &mut numbers);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&bytes).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut ipc = MonitorSocket::new(ours).unwrap();
        let World { scene, signals, address, .. } = &mut world;
        let mut usage_log = UsageLog::new(&settings, address, "s");
        let mut sinks = UsageSinks { usage_log: &mut usage_log, control: &control };
        let mut shared = SharedSockets { resumable: None, listed: None };
        let end = loop {
            let monitor = &mut scene.monitor;
            if let Err(end) = serve_user(&mut ipc, monitor, signals, &mut sinks, address, &mut shared) {
                break end;
            }
        };
        assert!(
            matches!(
                end,
                Stop::Unexpected(_)
                    | Stop::MonitorSocket(MonitorSocketError::Closed)
                    | Stop::MonitorSocket(MonitorSocketError::Malformed(_))
                    | Stop::MonitorSocket(MonitorSocketError::TooLong(_))
            ),
            "sequence {sequence}: {end}"
        );
        assert!(!scene.monitor.accepted(), "sequence {sequence}");
        let lines = scene.log.taken();
        assert!(lines.len() <= 40 && lines.iter().all(|line| line.len() < 5000), "{sequence}: {lines:?}");
    }
}

/// `longhaul sessions --end` of root, or of the user, is carried out beside a process that sends without end.
#[test]
fn a_session_that_sends_without_end_can_be_ended() {
    let mut world = World::new();
    let user = lh_sys::users::current().unwrap().unwrap();
    let listed = Listed::new(&user, Vec::new()).unwrap();
    let mut asks = UnixStream::connect_addr(&listed.address()).unwrap();
    asks.write_all(b"E").unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut message = Vec::new();
    message.put_string(&MonitorRequest::Left { line: "pts/1".to_owned() }.encode());
    while theirs.write(&message).is_ok() {}
    let mut ipc = MonitorSocket::new(ours).unwrap();
    let (control, settings) = (File::create("/dev/null").unwrap(), crate::testing::settings(""));
    let World { scene, signals, address, .. } = &mut world;
    let mut usage_log = UsageLog::new(&settings, address, "s");
    let mut sinks = UsageSinks { usage_log: &mut usage_log, control: &control };
    let mut shared = SharedSockets { resumable: None, listed: Some(listed) };
    let end = serve_user(&mut ipc, &mut scene.monitor, signals, &mut sinks, address, &mut shared);
    assert!(
        matches!(end, Err(Stop::Ended(uid)) if uid == user.uid),
        "{:?}",
        end.map_err(|end| end.to_string())
    );
}
