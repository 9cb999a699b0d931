//! Requests to the monitor, which has all rights, from a process that an unauthenticated client may control;
//! and its replies.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::messages(bytes));
