//! Fields of channel opens and requests: those that a server sends to a client, a logged-in client to a
//! server, and a proxy client to its master.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    lh_client::fuzzing::fields(bytes);
    lh_server::fuzzing::client_fields(bytes);
});
