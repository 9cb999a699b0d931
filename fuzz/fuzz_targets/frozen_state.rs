//! The state of a connection that one process hands to another. With any content, the transport made of it
//! neither panics nor allocates without bound, also when bytes of a peer follow.
#![no_main]

use std::time::Instant;

use lh_crypto::SystemRandom;
use lh_transport::{Config, FROZEN_TAG, Transport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|parts: (Vec<u8>, Vec<u8>)| {
    let (state, peer) = parts;
    // The first field of a state; without it every input would be refused there.
    let mut frozen = u32::try_from(FROZEN_TAG.len()).expect("short").to_be_bytes().to_vec();
    frozen.extend_from_slice(FROZEN_TAG);
    frozen.extend_from_slice(&state);
    let now = Instant::now();
    let config = Config::server(Vec::new());
    let Ok(mut transport) = Transport::thaw(&frozen, config, Box::new(SystemRandom), now) else { return };
    let mut rest = &peer[..];
    while !rest.is_empty() {
        let space = transport.recv_space();
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        transport.received(n);
        while let Ok(Some(_)) = transport.poll(now) {}
    }
    transport.output(now);
});
