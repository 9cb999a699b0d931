//! Tests of later key exchanges while data flows.

use super::*;
use crate::RekeyLimit;

fn limited(mut config: Config, bytes: u64) -> Config {
    config.rekey = RekeyLimit { bytes: Some(bytes), interval: None };
    config
}

/// Sends packets from both ends whenever they accept them, as a copy does, and checks the received packets.
fn pour(pair: &mut Pair, packets: usize, size: usize) {
    pair.client.packets.clear();
    pair.server.packets.clear();
    let mut sent = [0; 2];
    loop {
        for (end, sent) in [&mut pair.client, &mut pair.server].into_iter().zip(&mut sent) {
            while *sent < packets && end.transport.can_send_bulk() && end.transport.queued_bytes() < 200_000 {
                end.send(&numbered(*sent, size));
                *sent += 1;
            }
        }
        if !pair.step() {
            match pair.link.next_arrival() {
                Some(arrival) => pair.clock.advance_to(arrival),
                None if sent == [packets; 2] => break,
                None => panic!("no progress after {sent:?}: {:?}", pair.errors()),
            }
        }
    }
    pair.assert_well();
    for end in [&pair.client, &pair.server] {
        assert_eq!(end.packets.len(), packets);
        for (number, packet) in end.packets.iter().enumerate() {
            assert!(*packet == numbered(number, size), "packet {number}");
        }
    }
}

#[test]
fn data_flows_across_rekeys_of_256_kib() {
    for chunking in [Chunking::Whole, Chunking::Random(Seeded::new(1), 100_000)] {
        let mut pair = Pair::over(
            far(chunking),
            limited(Config::client(), 256 << 10),
            limited(server_config(), 256 << 10),
        );
        pair.establish();
        let id = pair.client.transport.session_id().unwrap().to_vec();
        pour(&mut pair, 200, 32 << 10);
        assert!(pair.client.kex_done() > 10, "{}", pair.client.kex_done());
        assert_eq!(pair.client.kex_done(), pair.server.kex_done());
        assert_eq!(pair.client.transport.session_id(), Some(&id[..]));
        assert_eq!(pair.server.transport.session_id(), Some(&id[..]));
        // The host key was accepted once; the same key is not reported again.
        let asked = pair.client.events.iter().filter(|event| matches!(event, Event::HostKey { .. })).count();
        assert_eq!(asked, 1);
    }
}

#[test]
fn tiny_rekey_limits_make_progress() {
    for bytes in [1, 16, 1000] {
        let mut pair = Pair::over(far(Chunking::Whole), limited(Config::client(), bytes), server_config());
        pair.establish();
        pour(&mut pair, 30, 500);
    }
}

#[test]
fn both_sides_may_start_a_rekey_at_once() {
    let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
    pair.establish();
    for round in 2..6 {
        pair.client.transport.request_rekey();
        pair.server.transport.request_rekey();
        pair.exchange(&[1, 1000, 40_000]);
        assert_eq!((pair.client.kex_done(), pair.server.kex_done()), (round, round));
    }
}

#[test]
fn data_in_flight_at_the_start_of_a_rekey_arrives() {
    let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
    pair.establish();
    // The server's data is in flight when the client sends its KEXINIT.
    for number in 0..10 {
        pair.server.send(&numbered(number, 100));
    }
    pair.step();
    pair.client.transport.request_rekey();
    assert!(!pair.client.transport.can_send_bulk());
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.client.packets.len(), 10);
    assert_eq!(pair.client.kex_done(), 2);
    assert!(pair.client.transport.can_send_bulk());
}

#[test]
fn data_queued_during_a_rekey_is_sent_in_order() {
    let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
    pair.establish();
    pair.client.transport.request_rekey();
    let before = pair.client.transport.queued_bytes();
    let mut expected = Vec::new();
    for number in 0..5 {
        let payload = numbered(number, 10);
        pair.client.send(&payload);
        expected.push(payload);
        pair.client.transport.reserve(&[20, 30]);
        let mut slices = pair.client.transport.reserved(2);
        slices[0].copy_from_slice(&numbered(100 + number, 19));
        slices[1][..10].copy_from_slice(&numbered(200 + number, 9));
        pair.client.transport.commit(&[20, 10]);
        expected.push(numbered(100 + number, 19));
        expected.push(numbered(200 + number, 9));
    }
    assert!(pair.client.transport.queued_bytes() > before);
    // A PING that arrives now is answered after NEWKEYS: the server would refuse an earlier PONG.
    pair.server.send(b"\xc0\0\0\0\x01x");
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.server.packets, expected);
    assert!(pair.server.events.iter().any(|event| matches!(event, Event::Pong(_))));
    assert_eq!(pair.client.transport.queued_bytes(), 0);
}

#[test]
fn rekey_interval_starts_rekeys() {
    let mut client = Config::client();
    client.rekey.interval = Some(Duration::from_secs(3600));
    let mut pair = Pair::new(client, server_config());
    pair.drive();
    assert_eq!(pair.client.transport.next_deadline(), None, "not before authentication");
    pair.client.transport.set_authenticated();
    pair.server.transport.set_authenticated();
    for round in 2..5 {
        let deadline = pair.client.transport.next_deadline().unwrap();
        pair.client.transport.handle_timeout(deadline - Duration::from_secs(1));
        assert!(pair.client.transport.can_send_bulk());
        pair.clock.advance_to(deadline);
        pair.client.transport.handle_timeout(deadline);
        pair.drive();
        pair.assert_well();
        assert_eq!((pair.client.kex_done(), pair.server.kex_done()), (round, round));
    }
    assert_eq!(pair.clock.elapsed(), Duration::from_secs(3 * 3600));
}

#[test]
fn rekey_limits_apply_after_authentication() {
    let mut pair = Pair::new(limited(Config::client(), 100), limited(server_config(), 100));
    pair.drive();
    pair.exchange(&[1000, 1000]);
    assert_eq!(pair.client.kex_done(), 1);
    pair.client.transport.set_authenticated();
    pair.exchange(&[1000]);
    assert!(pair.client.kex_done() > 1);
}

#[test]
fn set_algorithms_applies_to_the_next_exchange() {
    let mut pair = Pair::established(Config::client(), server_config());
    let mut config = Config::client();
    set_cipher(&mut config, "aes192-ctr", "hmac-sha2-512");
    pair.client.transport.set_algorithms(config.algorithms);
    pair.exchange(&[100]);
    pair.server.transport.request_rekey();
    pair.exchange(&[100]);
    assert_eq!(pair.server.transport.negotiated().unwrap().cipher_c2s, "aes192-ctr");
}

#[test]
fn changed_host_key_is_reported_again() {
    let mut pair = Pair::established(Config::client(), server_config());
    let mut config = Config::client();
    set(&mut config.algorithms.host_key, &["ecdsa-sha2-nistp256"]);
    pair.client.transport.set_algorithms(config.algorithms);
    pair.client.transport.request_rekey();
    pair.client.answers = false;
    pair.drive();
    match pair.client.events.last() {
        Some(Event::HostKey { blob, first: false, .. }) => assert_eq!(blob, keys()[1].public().blob()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn exhausted_key_is_refused() {
    let mut pair = Pair::established(Config::client(), server_config());
    let mut position = pair.server.transport.recv.position();
    position.index.invocation = crate::epoch::HARD_PACKETS;
    pair.server.transport.recv.set_position(position);
    pair.client.send(&[94]);
    pair.drive();
    assert_eq!(pair.server.error, Some(TransportError::KeyExhausted));
}

#[test]
fn packet_count_triggers_a_rekey() {
    let mut pair = Pair::established(Config::client(), server_config());
    let mut position = pair.client.transport.send.position();
    position.index.invocation = crate::epoch::SOFT_PACKETS - 1;
    // Only the packet count is faked, on both ends, because GCM's nonce depends on it.
    pair.client.transport.send.set_position(position);
    let mut other = pair.server.transport.recv.position();
    other.index.invocation = position.index.invocation;
    pair.server.transport.recv.set_position(other);
    pair.exchange(&[10, 10]);
    assert_eq!(pair.client.kex_done(), 2);
}
