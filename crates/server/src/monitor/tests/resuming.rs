//! Resumption: what the monitor stores about a login, and which clients may resume a session.

use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use lh_auth::server::ResumeAttempt;
use lh_crypto::FingerprintHash;
use lh_resume::{ClientSecret, Export, Handle, NAME};

use super::*;
use crate::resuming::{ClientHost, FromClaimant, Login, ToClaimant};

const FIRST: [u8; 32] = [3; 32];

/// A monitor after a login under this user name.
fn logged_in(lines: &str, name: &str) -> Scene {
    let mut scene = Scene::new(lines);
    // A listener, which counts the waiting sessions.
    scene.monitor = scene.monitor.with_tickets(UnixStream::pair().unwrap().0);
    scene.user = name.to_owned();
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let right = scene.signed(&FIRST, name, None);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    scene.monitor.grant(Zeroizing::default()).unwrap();
    scene
}

#[test]
fn sessions_count_for_the_account_whatever_was_typed() {
    let account = users::current().unwrap().unwrap().name;
    let name = format!("{account}:style");
    let mut scene = logged_in("ResumeGrace 1m", &name);
    let terms = scene.monitor.take_terms().unwrap().expect("it may outlive its connection");
    assert_eq!((terms.name, terms.account), (name, account));
}

/// A name that no other process of these tests uses.
fn handle(number: u8) -> Handle {
    let mut name = [number; 16];
    name[..4].copy_from_slice(&std::process::id().to_be_bytes());
    Handle(name)
}

/// Runs the monitor of a session for one claim; `right` is its answer to the proof, `taken` to what follows.
/// Returns the messages that it receives after the proof.
fn session(number: u8, right: ToClaimant, taken: ToClaimant) -> (Handle, JoinHandle<Vec<FromClaimant>>) {
    let handle = handle(number);
    let listening = crate::resuming::listen(&handle).unwrap();
    let session = std::thread::spawn(move || {
        let mut socket = MonitorSocket::new(crate::testing::accept(&listening)).unwrap();
        let mut heard = Vec::new();
        while let Ok(message) = socket.receive() {
            let answer = match FromClaimant::decode(&message).unwrap() {
                FromClaimant::Claim { .. } => right.encode(),
                other => {
                    let is_end = other == FromClaimant::End;
                    heard.push(other);
                    if is_end {
                        break;
                    }
                    taken.encode()
                }
            };
            socket.send(&answer).unwrap();
        }
        heard
    });
    (handle, session)
}

/// A client's claim on the session of this user; the session's monitor decides whether the proof is right.
fn claim(handle: Handle, user: &str) -> Method {
    let request = ClientSecret::new(handle, &Export::default()).request(user, &FIRST, 0).to_payload();
    let before = 1 + 4 + user.len() + 4 + 14 + 4 + NAME.len();
    Method::Resume(ResumeAttempt { fields: request[before..].to_vec(), export: vec![4; 32].into() })
}

/// A connection whose client claims a session that began with the scene's key. Returns the verdict, and the
/// messages to the session.
fn claimed(scene: &mut Scene, number: u8) -> (Result<Verdict, Unexpected>, Vec<FromClaimant>) {
    claimed_with(scene, number, ToClaimant::Accepted(vec![1]))
}

/// Like [`claimed`], for a session that answers `taken` when it is taken over.
fn claimed_with(
    scene: &mut Scene,
    number: u8,
    taken: ToClaimant,
) -> (Result<Verdict, Unexpected>, Vec<FromClaimant>) {
    let host_keys = scene.monitor.signer.keys().iter();
    let host_keys = host_keys.map(|key| key.public().fingerprint(FingerprintHash::Sha256)).collect();
    claimed_at(scene, number, host_keys, taken)
}

/// Like [`claimed_with`], for a session that began at a server with these host keys.
fn claimed_at(
    scene: &mut Scene,
    number: u8,
    host_keys: Vec<String>,
    taken: ToClaimant,
) -> (Result<Verdict, Unexpected>, Vec<FromClaimant>) {
    let proofs = format!("publickey {}\n", scene.key.public().to_openssh_line(""));
    claimed_by(scene, number, (proofs, None), host_keys, taken)
}

/// Like [`claimed_at`], for a login with these proofs.
fn claimed_by(
    scene: &mut Scene,
    number: u8,
    (proofs, host): (String, Option<ClientHost>),
    host_keys: Vec<String>,
    taken: ToClaimant,
) -> (Result<Verdict, Unexpected>, Vec<FromClaimant>) {
    let uid = users::current().unwrap().unwrap().uid;
    let rules = session_rules::of_login(&scene.monitor.config.settings, uid);
    claimed_as(scene, number, (proofs, host, rules), host_keys, taken)
}

/// Like [`claimed_by`], for a login with these rules as well.
fn claimed_as(
    scene: &mut Scene,
    number: u8,
    (proofs, host, rules): (String, Option<ClientHost>, Vec<String>),
    host_keys: Vec<String>,
    taken: ToClaimant,
) -> (Result<Verdict, Unexpected>, Vec<FromClaimant>) {
    let right = Login { proofs, host, options: Box::default(), rules, host_keys };
    let (handle, session) = session(number, ToClaimant::Right(right), taken);
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let verdict = scene.decide(claim(handle, &scene.user));
    // Closes the other end of the conversation.
    drop(scene.monitor.take_claimant());
    (verdict, session.join().unwrap())
}

/// No file of the account or the system trusts this host.
#[test]
fn a_session_of_a_host_that_is_not_trusted_ends() {
    let rules = "ResumeGrace 1m\nHostbasedAuthentication yes\nHostbasedUsesNameFromPacketOnly yes\n";
    for (number, host) in
        [(37, Some(ClientHost { name: "nowhere.invalid.".to_owned(), user: "eve".to_owned() })), (38, None)]
    {
        let mut scene = Scene::new(rules);
        let keys = scene.monitor.signer.keys().iter();
        let keys = keys.map(|key| key.public().fingerprint(FingerprintHash::Sha256)).collect();
        let proofs = format!("hostbased {}\n", scene.key.public().to_openssh_line(""));
        let taken = ToClaimant::Accepted(vec![1]);
        let (verdict, heard) = claimed_by(&mut scene, number, (proofs, host), keys, taken);
        assert!(matches!(verdict, Ok(Verdict::Reject { .. })), "{verdict:?}");
        assert_eq!(heard, [FromClaimant::End]);
        let why = "the client's host may not log in as the user any more";
        assert!(scene.log.taken().iter().any(|line| line.contains(why)));
    }
}

/// The account was removed and made again: the session has the user id of the old one, which may be another
/// user's now. A login to an older server has recorded none.
#[test]
fn a_session_of_an_account_with_another_user_id_ends() {
    let uid = users::current().unwrap().unwrap().uid;
    for (number, recorded, goes_on) in [(45, Some(uid), true), (46, None, true), (47, Some(uid + 1), false)] {
        let mut scene = Scene::new("ResumeGrace 1m");
        let keys = scene.monitor.signer.keys().iter();
        let keys = keys.map(|key| key.public().fingerprint(FingerprintHash::Sha256)).collect();
        let proofs = format!("publickey {}\n", scene.key.public().to_openssh_line(""));
        let settings = &scene.monitor.config.settings;
        let rules = recorded
            .map_or_else(|| session_rules::of(settings), |uid| session_rules::of_login(settings, uid));
        let taken = ToClaimant::Accepted(vec![1]);
        let (verdict, heard) = claimed_as(&mut scene, number, (proofs, None, rules), keys, taken);
        assert_eq!(matches!(verdict, Ok(Verdict::Resume(_))), goes_on, "{recorded:?}: {verdict:?}");
        assert_eq!(heard == [FromClaimant::End], !goes_on, "{recorded:?}: {heard:?}");
        let log = scene.log.taken().join("\n");
        assert_eq!(log.contains("the account has another user id now"), !goes_on, "{log}");
    }
}

/// A second server of this host and user cannot end the session by any of its rules.
#[test]
fn another_server_does_not_end_a_session() {
    for grace in ["0", "1m"] {
        let mut scene = Scene::new(&format!("ResumeGrace {grace}"));
        let others = vec!["SHA256:of another server".to_owned()];
        let (verdict, heard) = claimed_at(&mut scene, 36, others, ToClaimant::Accepted(vec![1]));
        assert!(matches!(verdict, Ok(Verdict::Reject { .. })), "{verdict:?}");
        assert_eq!(heard, []);
        assert!(scene.log.taken().iter().any(|line| line.contains("the session is another server's")));
    }
}

#[test]
fn a_session_ends_only_by_a_definite_no() {
    let keys = tempfile::NamedTempFile::new().unwrap();
    let path = keys.path().display().to_string();
    let me = users::current().unwrap().unwrap().name;
    let command = format!("AuthorizedKeysCommand /bin/cat {path}\nAuthorizedKeysCommandUser {me}\n");
    let scene = |lines: &str| {
        let scene = Scene::new(&format!("ResumeGrace 1m\n{command}{lines}"));
        std::fs::write(scene._directory.path().join("authorized"), "").unwrap();
        scene
    };
    // The command lists the key; an unreadable file does not revoke it for good.
    let mut listed = scene("");
    std::fs::write(&path, listed.key.public().to_openssh_line("")).unwrap();
    let (verdict, heard) = claimed(&mut listed, 30);
    assert!(matches!(verdict, Ok(Verdict::Resume(_))), "{verdict:?}: {:?}", listed.log.taken());
    assert!(matches!(heard[..], [FromClaimant::Take { .. }]), "{heard:?}");
    let mut unreadable = scene("RevokedKeys /nonexistent/revoked\n");
    std::fs::write(&path, unreadable.key.public().to_openssh_line("")).unwrap();
    assert_eq!(claimed(&mut unreadable, 31), (Ok(Verdict::Later), Vec::new()));
    // The command fails: the result is unknown.
    let mut failing = scene("");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(claimed(&mut failing, 32), (Ok(Verdict::Later), Vec::new()));
    assert!(failing.log.taken().iter().any(|line| line.contains("as far as could be looked up")));
    // The command no longer lists the key, or a list revokes it: the session ends even if other look-ups
    // fail.
    std::fs::write(&path, "").unwrap();
    let (verdict, heard) = claimed(&mut scene(""), 33);
    assert!(matches!(verdict, Ok(Verdict::Reject { .. })), "{verdict:?}");
    assert_eq!(heard, [FromClaimant::End]);
    let revoked = tempfile::NamedTempFile::new().unwrap();
    let mut lost = scene(&format!("RevokedKeys /nonexistent/revoked {}\n", revoked.path().display()));
    std::fs::write(revoked.path(), lost.key.public().to_openssh_line("")).unwrap();
    let (verdict, heard) = claimed(&mut lost, 34);
    assert!(matches!(verdict, Ok(Verdict::Reject { .. })), "{verdict:?}");
    assert_eq!(heard, [FromClaimant::End]);
    drop(keys);
}

#[test]
fn sessions_not_permitted_at_the_new_address_end() {
    for (number, lines, why) in [
        (40, "ResumeGrace 0", "sessions may not wait for their clients now (ResumeGrace)"),
        (41, "RefuseConnection yes\nResumeGrace 1m", "connections are prohibited (RefuseConnection)"),
        (
            42,
            "PubkeyAcceptedAlgorithms rsa-sha2-512\nResumeGrace 1m",
            "keys like that of the login are not accepted any more",
        ),
    ] {
        let mut scene = Scene::new(lines);
        let (verdict, heard) = claimed(&mut scene, number);
        let ended = matches!(verdict, Ok(Verdict::Reject { .. }) | Err(Unexpected::Prohibited));
        assert!(ended, "{lines}: {verdict:?}");
        assert_eq!(heard, [FromClaimant::End], "{lines}");
        let log = scene.log.taken().join("\n");
        assert!(log.contains(&format!("refused: {why}")), "{lines}: {log}");
    }
}

/// A client that leaves claims its session again, which may have ended meanwhile.
#[test]
fn a_claim_of_an_ended_session_is_no_failure() {
    let mut scene = Scene::new("ResumeGrace 1m\nLogLevel VERBOSE");
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let handle = handle(70);
    assert!(matches!(scene.decide(claim(handle, &scene.user)), Ok(Verdict::Reject { .. })));
    assert_eq!(scene.monitor.asked(), Asked::Nothing);
    let log = scene.log.taken().join("\n");
    assert!(log.contains("refused: no such session") && !log.contains("Failed"), "{log}");
    // A second one on the same connection is not such a client's.
    assert!(matches!(scene.decide(claim(handle, &scene.user)), Ok(Verdict::Reject { .. })));
    assert_eq!(scene.monitor.asked(), Asked::Failed { exists: true });
}

/// Any user may listen at the address of a session that has ended.
#[test]
fn an_address_of_another_user_is_no_session() {
    let handle = handle(72);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        // Only root may become another user, and only this thread does. Without that no process listens,
        // which has the same result.
        let is_other = rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).is_ok();
        let listening = is_other.then(|| crate::resuming::listen(&handle).unwrap());
        // A thread that becomes another user takes the right to open `/proc/PID/fd` from the whole process.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).unwrap();
        ready.send(()).unwrap();
        let _ = is_done.recv();
        drop(listening);
    });
    is_ready.recv().unwrap();
    let mut scene = Scene::new("ResumeGrace 1m");
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    assert!(matches!(scene.decide(claim(handle, &scene.user)), Ok(Verdict::Reject { .. })));
    assert!(scene.log.taken().join("\n").contains("refused: no such session"));
    drop(done);
    other.join().unwrap();
}

/// A session whose client has the right proof, and which ends while it is taken over.
#[test]
fn a_claim_of_a_session_that_ends_is_no_failure() {
    let mut scene = Scene::new("ResumeGrace 1m");
    let (verdict, heard) = claimed_with(&mut scene, 71, ToClaimant::Refused { overtaken: false });
    assert!(matches!(verdict, Ok(Verdict::Reject { .. })), "{verdict:?}");
    assert!(matches!(heard[..], [FromClaimant::Take { .. }]), "{heard:?}");
    assert_eq!(scene.monitor.asked(), Asked::Nothing);
}

#[test]
fn a_refused_claim_proves_nothing_for_a_login() {
    let mut scene = Scene::new("ResumeGrace 0");
    assert_eq!(claimed(&mut scene, 50).1, [FromClaimant::End]);
    let right = scene.signed(&FIRST, &scene.user, None);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    let grant = scene.monitor.grant(Zeroizing::default()).unwrap();
    assert_eq!(grant.proofs.lines().count(), 1, "{}", grant.proofs);
}

/// Connections lost during a resumption differ from those that tried to log in.
#[test]
fn a_lost_resumption_asks_for_nothing() {
    let mut scene = Scene::new("ResumeGrace 1m\nRevokedKeys /nonexistent/revoked");
    assert_eq!(scene.monitor.asked(), Asked::Nothing);
    assert_eq!(claimed(&mut scene, 60).0, Ok(Verdict::Later));
    assert_eq!(scene.monitor.asked(), Asked::Nothing);
    let mut scene = Scene::new("ResumeGrace 0");
    assert!(matches!(claimed(&mut scene, 61).0, Ok(Verdict::Reject { .. })));
    assert_eq!(scene.monitor.asked(), Asked::Failed { exists: true });
    for lines in ["", "ResumeGrace 1m"] {
        let mut scene = Scene::new(lines);
        scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
        assert!(matches!(scene.decide(Method::None), Ok(Verdict::Reject { .. })));
        assert_eq!(scene.monitor.asked(), Asked::Login);
    }
}
