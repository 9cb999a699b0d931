//! Transports of the simulation, and the transfer of their bytes.

use std::io::IoSlice;
use std::sync::OnceLock;
use std::time::Instant;

use lh_crypto::{KeyType, PrivateKey, Random};
use lh_testkit::{Pipe, Seeded};
use lh_transport::{AcceptedHostKey, Config, Event, HostKey, Transport, TransportError};

struct TestRandom(Seeded);

impl Random for TestRandom {
    fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
}

fn host_key() -> &'static PrivateKey {
    static KEY: OnceLock<PrivateKey> = OnceLock::new();
    KEY.get_or_init(|| PrivateKey::generate(KeyType::Ed25519, None).unwrap())
}

/// Algorithms of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Suite {
    pub(crate) cipher: &'static str,
    pub(crate) mac: &'static str,
    pub(crate) compression: &'static str,
}

pub(crate) const SUITES: [Suite; 7] = [
    Suite { cipher: "aes128-gcm@openssh.com", mac: "", compression: "none" },
    Suite { cipher: "chacha20-poly1305@openssh.com", mac: "", compression: "none" },
    Suite { cipher: "aes256-ctr", mac: "hmac-sha2-256-etm@openssh.com", compression: "none" },
    Suite { cipher: "aes128-ctr", mac: "umac-64@openssh.com", compression: "none" },
    Suite { cipher: "aes128-gcm@openssh.com", mac: "", compression: "zlib@openssh.com" },
    Suite { cipher: "aes192-ctr", mac: "hmac-sha1", compression: "zlib" },
    Suite { cipher: "aes128-cbc", mac: "hmac-sha2-256", compression: "none" },
];

fn configured(mut config: Config, suite: Suite) -> Config {
    let names = |name: &str| vec![name.to_owned()];
    config.algorithms.kex = names("curve25519-sha256");
    config.algorithms.cipher_c2s = names(suite.cipher);
    config.algorithms.cipher_s2c = names(suite.cipher);
    if !suite.mac.is_empty() {
        config.algorithms.mac_c2s = names(suite.mac);
        config.algorithms.mac_s2c = names(suite.mac);
    }
    config.algorithms.compression_c2s = names(suite.compression);
    config.algorithms.compression_s2c = names(suite.compression);
    config
}

pub(crate) fn client_config(suite: Suite) -> Config {
    configured(Config::client(), suite)
}

pub(crate) fn server_config(suite: Suite) -> Config {
    let key = host_key().public();
    let host_key = HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: key.blob().to_vec() };
    configured(Config::server(vec![host_key]), suite)
}

pub(crate) fn transport(mut config: Config, random: &mut Seeded, now: Instant) -> Transport {
    // Some sessions change their keys often.
    if random.below(3) == 0 {
        config.rekey.bytes = Some(10_000 + random.below(40_000) as u64);
    }
    Transport::new(config, Box::new(TestRandom(Seeded::new(random.next_u64()))), now)
}

/// Returns the next event. Host keys and signatures are answered here.
pub(crate) fn poll(transport: &mut Transport, now: Instant) -> Result<Option<Event>, TransportError> {
    let event = transport.poll(now)?;
    match &event {
        Some(Event::HostKey { blob, .. }) => {
            assert_eq!(blob, host_key().public().blob());
            transport.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(blob)).unwrap();
        }
        Some(Event::SignExchangeHash { algorithm, data, .. }) => {
            transport.exchange_hash_signed(&host_key().sign(algorithm, data).unwrap()).unwrap();
        }
        _ => {}
    }
    Ok(event)
}

pub(crate) fn flush(transport: &mut Transport, pipe: &mut Pipe, now: Instant) {
    transport.output(now);
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    transport.output_slices(&mut slices);
    let mut total = 0;
    for slice in &slices {
        pipe.push(now, slice);
        total += slice.len();
    }
    transport.written(total);
}

pub(crate) fn fetch(transport: &mut Transport, pipe: &mut Pipe, now: Instant) -> bool {
    let n = pipe.pop(now, transport.recv_space());
    transport.received(n);
    if pipe.at_eof() {
        transport.received_eof();
    }
    n > 0
}
