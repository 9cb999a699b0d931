//! Tests of random input: no bytes of a peer panic, and none complete a key exchange.

use lh_testkit::{ScriptedPeer, kexinit, plain_packet};
use proptest::prelude::*;

use super::hostile::{against, feed, usual_kexinit};
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_packets_never_panic(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..100), 1..10), server: bool) {
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        for packet in &packets {
            peer.packet(packet);
        }
        let _ = against(if server { server_config() } else { Config::client() }, &mut peer);
    }

    #[test]
    fn any_key_exchange_message_is_refused(number in 30u8..35, mut body in proptest::collection::vec(any::<u8>(), 0..200), server: bool, kex in 0usize..4) {
        let kex = ["curve25519-sha256", "ecdh-sha2-nistp256", "mlkem768x25519-sha256", "diffie-hellman-group-exchange-sha256"][kex];
        let mut config = if server { server_config() } else { Config::client() };
        set(&mut config.algorithms.kex, &[kex]);
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        peer.packet(&kexinit(&[kex], &["ssh-ed25519"], &["aes128-ctr"], &["hmac-sha2-256"], &["none"]));
        body.insert(0, number);
        peer.packet(&body);
        let (_, result) = against(config, &mut peer);
        // Random bytes never form five valid values in a row, but they may form a request for a group.
        prop_assert!(result.is_err() || number == 34 || number == 30);
    }

    #[test]
    fn any_bytes_after_identification_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), server: bool) {
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        peer.say(&bytes);
        let _ = against(if server { server_config() } else { Config::client() }, &mut peer);
    }

    #[test]
    fn packets_are_read_in_any_pieces(cuts in proptest::collection::vec(1usize..60, 1..40)) {
        let mut stream = b"SSH-2.0-liar\r\n".to_vec();
        stream.extend(plain_packet(b"\x02ignored"));
        stream.extend(plain_packet(b"\x04\0\0\0\0\x02hi\0\0\0\0"));
        stream.extend(plain_packet(&usual_kexinit()));
        let now = Instant::now();
        let mut transport = Transport::new(server_config(), random(1), now);
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            let (piece, tail) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(feed(&mut transport, piece, now), Ok(()));
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(transport.recv.position().index.seq, 3);
    }
}
