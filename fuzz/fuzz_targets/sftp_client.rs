//! Replies of an SFTP server, in pieces of any size.
#![no_main]

use bytes::Bytes;
use lh_sftp::Session;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<Vec<u8>>| {
    let mut session = Session::new();
    session.start(&mut Vec::new());
    for piece in pieces {
        session.input(Bytes::from(piece));
        while let Ok(Some(_)) = session.poll() {}
    }
});
