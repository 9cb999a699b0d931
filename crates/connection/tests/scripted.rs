//! Tests of the rules of RFC 4254 with a scripted peer in memory.

mod common;

use bytes::Bytes;
use common::{OPTIONS, Ours, THEIRS, numbers};
use lh_connection::{ChannelOptions, Config, ConnectionError, Event, HandedOver, OpenError};
use lh_wire::Message;
use lh_wire::msg::{self, Rest, disconnect, open_failure};
use lh_wire::peer::Peer;
use proptest::prelude::*;

fn ours() -> Ours {
    Ours::new(Config::default())
}

#[test]
fn open_announces_window_and_packet_size() {
    let mut ours = ours();
    let options = ChannelOptions::default();
    let id = ours.connection.open("direct-tcpip", b"fields", &options, &mut ours.out).unwrap();
    let output = ours.sent_one();
    let open = msg::ChannelOpen::decode(&output).unwrap();
    assert_eq!(
        (open.kind, open.sender, open.window, open.max_packet, open.fields),
        (&b"direct-tcpip"[..], id.number(), 2 << 20, 32_768, Rest(b"fields"))
    );
    let failure = msg::ChannelOpenFailure::new(id.number(), open_failure::CONNECT_FAILED, b"no", b"");
    let events = ours.get(&failure).unwrap();
    let description = "no".to_owned();
    assert_eq!(events, [Event::OpenFailed { id, reason: open_failure::CONNECT_FAILED, description }]);
    // The number is free again.
    assert_eq!(ours.connection.open("session", b"", &options, &mut ours.out).unwrap(), id);
}

/// Unless a peer is known to handle more, packets carry 32 KiB in both directions, regardless of what the
/// peer announces and of the channel's options.
#[test]
fn packet_size_follows_the_known_limits_of_the_peer() {
    let kib = |kib: u32| kib << 10;
    for (peer, announced, received, sent) in [
        (Peer::Unknown, kib(32), kib(32), kib(32)),
        (Peer::Unknown, kib(8), kib(32), kib(8)),
        (Peer::Unknown, kib(256), kib(32), kib(32)),
        (Peer::Unknown, u32::MAX, kib(32), kib(32)),
        (Peer::HpnSsh, kib(64), kib(32), kib(32)),
        (Peer::OpenSshVariant, kib(64), kib(32), kib(32)),
        (Peer::OpenSsh, kib(32), kib(64), kib(32)),
        (Peer::OpenSsh, kib(64), kib(64), kib(32)),
        (Peer::Longhaul, kib(64), kib(64), kib(64)),
        (Peer::Longhaul, kib(256), kib(64), kib(64)),
        // More than any transport can carry.
        (Peer::Longhaul, 1 << 31, kib(64), kib(32)),
    ] {
        let mut ours = Ours::new(Config::default().for_peer(peer.limits()));
        let id = ours.open(2 << 20, announced);
        assert_eq!(ours.connection.remote_max_packet(id), sent as usize, "{peer:?} {announced}");
        assert_eq!(ours.connection.send(id, None, &vec![7; 1 << 20], &mut ours.out), 1 << 20);
        let longest = ours.sent().iter().map(Vec::len).max();
        assert_eq!(longest, Some(sent as usize + 9), "{peer:?} {announced}");
        for options in [ChannelOptions::default(), ChannelOptions { max_packet: kib(64), ..OPTIONS }] {
            ours.connection.open("session", b"", &options, &mut ours.out).unwrap();
            let output = ours.sent_one();
            assert_eq!(msg::ChannelOpen::decode(&output).unwrap().max_packet, received, "{peer:?}");
            let events = ours.get(&msg::ChannelOpen::new(b"x11", THEIRS, 500, announced, Rest(b""))).unwrap();
            let [Event::OpenRequested { id, .. }] = &events[..] else { panic!("{events:?}") };
            assert!(ours.connection.accept(*id, &options, b"", &mut ours.out));
            let output = ours.sent_one();
            let accepted = msg::ChannelOpenConfirmation::decode(&output).unwrap();
            assert_eq!(accepted.max_packet, received, "{peer:?}");
            assert_eq!(ours.connection.remote_max_packet(*id), sent as usize);
        }
    }
}

#[test]
fn owner_answers_the_peers_opens() {
    let mut ours = ours();
    let open = msg::ChannelOpen::new(b"x11", THEIRS, 500, 50, Rest(b"abc"));
    let events = ours.get(&open).unwrap();
    let [Event::OpenRequested { id, kind, fields }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), &fields[..]), ("x11", &b"abc"[..]));
    assert!(ours.connection.refuse(*id, open_failure::UNKNOWN_CHANNEL_TYPE, "no such type", &mut ours.out));
    let output = ours.sent_one();
    let failure = msg::ChannelOpenFailure::decode(&output).unwrap();
    assert_eq!((failure.recipient, failure.reason, failure.description), (THEIRS, 3, &b"no such type"[..]));
    assert!(!ours.connection.accept(*id, &OPTIONS, b"", &mut ours.out), "it has been refused");

    let events = ours.get(&open).unwrap();
    let [Event::OpenRequested { id, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(ours.connection.send(*id, None, b"early", &mut ours.out), 0);
    assert!(ours.connection.accept(*id, &OPTIONS, b"ok", &mut ours.out));
    let output = ours.sent_one();
    let confirmation = msg::ChannelOpenConfirmation::decode(&output).unwrap();
    assert_eq!((confirmation.recipient, confirmation.window, confirmation.max_packet), (THEIRS, 1000, 100));
    assert_eq!(ours.connection.send_budget(*id), 500);
    assert_eq!(ours.connection.remote_max_packet(*id), 50);
}

#[test]
fn too_many_channels_are_refused_on_both_sides() {
    let mut ours = Ours::new(Config { max_channels: 2, ..Config::default() });
    ours.open(0, 1);
    assert_eq!(ours.get(&msg::ChannelOpen::new(b"session", 1, 1, 1, Rest(b""))).unwrap().len(), 1);
    assert_eq!(ours.get(&msg::ChannelOpen::new(b"session", 2, 1, 1, Rest(b""))).unwrap(), []);
    let output = ours.sent_one();
    assert_eq!(msg::ChannelOpenFailure::decode(&output).unwrap().reason, open_failure::RESOURCE_SHORTAGE);
    assert_eq!(
        ours.connection.open("session", b"", &OPTIONS, &mut ours.out),
        Err(OpenError::TooManyChannels)
    );
}

#[test]
fn numbers_stay_below_16384_until_both_closes() {
    let mut ours = ours();
    for _ in 0..16384 {
        let id = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
        assert!(id.number() < 16384);
    }
    assert!(ours.connection.open("session", b"", &OPTIONS, &mut ours.out).is_err());

    let mut ours = common::Ours::new(Config::default());
    let id = ours.open(10, 10);
    ours.connection.close(id, &mut ours.out);
    assert_ne!(ours.open(10, 10), id, "the peer has not closed it");
    assert_eq!(ours.get(&msg::ChannelClose::new(id.number())).unwrap(), [Event::Closed { id }]);
    assert_eq!(ours.open(10, 10), id);
}

#[test]
fn number_is_kept_until_the_owner_polls_the_close() {
    let mut ours = ours();
    let id = ours.open(10, 10);
    let close = msg::ChannelClose::new(id.number()).to_payload();
    ours.connection.handle(Bytes::from(close), ours.now, &mut ours.out).unwrap();
    let other = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert_ne!(other, id);
    assert_eq!(ours.connection.poll_event(), Some(Event::Closed { id }));
    assert_eq!(ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap(), id);
}

#[test]
fn close_is_answered_once_and_ends_the_channel() {
    let mut ours = ours();
    let id = ours.open(100, 10);
    assert_eq!(ours.get(&msg::ChannelClose::new(id.number())).unwrap(), [Event::Closed { id }]);
    assert_eq!(numbers(&ours.sent()), [97]);
    assert!(!ours.connection.close(id, &mut ours.out));
    assert_eq!(ours.connection.send(id, None, b"late", &mut ours.out), 0);
    assert!(!ours.connection.request(id, "x", true, b"", &mut ours.out));
    assert_eq!(numbers(&ours.sent()), [0u8; 0]);
    let error = ours.get(&msg::ChannelData::new(id.number(), b"late")).unwrap_err();
    assert_eq!(error, ConnectionError::NoChannel { message: "channel data", channel: id.number() });
    assert_eq!(error.disconnect_reason(), disconnect::PROTOCOL_ERROR);
}

#[test]
fn maximum_packet_size_of_zero_is_refused() {
    let open = msg::ChannelOpen::new(b"session", 1, 1, 0, Rest(b""));
    assert_eq!(ours().get(&open).unwrap_err(), ConnectionError::ZeroMaxPacket);
    let mut ours = ours();
    let id = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap().number();
    let confirmation = msg::ChannelOpenConfirmation::new(id, 1, 1, 0, Rest(b""));
    assert_eq!(ours.get(&confirmation).unwrap_err(), ConnectionError::ZeroMaxPacket);
}

#[test]
fn replies_are_matched_in_order() {
    let mut ours = ours();
    let id = ours.open(100, 10);
    for (name, want_reply) in [("pty-req", true), ("env", false), ("shell", true)] {
        assert!(ours.connection.request(id, name, want_reply, b"", &mut ours.out));
    }
    assert_eq!(numbers(&ours.sent()), [98, 98, 98]);
    let failure = ours.get(&msg::ChannelFailure::new(id.number())).unwrap();
    assert_eq!(failure, [Event::RequestReply { id, name: "pty-req".into(), ok: false }]);
    let success = ours.get(&msg::ChannelSuccess::new(id.number())).unwrap();
    assert_eq!(success, [Event::RequestReply { id, name: "shell".into(), ok: true }]);
    assert_eq!(ours.get(&msg::ChannelSuccess::new(id.number())).unwrap(), [], "no request is pending");
}

#[test]
fn global_requests_work_both_ways() {
    let mut ours = ours();
    ours.connection.global_request("tcpip-forward", true, b"f", &mut ours.out);
    ours.connection.global_request("no-more-sessions@openssh.com", false, b"", &mut ours.out);
    ours.connection.global_request("keepalive@openssh.com", true, b"", &mut ours.out);
    ours.sent();
    let success = ours.get(&msg::RequestSuccess::new(Rest(b"port"))).unwrap();
    let fields = Bytes::from_static(b"port");
    assert_eq!(success, [Event::GlobalReply { name: "tcpip-forward".into(), ok: true, fields }]);
    let failure = ours.get(&msg::RequestFailure::new()).unwrap();
    let name = "keepalive@openssh.com".to_owned();
    assert_eq!(failure, [Event::GlobalReply { name, ok: false, fields: Bytes::new() }]);

    let events = ours.get(&msg::GlobalRequest::new(b"what@example", true, Rest(b"zz"))).unwrap();
    let (name, fields) = ("what@example".to_owned(), Bytes::from_static(b"zz"));
    assert_eq!(events, [Event::GlobalRequest { name, want_reply: true, fields }]);
    assert!(ours.connection.reply_global(false, b"", &mut ours.out));
    assert_eq!(numbers(&ours.sent()), [82]);
    assert!(!ours.connection.reply_global(true, b"", &mut ours.out), "answered already");
}

#[test]
fn unanswered_requests_are_limited() {
    let mut ours = Ours::new(Config { max_unanswered: 3, ..Config::default() });
    let id = ours.open(10, 10).number();
    let request = msg::ChannelRequest::new(id, b"env", true, Rest(b""));
    let global = msg::GlobalRequest::new(b"x", true, Rest(b""));
    for _ in 0..3 {
        ours.get(&request).unwrap();
        ours.get(&global).unwrap();
    }
    assert_eq!(ours.get(&request).unwrap_err(), ConnectionError::TooManyRequests { limit: 3 });
    assert_eq!(ours.get(&global).unwrap_err(), ConnectionError::TooManyRequests { limit: 3 });
}

#[test]
fn abandoned_channel_is_closed_when_it_opens() {
    let mut ours = ours();
    let id = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
    assert!(ours.connection.close(id, &mut ours.out));
    ours.sent();
    let confirmation = msg::ChannelOpenConfirmation::new(id.number(), THEIRS, 10, 10, Rest(b""));
    assert_eq!(ours.get(&confirmation).unwrap(), []);
    assert_eq!(numbers(&ours.sent()), [97]);
    assert_eq!(ours.get(&msg::ChannelClose::new(id.number())).unwrap(), [Event::Closed { id }]);
}

#[test]
fn other_message_numbers_are_refused() {
    let mut ours = ours();
    for number in [0u8, 20, 50, 79, 83, 89, 101, 255] {
        assert_eq!(ours.get_payload(vec![number]).unwrap_err(), ConnectionError::NotOurs { number });
    }
    assert!(ours.get_payload(Vec::new()).is_err());
}

proptest! {
    /// Every payload leads to an event or an error.
    #[test]
    fn no_payload_panics(payloads in prop::collection::vec(
        (80u8..=101, prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..40)), 0..20
    )) {
        let mut ours = ours();
        ours.open(1000, 100);
        ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
        for (number, rest) in payloads {
            let mut payload = vec![number];
            payload.extend(rest);
            if ours.get_payload(payload).is_err() {
                break;
            }
        }
    }
}

#[test]
fn messages_to_relayed_channels_are_passed_on() {
    let mut ours = Ours::new(Config::default());
    let other = ours.open(1000, 100);
    let id = ours.connection.relay().unwrap();
    assert_ne!(id, other);
    // These would be errors on an ordinary channel; here they are not decoded.
    let accepted = msg::ChannelOpenConfirmation::new(id.number(), THEIRS, 0, 0, Rest(b"")).to_payload();
    let data = msg::ChannelData::new(id.number(), &[1; 5000]).to_payload();
    for message in [accepted, data, msg::ChannelClose::new(id.number()).to_payload()] {
        let relayed = Event::Relayed { id, message: Bytes::from(message.clone()) };
        assert_eq!(ours.get_payload(message).unwrap(), [relayed]);
    }
    assert!(ours.sent().is_empty(), "neither answers nor credit are sent");
    ours.connection.end_relay(id);
    assert_eq!(ours.get(&msg::ChannelEof::new(id.number())).unwrap(), [], "late");
    let gone = ours.get(&msg::ChannelData::new(id.number(), b"x"));
    assert!(matches!(gone, Err(ConnectionError::NoChannel { .. })));
    assert_eq!(ours.connection.relay(), Some(id), "the number is free");
    ours.connection.end_relay(other);
    assert!(ours.connection.can_send(other), "only relayed channels are ended");
}

#[test]
fn open_of_the_peer_is_handed_over() {
    let mut ours = Ours::new(Config::default());
    let events = ours.get(&msg::ChannelOpen::new(b"forwarded-tcpip", THEIRS, 77, 33, Rest(b""))).unwrap();
    let [Event::OpenRequested { id, .. }] = events[..] else { panic!("{events:?}") };
    let handed = HandedOver { remote_id: THEIRS, window: 77, max_packet: 33 };
    assert_eq!(ours.connection.hand_over(id), Some(handed));
    assert_eq!(ours.connection.hand_over(id), None);
    let eof = msg::ChannelEof::new(id.number()).to_payload();
    let relayed = Event::Relayed { id, message: Bytes::from(eof.clone()) };
    assert_eq!(ours.get_payload(eof).unwrap(), [relayed]);
}
