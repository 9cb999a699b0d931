//! What the monitor, which has all rights, reads from a process that an unauthenticated client may have taken
//! over; and its answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::messages(bytes));
