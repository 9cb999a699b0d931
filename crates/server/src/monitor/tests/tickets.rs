//! Joining a session by a ticket: which clients may, and with which rights.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use lh_auth::TicketRequest;
use lh_auth::server::TicketAttempt;
use rustix::process::getpid;

use super::*;
use crate::quotas::{MOVED_LENGTH, Moved};
use crate::tickets::{KEEP, KEEP_LENGTH, Record, TAKE, TAKE_LENGTH, Tickets, id_of};
use crate::user_connections::{Member, USER_LENGTH, UserConnection};

const FIRST: [u8; 32] = [3; 32];
const SECOND: [u8; 32] = [9; 32];

/// Connects the monitor to a listener; returns the listener's end of the socket.
fn with_listener(mut scene: Scene) -> (Scene, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    scene.monitor = scene.monitor.with_tickets(theirs);
    (scene, ours)
}

/// A monitor after a login with a key that has these options.
fn logged_in(lines: &str, options: &str) -> (Scene, UnixStream) {
    let (mut scene, listener) = with_listener(Scene::new(lines));
    let line = format!("{options} {}", scene.key.public().to_openssh_line(""));
    std::fs::write(scene._directory.path().join("authorized"), line).unwrap();
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let right = scene.signed(&FIRST, &scene.user, None);
    assert_eq!(scene.monitor.ticket(scene.key.public().blob()).unwrap_err(), Unexpected::Time);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    scene.monitor.grant(Zeroizing::default()).unwrap();
    (scene, listener)
}

/// Issues a ticket of the session; returns its key and the record that the listener keeps.
fn ticket(scene: &mut Scene, listener: &mut UnixStream) -> (PrivateKey, Record) {
    let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
    assert_eq!(scene.monitor.ticket(key.public().blob()), Ok(true));
    let mut head = [0; KEEP_LENGTH];
    listener.read_exact(&mut head).unwrap();
    assert_eq!((head[0], &head[1..33]), (KEEP, &id_of(key.public().blob())[..]));
    let mut record = vec![0; u32::from_be_bytes(head[33..].try_into().unwrap()) as usize];
    listener.read_exact(&mut record).unwrap();
    (key, Record::decode(&record).unwrap())
}

/// A new connection, and a listener that keeps this ticket.
fn origin(lines: &str, key: &PrivateKey, record: &Record) -> Scene {
    let (mut scene, mut listener) = with_listener(Scene::new(lines));
    scene.monitor.sign_first(1, "ssh-ed25519", &SECOND).unwrap().unwrap();
    let (id, record) = (id_of(key.public().blob()), record.encode());
    std::thread::spawn(move || {
        let mut tickets = Tickets::default();
        tickets.keep(getpid(), [127, 0, 0, 1].into(), id, record, Instant::now());
        let mut request = [0; TAKE_LENGTH];
        while listener.read_exact(&mut request).is_ok() {
            assert_eq!(request[0], TAKE);
            let ticket = tickets.take(request[1..].first_chunk().unwrap(), getpid(), Instant::now());
            let record = ticket.map_or_else(Vec::new, |(_, record)| record);
            listener.write_all(&(record.len() as u32).to_be_bytes()).unwrap();
            listener.write_all(&record).unwrap();
        }
    });
    scene
}

fn shown(key: &PrivateKey, signer: &PrivateKey, of: (&[u8], &[u8], &str, &[u8])) -> Method {
    let (joined, session_id, user, host_key) = of;
    let request = TicketRequest { key: key.public().blob(), host_key };
    let data = request.signed_data(joined, session_id, user.as_bytes());
    let signature = signer.sign("ssh-ed25519", &data).unwrap();
    Method::Ticket(TicketAttempt { key: key.public().blob().to_vec(), signature })
}

#[test]
fn joined_session_has_only_the_rights_of_the_first() {
    let (mut first, mut listener) = logged_in("", "restrict,command=\"echo only\",permitopen=\"db:1\"");
    let (key, record) = ticket(&mut first, &mut listener);
    let mut second = origin("", &key, &record);
    let host_key = second.monitor.signer.keys()[1].public().blob().to_vec();
    let method = shown(&key, &key, (&FIRST, &SECOND, &second.user, &host_key));
    assert_eq!(second.decide(method), Ok(Verdict::Accept));
    let said = second.log.taken().join("\n");
    let pid = std::process::id();
    assert!(said.contains(&format!("Accepted ticket for {} from 127.0.0.1 port 7", second.user)), "{said}");
    assert!(said.contains(&format!("ssh2: joined session of {pid}")), "{said}");
    let grant = second.monitor.grant(Zeroizing::default()).unwrap();
    assert_eq!(grant.options.command.as_deref(), Some("echo only"));
    assert_eq!(grant.options.permit_open, ["db:1"]);
    assert!(!grant.options.pty && !grant.options.port_forwarding && !grant.options.agent_forwarding);
    assert!(grant.proofs.starts_with("publickey ssh-ed25519 "));
    let next = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
    assert_eq!(second.monitor.ticket(next.public().blob()), Ok(false));
}

/// A new listener has to know which connections are one session's: it counts one of them.
#[test]
fn connections_of_a_session_report_themselves_as_its_members() {
    let rules = "PerUserMaxConnections 1";
    let (mut first, mut listener) = with_listener(Scene::new(rules));
    first.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let right = first.signed(&FIRST, &first.user, None);
    listener.write_all(&[1]).unwrap();
    assert_eq!(first.decide(right), Ok(Verdict::Accept));
    first.monitor.grant(Zeroizing::default()).unwrap();
    let uid = rustix::process::getuid().as_raw();
    let mut question = [0; USER_LENGTH];
    listener.read_exact(&mut question).unwrap();
    assert_eq!(UserConnection::decode(&question), Some(UserConnection { uid, limit: Some(1) }));
    // Without tickets it has no other connections.
    let counted = UserConnection { uid, limit: None }.encode().to_vec();
    assert_eq!(first.monitor.counted(), counted);
    let (key, record) = ticket(&mut first, &mut listener);
    let member = Member::new(uid, &FIRST).encode().to_vec();
    assert_eq!(first.monitor.counted(), [counted, member.clone()].concat());
    let mut second = origin(rules, &key, &record);
    let host_key = second.monitor.signer.keys()[1].public().blob().to_vec();
    let method = shown(&key, &key, (&FIRST, &SECOND, &second.user, &host_key));
    assert_eq!(second.decide(method), Ok(Verdict::Accept));
    second.monitor.grant(Zeroizing::default()).unwrap();
    assert_eq!(second.monitor.counted(), member);
    // Where no rule names the keyword, nothing is reported.
    let (first, _listener) = logged_in("", "restrict");
    assert!(first.monitor.counted().is_empty());
}

/// A new listener has to know the sessions that end when others use up the quota.
#[test]
fn sessions_with_a_quota_report_it_to_a_new_listener() {
    let (mut scene, mut listener) = with_listener(Scene::new("PerUserTransferQuota 1G/1d"));
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let right = scene.signed(&FIRST, &scene.user, None);
    listener.write_all(&[1]).unwrap();
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    scene.monitor.grant(Zeroizing::default()).unwrap();
    let mut question = [0; MOVED_LENGTH];
    listener.read_exact(&mut question).unwrap();
    assert_eq!(Moved::decode(&question).map(|moved| moved.bytes), Some(0));
    assert_eq!(scene.monitor.count_moved(500).map(|moved| moved.bytes), Some(500));
    assert_eq!(scene.monitor.counted(), question);
}

#[test]
fn ticket_is_single_use_and_bound_to_connection_user_and_key() {
    let (mut first, mut listener) = logged_in("", "restrict");
    let wrong_key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
    for wrong in 0..7 {
        let (key, mut record) = ticket(&mut first, &mut listener);
        match wrong {
            5 => record.peer = [10, 0, 0, 1].into(),
            6 => record.local = ([127, 0, 0, 1], 8).into(),
            _ => {}
        }
        let mut second = origin("MaxAuthTries 20", &key, &record);
        let user = second.user.clone();
        let [other, shown_key] = [0, 1].map(|at| second.monitor.signer.keys()[at].public().blob().to_vec());
        let method = match wrong {
            0 => shown(&key, &key, (&SECOND, &SECOND, &user, &shown_key)),
            1 => shown(&key, &key, (&FIRST, &FIRST, &user, &shown_key)),
            2 => shown(&key, &key, (&FIRST, &SECOND, "somebody", &shown_key)),
            3 => shown(&key, &key, (&FIRST, &SECOND, &user, &other)),
            4 => shown(&key, &wrong_key, (&FIRST, &SECOND, &user, &shown_key)),
            _ => shown(&key, &key, (&FIRST, &SECOND, &user, &shown_key)),
        };
        assert!(matches!(second.decide(method), Ok(Verdict::Reject { partial: false, .. })), "{wrong}");
        let right = shown(&key, &key, (&FIRST, &SECOND, &user, &shown_key));
        assert!(matches!(second.decide(right), Ok(Verdict::Reject { .. })), "{wrong} leaves a ticket");
        assert!(!second.monitor.accepted());
    }
}

#[test]
fn tickets_can_be_turned_off_and_are_ed25519_keys() {
    let (mut first, _listener) = logged_in("LonghaulTickets no", "restrict");
    let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
    assert_eq!(first.monitor.ticket(key.public().blob()), Ok(false));
    let (mut first, mut listener) = logged_in("", "restrict");
    let other = PrivateKey::generate(KeyType::EcdsaP256, None).unwrap();
    for bad in [other.public().blob(), b"", b"ssh-ed25519"] {
        assert_eq!(first.monitor.ticket(bad), Ok(false));
    }
    // A ticket that was issued when tickets were enabled.
    let (key, record) = ticket(&mut first, &mut listener);
    let mut second = origin("LonghaulTickets no", &key, &record);
    let host_key = second.monitor.signer.keys()[1].public().blob().to_vec();
    let method = shown(&key, &key, (&FIRST, &SECOND, &second.user, &host_key));
    assert!(matches!(second.decide(method), Ok(Verdict::Reject { .. })));
}
