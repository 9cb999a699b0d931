//! The whole input of the pre-auth process: packets of a client after a real key exchange, sealed with the
//! real keys, before and after a login, rekeys included. No packet of the connection protocol may have an
//! effect before the login.
#![no_main]

use std::time::Instant;

use bytes::Bytes;
use lh_auth::server::{Method, Server};
use lh_connection::{ChannelOptions, Config, Connection, Event};
use lh_fuzz::pair::{Rekeys, established, pass};
use lh_wire::PacketSink;
use libfuzzer_sys::fuzz_target;

/// Limit of bytes that wait for the peer of one connection.
const MOST_QUEUED: usize = 8 << 20;

fuzz_target!(|input: (u8, Vec<Vec<u8>>)| {
    let (flags, payloads) = input;
    let now = Instant::now();
    let (mut client, mut server) = established(now);
    let mut auth = Server::new(b"session", b"host key");
    auth.allow_early_data(256 << 10);
    let mut connection: Option<Connection> = None;
    let mut packets: Vec<Bytes> = Vec::new();
    let mut rekeys = Rekeys::default();
    for (turn, payload) in payloads.iter().take(128).enumerate() {
        if payload.is_empty() {
            // Keys may be renewed at any time.
            rekeys.request(&mut server);
        } else {
            client.payload(payload);
        }
        if pass(&mut client, &mut server, now, &mut packets).is_err() {
            return;
        }
        for packet in packets.drain(..) {
            if let Some(connection) = &mut connection {
                if connection.handle(packet, now, &mut server).is_err() {
                    return;
                }
                serve(connection, now, &mut server);
                continue;
            }
            let number = packet.first().copied().unwrap_or_default();
            match auth.handle(&packet, &mut server) {
                Ok(None) => {}
                Ok(Some(attempt)) => {
                    assert!((50..80).contains(&number), "message {number} made an attempt to log in");
                    match (&attempt.method, (usize::from(flags) + turn) % 4) {
                        // A password that is accepted now and then, so that the connection protocol follows.
                        (Method::Password(password), _) if password.len() == usize::from(flags % 8) => {
                            auth.accept(&mut server);
                            server.set_authenticated();
                            connection =
                                Some(Connection::new(Config { max_channels: 8, ..Config::default() }));
                        }
                        (_, 0) => {
                            auth.prompts("", "", &[("Password: ", false), ("More: ", true)], &mut server)
                        }
                        (_, 1) => auth.key_ok(&mut server),
                        (_, 2) => auth.reject(&["publickey", "password"], true, &mut server),
                        _ => auth.reject(&["password"], false, &mut server),
                    }
                }
                Err(_) => return,
            }
        }
        assert!(server.queued_bytes() < MOST_QUEUED, "{} bytes wait", server.queued_bytes());
        // With the flag the client reads nothing, so that replies queue up.
        let mut ignored = Vec::new();
        if flags < 128 && pass(&mut server, &mut client, now, &mut ignored).is_err() {
            return;
        }
    }
});

fn serve(connection: &mut Connection, now: Instant, sink: &mut dyn PacketSink) {
    while let Some(event) = connection.poll_event() {
        match event {
            Event::OpenRequested { id, .. } => {
                connection.accept(id, &ChannelOptions::default(), b"", sink);
            }
            Event::Data { id, data, .. } => {
                connection.consumed(id, data.len(), now, sink);
                connection.send(id, None, &data, sink);
            }
            Event::Request { id, want_reply: true, .. } => {
                connection.reply(id, true, sink);
            }
            Event::GlobalRequest { want_reply: true, .. } => {
                connection.reply_global(false, b"", sink);
            }
            Event::Eof { id } => {
                connection.close(id, sink);
            }
            _ => {}
        }
    }
}
