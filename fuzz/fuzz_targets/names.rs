//! Names from command lines and from peers: destinations, host names in keys' options, names that a copy
//! requests and gets, wildcards of SFTP.
#![no_main]

use lh_client::destination::Destination;
use lh_transfer::rcp::Request;
use lh_transfer::{base_name, is_safe_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (left, right) = input;
    if let Ok(text) = core::str::from_utf8(&left) {
        let _ = Destination::parse(text);
    }
    let _ = base_name(&left);
    if is_safe_name(&left) {
        assert!(!left.contains(&b'/') && left != b"." && left != b".." && !left.is_empty());
    }
    if let Ok(request) = Request::of(&left, false) {
        let _ = request.allows(&right);
    }
    if left.len() < 64 && right.len() < 256 {
        let _ = lh_sftp::glob::matches(&left, &right);
    }
});
