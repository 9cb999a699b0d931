//! Requests of a user session process that its user controls.

use super::*;
use crate::monitor_ipc::TerminalFacts;
use lh_crypto::KeyType;

const FIRST: [u8; 32] = [3; 32];

/// A monitor whose user has logged in.
fn logged_in(lines: &str) -> Scene {
    let mut scene = Scene::new(lines);
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    let right = scene.signed(&FIRST, &scene.user, None);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    scene.monitor.grant(Zeroizing::default()).unwrap();
    scene
}

fn terminal() -> TerminalFacts {
    TerminalFacts { columns: 80, rows: 24, kind: "xterm".to_owned() }
}

/// Checks that nothing of what a session process may ask for is given.
fn assert_nothing_for_a_session(monitor: &mut Monitor) {
    assert_eq!(monitor.sign_again(0, "ssh-ed25519", &[1; 32]).unwrap_err(), Unexpected::Time);
    let host_key = monitor.signer.keys()[0].public().blob().to_vec();
    assert_eq!(monitor.prove("ssh-ed25519", &host_key).unwrap_err(), Unexpected::Time);
    assert_eq!(monitor.terminal().unwrap_err(), Unexpected::Time);
    assert_eq!(monitor.record("s", &terminal()).unwrap_err(), Unexpected::Time);
    assert_eq!(monitor.arrived("pts/0", 1).unwrap_err(), Unexpected::Time);
    assert_eq!(monitor.ticket(&host_key).unwrap_err(), Unexpected::Time);
    assert!(monitor.take_terms().is_err());
    assert_eq!(monitor.count_moved(1 << 40), None);
    monitor.left(None);
}

#[test]
fn requests_of_a_session_have_no_effect_before_the_login() {
    let lines =
        "ResumeGrace 1m\nRecordTerminal /nonexistent\nChrootDirectory /\nPerUserTransferQuota 1G/1d\n";
    let mut scene = Scene::new(lines);
    assert_nothing_for_a_session(&mut scene.monitor);
    scene.monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap().unwrap();
    assert_nothing_for_a_session(&mut scene.monitor);
    let right = scene.signed(&FIRST, &scene.user, None);
    assert_eq!(scene.decide(right), Ok(Verdict::Accept));
    assert_nothing_for_a_session(&mut scene.monitor);
    scene.monitor.grant(Zeroizing::default()).unwrap();
    assert!(scene.monitor.sign_again(0, "ssh-ed25519", &[1; 32]).unwrap().is_ok());
}

#[test]
fn a_session_process_gets_only_what_is_its_own() {
    let mut scene = logged_in("");
    let monitor = &mut scene.monitor;
    assert_eq!(monitor.sign_first(0, "ssh-ed25519", &FIRST).unwrap_err(), Unexpected::Time);
    assert!(monitor.grant(Zeroizing::default()).is_err(), "one session for a login");
    for length in [0, 19, 31, 33, 63, 65, 400_000] {
        let refused = monitor.sign_again(0, "ssh-ed25519", &vec![1; length]);
        assert_eq!(refused.unwrap_err(), Unexpected::HashLength(length));
    }
    assert_eq!(monitor.sign_again(usize::MAX, "ssh-ed25519", &FIRST).unwrap_err(), Unexpected::HostKey);
    assert_eq!(monitor.sign_again(0, "ssh-rsa", &FIRST).unwrap_err(), Unexpected::HostKey);
    let other = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
    assert_eq!(monitor.prove("ssh-ed25519", other.public().blob()).unwrap_err(), Unexpected::HostKey);
    assert_eq!(monitor.terminal().unwrap_err(), Unexpected::Terminal, "without a chroot it has its own");
    for line in ["", "pts/../mem", "console", "../../etc/passwd", "pts/4294967295"] {
        assert_eq!(monitor.arrived(line, 1).unwrap_err(), Unexpected::Terminal, "{line}");
    }
    assert_eq!(monitor.ticket(&[0xff; 300_000]), Ok(false));
    assert_eq!(monitor.ticket(other.public().blob()), Ok(false), "there is no listener");
    assert!(monitor.take_terms().unwrap().is_none(), "without ResumeGrace");
    let attempt = Attempt { user: "root".to_owned(), method: Method::None };
    assert!(monitor.decide(&attempt).is_err());
}

/// Each recording is a file of the server's user.
#[test]
fn recordings_without_end_fill_no_disk() {
    use crate::monitor_ipc::MonitorRequest;
    let directory = tempfile::tempdir().unwrap();
    let mut scene = logged_in(&format!("RecordTerminal {}\n", directory.path().display()));
    scene.log.taken();
    let long = TerminalFacts { kind: "x".repeat(400_000), ..terminal() };
    let sent = MonitorRequest::Record(long).encode();
    let mut made = 0;
    for _ in 0..1000 {
        let MonitorRequest::Record(facts) = MonitorRequest::decode(&sent).unwrap() else { panic!() };
        made += usize::from(scene.monitor.record("s", &facts).unwrap().is_some());
    }
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), made);
    assert!((100..500).contains(&made), "{made}");
    assert!(files.iter().all(|file| file.metadata().unwrap().len() < 1000));
    assert!(scene.log.taken().len() < 500);
}

/// A directory that others may write to is refused for each terminal, with a line that counts.
#[test]
fn terminals_asked_for_without_end_fill_no_log() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut scene = logged_in(&format!("RecordTerminal {}\n", directory.path().display()));
    scene.log.taken();
    for _ in 0..2000 {
        assert!(scene.monitor.record("s", &terminal()).unwrap().is_none());
    }
    let lines = scene.log.taken();
    assert!(lines[0].contains("refused: RecordTerminal "), "{}", lines[0]);
    assert!((100..1000).contains(&lines.len()), "{}", lines.len());
}
