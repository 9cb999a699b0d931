//! Tests of the client's first channel, used before its confirmation, at both ends (`first-flight@longhaul`).

mod common;

use bytes::Bytes;
use common::{OPTIONS, Ours, THEIRS, numbers};
use lh_connection::{ChannelId, ChannelOptions, Config, ConnectionError, Event, WindowPolicy};
use lh_wire::Message;
use lh_wire::msg::{self, Rest, open_failure};

const PROMISED: u32 = 500;

/// Returns a client that has a promise, and its first channel.
fn promised() -> (Ours, ChannelId) {
    let mut ours = Ours::new(Config::default());
    ours.connection.promise_first(PROMISED);
    let id = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_eq!(ours.connection.poll_event(), Some(Event::Opened { id, fields: Bytes::new() }));
    (ours, id)
}

fn confirmation(id: ChannelId, sender: u32, window: u32) -> msg::ChannelOpenConfirmation<'static> {
    msg::ChannelOpenConfirmation::new(id.number(), sender, window, 100, Rest(b""))
}

#[test]
fn promised_channel_sends_early_within_its_window() {
    let (mut ours, id) = promised();
    assert!(ours.connection.is_promised(id));
    assert!(ours.connection.request(id, "subsystem", true, b"", &mut ours.out));
    assert_eq!(ours.connection.send(id, None, &[7; 600], &mut ours.out), 500);
    let output = ours.sent();
    assert_eq!(numbers(&output), [90, 98, 94]);
    assert_eq!(output[1][1..5], [0; 4], "to number 0");
    // The bytes already sent are subtracted from the granted window.
    assert_eq!(ours.get(&confirmation(id, 0, 2_000)).unwrap(), [Event::Writable { id }]);
    assert!(!ours.connection.is_promised(id));
    assert_eq!((ours.connection.send_budget(id), ours.connection.remote_max_packet(id)), (1_500, 100));
    let answer = msg::ChannelSuccess::new(id.number());
    assert_eq!(
        ours.get(&answer).unwrap(),
        [Event::RequestReply { id, name: "subsystem".to_owned(), ok: true }]
    );
}

#[test]
fn broken_promise_ends_the_connection() {
    for (sender, window) in [(1, 2_000), (0, 499)] {
        let (mut ours, id) = promised();
        assert_eq!(ours.connection.send(id, None, &[7; 500], &mut ours.out), 500);
        let error = ours.get(&confirmation(id, sender, window)).unwrap_err();
        assert!(matches!(error, ConnectionError::Unexpected { .. }), "{error}");
    }
    // A second confirmation is refused too.
    let (mut ours, id) = promised();
    assert_eq!(ours.get(&confirmation(id, 0, 600)).unwrap(), []);
    assert!(ours.get(&confirmation(id, 0, 600)).is_err());
}

#[test]
fn promised_channel_may_be_refused_or_abandoned() {
    let failure = |id: ChannelId| {
        msg::ChannelOpenFailure::new(id.number(), open_failure::CONNECT_FAILED, b"open failed", b"")
    };
    let (mut ours, id) = promised();
    let events = ours.get(&failure(id)).unwrap();
    assert!(matches!(&events[..], [Event::OpenFailed { .. }]), "{events:?}");
    assert_eq!(ours.connection.send(id, None, b"x", &mut ours.out), 0);
    let (mut ours, id) = promised();
    assert!(ours.connection.close(id, &mut ours.out));
    assert_eq!(ours.get(&failure(id)).unwrap(), [Event::Closed { id }]);
}

#[test]
fn promise_is_for_the_first_session_only() {
    let (mut ours, _) = promised();
    let second = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_eq!(ours.connection.poll_event(), None);
    assert!(!ours.connection.request(second, "shell", true, b"", &mut ours.out));
    // A promise after the first open has no effect.
    let mut ours = Ours::new(Config::default());
    ours.open(1_000, 100);
    ours.connection.promise_first(PROMISED);
    ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_eq!(ours.connection.poll_event(), None);
    let mut ours = Ours::new(Config::default());
    ours.connection.promise_first(PROMISED);
    ours.connection.open("direct-tcpip", b"", &OPTIONS, &mut ours.out).unwrap();
    ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_eq!(ours.connection.poll_event(), None);
}

/// Returns a server that keeps its promise.
fn promising_server() -> Ours {
    let mut ours = Ours::new(Config::default());
    ours.connection.keep_first(PROMISED);
    ours
}

fn asked(ours: &mut Ours, kind: &[u8]) -> ChannelId {
    let events = ours.get(&msg::ChannelOpen::new(kind, THEIRS, 500, 50, Rest(b""))).unwrap();
    let [Event::OpenRequested { id, .. }] = &events[..] else { panic!("{events:?}") };
    *id
}

/// The promised window takes precedence over the configured one.
#[test]
fn first_channel_gets_the_promised_window() {
    let small = Config { bulk_window: WindowPolicy::fixed(100), ..Config::default() };
    let mut ours = Ours::new(small);
    ours.connection.keep_first(PROMISED);
    for expected in [PROMISED, 100] {
        let id = asked(&mut ours, b"session");
        assert!(ours.connection.accept(id, &ChannelOptions::default(), b"", &mut ours.out));
        let output = ours.sent_one();
        assert_eq!(msg::ChannelOpenConfirmation::decode(&output).unwrap().window, expected);
    }
}

/// A mux client of a shared connection may open the first channel.
#[test]
fn mux_client_cancels_the_promise() {
    let mut ours = Ours::new(Config::default());
    ours.connection.promise_first(PROMISED);
    let relayed = ours.connection.relay().unwrap();
    ours.connection.end_relay(relayed);
    ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_eq!(ours.connection.poll_event(), None);
}

#[test]
fn number_0_is_reserved_for_the_first_channel() {
    let mut ours = promising_server();
    let own = ours.connection.open("forwarded-tcpip", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_eq!(own.number(), 1);
    let id = asked(&mut ours, b"session");
    assert_eq!(id.number(), 0);
    assert!(ours.connection.accept(id, &OPTIONS, b"", &mut ours.out));
    assert_eq!(asked(&mut ours, b"session").number(), 2);
    // After a regular close, number 0 is a number like any other.
    assert!(ours.connection.close(id, &mut ours.out));
    assert_eq!(ours.get(&msg::ChannelClose::new(0)).unwrap(), [Event::Closed { id }]);
    assert_eq!(asked(&mut ours, b"session").number(), 0);
}

#[test]
fn messages_to_a_refused_first_channel_are_dropped() {
    let mut ours = promising_server();
    let id = asked(&mut ours, b"session");
    assert!(ours.connection.refuse(id, open_failure::CONNECT_FAILED, "open failed", &mut ours.out));
    ours.sent();
    assert_eq!(ours.get(&msg::ChannelRequest::new(0, b"exec", true, Rest(b""))).unwrap(), []);
    assert_eq!(ours.get(&msg::ChannelData::new(0, &[1; 400])).unwrap(), []);
    assert_eq!(ours.get(&msg::ChannelClose::new(0)).unwrap(), []);
    assert_eq!(ours.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(asked(&mut ours, b"session").number(), 1);
    // Messages to other refused channels are errors, as always.
    let id = asked(&mut ours, b"session");
    assert!(ours.connection.refuse(id, open_failure::CONNECT_FAILED, "open failed", &mut ours.out));
    assert!(ours.get(&msg::ChannelClose::new(id.number())).is_err());
}
