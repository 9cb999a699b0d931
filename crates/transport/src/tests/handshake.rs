//! Tests of successful first key exchanges and of their checks.

use lh_crypto::{Cipher, KexAlgorithm, Mac};

use super::*;
use crate::negotiate;
use crate::state::{KexState, Phase};

#[test]
fn events_come_in_order() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.drive();
    pair.assert_well();
    let kinds = |end: &End| {
        end.events
            .iter()
            .map(|event| match event {
                Event::PeerIdentification(_) => "identification",
                Event::HostKey { first: true, .. } => "host key",
                Event::SignExchangeHash { .. } => "sign",
                Event::KexDone { first: true, .. } => "done",
                Event::ExtInfo(_) => "ext info",
                _ => "?",
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&pair.client), ["identification", "host key", "done", "ext info"]);
    assert_eq!(kinds(&pair.server), ["identification", "sign", "done", "ext info"]);
    let (client, server) = (&pair.client.transport, &pair.server.transport);
    assert_eq!(client.session_id(), server.session_id());
    assert_eq!(client.negotiated(), server.negotiated());
    assert_eq!(client.host_key(), server.host_key());
    assert!(client.negotiated().unwrap().strict);
    let ours = concat!("SSH-2.0-Longhaul_", env!("CARGO_PKG_VERSION"));
    assert_eq!(client.peer_identification(), Some(ours));
    assert!(client.peer_extension("server-sig-algs").unwrap().starts_with(b"ssh-ed25519"));
    assert_eq!(server.peer_extension("ext-info-in-auth@openssh.com"), Some(&b"0"[..]));
}

#[test]
fn every_key_exchange_with_every_host_key() {
    for kex in KexAlgorithm::ALL {
        for key in 0..keys().len() {
            // The big groups are slow, and their arithmetic does not depend on the type of host key.
            if key > 0
                && matches!(
                    kex.name(),
                    "diffie-hellman-group18-sha512" | "diffie-hellman-group-exchange-sha256"
                )
            {
                continue;
            }
            for algorithm in keys()[key].public().signature_algorithms() {
                let (mut client, mut server) = (Config::client(), server_config());
                set(&mut client.algorithms.kex, &[kex.name()]);
                set(&mut server.algorithms.kex, &[kex.name()]);
                set(&mut client.algorithms.host_key, &[algorithm]);
                set(&mut server.algorithms.host_key, &[algorithm]);
                let mut pair = Pair::established(client, server);
                let names = pair.client.transport.negotiated().unwrap();
                assert_eq!((names.kex.as_str(), names.host_key.as_str()), (kex.name(), *algorithm));
                assert_eq!(pair.client.transport.host_key(), Some(keys()[key].public().blob()));
                pair.exchange(&[1, 100]);
            }
        }
    }
}

#[test]
fn every_cipher_with_every_mac() {
    let sizes: Vec<usize> = (1..70).chain([255, 1000, 32 * 1024, 200_000]).collect();
    for cipher in Cipher::ALL {
        for mac in Mac::ALL {
            for chunking in [Chunking::Whole, Chunking::Random(Seeded::new(3), 5000)] {
                let (mut client, mut server) = (Config::client(), server_config());
                set_cipher(&mut client, cipher.name, mac.name);
                set_cipher(&mut server, cipher.name, mac.name);
                let mut pair = Pair::over(Link::new(Duration::ZERO, chunking), client, server);
                pair.establish();
                pair.exchange(&sizes);
                pair.client.transport.request_rekey();
                pair.exchange(&sizes);
                assert_eq!(pair.server.kex_done(), 2);
            }
        }
    }
}

#[test]
fn ciphers_may_differ_by_direction() {
    let mut client = Config::client();
    set(&mut client.algorithms.cipher_c2s, &["aes256-ctr"]);
    set(&mut client.algorithms.mac_c2s, &["hmac-sha1"]);
    set(&mut client.algorithms.cipher_s2c, &["chacha20-poly1305@openssh.com"]);
    Pair::established(client, server_config()).exchange(&[10, 1000]);
}

#[test]
fn handshake_one_byte_at_a_time() {
    let mut pair =
        Pair::over(Link::new(Duration::ZERO, Chunking::AtMost(1)), Config::client(), server_config());
    pair.establish();
    pair.exchange(&[1, 2, 3, 500]);
}

#[test]
fn handshake_takes_one_and_a_half_round_trips() {
    let mut pair = Pair::over(far(Chunking::Whole), Config::client(), server_config());
    loop {
        while pair.step() {}
        if pair.client.kex_done() > 0 {
            break;
        }
        pair.clock.advance_to(pair.link.next_arrival().unwrap());
    }
    // Both KEXINITs are sent at once; then one message each way follows.
    assert!(pair.clock.elapsed() <= LATENCY * 3, "{:?}", pair.clock.elapsed());
}

#[test]
fn nothing_passes_before_the_host_key_is_accepted() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.client.answers = false;
    pair.client.send(b"\x05secret");
    pair.drive();
    let blob = match pair.client.events.last() {
        Some(Event::HostKey { blob, .. }) => blob.clone(),
        other => panic!("{other:?}"),
    };
    assert!(pair.server.packets.is_empty() && pair.server.kex_done() == 0);
    assert!(!pair.client.transport.can_send_bulk());

    let other = AcceptedHostKey::dangerous_vouch_for(keys()[1].public().blob());
    assert!(matches!(pair.client.transport.host_key_accepted(&other), Err(TransportError::Caller(_))));
    pair.drive();
    assert_eq!(pair.server.kex_done(), 0);

    let right = AcceptedHostKey::dangerous_vouch_for(&blob);
    pair.client.transport.host_key_accepted(&right).unwrap();
    assert!(pair.client.transport.host_key_accepted(&right).is_err(), "only once");
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.server.packets, [b"\x05secret"]);
}

#[test]
fn signature_may_arrive_late() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.server.answers = false;
    pair.drive();
    let event = pair.server.events.last().cloned().unwrap();
    assert!(matches!(event, Event::SignExchangeHash { .. }));
    pair.clock.advance(Duration::from_secs(60));
    pair.drive();
    assert_eq!(pair.client.kex_done(), 0);
    answer(&mut pair.server.transport, &event);
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.client.kex_done(), 1);
}

#[test]
fn wrong_host_key_signature_is_refused() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.server.answers = false;
    pair.drive();
    let signature = keys()[0].sign("ssh-ed25519", b"something else").unwrap();
    pair.server.transport.exchange_hash_signed(&signature).unwrap();
    pair.drive();
    assert_eq!(pair.client.error, Some(TransportError::HostKeySignature));
    assert_eq!(pair.client.kex_done(), 0);
    assert_eq!(pair.server.kex_done(), 0);
}

#[test]
fn both_ends_report_a_missing_common_cipher() {
    let mut client = Config::client();
    set(&mut client.algorithms.cipher_c2s, &["aes128-ctr"]);
    let mut server = server_config();
    set(&mut server.algorithms.cipher_c2s, &["aes256-ctr", "chacha20-poly1305@openssh.com"]);
    let mut pair = Pair::new(client, server);
    pair.drive();
    assert_eq!(
        pair.client.error.as_ref().unwrap().to_string(),
        "no matching cipher found. Their offer: aes256-ctr,chacha20-poly1305@openssh.com"
    );
    assert_eq!(
        pair.server.error.as_ref().unwrap().to_string(),
        "no matching cipher found. Their offer: aes128-ctr"
    );
}

#[test]
fn lines_before_the_identification_are_passed_on() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.link.down.push(pair.clock.now(), b"Welcome\r\nto the machine\n");
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.client.events[0], Event::Banner(b"Welcome".to_vec()));
    assert_eq!(pair.client.events[1], Event::Banner(b"to the machine".to_vec()));
    assert_eq!(pair.client.kex_done(), 1);
}

/// Returns a transport whose first KEXINIT is changed before it is sent, so that both sides hash the changed
/// one.
pub(crate) fn with_kexinit(config: Config, seed: u64, change: impl FnOnce(&mut Vec<u8>)) -> Transport {
    let mut transport = Transport::blank(config, random(seed), Instant::now());
    let line = [&transport.identifications.ours[..], b"\r\n"].concat();
    transport.send.push_raw(&line);
    let mut ours = negotiate::offer(&transport.config, [9; 16], true, crate::Unencrypted::Refused);
    change(&mut ours);
    transport.send.push(&ours);
    transport.exchange.state = KexState::InitSent { ours, unencrypted: crate::Unencrypted::Refused };
    assert!(matches!(transport.phase, Phase::Identification));
    transport
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + from.len()].copy_from_slice(to);
}

#[test]
fn sequence_numbers_continue_without_strict_kex() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.client = End::new(with_kexinit(Config::client(), 5, |init| {
        replace(init, b"kex-strict-c-v00@openssh.com", b"kex-strict-c-v99@openssh.com");
    }));
    pair.server = End::new(with_kexinit(server_config(), 6, |init| {
        replace(init, b"kex-strict-s-v00@openssh.com", b"kex-strict-s-v99@openssh.com");
    }));
    // Allowed when the exchange is not strict.
    pair.client.transport.transmit(&[2], false);
    pair.establish();
    assert!(!pair.client.transport.negotiated().unwrap().strict);
    assert!(pair.client.transport.send.position().index.seq >= 4);
    pair.exchange(&[1, 100, 1000]);
    pair.client.transport.request_rekey();
    pair.exchange(&[1, 100, 1000]);
    assert_eq!(pair.client.kex_done(), 2);
}

/// Covers: wire kex-strict
#[test]
fn strict_kex_resets_sequence_numbers() {
    let pair = Pair::established(Config::client(), server_config());
    // One packet was sent since NEWKEYS: EXT_INFO.
    assert_eq!(pair.client.transport.send.position().index.seq, 1);
    assert_eq!(pair.server.transport.recv.position().index.seq, 1);
}

#[test]
fn wrongly_guessed_kex_packet_is_skipped() {
    for guess_right in [false, true] {
        let mut pair = Pair::new(Config::client(), server_config());
        let mut config = Config::client();
        if !guess_right {
            set(&mut config.algorithms.kex, &["curve25519-sha256", "mlkem768x25519-sha256"]);
        }
        let mut client = with_kexinit(config, 5, |init| {
            let flag = init.len() - 5;
            init[flag] = 1;
        });
        if !guess_right {
            client.send.push(&[30, 0, 0, 0, 1, 0]);
        }
        pair.client = End::new(client);
        pair.drive();
        pair.assert_well();
        assert_eq!(pair.client.kex_done(), 1);
    }
}

#[test]
fn ping_is_answered_and_debug_reported() {
    let mut pair = Pair::established(Config::client(), server_config());
    pair.client.send(b"\xc0\0\0\0\x03abc");
    pair.client.send(b"\x04\x01\0\0\0\x02hi\0\0\0\0");
    pair.client.send(b"\x02whatever, even without a length");
    pair.client.send(&[3, 0, 0, 0, 0]);
    pair.drive();
    pair.assert_well();
    assert!(pair.client.events.contains(&Event::Pong(bytes::Bytes::from_static(b"abc"))));
    let debug = Event::Debug { always_display: true, text: b"hi".to_vec() };
    assert!(pair.server.events.contains(&debug));
}

#[test]
fn floods_of_debug_messages_are_not_displayed() {
    let mut pair = Pair::established(Config::client(), server_config());
    for _ in 0..150 {
        pair.server.send(b"\x04\x01\0\0\0\x02hi\0\0\0\0");
    }
    pair.drive();
    pair.assert_well();
    let count = |shown| {
        let debug = Event::Debug { always_display: shown, text: b"hi".to_vec() };
        pair.client.events.iter().filter(|event| **event == debug).count()
    };
    assert_eq!((count(true), count(false)), (100, 50));
}

#[test]
fn unknown_messages_get_unimplemented() {
    let mut pair = Pair::established(Config::client(), server_config());
    pair.server.transport.send.push(&[77]);
    pair.server.transport.send.push(&[8]);
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.client.packets, [[77]]);
    // The server ignores UNIMPLEMENTED for its second packet. For an upper layer's number, the client's
    // caller sends the answer.
    pair.client.transport.reply_unimplemented();
    pair.drive();
    pair.assert_well();
}

#[test]
fn nothing_is_sent_after_disconnect() {
    let mut pair = Pair::established(Config::client(), server_config());
    pair.client.send(&[94, 1]);
    pair.client.transport.disconnect(11, "bye");
    pair.client.send(&[94, 2]);
    pair.drive();
    assert_eq!(pair.server.packets, [[94, 1]]);
    let last = pair.server.events.last();
    assert_eq!(last, Some(&Event::Disconnected { reason: 11, description: "bye".to_owned() }));
    assert_eq!(pair.server.transport.poll(pair.clock.now()), Ok(None));
}
