//! known_hosts files: unknown lines survive every change.
#![no_main]

use lh_client::known_hosts::KnownHosts;
use lh_crypto::{PublicKey, Random};
use libfuzzer_sys::fuzz_target;

struct Zeros;

impl Random for Zeros {
    fn fill(&mut self, out: &mut [u8]) {
        out.fill(0);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let known = KnownHosts::parse(bytes);
    let blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20abcdefghijklmnopqrstuvwxyz012345";
    let key = PublicKey::from_blob(blob).expect("a key");
    let _ = known.lookup("host", 22, &key);
    let _ = known.authorities("host");
    let (kept, removed) = known.without("host");
    if removed.is_empty() {
        assert_eq!(kept, bytes);
    }
    let (hashed, _, changed) = known.hashed(&mut Zeros);
    if !changed {
        assert_eq!(hashed, bytes);
    }
});
