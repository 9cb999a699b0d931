//! Descriptions of sessions, from processes of other users that pose as monitors, and the kernel's table of
//! the addresses at which these listen.
#![no_main]

use lh_session_list::{Id, LARGEST, Request, Session};
use lh_sys::unix_sockets::AbstractNames;
use libfuzzer_sys::fuzz_target;

/// Longest user name that is encoded, bytes.
const LONGEST_NAME: usize = 1024;

fuzz_target!(|bytes: &[u8]| {
    if let Some(request) = bytes.first().and_then(|byte| Request::of_byte(*byte)) {
        assert_eq!(request.byte(), bytes[0]);
    }
    if let Ok(Some(session)) = Session::decode(bytes) {
        let again = session.encode();
        assert!(again.len() <= 4 + LARGEST);
        if session.user.len() <= LONGEST_NAME {
            assert_eq!(Session::decode(&again), Ok(Some(session)));
        }
    }
    for name in AbstractNames::of_table(bytes).iter() {
        if let Ok(id) = name.parse::<Id>() {
            assert_eq!(id.to_string(), name);
        }
    }
});
