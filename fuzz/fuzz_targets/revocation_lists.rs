//! Lists of revoked keys: binary ones (KRLs) and lines. Parsed lists encode to the same bytes.
#![no_main]

use lh_crypto::{Krl, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20abcdefghijklmnopqrstuvwxyz012345";
    let key = PublicKey::from_blob(blob).expect("a key");
    for list in [Krl::read(bytes), Krl::parse(bytes), Krl::from_lines(bytes)].into_iter().flatten() {
        let revoked = list.is_revoked(&key);
        let _ = list.contents();
        let again = Krl::parse(&list.to_bytes()).expect("what was written can be read");
        assert_eq!(again.is_revoked(&key), revoked);
    }
});
