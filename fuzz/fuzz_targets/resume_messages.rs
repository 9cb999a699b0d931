//! Messages of sessions that go on over another connection: from the peer, from the user's process to its
//! monitor, and between the monitors of two connections.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lh_server::fuzzing::resume_messages(bytes));
