//! Tests of payload compression.

use super::*;

#[test]
fn delayed_compression_starts_with_authentication() {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, "zlib@openssh.com");
    set_compression(&mut server, "zlib@openssh.com");
    let mut pair = Pair::new(client, server);
    pair.drive();
    let payload = [&[94][..], &[7; 20_000]].concat();
    let cost = |pair: &mut Pair| {
        let before = pair.link.up.sent();
        pair.client.send(&payload);
        pair.drive();
        pair.assert_well();
        assert_eq!(pair.server.packets.pop(), Some(payload.clone()));
        pair.link.up.sent() - before
    };
    assert!(cost(&mut pair) > 20_000);
    // The server's SUCCESS is the last packet that is not compressed.
    pair.server.send(&[52]);
    pair.server.transport.set_authenticated();
    pair.drive();
    assert_eq!(pair.client.packets, [[52]]);
    pair.client.transport.set_authenticated();
    assert!(cost(&mut pair) < 1000);
    pair.client.transport.request_rekey();
    pair.drive();
    assert!(cost(&mut pair) < 1000, "new keys, new stream");
    pair.exchange(&[1, 100, 30_000]);
}

#[test]
fn zlib_compresses_from_the_first_packet() {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, "zlib");
    set_compression(&mut server, "zlib");
    let mut pair = Pair::new(client, server);
    pair.establish();
    pair.exchange(&[1, 100, 30_000]);
    pair.server.transport.request_rekey();
    pair.exchange(&[1, 100, 30_000]);
    let before = pair.link.up.sent();
    pair.client.transport.reserve(&[10_000, 10_000, 10_000]);
    let mut slices = pair.client.transport.reserved(3);
    slices[0].fill(94);
    slices[1][..500].fill(94);
    pair.client.transport.commit(&[10_000, 500, 0]);
    pair.drive();
    assert!(pair.link.up.sent() - before < 1000);
    assert!(pair.server.packets[3] == [94; 10_000] && pair.server.packets[4] == [94; 500]);
}

#[test]
fn decompression_bomb_ends_the_connection() {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, "zlib");
    set_compression(&mut server, "zlib");
    let mut pair = Pair::established(client, server);
    pair.client.send(&vec![94; 10 << 20]);
    pair.drive();
    assert_eq!(pair.server.error, Some(TransportError::Compression("packet too large")));
    assert_eq!(pair.client.disconnected(), Some(6));
}

#[test]
fn success_held_back_by_an_exchange_is_not_compressed() {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, "zlib@openssh.com");
    set_compression(&mut server, "zlib@openssh.com");
    let mut pair = Pair::over(far(Chunking::Whole), client, server);
    pair.drive();
    pair.server.transport.request_rekey();
    pair.server.send(&[52]);
    pair.server.transport.set_authenticated();
    pair.server.send(&[80, 1, 2, 3]);
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.client.packets, [vec![52], vec![80, 1, 2, 3]]);
    assert_eq!(pair.client.kex_done(), 2);
    pair.exchange(&[1, 100]);
}
