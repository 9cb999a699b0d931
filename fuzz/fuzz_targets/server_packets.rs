//! Packets of a malicious server after a real key exchange: replies to the login, channels, rekeys.
#![no_main]

use std::time::Instant;

use bytes::Bytes;
use lh_auth::client::{Client, Event as Login};
use lh_connection::{ChannelOptions, Config, Connection};
use lh_fuzz::pair::{Rekeys, established, pass};
use lh_wire::PacketSink;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payloads: Vec<Vec<u8>>| {
    let now = Instant::now();
    let (mut client, mut server) = established(now);
    let mut login = Client::new("user", b"session", Some(b"host key"));
    login.start(&mut client);
    let mut requests = 0_u32;
    let mut connection: Option<Connection> = None;
    let mut packets: Vec<Bytes> = Vec::new();
    let mut rekeys = Rekeys::default();
    for payload in payloads.iter().take(128) {
        if payload.is_empty() {
            rekeys.request(&mut client);
        } else {
            server.payload(payload);
        }
        if pass(&mut server, &mut client, now, &mut packets).is_err() {
            return;
        }
        for packet in packets.drain(..) {
            if let Some(connection) = &mut connection {
                if connection.handle(packet, now, &mut client).is_err() {
                    return;
                }
                while connection.poll_event().is_some() {}
                continue;
            }
            match login.handle(&packet) {
                Ok(Login::Ready | Login::Methods(_) | Login::ChooseMethod { .. }) => {
                    requests += 1;
                    match requests % 4 {
                        0 => login.none(&mut client),
                        1 => login.password(b"secret", &mut client),
                        2 => login.offer_key("ssh-ed25519", b"key", &mut client),
                        _ => login.keyboard_interactive("", &mut client),
                    }
                }
                Ok(Login::KeyAccepted { algorithm, key }) => {
                    assert_eq!(
                        (&*algorithm, &*key),
                        ("ssh-ed25519", &b"key"[..]),
                        "a key that was not offered"
                    );
                    login.signed_key(&algorithm, &key, b"signature", &mut client);
                }
                Ok(Login::Prompts { prompts, .. }) => {
                    login.responses(&vec![b"answer"; prompts.len()], &mut client);
                }
                Ok(Login::PasswordExpired { .. }) => login.change_password(b"old", b"new", &mut client),
                Ok(Login::Success) => {
                    assert!(requests > 0, "a success that nobody asked for");
                    client.set_authenticated();
                    let mut fresh = Connection::new(Config::default());
                    let _ = fresh.open("session", b"", &ChannelOptions::default(), &mut client);
                    connection = Some(fresh);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
        let mut ignored = Vec::new();
        if pass(&mut client, &mut server, now, &mut ignored).is_err() {
            return;
        }
    }
});
