//! The connection layer fed with a list of payloads, its owner answering everything.
#![no_main]

use bytes::Bytes;
use lh_connection::{ChannelOptions, Config, Connection, Event};
use libfuzzer_sys::fuzz_target;
use std::time::Instant;

fuzz_target!(|payloads: Vec<Vec<u8>>| {
    let now = Instant::now();
    let mut sink: Vec<Vec<u8>> = Vec::new();
    let mut connection = Connection::new(Config { max_channels: 8, ..Config::default() });
    let _ = connection.open("session", b"", &ChannelOptions::default(), &mut sink);
    for payload in payloads.iter().take(256) {
        if connection.handle(Bytes::copy_from_slice(payload), now, &mut sink).is_err() {
            return;
        }
        while let Some(event) = connection.poll_event() {
            match event {
                Event::OpenRequested { id, .. } => {
                    connection.accept(id, &ChannelOptions::default(), b"", &mut sink);
                }
                Event::Data { id, data, .. } => {
                    connection.consumed(id, data.len(), now, &mut sink);
                    connection.send(id, None, &data, &mut sink);
                }
                Event::Request { id, want_reply: true, .. } => {
                    connection.reply(id, true, &mut sink);
                }
                Event::GlobalRequest { want_reply: true, .. } => {
                    connection.reply_global(false, b"", &mut sink);
                }
                Event::Eof { id } => {
                    connection.eof(id, &mut sink);
                    connection.close(id, &mut sink);
                }
                _ => {}
            }
        }
        sink.clear();
    }
});
