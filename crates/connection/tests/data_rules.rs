//! Tests of the rules about data, EOF and windows (RFC 4254 section 5.2) with a scripted peer in memory.

mod common;

use bytes::Bytes;
use common::{OPTIONS, Ours, THEIRS, numbers};
use lh_connection::{ChannelOptions, Config, ConnectionError, Event, WindowPolicy};
use lh_wire::Message;
use lh_wire::msg::{self, Rest, disconnect};

fn ours() -> Ours {
    Ours::new(Config::default())
}

#[test]
fn data_in_flight_after_our_close_is_dropped() {
    let mut ours = ours();
    let id = ours.open(100, 10);
    assert!(ours.connection.close(id, &mut ours.out));
    assert!(!ours.connection.close(id, &mut ours.out));
    assert_eq!(numbers(&ours.sent()), [97]);
    assert_eq!(ours.get(&msg::ChannelData::new(id.number(), b"late")).unwrap(), []);
    assert_eq!(
        ours.get(&msg::ChannelRequest::new(id.number(), b"exit-status", true, Rest(b""))).unwrap(),
        []
    );
    assert_eq!(ours.get(&msg::ChannelEof::new(id.number())).unwrap(), []);
    assert_eq!(ours.get(&msg::ChannelClose::new(id.number())).unwrap(), [Event::Closed { id }]);
    assert!(ours.sent().is_empty(), "nothing follows our CLOSE");
}

#[test]
fn half_close_leaves_the_other_direction_open() {
    let mut ours = ours();
    let id = ours.open(100, 10);
    assert!(ours.connection.eof(id, &mut ours.out));
    assert!(!ours.connection.eof(id, &mut ours.out));
    assert_eq!(ours.connection.send(id, None, b"x", &mut ours.out), 0);
    assert_eq!(numbers(&ours.sent()), [96]);
    let events = ours.get(&msg::ChannelData::new(id.number(), b"answer")).unwrap();
    assert_eq!(events, [Event::Data { id, ext: None, data: Bytes::from_static(b"answer") }]);
    assert!(ours.connection.request(id, "signal", false, b"", &mut ours.out));
    assert_eq!(ours.get(&msg::ChannelEof::new(id.number())).unwrap(), [Event::Eof { id }]);
    assert_eq!(ours.get(&msg::ChannelEof::new(id.number())).unwrap(), [], "reported once");
}

#[test]
fn violations_of_data_rules_end_the_connection() {
    type Rule<'a> = &'a dyn Fn(&mut Ours, u32) -> Result<Vec<Event>, ConnectionError>;
    let rules: [(Rule<'_>, &str); 7] = [
        (&|ours, id| ours.get(&msg::ChannelData::new(id, &[0; 101])), "packet of 101 bytes, 100 allowed"),
        (
            &|ours, id| {
                for _ in 0..10 {
                    ours.get(&msg::ChannelData::new(id, &[0; 100])).unwrap();
                }
                ours.get(&msg::ChannelData::new(id, &[0; 1]))
            },
            "peer ignored the window: 1 bytes, 0 allowed",
        ),
        (
            &|ours, id| {
                ours.get(&msg::ChannelEof::new(id)).unwrap();
                ours.get(&msg::ChannelExtendedData::new(id, 1, b"x"))
            },
            "data after EOF",
        ),
        (&|ours, _| ours.get(&msg::ChannelData::new(99, b"x")), "channel data for nonexistent channel 99"),
        (
            &|ours, id| {
                ours.get(&msg::ChannelWindowAdjust::new(id, u32::MAX - 100)).unwrap();
                ours.get(&msg::ChannelWindowAdjust::new(id, 1))
            },
            "adjust of 1 bytes overflows the window",
        ),
        (
            &|ours, id| ours.get(&msg::ChannelOpenConfirmation::new(id, 1, 1, 1, Rest(b""))),
            "unexpected open confirmation for a channel that is not being opened",
        ),
        (
            &|ours, id| {
                let mut payload = msg::ChannelData::new(id, b"abc").to_payload();
                payload.push(0);
                ours.get_payload(payload)
            },
            "malformed channel data: 1 trailing bytes",
        ),
    ];
    for (rule, text) in rules {
        let mut ours = ours();
        let id = ours.open(100, 10).number();
        let error = rule(&mut ours, id).unwrap_err();
        assert!(error.to_string().ends_with(text), "{error} should end with {text}");
        assert_eq!(error.disconnect_reason(), disconnect::PROTOCOL_ERROR);
    }
}

/// Like OpenSSH. The data counts against the window, so its amount is limited.
#[test]
fn data_behind_eof_is_ignored() {
    let mut ours = ours();
    let id = ours.open(100, 10);
    assert_eq!(ours.get(&msg::ChannelEof::new(id.number())).unwrap(), [Event::Eof { id }]);
    assert_eq!(ours.get(&msg::ChannelData::new(id.number(), b"late")).unwrap(), []);
    assert_eq!(ours.connection.send(id, None, b"answer", &mut ours.out), 6);
}

#[test]
fn data_before_the_channel_is_open_is_an_error() {
    let mut ours = ours();
    let id = ours.connection.open("session", b"", &OPTIONS, &mut ours.out).unwrap().number();
    for error in [
        ours.get(&msg::ChannelData::new(id, b"x")).unwrap_err(),
        ours.get(&msg::ChannelClose::new(id)).unwrap_err(),
        ours.get(&msg::ChannelWindowAdjust::new(id, 1)).unwrap_err(),
    ] {
        assert!(matches!(error, ConnectionError::NotYetOpen { .. }), "{error}");
    }
}

#[test]
fn data_respects_the_peers_packet_size_and_window() {
    let mut ours = ours();
    let id = ours.open(25, 10);
    assert_eq!(ours.connection.send(id, None, &[b'a'; 40], &mut ours.out), 25);
    let lengths: Vec<usize> =
        ours.sent().iter().map(|output| msg::ChannelData::decode(output).unwrap().data.len()).collect();
    assert_eq!(lengths, [10, 10, 5]);
    assert_eq!(ours.connection.send_budget(id), 0);
    assert_eq!(
        ours.get(&msg::ChannelWindowAdjust::new(id.number(), 0)).unwrap(),
        [],
        "nothing can be written"
    );
    assert_eq!(ours.get(&msg::ChannelWindowAdjust::new(id.number(), 4)).unwrap(), [Event::Writable { id }]);
    assert_eq!(ours.get(&msg::ChannelWindowAdjust::new(id.number(), 4)).unwrap(), [], "no sender waits");
    assert_eq!(ours.connection.send(id, Some(1), b"error", &mut ours.out), 5);
    let output = ours.sent_one();
    let data = msg::ChannelExtendedData::decode(&output).unwrap();
    assert_eq!((data.recipient, data.kind, data.data), (THEIRS, 1, &b"error"[..]));
}

#[test]
fn fill_may_write_less_than_requested() {
    let mut ours = ours();
    let id = ours.open(1000, 10);
    assert_eq!(ours.connection.reserve(id, None, 35, &mut ours.out), 35);
    let mut bodies = ours.connection.slices(&mut ours.out);
    let shown: Vec<usize> = bodies.iter().map(|body| body.len()).collect();
    bodies[0].copy_from_slice(b"0123456789");
    bodies[1][..3].copy_from_slice(b"abc");
    let sent = ours.connection.commit(13, &mut ours.out);
    assert_eq!((sent, shown), (13, vec![10, 10, 10, 5]));
    let output = ours.sent();
    let data: Vec<&[u8]> =
        output.iter().map(|output| msg::ChannelData::decode(output).unwrap().data).collect();
    assert_eq!(data, [&b"0123456789"[..], b"abc"]);
    assert_eq!(ours.connection.send_budget(id), 987);
    assert_eq!(ours.connection.reserve(id, None, 35, &mut ours.out), 35);
    assert_eq!(ours.connection.commit(0, &mut ours.out), 0);
    assert!(ours.sent().is_empty());
}

#[test]
fn no_credit_after_the_peers_eof() {
    let mut ours = ours();
    let id = ours.open(10, 10);
    for _ in 0..10 {
        ours.get(&msg::ChannelData::new(id.number(), &[0; 100])).unwrap();
    }
    ours.get(&msg::ChannelEof::new(id.number())).unwrap();
    ours.connection.consumed(id, 1000, ours.now, &mut ours.out);
    assert!(ours.sent().is_empty());
}

#[test]
fn window_of_zero_is_never_offered() {
    let mut ours = ours();
    let options = ChannelOptions { window: WindowPolicy { initial: 0, cap: 0 }, max_packet: 64 };
    ours.connection.open("session", b"", &options, &mut ours.out).unwrap();
    let output = ours.sent_one();
    assert_eq!(msg::ChannelOpen::decode(&output).unwrap().window, 64);
}

#[test]
fn window_of_one_byte_gets_credit() {
    let mut ours = ours();
    let options = ChannelOptions { window: WindowPolicy { initial: 1, cap: 1 }, max_packet: 1 };
    let id = ours.connection.open("session", b"", &options, &mut ours.out).unwrap();
    ours.get(&msg::ChannelOpenConfirmation::new(id.number(), THEIRS, 10, 10, Rest(b""))).unwrap();
    ours.sent();
    for _ in 0..3 {
        assert_eq!(ours.get(&msg::ChannelData::new(id.number(), b"x")).unwrap().len(), 1);
        ours.connection.consumed(id, 1, ours.now, &mut ours.out);
        assert_eq!(ours.sent_one(), msg::ChannelWindowAdjust::new(THEIRS, 1).to_payload());
    }
}
