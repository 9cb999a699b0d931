//! Clients of a shared connection, its master's answers, and SOCKS clients.
#![no_main]

use lh_client::forward::socks::{Handshake, Step};
use lh_client::mux::wire::{MasterMessage, Request, read_hello};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((id, Some(request))) = Request::decode(bytes) {
        let again = Request::decode(&request.encode(id)).expect("what was written can be read");
        assert_eq!(again, (id, Some(request)));
    }
    let _ = MasterMessage::decode(bytes);
    let _ = read_hello(bytes);
    let mut handshake = Handshake::default();
    let mut rest = bytes;
    // Each step takes bytes or is the last one.
    for _ in 0..=bytes.len() {
        match handshake.feed(&mut rest) {
            Step::Reply(_) => {}
            Step::More => return assert!(rest.is_empty(), "bytes are left and more are asked for"),
            Step::Request(_) | Step::Refuse(_) => return,
        }
    }
    panic!("a handshake without an end");
});
