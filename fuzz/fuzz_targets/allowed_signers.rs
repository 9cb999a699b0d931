//! Lists of allowed signers: lines without options let their principals sign, and nobody else.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lhssh_keygen::fuzzing::allowed_signers(bytes));
