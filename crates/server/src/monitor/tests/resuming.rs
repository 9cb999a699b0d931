//! Sessions that go on over another connection: what the monitor remembers of a login.

use std::os::unix::net::UnixStream;

use super::*;

const FIRST: [u8; 32] = [3; 32];

/// A monitor after the login of its user, under this name.
fn logged_in(lines: &str, name: &str) -> Scene {
    let mut scene = Scene::new(lines);
    // A listener that counts the sessions that wait.
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
