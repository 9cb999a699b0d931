//! Tests of messages for channels that are closed or never existed, with both ways to open a channel.

mod common;

use common::{OPTIONS, Ours, THEIRS, numbers};
use lh_connection::{ChannelId, Config, ConnectionError, Event};
use lh_wire::Message;
use lh_wire::msg::{self, Rest};

/// The side that opened the channel.
#[derive(Debug, Clone, Copy)]
enum Opener {
    Us,
    Peer,
}

/// The side that sent CLOSE first.
#[derive(Debug, Clone, Copy)]
enum Closer {
    Us,
    Peer,
}

fn open(ours: &mut Ours, opener: Opener) -> ChannelId {
    match opener {
        Opener::Us => ours.open(1000, 100),
        Opener::Peer => {
            let events = ours.get(&msg::ChannelOpen::new(b"session", THEIRS, 1000, 100, Rest(b""))).unwrap();
            let [Event::OpenRequested { id, .. }] = events[..] else { panic!("{events:?}") };
            assert!(ours.connection.accept(id, &OPTIONS, b"", &mut ours.out));
            id
        }
    }
}

fn close(ours: &mut Ours, id: ChannelId, closer: Closer) {
    if matches!(closer, Closer::Us) {
        assert!(ours.connection.close(id, &mut ours.out));
    }
    assert_eq!(ours.get(&msg::ChannelClose::new(id.number())).unwrap(), [Event::Closed { id }]);
    assert_eq!(numbers(&ours.sent()).last(), Some(&msg::ChannelClose::NUMBER));
}

/// Returns one message of each kind without data for the channel `id`, with their names.
fn harmless(id: u32) -> [(&'static str, Vec<u8>); 6] {
    [
        ("window adjust", msg::ChannelWindowAdjust::new(id, 1).to_payload()),
        ("channel EOF", msg::ChannelEof::new(id).to_payload()),
        ("channel close", msg::ChannelClose::new(id).to_payload()),
        ("channel request", msg::ChannelRequest::new(id, b"x", true, Rest(b"")).to_payload()),
        ("channel success", msg::ChannelSuccess::new(id).to_payload()),
        ("channel failure", msg::ChannelFailure::new(id).to_payload()),
    ]
}

fn harmful(id: u32) -> [(&'static str, Vec<u8>); 4] {
    [
        ("channel data", msg::ChannelData::new(id, b"x").to_payload()),
        ("channel extended data", msg::ChannelExtendedData::new(id, 1, b"x").to_payload()),
        ("open confirmation", msg::ChannelOpenConfirmation::new(id, 1, 1, 1, Rest(b"")).to_payload()),
        ("open failure", msg::ChannelOpenFailure::new(id, 1, b"", b"").to_payload()),
    ]
}

/// Returns a connection for every way in which a channel can end.
fn ended() -> impl Iterator<Item = (Ours, u32)> {
    [Opener::Us, Opener::Peer].into_iter().flat_map(|opener| {
        [Closer::Us, Closer::Peer].map(|closer| {
            let mut ours = Ours::new(Config::default());
            let id = open(&mut ours, opener);
            close(&mut ours, id, closer);
            (ours, id.number())
        })
    })
}

#[test]
fn late_messages_for_a_closed_channel_are_dropped() {
    for (mut ours, id) in ended() {
        for (name, late) in harmless(id) {
            assert_eq!(ours.get_payload(late), Ok(Vec::new()), "{name}");
        }
        assert!(ours.sent().is_empty(), "nothing is answered");
        let next = open(&mut ours, Opener::Peer);
        assert!(ours.connection.can_send(next), "the connection goes on");
    }
}

#[test]
fn late_messages_before_the_close_is_polled_are_dropped() {
    let mut ours = Ours::new(Config::default());
    let id = open(&mut ours, Opener::Us);
    let close = msg::ChannelClose::new(id.number()).to_payload();
    ours.connection.handle(close.into(), ours.now, &mut ours.out).unwrap();
    for (name, late) in harmless(id.number()) {
        assert_eq!(ours.connection.handle(late.into(), ours.now, &mut ours.out), Ok(()), "{name}");
    }
    assert_eq!(ours.connection.poll_event(), Some(Event::Closed { id }));
    assert_eq!(ours.connection.poll_event(), None);
}

#[test]
fn data_for_a_closed_channel_ends_the_connection() {
    for which in 0..harmful(0).len() {
        for (mut ours, id) in ended() {
            let (message, payload) = harmful(id)[which].clone();
            assert_eq!(ours.get_payload(payload), Err(ConnectionError::NoChannel { message, channel: id }));
        }
    }
}

#[test]
fn malformed_late_messages_end_the_connection() {
    for which in 0..harmless(0).len() {
        for (mut ours, id) in ended() {
            let (name, mut payload) = harmless(id)[which].clone();
            payload.truncate(4);
            let result = ours.get_payload(payload);
            assert!(matches!(result, Err(ConnectionError::Malformed { .. })), "{name}: {result:?}");
        }
    }
}

#[test]
fn number_that_no_channel_had_is_an_error() {
    for which in 0..harmless(0).len() {
        for (mut ours, id) in ended() {
            let channel = id + 1;
            let (message, payload) = harmless(channel)[which].clone();
            assert_eq!(ours.get_payload(payload), Err(ConnectionError::NoChannel { message, channel }));
        }
    }
    // The number that is reserved for the first channel has not been in use either.
    for (message, payload) in harmless(0) {
        let mut ours = Ours::new(Config::default());
        ours.connection.keep_first(1000);
        assert_eq!(ours.get_payload(payload), Err(ConnectionError::NoChannel { message, channel: 0 }));
    }
}

/// The number of a closed channel is used again at once, so that a late message meets the next channel.
#[test]
fn late_messages_do_not_disturb_the_next_open() {
    for which in 0..harmless(0).len() {
        for (mut ours, number) in ended() {
            let (name, late) = harmless(number)[which].clone();
            let id = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap();
            assert_eq!((id.number(), numbers(&[ours.sent_one()])), (number, vec![msg::ChannelOpen::NUMBER]));
            assert_eq!(ours.get_payload(late.clone()), Ok(Vec::new()), "{name}");
            let refusal = msg::ChannelOpenFailure::new(number, 1, b"", b"");
            assert!(matches!(ours.get(&refusal).unwrap()[..], [Event::OpenFailed { .. }]), "{name}");
            let asked = ours.get(&msg::ChannelOpen::new(b"session", THEIRS, 1000, 100, Rest(b""))).unwrap();
            assert!(matches!(asked[..], [Event::OpenRequested { .. }]), "{name}");
            assert_eq!(ours.get_payload(late), Ok(Vec::new()), "{name}");
            assert!(ours.connection.accept(id, &OPTIONS, b"", &mut ours.out), "{name}");
        }
    }
}

/// Between our CLOSE and the peer's, everything is legal that is legal on an open channel.
#[test]
fn every_message_is_legal_until_the_peer_closes() {
    for opener in [Opener::Us, Opener::Peer] {
        let mut ours = Ours::new(Config::default());
        let id = open(&mut ours, opener);
        assert!(ours.connection.request(id, "x", true, b"", &mut ours.out));
        assert!(ours.connection.close(id, &mut ours.out));
        ours.sent();
        let [data, extended, ..] = harmful(id.number());
        let [adjust, eof, close, request, success, failure] = harmless(id.number());
        for (name, message) in [data, extended, adjust, request, success, failure, eof] {
            assert_eq!(ours.get_payload(message), Ok(Vec::new()), "{name}");
        }
        assert!(ours.sent().is_empty(), "nothing follows our CLOSE");
        assert_eq!(ours.get_payload(close.1), Ok(vec![Event::Closed { id }]));
    }
}

#[test]
fn late_messages_are_limited() {
    let adjusts = |ours: &mut Ours, id| {
        (0..5000).take_while(|_| ours.get(&msg::ChannelWindowAdjust::new(id, 1)).is_ok()).count()
    };
    for (mut ours, id) in ended() {
        assert_eq!(adjusts(&mut ours, id), 64);
    }
    let mut ours = Ours::new(Config::default());
    for _ in 0..100 {
        let id = open(&mut ours, Opener::Peer);
        close(&mut ours, id, Closer::Peer);
    }
    assert_eq!(adjusts(&mut ours, 0), 1024);
}
