//! Claims on a session. The test plays the user session process and the client.

use super::reported_state::MOST_KEPT;
use super::*;
use std::net::SocketAddr;

use lh_resume::{ClientSecret, NAME};

use crate::key_options::KeyOptions;
use crate::log::Level;
use crate::resuming::{Notice, connect};
use crate::testing::{LATE, close};

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7);

/// A session whose user session process and client are played by the test.
struct Scene {
    resumable: Resumable,
    monitor: Monitor,
    user: MonitorSocket,
    client: ClientSecret,
    handle: Handle,
    listener: Vec<u8>,
}

impl Scene {
    fn new(number: u8) -> Self {
        let mut handle = [number; 16];
        handle[..4].copy_from_slice(&std::process::id().to_be_bytes());
        let export: Export = Zeroizing::new([3; 32]);
        let grace = std::time::Duration::from_secs(60);
        let (name, account, proofs) = ("ada:style".to_owned(), "ada".to_owned(), String::new());
        let (options, rules, host_keys) = (KeyOptions::default(), Vec::new(), Vec::new());
        let session = SessionTerms { name, account, proofs, host: None, options, rules, host_keys, grace };
        let log = Log::lines(Level::Info);
        let (resumable, theirs) =
            Resumable::new(handle, &export[..], session, HERE.ip(), log.clone()).unwrap();
        theirs.set_read_timeout(Some(LATE)).unwrap();
        let user = MonitorSocket::new(theirs).unwrap();
        let monitor = Monitor::new(crate::testing::config(""), Vec::new(), HERE, HERE, log);
        let handle = Handle(handle);
        let client = ClientSecret::new(handle, &export);
        Self { resumable, monitor, user, client, handle, listener: Vec::new() }
    }

    fn serve(&mut self) {
        while self.resumable.has_work() {
            assert!(self.resumable.serve(&mut self.monitor, &mut self.listener).is_ok());
        }
    }

    /// Makes a right claim for a connection with this session identifier; returns its monitor's socket.
    fn claimed(&mut self, session_id: &[u8]) -> MonitorSocket {
        let request = self.client.request("ada:style", session_id, 0).to_payload();
        let before = 1 + 4 + 9 + 4 + 14 + 4 + NAME.len();
        let claim = FromClaimant::Claim {
            user: "ada:style".to_owned(),
            fields: request[before..].to_vec(),
            session_id: session_id.to_vec(),
        };
        let socket = connect(&self.handle).unwrap();
        socket.set_read_timeout(Some(LATE)).unwrap();
        let mut claimant = MonitorSocket::new(socket).unwrap();
        claimant.send(&claim.encode()).unwrap();
        self.serve();
        let answer = ToClaimant::decode(&claimant.receive().unwrap()).unwrap();
        assert!(matches!(answer, ToClaimant::Right(_)), "{answer:?}");
        claimant
    }

    /// Lets the connection take over the session, and delivers it to the user session process.
    fn take(&mut self, claimant: &MonitorSocket) {
        let export = vec![4; 32].into();
        claimant.send(&FromClaimant::Take { export, peer: HERE, local: HERE }.encode()).unwrap();
        self.serve();
        assert!(lh_sys::pass::receive_fd(self.user.socket()).unwrap().is_none());
        assert_eq!(ToUser::decode(&self.user.receive().unwrap()), Ok(ToUser::LetGo));
    }

    fn answer(&mut self, count: u64) {
        self.user.send(&FromUser::Received(count).encode()).unwrap();
        self.serve();
    }

    /// Moves the session to a new connection, up to the user session process's report that it uses it.
    fn deliver(&mut self) {
        let mut claimant = self.claimed(b"new connection");
        self.take(&claimant);
        self.answer(5);
        let answer = ToClaimant::decode(&claimant.receive().unwrap()).unwrap();
        assert!(matches!(answer, ToClaimant::Accepted(_)), "{answer:?}");
        lh_sys::pass::send_fd(claimant.socket(), claimant.socket().as_fd()).unwrap();
        self.serve();
        claimant.send(&FromClaimant::Connection(vec![9; 100_000].into()).encode()).unwrap();
        self.serve();
        assert!(lh_sys::pass::receive_fd(self.user.socket()).unwrap().is_some());
        let ToUser::Connection(moved) = ToUser::decode(&self.user.receive().unwrap()).unwrap() else {
            panic!("no connection");
        };
        assert_eq!((moved.session_id.as_slice(), moved.state.len()), (&b"new connection"[..], 100_000));
    }

    /// Checks that the listener was told that the session waited, and then goes on.
    fn assert_resumed(&self) {
        let (waits, used) = Notice::read(&self.listener).unwrap().unwrap();
        // Sessions are counted by account: a style in the name makes no other user.
        assert!(matches!(&waits, Notice::Waits { user, .. } if user == "ada"), "{waits:?}");
        let after = [Notice::GoesOn(self.handle), Notice::Connected(HERE.ip())].map(|notice| notice.encode());
        assert_eq!(self.listener[used..], after.concat());
    }
}

impl Resumable {
    fn has_work(&self) -> bool {
        let mut fds = Vec::new();
        self.interests(&mut fds);
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }
}

#[test]
fn a_connection_takes_the_session_over() {
    let mut scene = Scene::new(1);
    scene.deliver();
    scene.user.send(&FromUser::Resumed.encode()).unwrap();
    scene.serve();
    scene.assert_resumed();
}

#[test]
fn the_last_report_of_a_process_that_has_ended_counts() {
    let mut scene = Scene::new(6);
    scene.deliver();
    scene.user.send(&FromUser::Resumed.encode()).unwrap();
    close(scene.user.socket());
    scene.resumable.hear_last(&mut scene.monitor, &mut scene.listener);
    scene.assert_resumed();
}

#[test]
fn the_listener_is_told_what_a_session_keeps() {
    let mut scene = Scene::new(4);
    let handle = scene.handle;
    let away = || FromUser::Away { grace: 60 };
    let words = [FromUser::Keeps(9), away(), FromUser::Keeps(7), away(), FromUser::Keeps(5)];
    for word in words.into_iter().chain([FromUser::Keeps(u64::MAX), away(), FromUser::Keeps(9)]) {
        scene.user.send(&word.encode()).unwrap();
    }
    scene.serve();
    // A later listener receives the full state.
    let now = std::mem::take(&mut scene.listener);
    scene.resumable.notify(&mut scene.listener);
    for (mut told, kept) in [(&now[..], vec![7, MOST_KEPT]), (&scene.listener[..], vec![MOST_KEPT])] {
        let (waits, used) = Notice::read(told).unwrap().unwrap();
        assert!(matches!(waits, Notice::Waits { .. }), "{waits:?}");
        told = &told[used..];
        for bytes in kept {
            let (notice, used) = Notice::read(told).unwrap().unwrap();
            assert_eq!(notice, Notice::Keeps { handle, bytes });
            told = &told[used..];
        }
        assert!(told.is_empty());
    }
}

#[test]
fn late_word_of_the_old_connection_confirms_nothing() {
    let mut scene = Scene::new(3);
    // The answers are lost, so the client goes on to claim with its old secret.
    for id in [b"first", b"other"] {
        let mut claimant = scene.claimed(id);
        scene.take(&claimant);
        scene.answer(5);
        scene.user.send(&FromUser::Heard.encode()).unwrap();
        scene.serve();
        let answer = ToClaimant::decode(&claimant.receive().unwrap()).unwrap();
        assert!(matches!(answer, ToClaimant::Accepted(_)), "{answer:?}");
        close(claimant.socket());
        scene.serve();
    }
    scene.claimed(b"last");
}

#[test]
fn a_claimant_that_leaves_does_not_end_the_session() {
    let mut scene = Scene::new(2);
    for id in [b"first", b"other"] {
        let claimant = scene.claimed(id);
        scene.take(&claimant);
        close(claimant.socket());
        // The end of the new monitor may be noticed before the answer, or when the answer is sent.
        if id == b"other" {
            scene.serve();
        }
        scene.answer(5);
    }
    // A late answer does not affect a further claim.
    let claimant = scene.claimed(b"last");
    scene.answer(5);
    scene.take(&claimant);
    assert!(scene.resumable.user.is_some() && scene.resumable.attempt.is_some());
}

/// The user session process was stopped: it answers the order of an attempt that its client has given up, and
/// that of the next attempt later. Its count may be another one by then.
#[test]
fn an_answer_counts_for_its_own_attempt_only() {
    let mut scene = Scene::new(5);
    let given_up = scene.claimed(b"first");
    scene.take(&given_up);
    close(given_up.socket());
    scene.serve();
    let mut claimant = scene.claimed(b"other");
    scene.take(&claimant);
    scene.answer(5);
    let step = scene.resumable.attempt.as_ref().map(|attempt| &attempt.step);
    assert!(matches!(step, Some(Step::LettingGo(..))));
    scene.answer(7);
    let ToClaimant::Accepted(answer) = ToClaimant::decode(&claimant.receive().unwrap()).unwrap() else {
        panic!("not accepted");
    };
    assert_eq!(lh_resume::message::Accepted::decode(&answer).unwrap().received, 7);
}
