//! Files of moduli: the server's choice among them has the size that the client permits, and candidates of
//! `ssh-keygen -M` are read without a panic.
#![no_main]

use lh_crypto::{DhGroup, Random};
use libfuzzer_sys::fuzz_target;

/// Chooses by the bytes of the input.
struct Chosen(u8);

impl Random for Chosen {
    fn fill(&mut self, out: &mut [u8]) {
        out.fill(self.0);
    }
}

fuzz_target!(|input: (u32, u32, u32, u8, &[u8])| {
    let (min, wanted, max, choice, bytes) = input;
    let text = String::from_utf8_lossy(bytes);
    // Sizes that a client may ask for, and any others.
    for (min, wanted, max) in [(min, wanted, max), (2048 + min % 4096, 2048 + wanted % 8192, 8192)] {
        if let Some(group) = DhGroup::choose(min, wanted, max, Some(&text), &mut Chosen(choice)) {
            let bits = group.bits();
            assert!((2048..=8192).contains(&bits) && (min as usize..=max as usize).contains(&bits));
        }
    }
    lhssh_keygen::fuzzing::candidates(bytes);
});
