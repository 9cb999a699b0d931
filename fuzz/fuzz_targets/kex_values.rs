//! Public values of a key exchange, as a peer sends them: elliptic curves, X25519, the hybrids with sntrup761
//! and ML-KEM in both roles, groups of the peer. Invalid values lead to an error, never to a panic.
#![no_main]

use lh_crypto::{EphemeralKey, KexAlgorithm, kex_respond};
use libfuzzer_sys::fuzz_target;

/// Methods, and the sizes of the client's and the server's public value.
const METHODS: [(&str, usize, usize); 6] = [
    ("mlkem768x25519-sha256", 1216, 1120),
    ("sntrup761x25519-sha512", 1190, 1071),
    ("curve25519-sha256", 32, 32),
    ("ecdh-sha2-nistp256", 65, 65),
    ("ecdh-sha2-nistp384", 97, 97),
    ("ecdh-sha2-nistp521", 133, 133),
];

/// `bytes` repeated or cut to `len`, where the sizes have to be right to come further than the first check.
fn fitted(bytes: &[u8], len: usize) -> Vec<u8> {
    bytes.iter().copied().chain(std::iter::repeat(0)).take(len).collect()
}

fuzz_target!(|input: (u8, bool, Vec<u8>)| {
    let (choice, fit, bytes) = input;
    let (name, of_client, of_server) = METHODS[usize::from(choice) % METHODS.len()];
    let method = KexAlgorithm::by_name(name).expect("a known method");
    if choice >= 252 {
        // A group of the server: a small one, since the arithmetic of large groups is not under test.
        let (p, g) = bytes.split_at(bytes.len().min(256));
        if let Ok(key) = EphemeralKey::generate_dh(p, g) {
            let _ = key.agree(&bytes);
        }
        return;
    }
    if choice % 2 == 0 {
        let value = if fit { fitted(&bytes, of_client) } else { bytes };
        if let Ok((public, secret)) = kex_respond(method, &value) {
            assert_eq!(public.len(), of_server);
            assert!(!secret.encoded().is_empty());
        }
    } else if let Ok(key) = EphemeralKey::generate(method) {
        assert_eq!(key.public().len(), of_client);
        let _ = key.agree(&if fit { fitted(&bytes, of_server) } else { bytes });
    }
});
