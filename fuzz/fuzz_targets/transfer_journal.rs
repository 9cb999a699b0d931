//! The journal of a copy: a file in the user's home that other programs may have changed or cut.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    lh_transfer::fuzzing::journal(bytes);
    // Later lines are parsed only after these first ones.
    lh_transfer::fuzzing::journal(&[b"longhaul-journal 1\nboot boot\n", bytes].concat());
});
