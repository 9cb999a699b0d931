//! Cookies of xauth, and the first message of X11 programs at a server. An input is the length of the pieces
//! in which the message arrives, a line of xauth's list, and the message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, rest)) = bytes.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (list, message) = rest.split_at(end);
    if let Ok(list) = core::str::from_utf8(list) {
        lh_client::fuzzing::x11_setup(list, message.get(1..).unwrap_or_default(), (*piece).into());
    }
});
