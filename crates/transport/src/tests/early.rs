//! Tests of early data: channel messages that a client sends before its user is authenticated.

use super::*;

/// Returns a pair after the first key exchange whose client keeps channel messages.
fn keeping_pair(compression: &str) -> Pair {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, compression);
    set_compression(&mut server, compression);
    let mut pair = Pair::new(client, server);
    pair.drive();
    pair.client.transport.keep_early();
    pair
}

/// Returns the packets that the server received since the last call.
fn received(pair: &mut Pair) -> Vec<Vec<u8>> {
    pair.drive();
    pair.assert_well();
    std::mem::take(&mut pair.server.packets)
}

const REQUEST: &[u8] = &[50, 1];
const OPEN: &[u8] = &[90, 2];
const DATA: &[u8] = &[94, 3];

/// Sends the first channel messages, then an authentication request.
fn send_all(pair: &mut Pair) {
    pair.client.send(OPEN);
    pair.client.transport.reserve(&[2]);
    pair.client.transport.reserved(1)[0].copy_from_slice(DATA);
    pair.client.transport.commit(&[2]);
    pair.client.send(REQUEST);
}

fn logged_in(pair: &mut Pair) {
    pair.client.transport.set_authenticated();
    pair.server.transport.set_authenticated();
    pair.client.transport.release_early();
}

#[test]
fn channel_messages_wait_for_authentication() {
    let mut pair = keeping_pair("none");
    send_all(&mut pair);
    assert_eq!(received(&mut pair), [REQUEST]);
    logged_in(&mut pair);
    assert_eq!(received(&mut pair), [OPEN, DATA]);
    pair.client.send(DATA);
    assert_eq!(received(&mut pair), [DATA], "and nothing is kept any more");
}

#[test]
fn early_data_follows_the_request_and_is_sent_once() {
    let mut pair = keeping_pair("none");
    send_all(&mut pair);
    pair.client.transport.send_early();
    pair.client.transport.send_early();
    assert_eq!(received(&mut pair), [REQUEST, OPEN, DATA]);
    pair.client.send(&[96, 4]);
    logged_in(&mut pair);
    assert_eq!(received(&mut pair), [[96, 4]], "queued since then");
}

#[test]
fn early_data_is_sent_again_after_a_failed_request() {
    let mut pair = keeping_pair("none");
    send_all(&mut pair);
    pair.client.transport.send_early();
    pair.client.transport.early_dropped();
    pair.client.send(REQUEST);
    pair.client.transport.send_early();
    assert_eq!(received(&mut pair), [REQUEST, OPEN, DATA, REQUEST, OPEN, DATA]);
    pair.client.transport.early_dropped();
    logged_in(&mut pair);
    assert_eq!(received(&mut pair), [OPEN, DATA]);
}

#[test]
fn early_data_waits_with_delayed_compression() {
    for (name, early) in [("zlib@openssh.com", false), ("zlib", true)] {
        let mut pair = keeping_pair(name);
        send_all(&mut pair);
        pair.client.transport.send_early();
        let expected: &[&[u8]] = if early { &[REQUEST, OPEN, DATA] } else { &[REQUEST] };
        assert_eq!(received(&mut pair), expected, "{name}");
        logged_in(&mut pair);
        assert_eq!(received(&mut pair).len(), 3 - expected.len(), "{name}");
    }
}

/// Packets behind the successful request move to the process that serves the user.
#[test]
fn early_data_moves_with_a_frozen_connection() {
    let mut pair = keeping_pair("none");
    send_all(&mut pair);
    pair.client.transport.send_early();
    let now = pair.clock.now();
    pair.client.transport.output(now);
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    pair.client.transport.output_slices(&mut slices);
    let bytes = slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
    let server = &mut pair.server.transport;
    server.recv_space()[..bytes.len()].copy_from_slice(&bytes);
    server.received(bytes.len());
    assert!(matches!(server.poll(now), Ok(Some(Event::Packet(payload))) if payload[..] == *REQUEST));
    server.set_authenticated();
    let frozen = server.freeze().unwrap();
    let mut thawed = Transport::thaw(&frozen, server_config(), random(3), now).unwrap();
    for expected in [OPEN, DATA] {
        assert!(matches!(thawed.poll(now), Ok(Some(Event::Packet(payload))) if payload[..] == *expected));
    }
}
