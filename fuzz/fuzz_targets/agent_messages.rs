//! Requests to an agent and its answers, and the stream they are cut from: no panic, and parsed messages
//! encode to the same bytes.
#![no_main]

use lh_agent::{Frames, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = Request::parse(bytes) {
        let again = request.encode();
        if !matches!(request, Request::Unknown(_)) {
            let once_more = Request::parse(&again).expect("what was written is read").encode();
            assert_eq!(*once_more, *again);
        }
    }
    if let Ok(reply) = Reply::parse(bytes) {
        assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
    }
    let mut frames = Frames::default();
    for piece in bytes.chunks(7) {
        frames.push(piece);
        while let Ok(Some(body)) = frames.next_body() {
            let _ = Request::parse(&body);
        }
    }
});
