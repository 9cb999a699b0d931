//! Tests of peer detection: from identification and KEXINIT to the packets that are sent.

use lh_wire::peer::Peer;

use super::*;

const HPN: &str = "OpenSSH_10.2p1_hpn18.8.0";

fn called(software: &str, mut config: Config) -> Config {
    config.software = software.to_owned();
    config
}

/// Returns the config without the cipher that only HPN-SSH and Longhaul offer.
fn without_hpn_cipher(mut config: Config) -> Config {
    for list in [&mut config.algorithms.cipher_c2s, &mut config.algorithms.cipher_s2c] {
        list.retain(|name| !name.contains("hpnssh"));
    }
    config
}

#[test]
fn peers_are_known_after_the_first_key_exchange() {
    for (client, offers, peer) in [
        ("Longhaul_0.1.0", true, Peer::Longhaul),
        (HPN, true, Peer::HpnSsh),
        (HPN, false, Peer::HpnSsh),
        ("OpenSSH_9.2p1", true, Peer::HpnSsh),
        ("OpenSSH_9.2p1", false, Peer::OpenSsh),
        ("other_1", true, Peer::HpnSsh),
        ("other_1", false, Peer::Unknown),
    ] {
        let mut config = called(client, Config::client());
        if !offers {
            config = without_hpn_cipher(config);
        }
        let mut pair = Pair::established(config, server_config());
        assert_eq!(pair.server.transport.peer(), peer, "{client} {offers}");
        assert_eq!(pair.client.transport.peer(), Peer::Longhaul);
        let frozen = pair.server.transport.freeze().unwrap();
        let thawed = Transport::thaw(&frozen, server_config(), random(5), pair.clock.now()).unwrap();
        assert_eq!(thawed.peer(), peer, "thawed: {client} {offers}");
    }
    let relayed = Transport::relayed(random(1), Instant::now());
    assert_eq!(relayed.peer(), Peer::Unknown, "behind an unknown mux master");
}

#[test]
fn messages_that_a_peer_would_corrupt_are_not_sent() {
    // All bytes except a few of padding are payload.
    for (length, sent) in [(32_777, true), (32_860, true), (32_897, false), (33_700, false), (200_000, false)]
    {
        for many in [false, true] {
            let mut pair = Pair::established(called(HPN, Config::client()), server_config());
            assert_eq!(pair.server.transport.can_send_message(length), sent);
            let payload = numbered(1, length - 1);
            if many {
                pair.server.transport.reserve(&[length]);
                pair.server.transport.reserved(1)[0].copy_from_slice(&payload);
                pair.server.transport.commit(&[length]);
            } else {
                pair.server.transport.payload(&payload);
            }
            pair.drive();
            if sent {
                pair.assert_well();
                assert!(pair.client.packets == [payload], "{length}");
            } else {
                let error = pair.server.transport.poll(pair.clock.now()).unwrap_err();
                assert_eq!(error, TransportError::TooLongForPeer { length, limit: 32_896 });
                assert_eq!(pair.client.packets, Vec::<Vec<u8>>::new(), "{length}");
            }
        }
    }
}

#[test]
fn other_peers_get_messages_of_any_length() {
    let mut pair =
        Pair::established(without_hpn_cipher(called("OpenSSH_9.2p1", Config::client())), server_config());
    pair.exchange(&[32_777, 32_897, 100_000, 250_000]);
}
