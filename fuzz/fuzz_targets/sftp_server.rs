//! Requests of an SFTP client, against files that exist in memory only.
#![no_main]

use bytes::Bytes;
use lh_fuzz::NoFiles;
use lh_sftp::server::{NoLog, Server, ServerOptions};
use lh_sftp_fs::SystemFiles;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<Vec<u8>>)| {
    let (framed, pieces) = input;
    let mut server = Server::new(
        Box::new(NoFiles),
        Box::new(SystemFiles::default()),
        Box::new(NoLog),
        ServerOptions { max_handles: Some(16), ..ServerOptions::default() },
    );
    let mut out: Vec<u8> = Vec::new();
    if framed {
        server.input(Bytes::from_static(b"\0\0\0\x05\x01\0\0\0\x03"));
    }
    for piece in pieces.iter().take(256) {
        if framed {
            server.input(Bytes::from((piece.len() as u32).to_be_bytes().to_vec()));
        }
        server.input(Bytes::copy_from_slice(piece));
        if server.poll(&mut out).is_err() {
            return;
        }
        out.clear();
    }
});
