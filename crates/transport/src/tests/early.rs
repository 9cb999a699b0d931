//! What a client says on channels before its user is in.

use super::*;

/// After the first key exchange; the client keeps what is for channels.
fn arrived(compression: &str) -> Pair {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, compression);
    set_compression(&mut server, compression);
    let mut pair = Pair::new(client, server);
    pair.drive();
    pair.client.transport.keep_early();
    pair
}

/// What has come to the server since the last time.
fn came(pair: &mut Pair) -> Vec<Vec<u8>> {
    pair.drive();
    pair.assert_well();
    std::mem::take(&mut pair.server.packets)
}

const REQUEST: &[u8] = &[50, 1];
const OPEN: &[u8] = &[90, 2];
const DATA: &[u8] = &[94, 3];

/// A channel's first words, and the user's.
fn speak(pair: &mut Pair) {
    pair.client.send(OPEN);
    pair.client.transport.payloads(&mut [2], &mut |slices, _| slices[0].copy_from_slice(DATA));
    pair.client.send(REQUEST);
}

fn logged_in(pair: &mut Pair) {
    pair.client.transport.set_authenticated();
    pair.server.transport.set_authenticated();
    pair.client.transport.release_early();
}

#[test]
fn what_is_for_channels_waits_for_the_login() {
    let mut pair = arrived("none");
    speak(&mut pair);
    assert_eq!(came(&mut pair), [REQUEST]);
    logged_in(&mut pair);
    assert_eq!(came(&mut pair), [OPEN, DATA]);
    pair.client.send(DATA);
    assert_eq!(came(&mut pair), [DATA], "and nothing is kept any more");
}

#[test]
fn it_may_stand_behind_the_request_and_is_sent_once() {
    let mut pair = arrived("none");
    speak(&mut pair);
    pair.client.transport.send_early();
    pair.client.transport.send_early();
    assert_eq!(came(&mut pair), [REQUEST, OPEN, DATA]);
    pair.client.send(&[96, 4]);
    logged_in(&mut pair);
    assert_eq!(came(&mut pair), [[96, 4]], "what was said since");
}

#[test]
fn what_a_failed_request_has_dropped_is_said_again() {
    let mut pair = arrived("none");
    speak(&mut pair);
    pair.client.transport.send_early();
    pair.client.transport.early_dropped();
    pair.client.send(REQUEST);
    pair.client.transport.send_early();
    assert_eq!(came(&mut pair), [REQUEST, OPEN, DATA, REQUEST, OPEN, DATA]);
    pair.client.transport.early_dropped();
    logged_in(&mut pair);
    assert_eq!(came(&mut pair), [OPEN, DATA]);
}

#[test]
fn with_delayed_compression_it_waits() {
    for (name, early) in [("zlib@openssh.com", false), ("zlib", true)] {
        let mut pair = arrived(name);
        speak(&mut pair);
        pair.client.transport.send_early();
        let expected: &[&[u8]] = if early { &[REQUEST, OPEN, DATA] } else { &[REQUEST] };
        assert_eq!(came(&mut pair), expected, "{name}");
        logged_in(&mut pair);
        assert_eq!(came(&mut pair).len(), 3 - expected.len(), "{name}");
    }
}

/// Packets behind the one that logs in move to the process that serves the user.
#[test]
fn what_came_early_moves_with_the_connection() {
    let mut pair = arrived("none");
    speak(&mut pair);
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
