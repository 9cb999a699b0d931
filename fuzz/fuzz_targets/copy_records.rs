//! Lines of the protocol of `scp -O`, which a server sends to a client and a client to a server.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| lh_transfer::fuzzing::copy_record(line));
