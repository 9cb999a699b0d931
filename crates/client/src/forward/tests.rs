//! SOCKS handshakes, whole and in pieces.

use proptest::prelude::*;

use super::socks::{Handshake, Outcome, Request, Step, Version, answer};

/// Feeds the chunks; returns every step but `More`, and the unread rest of the chunk in which the handshake
/// ended.
fn run(chunks: &[&[u8]]) -> (Vec<Step>, Vec<u8>) {
    let mut handshake = Handshake::default();
    let mut steps = Vec::new();
    let mut left = Vec::new();
    for chunk in chunks {
        let mut input = *chunk;
        loop {
            if matches!(steps.last(), Some(Step::Request(_) | Step::Refuse(_))) {
                left.extend_from_slice(input);
                break;
            }
            match handshake.feed(&mut input) {
                Step::More => break,
                step => steps.push(step),
            }
        }
    }
    (steps, left)
}

fn request(version: Version, host: &str, port: u16) -> Step {
    Step::Request(Request { version, host: host.to_owned(), port })
}

#[test]
fn every_form_of_socks_request_is_parsed() {
    let (steps, left) = run(&[b"\x04\x01\x00\x50\x7f\x00\x00\x01me\0GET /"]);
    assert_eq!((steps, left.as_slice()), (vec![request(Version::Four, "127.0.0.1", 80)], &b"GET /"[..]));
    let (steps, _) = run(&[b"\x04\x01\x01\xbb\x00\x00\x00\x01\0example.org\0"]);
    assert_eq!(steps, [request(Version::Four, "example.org", 443)]);
    let (steps, left) = run(&[b"\x05\x02\x02\x00\x05\x01\x00\x03\x04host\x00\x16x"]);
    assert_eq!(steps, [Step::Reply(vec![5, 0]), request(Version::Five, "host", 22)]);
    assert_eq!(left, b"x");
    let (steps, _) = run(&[b"\x05\x01\x00\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16"]);
    assert_eq!(steps[1], request(Version::Five, "::1", 22));
    let (steps, _) = run(&[b"\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x16"]);
    assert_eq!(steps[1], request(Version::Five, "10.0.0.1", 22));
}

#[test]
fn unsupported_requests_are_refused() {
    // Password authentication only.
    assert_eq!(run(&[b"\x05\x01\x02"]).0, [Step::Refuse(vec![5, 0xff])]);
    // BIND, UDP, an unknown address type, an invalid name.
    assert_eq!(
        run(&[b"\x04\x02\x00\x50\x7f\x00\x00\x01\0"]).0,
        [Step::Refuse(answer(Version::Four, Outcome::Failed))]
    );
    let refused = |bytes: &[u8], code: u8| {
        let (steps, _) = run(&[b"\x05\x01\x00", bytes]);
        assert!(matches!(&steps[1], Step::Refuse(reply) if reply[1] == code), "{steps:?}");
    };
    refused(b"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", 7);
    refused(b"\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50", 8);
    refused(b"\x05\x01\x00\x03\x00\x00\x50", 1);
    // Another protocol, and a user name without an end.
    assert_eq!(run(&[b"GET / HTTP/1.1\r\n"]).0, [Step::Refuse(Vec::new())]);
    let mut endless = b"\x04\x01\x00\x50\x7f\x00\x00\x01".to_vec();
    endless.extend([b'x'; 5000]);
    assert!(matches!(run(&[&endless]).0[..], [Step::Refuse(_)]));
}

proptest! {
    #[test]
    fn chunk_borders_do_not_change_the_result(text in prop_oneof![
        Just(&b"\x05\x02\x02\x00\x05\x01\x00\x03\x04host\x00\x16rest"[..]),
        Just(&b"\x04\x01\x01\xbb\x00\x00\x00\x01u\0example.org\0rest"[..]),
    ], cuts in proptest::collection::vec(0usize..40, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(run(&chunks), run(&[text]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = run(&[&text]);
    }
}
