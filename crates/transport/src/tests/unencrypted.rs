//! Tests of HPN-SSH's NONE cipher and MAC, and of integrity without encryption: only after authentication and
//! with both ends' consent.

use lh_testkit::{ScriptedPeer, kexinit};
use lh_wire::Message;

use super::*;
use crate::{RekeyLimit, Unencrypted};

const ALLOWED: Unencrypted = Unencrypted::Allowed { without_mac: false };
const WANTED: Unencrypted = Unencrypted::Wanted { without_mac: false };

/// Returns a pair that is authenticated and whose client is about to switch.
fn about_to_switch(client: Config, server: Config, wanted: Unencrypted, allowed: Unencrypted) -> Pair {
    let mut pair = Pair::new(client, server);
    pair.client.transport.set_unencrypted(wanted);
    pair.server.transport.set_unencrypted(allowed);
    pair.establish();
    assert!(pair.client.transport.is_encrypted() && pair.server.transport.is_encrypted());
    pair.client.transport.request_rekey();
    pair
}

/// Returns cipher and MAC; asserts that both ends and both directions agree.
fn names(pair: &Pair) -> [String; 2] {
    let [client, server] = [&pair.client, &pair.server].map(|end| end.transport.negotiated().unwrap());
    assert_eq!(client, server);
    assert_eq!((&client.cipher_c2s, &client.mac_c2s), (&client.cipher_s2c, &client.mac_s2c));
    [client.cipher_c2s.clone(), client.mac_c2s.clone()]
}

fn hpn(config: Config) -> Config {
    Config { integrity_only: false, ..config }
}

/// Covers: wire aes128-gmac@longhaul; wire none (cipher); wire none (MAC)
#[test]
fn unencrypted_cipher_depends_on_both_ends() {
    let mac = |config: Config| {
        let mut config = config;
        for list in [&mut config.algorithms.mac_c2s, &mut config.algorithms.mac_s2c] {
            set(list, &["hmac-sha2-256"]);
        }
        config
    };
    let without_mac = (Unencrypted::Wanted { without_mac: true }, Unencrypted::Allowed { without_mac: true });
    for (client, server, (wanted, allowed), expected) in [
        (Config::client(), server_config(), (WANTED, ALLOWED), ["aes128-gmac@longhaul", "<implicit>"]),
        (hpn(Config::client()), server_config(), (WANTED, ALLOWED), ["none", "umac-64-etm@openssh.com"]),
        (Config::client(), hpn(server_config()), (WANTED, ALLOWED), ["none", "umac-64-etm@openssh.com"]),
        (mac(Config::client()), hpn(server_config()), (WANTED, ALLOWED), ["none", "hmac-sha2-256"]),
        // An optional MAC is kept.
        (Config::client(), server_config(), (WANTED, without_mac.1), ["aes128-gmac@longhaul", "<implicit>"]),
        (Config::client(), server_config(), without_mac, ["none", "none"]),
        (hpn(Config::client()), hpn(server_config()), without_mac, ["none", "none"]),
    ] {
        let mut pair = about_to_switch(client, server, wanted, allowed);
        pair.drive();
        pair.assert_well();
        assert_eq!(names(&pair), expected);
        assert!(!pair.client.transport.is_encrypted() && !pair.server.transport.is_encrypted());
        pair.exchange(&[0, 1, 7, 8, 9, 40_000]);
    }
}

/// The text is readable on the wire, and cannot be changed there where a MAC protects it.
#[test]
fn unencrypted_data_is_readable_but_authentic() {
    let secret = b"\x5ereadable on the wire, but not to be changed".to_vec();
    for (client, allowed) in
        [(Config::client(), true), (hpn(Config::client()), true), (Config::client(), false)]
    {
        let mut pair =
            about_to_switch(client, server_config(), WANTED, if allowed { ALLOWED } else { WANTED });
        if !allowed {
            // The usual case: a key exchange that asks for nothing unusual.
            pair.client.transport.set_unencrypted(Unencrypted::Refused);
            pair = Pair::established(Config::client(), server_config());
        }
        pair.drive();
        pair.client.send(&secret);
        let now = pair.clock.now();
        pair.client.transport.output(now);
        let mut slices = Vec::new();
        pair.client.transport.output_slices(&mut slices);
        let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        drop(slices);
        let at = bytes.windows(secret.len()).position(|window| window == secret);
        assert_eq!(at.is_some(), allowed);
        let Some(at) = at else { continue };
        bytes[at + 10] ^= 1;
        pair.client.transport.written(bytes.len());
        pair.link.up.push(now, &bytes);
        pair.drive();
        assert_eq!(pair.server.error, Some(TransportError::BadMac));
        assert!(pair.server.packets.is_empty());
    }
}

#[test]
fn unencrypted_cipher_survives_rekeys_by_either_end() {
    let limited = |mut config: Config| {
        config.rekey = RekeyLimit { bytes: Some(64 << 10), interval: None };
        config
    };
    let without_mac = (Unencrypted::Wanted { without_mac: true }, Unencrypted::Allowed { without_mac: true });
    for (client, (wanted, allowed)) in [
        (Config::client(), (WANTED, ALLOWED)),
        (hpn(Config::client()), (WANTED, ALLOWED)),
        (Config::client(), without_mac),
    ] {
        // With the server's limit, the client's, and both at once.
        for (client, server) in [
            (client.clone(), limited(server_config())),
            (limited(client.clone()), server_config()),
            (limited(client.clone()), limited(server_config())),
        ] {
            let mut pair = about_to_switch(client, server, wanted, allowed);
            pair.drive();
            let expected = names(&pair);
            for _ in 0..20 {
                pair.exchange(&[30_000, 1, 30_000]);
                assert_eq!(names(&pair), expected);
            }
            assert!(pair.client.kex_done() > 10, "{}", pair.client.kex_done());
            pair.server.transport.request_rekey();
            pair.client.transport.request_rekey();
            pair.exchange(&[1000]);
            assert_eq!(names(&pair), expected);
        }
    }
}

#[test]
fn refused_unencrypted_cipher_ends_with_a_reason() {
    let mut pair = about_to_switch(Config::client(), server_config(), WANTED, Unencrypted::Refused);
    pair.drive();
    let (client, server) = pair.errors();
    let no_match = |error: Option<&TransportError>| match error {
        Some(TransportError::NoMatch { what, offer }) => Some((*what, offer.clone())),
        _ => None,
    };
    let (what, offer) = no_match(client).expect("the client ends it");
    assert!(what == "cipher" && !offer.contains("none") && !offer.contains("gmac"), "{offer}");
    assert_eq!(no_match(server), Some(("cipher", "aes128-gmac@longhaul,none".to_owned())));

    // The cipher is allowed, but not a missing MAC.
    let wanted = Unencrypted::Wanted { without_mac: true };
    let mut pair = about_to_switch(Config::client(), server_config(), wanted, ALLOWED);
    pair.drive();
    assert_eq!(no_match(pair.errors().1), Some(("MAC", "none".to_owned())));

    // A server cannot start it, and a server that allows it cannot make a client use it.
    let mut pair = about_to_switch(Config::client(), server_config(), Unencrypted::Refused, ALLOWED);
    pair.drive();
    pair.server.transport.request_rekey();
    pair.exchange(&[10]);
    assert!(pair.client.transport.is_encrypted() && pair.server.transport.is_encrypted());
    pair.server.transport.set_unencrypted(WANTED);
    pair.server.transport.request_rekey();
    pair.drive();
    assert_eq!(no_match(pair.errors().0), Some(("cipher", "aes128-gmac@longhaul,none".to_owned())));
}

/// HPN-SSH 18.8 accepts a MAC of `none` with a cipher that encrypts.
#[test]
fn none_mac_is_refused_with_encrypting_ciphers() {
    let mut client = Config::client();
    set_cipher(&mut client, "aes128-ctr", "none");
    let allowed = Unencrypted::Allowed { without_mac: true };
    let mut pair = Pair::established(Config::client(), server_config());
    pair.client.transport.set_unencrypted(allowed);
    pair.server.transport.set_unencrypted(allowed);
    pair.client.transport.set_algorithms(client.algorithms);
    pair.client.transport.request_rekey();
    pair.drive();
    let refused = Some(TransportError::KeyExchange("no MAC with a cipher that needs one"));
    assert!(pair.server.error == refused || pair.client.error == refused, "{:?}", pair.errors());
}

/// Returns the KEXINIT of a transport, read from the wire before any key is in use.
fn offered(config: Config, unencrypted: Unencrypted, peer: &mut ScriptedPeer) -> (Vec<u8>, Transport) {
    let now = Instant::now();
    let mut transport = Transport::new(config, random(1), now);
    transport.set_unencrypted(unencrypted);
    transport.output(now);
    let mut slices = Vec::new();
    transport.output_slices(&mut slices);
    slices.iter().for_each(|slice| peer.hear(slice));
    drop(slices);
    (peer.next_payload().unwrap(), transport)
}

fn hear(transport: &mut Transport, bytes: &[u8]) -> Result<Vec<Event>, TransportError> {
    transport.recv_space()[..bytes.len()].copy_from_slice(bytes);
    transport.received(bytes.len());
    let mut events = Vec::new();
    while let Some(event) = transport.poll(Instant::now())? {
        events.push(event);
    }
    Ok(events)
}

/// A scripted peer asks for unencrypted ciphers before authentication, in every combination, from ends that
/// would allow them all.
///
/// Covers: ssh_config NoneEnabled; sshd_config NoneEnabled; wire none (cipher); wire none (MAC)
#[test]
fn unencrypted_cipher_is_refused_before_authentication() {
    let without_mac = |wanted| match wanted {
        true => Unencrypted::Wanted { without_mac: true },
        false => Unencrypted::Allowed { without_mac: true },
    };
    let real = ["aes128-ctr", "aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com"];
    for config in [Config::client(), server_config()] {
        for wanted in [false, true] {
            for ciphers in [&["none"][..], &["aes128-gmac@longhaul"], &["aes128-gmac@longhaul", "none"]] {
                for macs in [&["none"][..], &["hmac-sha2-256"], &["hmac-sha2-256", "none"]] {
                    let mut peer = ScriptedPeer::new("SSH-2.0-OpenSSH_10.2p1_hpn18.8.0");
                    let (payload, mut transport) = offered(config.clone(), without_mac(wanted), &mut peer);
                    let offer = lh_wire::msg::KexInit::decode(&payload).unwrap();
                    for list in [offer.cipher_c2s, offer.cipher_s2c, offer.mac_c2s, offer.mac_s2c] {
                        let text = list.as_str();
                        assert!(
                            !text.is_empty() && !text.contains("none") && !text.contains("gmac"),
                            "{text}"
                        );
                    }
                    peer.packet(&kexinit(&["curve25519-sha256"], &["ssh-ed25519"], ciphers, macs, &["none"]));
                    let result = hear(&mut transport, &peer.take_output());
                    let offer = ciphers.join(",");
                    assert_eq!(result, Err(TransportError::NoMatch { what: "cipher", offer }));
                }
                // A peer that offers encrypting ciphers too gets one of those.
                let mut peer = ScriptedPeer::new("SSH-2.0-OpenSSH_10.2p1_hpn18.8.0");
                let (_, mut transport) = offered(config.clone(), without_mac(wanted), &mut peer);
                let ciphers: Vec<&str> = ciphers.iter().copied().chain(real).collect();
                let macs = ["none", "hmac-sha2-256"];
                peer.packet(&kexinit(&["curve25519-sha256"], &["ssh-ed25519"], &ciphers, &macs, &["none"]));
                hear(&mut transport, &peer.take_output()).unwrap();
                let crate::state::KexState::Running { agreement, .. } = &transport.exchange.state else {
                    panic!("no agreement")
                };
                for cipher in [agreement.cipher_c2s, agreement.cipher_s2c] {
                    assert!(cipher.encrypts());
                }
                for mac in [agreement.mac_c2s, agreement.mac_s2c].into_iter().flatten() {
                    assert_eq!(mac.name, "hmac-sha2-256");
                }
            }
        }
    }
}

/// An exchange that begins before authentication keeps the rules of that time, even when it ends later.
#[test]
fn an_exchange_begun_before_authentication_keeps_its_rules() {
    let mut pair = Pair::new(Config::client(), server_config());
    pair.client.transport.set_unencrypted(WANTED);
    pair.server.transport.set_unencrypted(ALLOWED);
    pair.drive();
    pair.client.transport.request_rekey();
    pair.client.transport.set_authenticated();
    pair.server.transport.set_authenticated();
    pair.drive();
    pair.assert_well();
    assert!(pair.client.transport.is_encrypted() && pair.server.transport.is_encrypted());
}

/// A frozen unencrypted connection cannot be thawed.
#[test]
fn unencrypted_connection_cannot_be_thawed() {
    let mut pair = about_to_switch(Config::client(), server_config(), WANTED, ALLOWED);
    pair.drive();
    let frozen = pair.server.transport.freeze().unwrap();
    let thawed = Transport::thaw(&frozen, server_config(), random(3), pair.clock.now());
    assert_eq!(thawed.err(), Some(crate::FreezeError::Algorithm));
}

#[test]
fn events_put_back_come_first_and_in_order() {
    let mut pair = Pair::established(Config::client(), server_config());
    let event = |n: u8| Event::Packet(bytes::Bytes::copy_from_slice(&[94, n]));
    pair.client.transport.put_back_events(vec![event(1), event(2)]);
    pair.server.send(&[94, 3]);
    pair.drive();
    assert_eq!(pair.client.packets, [[94, 1], [94, 2], [94, 3]]);
}
