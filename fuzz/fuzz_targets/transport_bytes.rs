//! Bytes from a peer before any key is agreed on: identification, packets, KEXINIT, key exchange, in any
//! pieces.
#![no_main]

use std::time::Instant;

use lh_crypto::{KeyType, PrivateKey, Random};
use lh_transport::{AcceptedHostKey, Config, Event, HostKey, Transport};
use libfuzzer_sys::fuzz_target;

/// "Random" bytes that are equal on every run.
struct Counter(u8);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(5).wrapping_add(1);
            *byte = self.0;
        }
    }
}

fuzz_target!(|input: (bool, bool, Vec<Vec<u8>>)| {
    let (server, greeted, pieces) = input;
    let now = Instant::now();
    let config = if server {
        let Ok(key) = PrivateKey::generate(KeyType::Ed25519, None) else { return };
        let algorithms = vec!["ssh-ed25519".to_owned()];
        Config::server(vec![HostKey { algorithms, blob: key.public().blob().to_vec() }])
    } else {
        Config::client()
    };
    let mut transport = Transport::new(config, Box::new(Counter(1)), now);
    let greeting = greeted.then(|| b"SSH-2.0-fuzz\r\n".to_vec());
    for piece in greeting.iter().chain(&pieces) {
        for chunk in piece.chunks(4096) {
            let space = transport.recv_space();
            let count = chunk.len().min(space.len());
            space[..count].copy_from_slice(&chunk[..count]);
            transport.received(count);
            loop {
                match transport.poll(now) {
                    Ok(Some(Event::HostKey { blob, .. })) => {
                        let _ = transport.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob));
                    }
                    Ok(Some(Event::SignExchangeHash { .. })) => {
                        let _ = transport.exchange_hash_signed(b"not a signature");
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            transport.output(now);
            let queued = transport.queued_bytes();
            transport.written(queued);
        }
    }
});
