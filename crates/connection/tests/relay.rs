//! Channels that somebody else speaks for.

mod common;

use bytes::Bytes;
use common::{Ours, THEIRS};
use lh_connection::{Config, ConnectionError, Event, HandedOver};
use lh_wire::Message;
use lh_wire::msg::{self, Rest};

#[test]
fn messages_to_a_relayed_channel_are_handed_on_unread() {
    let mut ours = Ours::new(Config::default());
    let other = ours.open(1000, 100);
    let id = ours.connection.relay().unwrap();
    assert_ne!(id, other);
    // The owner would be told of what is wrong with these; here nobody looks.
    let accepted = msg::ChannelOpenConfirmation::new(id.number(), THEIRS, 0, 0, Rest(b"")).to_payload();
    let data = msg::ChannelData::new(id.number(), &[1; 5000]).to_payload();
    for message in [accepted, data, msg::ChannelClose::new(id.number()).to_payload()] {
        let relayed = Event::Relayed { id, message: Bytes::from(message.clone()) };
        assert_eq!(ours.get_payload(message).unwrap(), [relayed]);
    }
    assert!(ours.said().is_empty(), "no answer of ours, nor credit");
    ours.connection.end_relay(id);
    let gone = ours.get(&msg::ChannelEof::new(id.number()));
    assert!(matches!(gone, Err(ConnectionError::NoChannel { .. })));
    assert_eq!(ours.connection.relay(), Some(id), "the number is free");
    ours.connection.end_relay(other);
    assert!(ours.connection.can_send(other), "only relayed ones are ended like this");
}

#[test]
fn an_open_of_the_peer_is_handed_over() {
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
