//! Tests of freezing and thawing: another process continues the connection.

use super::*;
use crate::FreezeError;

fn swap(end: &mut End, config: Config, seed: u64) {
    let frozen = end.transport.freeze().unwrap();
    assert_eq!(end.transport.queued_bytes(), 0, "the frozen end has nothing left to send");
    end.transport = Transport::thaw(&frozen, config, random(seed), Instant::now()).unwrap();
}

#[test]
fn freezing_in_the_middle_of_traffic_keeps_data() {
    for (cipher, mac) in [
        ("aes128-gcm@openssh.com", "hmac-sha1"),
        ("chacha20-poly1305@openssh.com", "hmac-sha1"),
        ("aes256-ctr", "hmac-sha2-256"),
        ("aes128-ctr", "hmac-sha2-512-etm@openssh.com"),
        ("aes192-ctr", "umac-64@openssh.com"),
        ("aes128-ctr", "umac-128-etm@openssh.com"),
        ("aes192-cbc", "hmac-md5-96"),
        ("3des-cbc", "hmac-sha1-96-etm@openssh.com"),
    ] {
        let (mut client, mut server) = (Config::client(), server_config());
        set_cipher(&mut client, cipher, mac);
        set_cipher(&mut server, cipher, mac);
        let mut pair = Pair::over(far(Chunking::Random(Seeded::new(7), 700)), client.clone(), server.clone());
        pair.establish();
        let id = pair.server.transport.session_id().unwrap().to_vec();
        let payloads: Vec<Vec<u8>> = (0..40).map(|number| numbered(number, 300)).collect();
        for (number, payload) in payloads.iter().enumerate() {
            pair.client.send(payload);
            pair.server.send(payload);
            // Some of it is queued, some in flight, some received in part.
            for _ in 0..number % 3 {
                pair.step();
                pair.clock.advance(Duration::from_millis(9));
            }
            if number % 5 == 3 {
                swap(&mut pair.server, server.clone(), 100 + number as u64);
            }
            if number % 7 == 4 {
                swap(&mut pair.client, client.clone(), 200 + number as u64);
            }
        }
        pair.drive();
        pair.assert_well();
        assert!(pair.server.packets == payloads && pair.client.packets == payloads, "{cipher}");
        let server = &pair.server.transport;
        assert_eq!(server.session_id(), Some(&id[..]));
        let ours = concat!("SSH-2.0-Longhaul_", env!("CARGO_PKG_VERSION"));
        assert_eq!(server.peer_identification(), Some(ours));
        assert!(pair.client.transport.peer_extension("server-sig-algs").is_some());
        // A rekey needs the identifications and the host key.
        pair.server.transport.request_rekey();
        pair.exchange(&[1, 2, 3]);
        assert_eq!(pair.client.kex_done(), 2);
    }
}

#[test]
fn freezing_during_a_key_exchange_fails() {
    let mut pair = Pair::new(Config::client(), server_config());
    assert_eq!(pair.client.transport.freeze().unwrap_err(), FreezeError::KeyExchange);
    pair.establish();
    pair.client.transport.request_rekey();
    assert_eq!(pair.client.transport.freeze().unwrap_err(), FreezeError::KeyExchange);
    pair.exchange(&[1]);
    assert!(pair.client.transport.freeze().is_ok());
}

#[test]
fn freezing_with_running_compression_fails() {
    let (mut client, mut server) = (Config::client(), server_config());
    set_compression(&mut client, "zlib@openssh.com");
    set_compression(&mut server, "zlib@openssh.com");
    let mut pair = Pair::new(client, server.clone());
    pair.drive();
    swap(&mut pair.server, server, 3);
    pair.client.transport.set_authenticated();
    pair.server.transport.set_authenticated();
    pair.exchange(&[100]);
    assert_eq!(pair.server.transport.freeze().unwrap_err(), FreezeError::Compression);
    pair.exchange(&[100]);
}

#[test]
fn thawing_changed_bytes_fails() {
    let mut pair = Pair::established(Config::client(), server_config());
    let frozen = pair.client.transport.freeze().unwrap();
    let thaw = |bytes: &[u8], config| Transport::thaw(bytes, config, random(1), Instant::now());
    assert_eq!(thaw(b"", Config::client()).unwrap_err(), FreezeError::Version);
    assert!(matches!(thaw(&frozen, server_config()), Err(FreezeError::Malformed(_))));
    for len in (0..frozen.len()).step_by(11) {
        assert!(thaw(&frozen[..len], Config::client()).is_err());
    }
    for at in 0..frozen.len() {
        let mut changed = frozen.to_vec();
        changed[at] ^= 0x80;
        let _ = thaw(&changed, Config::client());
    }
    assert!(thaw(&frozen, Config::client()).is_ok());
}
