//! Tests of peers and networks that break the rules: each connection ends with the right reason.

use lh_testkit::{ScriptedPeer, kexinit};

use super::handshake::with_kexinit;
use super::*;

/// Runs a transport against a scripted peer.
pub(super) fn against(config: Config, peer: &mut ScriptedPeer) -> (Transport, Result<(), TransportError>) {
    let now = Instant::now();
    let mut transport = Transport::new(config, random(1), now);
    let result = feed(&mut transport, &peer.take_output(), now);
    let mut slices = Vec::new();
    transport.output(now);
    transport.output_slices(&mut slices);
    slices.iter().for_each(|slice| peer.hear(slice));
    drop(slices);
    (transport, result)
}

pub(super) fn feed(transport: &mut Transport, mut bytes: &[u8], now: Instant) -> Result<(), TransportError> {
    while !bytes.is_empty() {
        let space = transport.recv_space();
        let n = space.len().min(bytes.len());
        space[..n].copy_from_slice(&bytes[..n]);
        bytes = &bytes[n..];
        transport.received(n);
        while let Some(event) = transport.poll(now)? {
            answer(transport, &event);
        }
    }
    Ok(())
}

/// Returns the reason in the DISCONNECT that the peer received.
fn reason(peer: &mut ScriptedPeer) -> Option<u32> {
    while let Some(payload) = peer.next_payload() {
        if payload[0] == 1 {
            return Some(u32::from_be_bytes(payload[1..5].try_into().unwrap()));
        }
    }
    None
}

pub(super) fn usual_kexinit() -> Vec<u8> {
    kexinit(&["curve25519-sha256"], &["ssh-ed25519"], &["aes128-ctr"], &["hmac-sha2-256"], &["none"])
}

fn strict_kexinit(role_marker: &str) -> Vec<u8> {
    kexinit(
        &["curve25519-sha256", role_marker],
        &["ssh-ed25519"],
        &["aes128-ctr"],
        &["hmac-sha2-256"],
        &["none"],
    )
}

#[test]
fn impossible_packet_lengths_are_refused() {
    for length in [0, 1, 4, 5, 11, 13, 256 * 1024 + 4, 0x7fff_ffff, u32::MAX] {
        for config in [Config::client(), server_config()] {
            let mut peer = ScriptedPeer::new("SSH-2.0-liar");
            peer.say(&u32::to_be_bytes(length));
            peer.say(&[0; 12]);
            let (transport, result) = against(config, &mut peer);
            assert_eq!(result, Err(TransportError::PacketLength { length }));
            assert_eq!(reason(&mut peer), Some(2));
            assert!(transport.recv.footprint() < 1 << 20);
        }
    }
}

#[test]
fn impossible_padding_lengths_are_refused() {
    for (padding, body) in [(3u8, 12usize), (0, 12), (255, 12), (12, 12)] {
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        let mut packet = (body as u32).to_be_bytes().to_vec();
        packet.push(padding);
        packet.resize(4 + body, 0);
        peer.say(&packet);
        let (_, result) = against(Config::client(), &mut peer);
        assert_eq!(result, Err(TransportError::Padding(padding)));
        assert_eq!(reason(&mut peer), Some(2));
    }
    let mut peer = ScriptedPeer::new("SSH-2.0-liar");
    peer.packet(b"");
    assert_eq!(against(Config::client(), &mut peer).1, Err(TransportError::EmptyPacket));
}

#[test]
fn messages_before_key_exchange_are_refused() {
    for number in [5u8, 6, 7, 21, 30, 31, 34, 50, 80, 94, 192, 255] {
        refused(&[], number, &[number, 0, 0, 0, 0]);
    }
}

/// Asserts that a server that has received `before` ends the connection at `packet` and names its number.
fn refused(before: &[Vec<u8>], number: u8, packet: &[u8]) {
    let mut peer = ScriptedPeer::new("SSH-2.0-liar");
    before.iter().for_each(|packet| peer.packet(packet));
    peer.packet(packet);
    let (_, result) = against(server_config(), &mut peer);
    assert!(matches!(result, Err(TransportError::Unexpected { number: n, .. }) if n == number), "{result:?}");
    assert_eq!(reason(&mut peer), Some(2));
}

#[test]
fn other_messages_during_key_exchange_are_refused() {
    for number in [5u8, 6, 7, 20, 21, 31, 50, 94, 192] {
        let packet = if number == 20 { usual_kexinit() } else { vec![number, 0, 0, 0, 0] };
        refused(&[usual_kexinit()], number, &packet);
    }
}

/// Covers: wire kex-strict
#[test]
fn strict_key_exchange_refuses_other_messages() {
    for number in [2u8, 3, 4, 8, 7] {
        let payload = [number, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // After KEXINIT.
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        peer.packet(&strict_kexinit("kex-strict-c-v00@openssh.com"));
        peer.packet(&payload);
        let (_, result) = against(server_config(), &mut peer);
        assert_eq!(result, Err(TransportError::Unexpected { number, when: "during strict key exchange" }));
        // Before KEXINIT.
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        peer.packet(b"\x02");
        peer.packet(&strict_kexinit("kex-strict-c-v00@openssh.com"));
        let (_, result) = against(server_config(), &mut peer);
        assert!(matches!(result, Err(TransportError::Unexpected { number: 20, .. })));
    }
    // Without the marker, IGNORE is accepted at any time.
    let mut peer = ScriptedPeer::new("SSH-2.0-liar");
    peer.packet(b"\x02");
    peer.packet(&usual_kexinit());
    peer.packet(b"\x02");
    assert_eq!(against(server_config(), &mut peer).1, Ok(()));
}

#[test]
fn invalid_key_exchange_values_are_refused() {
    for (kex, init) in [
        ("curve25519-sha256", b"\x1e\0\0\0\x20aaaa".to_vec()),
        ("curve25519-sha256", [&b"\x1e\0\0\0\x20"[..], &[0; 32]].concat()),
        ("ecdh-sha2-nistp256", [&b"\x1e\0\0\0\x41\x04"[..], &[7; 64]].concat()),
        ("diffie-hellman-group14-sha256", b"\x1e\0\0\0\x01\x01".to_vec()),
        ("diffie-hellman-group14-sha256", b"\x1e\0\0\0\0".to_vec()),
        ("mlkem768x25519-sha256", [&b"\x1e\0\0\0\x20"[..], &[9; 32]].concat()),
        ("diffie-hellman-group-exchange-sha256", b"\x22\0\0\x10\0\0\0\x08\0\0\0\x20\0".to_vec()),
        ("diffie-hellman-group-exchange-sha256", b"\x22\0\0\0\x40\0\0\x02\0\0\0\x04\0".to_vec()),
    ] {
        let mut config = server_config();
        set(&mut config.algorithms.kex, &[kex]);
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        peer.packet(&kexinit(&[kex], &["ssh-ed25519"], &["aes128-ctr"], &["hmac-sha2-256"], &["none"]));
        peer.packet(&init);
        let (_, result) = against(config, &mut peer);
        assert!(
            matches!(result, Err(TransportError::KeyExchange(_) | TransportError::Malformed { .. })),
            "{kex} {result:?}"
        );
        assert!(matches!(reason(&mut peer), Some(2 | 3)));
    }
}

#[test]
fn peers_of_other_protocols_are_refused() {
    let mut peer = ScriptedPeer::default();
    peer.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let now = Instant::now();
    let mut transport = Transport::new(server_config(), random(1), now);
    let result = feed(&mut transport, &peer.take_output(), now);
    let mut slices = Vec::new();
    transport.output(now);
    transport.output_slices(&mut slices);
    let received = slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
    assert!(received.ends_with(b"Invalid SSH identification string.\r\n"), "the peer is told the reason");
    assert_eq!(result.unwrap_err().to_string(), "peer does not speak SSH: \"GET / HTTP/1.1\"");
    // A client accepts other lines first, up to a limit.
    let mut peer = ScriptedPeer::default();
    peer.say(&b"220 mail\r\n".repeat(2000));
    let (_, result) = against(Config::client(), &mut peer);
    assert!(matches!(result, Err(TransportError::NotSsh(_))));
    let mut peer = ScriptedPeer::new("SSH-1.5-old");
    assert!(matches!(against(Config::client(), &mut peer).1, Err(TransportError::ProtocolVersion(_))));
}

#[test]
fn connection_cut_at_every_byte_is_reported() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.drive();
    let total = pair.link.down.sent();
    for cut in 0..total {
        let mut pair = Pair::new(Config::client(), server_config());
        pair.link.down.cut_at(cut);
        pair.drive();
        assert!(
            matches!(pair.client.error, Some(TransportError::Closed { .. })),
            "{cut} {:?}",
            pair.client.error
        );
        assert_eq!(pair.client.error.as_ref().unwrap().disconnect_reason(), None);
    }
}

#[test]
fn every_changed_byte_of_a_packet_is_detected() {
    for (cipher, mac) in [
        ("aes128-gcm@openssh.com", "hmac-sha1"),
        ("chacha20-poly1305@openssh.com", "hmac-sha1"),
        ("aes128-ctr", "hmac-sha2-256"),
        ("aes128-ctr", "hmac-sha2-256-etm@openssh.com"),
        ("aes128-ctr", "umac-128@openssh.com"),
        ("aes128-ctr", "umac-64-etm@openssh.com"),
        ("aes128-cbc", "hmac-sha1"),
        ("3des-cbc", "hmac-md5-etm@openssh.com"),
    ] {
        let (mut client, mut server) = (Config::client(), server_config());
        set_cipher(&mut client, cipher, mac);
        set_cipher(&mut server, cipher, mac);
        let mut at = 0;
        loop {
            let mut pair = Pair::established(client.clone(), server.clone());
            pair.client.send(&numbered(0, 40));
            let size = pair.client.transport.queued_bytes();
            if at == size {
                break;
            }
            pair.link.up.set_tap(move |_, bytes| bytes[at] ^= 1 << (at % 8));
            // More bytes behind it, for a length that has grown.
            pair.client.send(&vec![94; 256 << 10]);
            pair.client.send(&vec![94; 256 << 10]);
            pair.drive();
            assert!(pair.server.packets.is_empty(), "{cipher} byte {at}");
            let error = pair.server.error.as_ref().unwrap();
            let expected = match error {
                TransportError::BadMac => 5,
                TransportError::PacketLength { .. } if at < 4 => 2,
                error => panic!("{cipher} byte {at}: {error:?}"),
            };
            assert_eq!(pair.client.disconnected(), Some(expected));
            at += 1;
        }
    }
}

/// CVE-2008-5161: with CBC, the moment at which a changed packet is refused reveals bits of another packet.
#[test]
fn cbc_conceals_where_a_packet_was_wrong() {
    const MOST: usize = 256 * 1024;
    for (cipher, mac) in [("aes256-cbc", "hmac-sha2-256"), ("3des-cbc", "hmac-md5-96")] {
        let (mut client, mut server) = (Config::client(), server_config());
        set_cipher(&mut client, cipher, mac);
        set_cipher(&mut server, cipher, mac);
        let mut refused_after = Vec::new();
        // Changing the first byte of the length makes the length invalid; changing the last byte makes it
        // different but valid. The other positions are in payload and tag.
        for at in [0, 3, 9, 50, 60, 70] {
            let mut pair = Pair::established(client.clone(), server.clone());
            pair.client.send(&numbered(0, 40));
            let first = pair.client.transport.queued_bytes();
            let changed = at.min(first - 1);
            pair.link.up.set_tap(move |_, bytes| bytes[changed] ^= 0x41);
            pair.drive();
            let mut sent = first;
            while pair.server.error.is_none() {
                assert_eq!(pair.client.disconnected(), None, "{cipher} byte {at} after {sent}");
                assert!(sent < 2 * MOST);
                pair.client.send(&[94; 700]);
                sent += pair.client.transport.queued_bytes();
                pair.drive();
            }
            assert_eq!(pair.server.error, Some(TransportError::BadMac));
            assert!(pair.server.packets.is_empty());
            refused_after.push(sent);
        }
        assert!(refused_after.iter().all(|&sent| sent == refused_after[0]), "{refused_after:?}");
        assert!((MOST..MOST + 1024).contains(&refused_after[0]), "{refused_after:?}");
    }
}

#[test]
fn changed_handshake_never_leads_to_different_sessions() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.drive();
    let (up, down) = (pair.link.up.sent() as usize, pair.link.down.sent() as usize);
    let change = |at: usize| {
        move |before: u64, bytes: &mut Vec<u8>| {
            let before = before as usize;
            if (before..before + bytes.len()).contains(&at) {
                bytes[at - before] ^= 0x11;
            }
        }
    };
    for (upwards, total) in [(true, up), (false, down)] {
        for at in (0..total).step_by(3) {
            let mut pair = Pair::new(Config::client(), server_config());
            if upwards {
                pair.link.up.set_tap(change(at));
            } else {
                pair.link.down.set_tap(change(at));
            }
            pair.drive();
            // Only the padding of unencrypted packets is covered by neither hash nor tag; a change there may
            // succeed.
            if pair.client.error.is_none() && pair.client.kex_done() == 1 && pair.server.kex_done() == 1 {
                assert_eq!(pair.client.transport.session_id(), pair.server.transport.session_id());
                assert_eq!(pair.client.transport.negotiated(), pair.server.transport.negotiated());
            }
        }
    }
}

#[test]
fn second_kexinit_in_one_exchange_is_refused() {
    let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
    pair.establish();
    pair.client.transport.start_kex();
    pair.client.transport.start_kex();
    pair.drive();
    assert!(matches!(pair.server.error, Some(TransportError::Unexpected { number: 20, .. })));
    assert_eq!(pair.client.disconnected(), Some(2));
}

#[test]
fn data_between_kexinit_and_newkeys_is_refused() {
    for number in [5u8, 7, 50, 192, 193] {
        let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
        pair.establish();
        pair.client.transport.request_rekey();
        // Bypasses the check that would hold the message back.
        pair.client.transport.send.push(&[number, 0, 0, 0, 0]);
        pair.drive();
        let expected = TransportError::Unexpected { number, when: "during key exchange" };
        assert_eq!(pair.server.error, Some(expected));
    }
}

#[test]
fn channel_data_during_a_rekey_is_delivered() {
    // asyncssh 2.10 sends it.
    let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
    pair.establish();
    pair.client.transport.request_rekey();
    let message = [94, 0, 0, 0, 0, 0, 0, 0, 1, 7];
    pair.client.transport.send.push(&message);
    pair.drive();
    assert_eq!(pair.server.error, None);
    assert!(pair.server.packets.iter().any(|packet| packet[..] == message), "the data was lost");
}

#[test]
fn kex_messages_outside_an_exchange_are_refused() {
    for number in [21u8, 30, 31, 32, 33, 34, 49] {
        let mut pair = Pair::established(Config::client(), server_config());
        pair.client.transport.send.push(&[number]);
        pair.drive();
        assert!(
            matches!(pair.server.error, Some(TransportError::Unexpected { number: n, .. }) if n == number)
        );
        assert_eq!(pair.client.disconnected(), Some(2));
    }
}

#[test]
fn floods_end_the_connection() {
    // EXT_INFO without end.
    let mut pair = Pair::established(Config::client(), server_config());
    pair.client.send(&[7, 0, 0, 0, 0]);
    pair.drive();
    assert_eq!(pair.server.error, Some(TransportError::TooMany("EXT_INFO")));

    // PINGs whose answers are not read.
    let mut pair = Pair::established(Config::client(), server_config());
    pair.server.writes = false;
    for _ in 0..200 {
        pair.client.send(&[&[192, 0, 0, 0x40, 0][..], &[1; 0x4000]].concat());
        pair.step();
    }
    assert_eq!(pair.server.error, Some(TransportError::TooMany("messages that need an answer")));
    assert!(pair.server.transport.queued_bytes() < 3 << 20);

    // Bytes without end while a signature is made.
    let mut pair = Pair::new(Config::client(), server_config());
    pair.server.answers = false;
    pair.drive();
    let now = pair.clock.now();
    for _ in 0..200 {
        pair.link.up.push(now, &[0; 30_000]);
        pair.drive();
    }
    assert_eq!(pair.server.error, Some(TransportError::TooMany("bytes during key exchange")));
}

#[test]
fn poll_repeats_the_error() {
    let mut peer = ScriptedPeer::new("SSH-2.0-liar");
    peer.packet(&[94]);
    let (mut transport, result) = against(server_config(), &mut peer);
    let error = result.unwrap_err();
    assert_eq!(transport.poll(Instant::now()), Err(error));
    let queued = transport.queued_bytes();
    transport.payload(b"\x5enothing may be sent now");
    transport.disconnect(11, "again");
    assert_eq!(transport.queued_bytes(), queued);
}

#[test]
fn host_key_of_another_type_is_refused() {
    let mut config = server_config();
    // The Ed25519 entry now contains an ECDSA key.
    config.host_keys[0].blob = keys()[1].public().blob().to_vec();
    let mut client = Config::client();
    set(&mut client.algorithms.host_key, &["ssh-ed25519"]);
    let mut pair = Pair::new(client, config);
    pair.drive();
    assert!(matches!(pair.client.error, Some(TransportError::HostKey(_))));
    assert_eq!(pair.server.disconnected(), Some(9));
}

#[test]
fn guess_flag_without_guess_fails_the_exchange() {
    // The flag is set, but only the real exchange follows: its first message is skipped as the guess.
    let mut config = Config::client();
    set(&mut config.algorithms.kex, &["curve25519-sha256", "mlkem768x25519-sha256"]);
    let mut pair = Pair::new(Config::client(), server_config());
    pair.client = End::new(with_kexinit(config, 5, |init| {
        let flag = init.len() - 5;
        init[flag] = 1;
    }));
    pair.drive();
    assert_eq!((pair.client.kex_done(), pair.server.kex_done()), (0, 0));
}
