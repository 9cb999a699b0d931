//! The PROXY header in front of a connection from a load balancer, which the listener parses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::proxy_header(bytes));
