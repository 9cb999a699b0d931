use super::*;
use std::os::unix::net::UnixStream;

use lh_driver::{Driver, Link, LinkError, Stream};

/// A watch whose link was silent, and lost, before another one: `has_delivered` says whether it had
/// delivered a packet before. Returns the state of the present link after a wait of `wait` for an answer.
fn after_silence(has_delivered: bool, is_kept: bool, wait: Duration) -> PathState {
    let link = |config, socket: UnixStream| {
        let transport =
            lh_transport::Transport::new(config, Box::new(lh_crypto::SystemRandom), Instant::now());
        Link::new(transport, Stream::socket(socket.into()).unwrap())
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut driver = Driver::new(link(lh_transport::Config::client(), ours), Default::default());
    let mut watch = PathWatch::begin(&driver.control());
    if has_delivered {
        let blob = crate::testing::key().blob().to_vec();
        let key = lh_transport::HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob };
        let mut server = link(lh_transport::Config::server(vec![key]), theirs);
        // SSH_MSG_KEXINIT.
        server.finish(Duration::from_secs(20));
        while driver.control().traffic().packets_in == 0 {
            let looked = driver.link().next_event(Some(Instant::now() + Duration::from_millis(10)));
            assert!(matches!(looked, Ok(_) | Err(LinkError::TimedOut)), "{looked:?}");
        }
    }
    let mut cx = driver.control();
    let now = Instant::now();
    assert_eq!(watch.check(&mut cx, now), PathState::Good);
    watch.ask(|_| ANSWER, &mut cx, now);
    assert_eq!(watch.check(&mut cx, now + INDIRECT_ANSWER), PathState::Silent);
    if is_kept {
        watch.forget();
    }
    watch.on_lost();
    watch.on_new_link(&cx, now);
    watch.ask(|_| ANSWER, &mut cx, now);
    watch.check(&mut cx, now + wait)
}

#[test]
fn only_a_link_that_delivered_nothing_grants_more_time() {
    assert_eq!(after_silence(false, false, INDIRECT_ANSWER), PathState::Good);
    assert_eq!(after_silence(false, false, Duration::from_secs(2)), PathState::Silent);
    assert_eq!(after_silence(true, false, INDIRECT_ANSWER), PathState::Silent);
    // There was nothing better, and then the link broke.
    assert_eq!(after_silence(false, true, INDIRECT_ANSWER), PathState::Silent);
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn direct() -> Ends {
    Ends { addresses: Some((ip("10.0.0.2"), ip("192.0.2.7"))), interface: Some(3), ..Ends::default() }
}

#[test]
fn routes_concern_the_addresses_they_cover() {
    for (to, prefix, covered) in [
        ("0.0.0.0", 0, true),
        ("192.0.2.0", 24, true),
        ("192.0.2.7", 32, true),
        ("192.0.2.6", 32, false),
        ("192.0.3.0", 24, false),
        ("::", 0, false),
    ] {
        assert_eq!(covers(ip(to), prefix, ip("192.0.2.7")), covered, "{to}/{prefix}");
    }
    assert!(covers(ip("2001:db8::"), 32, ip("2001:db8::1")));
    assert!(!covers(ip("2001:db9::"), 32, ip("2001:db8::1")));
    // A prefix length that no kernel reports.
    assert!(covers(ip("192.0.2.7"), 255, ip("192.0.2.7")));
}

#[test]
fn only_changes_of_the_links_own_path_are_suspicious() {
    let mut ends = direct();
    let mut meaning = |change| ends.meaning(&change);
    assert_eq!(meaning(NetworkChange::AddressRemoved(ip("10.0.0.2"))), Meaning::AddressRemoved);
    assert_eq!(meaning(NetworkChange::AddressAdded(ip("10.0.0.2"))), Meaning::Suspicious);
    assert_eq!(meaning(NetworkChange::AddressRemoved(ip("10.0.0.3"))), Meaning::Nothing);
    assert_eq!(meaning(NetworkChange::Route { to: ip("0.0.0.0"), prefix: 0 }), Meaning::Suspicious);
    assert_eq!(meaning(NetworkChange::Route { to: ip("172.17.0.0"), prefix: 16 }), Meaning::Nothing);
    assert_eq!(meaning(NetworkChange::Unknown), Meaning::Suspicious);
    // Another interface, such as a container's.
    assert_eq!(meaning(NetworkChange::Link { index: 4, running: false }), Meaning::Nothing);
    // Reports without a change.
    assert_eq!(meaning(NetworkChange::Link { index: 3, running: true }), Meaning::Nothing);
    assert_eq!(meaning(NetworkChange::Link { index: 3, running: false }), Meaning::Suspicious);
    assert_eq!(meaning(NetworkChange::Link { index: 3, running: false }), Meaning::Nothing);
    assert_eq!(meaning(NetworkChange::Link { index: 3, running: true }), Meaning::Suspicious);
}

#[test]
fn behind_a_jump_host_every_new_way_out_is_suspicious() {
    let mut ends = Ends::default();
    let mut meaning = |change| ends.meaning(&change);
    assert_eq!(meaning(NetworkChange::AddressRemoved(ip("10.0.0.2"))), Meaning::Suspicious);
    assert_eq!(meaning(NetworkChange::AddressRemoved(ip("127.0.0.2"))), Meaning::Nothing);
    assert_eq!(meaning(NetworkChange::Route { to: ip("0.0.0.0"), prefix: 0 }), Meaning::Suspicious);
    assert_eq!(meaning(NetworkChange::Route { to: ip("172.17.0.0"), prefix: 16 }), Meaning::Nothing);
    assert_eq!(meaning(NetworkChange::Link { index: 4, running: false }), Meaning::Suspicious);
}

#[test]
fn an_early_answer_is_awaited_as_long_as_one_loss_takes() {
    // Linux' shortest timeout of a retransmission, and its longest delay of an acknowledgement.
    const TCP: Duration = Duration::from_millis(200);
    for round_trip in [0, 1, 10, 50, 100, 200, 400].map(Duration::from_millis) {
        let (lost_request, lost_answer) = (TCP + round_trip * 2, TCP + round_trip * 3);
        let least = lost_request.max(lost_answer) + Duration::from_millis(100);
        assert!(early_answer(round_trip) >= least, "{round_trip:?}");
    }
    // On a short path 300 ms are left for another connection, so that less than a second is lost.
    for round_trip in [0, 1, 10, 30].map(Duration::from_millis) {
        let found = Duration::from_millis(300) + early_answer(round_trip);
        assert!(found <= Duration::from_millis(700) + round_trip * 2, "{round_trip:?}");
    }
}

#[test]
fn changes_behind_a_jump_host_show_within_a_second() {
    let known = Duration::from_millis(10);
    assert_eq!(answer_after_change(true, Duration::ZERO), ANSWER);
    assert_eq!(answer_after_change(false, known), ANSWER);
    // Four round trips of an unknown path may be longer.
    assert_eq!(answer_after_change(false, Duration::ZERO), INDIRECT_ANSWER);
}
