//! Both authentication machines fed with a list of payloads, which are tickets and announcements as well.
#![no_main]

use lh_auth::FirstFlight;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payloads: Vec<Vec<u8>>| {
    let mut sink: Vec<Vec<u8>> = Vec::new();
    let mut server = lh_auth::server::Server::new(b"session", b"host key");
    let mut client = lh_auth::client::Client::new("user", b"session", Some(b"host key"));
    client.start(&mut sink);
    for (turn, payload) in payloads.iter().take(64).enumerate() {
        let _ = lh_auth::TicketRequest::decode(payload);
        if let Some(flight) = FirstFlight::decode(payload) {
            let again = FirstFlight::decode(flight.encode().as_bytes());
            assert_eq!(again, Some(flight));
        }
        if let Ok(Some(_)) = server.handle(payload, &mut sink) {
            match turn % 3 {
                0 => server.prompts("", "", &[("Password: ", false)], &mut sink),
                1 => server.key_ok(&mut sink),
                _ => server.reject(&["password"], false, &mut sink),
            }
        }
        if client.handle(payload).is_ok() {
            match turn % 4 {
                0 => client.keyboard_interactive("", &mut sink),
                1 => client.password(b"secret", &mut sink),
                2 => client.offer_key("ssh-ed25519", b"key", &mut sink),
                _ => client.none(&mut sink),
            }
        }
    }
});
