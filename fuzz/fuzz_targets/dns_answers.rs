//! Answers of a resolver with fingerprints of host keys (SSHFP).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_client::fuzzing::dns_answer(bytes));
