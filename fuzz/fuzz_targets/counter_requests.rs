//! Requests for the counters over HTTP, which the listener parses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::counter_request(bytes));
