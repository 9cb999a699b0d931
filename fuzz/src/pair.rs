//! Two transports whose first key exchange is over, without the cost of an exchange for every input.

use std::io::IoSlice;
use std::sync::OnceLock;
use std::time::Instant;

use lh_crypto::{KeyType, PrivateKey, Random, SystemRandom};
use lh_transport::{AcceptedHostKey, Config, Event, HostKey, Transport, TransportError};

/// "Random" bytes that are equal on every run.
pub struct Counter(pub u8);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(5).wrapping_add(1);
            *byte = self.0;
        }
    }
}

/// The server's key.
fn host_key() -> &'static PrivateKey {
    static KEY: OnceLock<PrivateKey> = OnceLock::new();
    KEY.get_or_init(|| PrivateKey::generate(KeyType::Ed25519, None).expect("a key"))
}

/// One cheap method: the hybrids cost a thousand times as much as a packet, and have a target of their own.
fn with_cheap_exchange(mut config: Config) -> Config {
    config.algorithms.kex = vec!["curve25519-sha256".to_owned()];
    config
}

fn client_config() -> Config {
    with_cheap_exchange(Config::client())
}

fn server_config() -> Config {
    let key = host_key();
    with_cheap_exchange(Config::server(vec![HostKey {
        algorithms: vec!["ssh-ed25519".to_owned()],
        blob: key.public().blob().to_vec(),
    }]))
}

/// How often keys may be renewed for one input: each renewal costs as much as hundreds of packets.
const MOST_REKEYS: u32 = 3;

/// Renewals of keys that an input still may ask for.
pub struct Rekeys(u32);

impl Default for Rekeys {
    fn default() -> Self {
        Self(MOST_REKEYS)
    }
}

impl Rekeys {
    /// Begins a renewal, unless the limit is reached.
    pub fn request(&mut self, transport: &mut Transport) {
        if let Some(left) = self.0.checked_sub(1) {
            self.0 = left;
            transport.request_rekey();
        }
    }
}

/// Moves the output of `from` to `to` and polls `to`; its packets are appended to `packets`.
///
/// # Errors
/// The error that ends `to`.
pub fn pass(
    from: &mut Transport,
    to: &mut Transport,
    now: Instant,
    packets: &mut Vec<bytes::Bytes>,
) -> Result<(), TransportError> {
    loop {
        from.output(now);
        let bytes: Vec<u8> = {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            from.output_slices(&mut slices);
            slices.iter().flat_map(|slice| slice.iter().copied()).collect()
        };
        if bytes.is_empty() {
            return Ok(());
        }
        from.written(bytes.len());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let space = to.recv_space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            to.received(n);
            drain(to, now, packets)?;
        }
    }
}

/// Polls until nothing is left, accepts host keys and signs with the server's.
///
/// # Errors
/// The error that ends the transport.
pub fn drain(
    transport: &mut Transport,
    now: Instant,
    packets: &mut Vec<bytes::Bytes>,
) -> Result<(), TransportError> {
    while let Some(event) = transport.poll(now)? {
        match event {
            Event::HostKey { blob, .. } => {
                transport.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))?;
            }
            Event::SignExchangeHash { algorithm, data, .. } => {
                let signature = host_key().sign(&algorithm, &data).unwrap_or_default();
                transport.exchange_hash_signed(&signature)?;
            }
            Event::Packet(payload) => packets.push(payload),
            _ => {}
        }
    }
    Ok(())
}

/// The states of a client and a server after their first exchange.
fn frozen() -> &'static (Vec<u8>, Vec<u8>) {
    static STATES: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    STATES.get_or_init(|| {
        let now = Instant::now();
        let mut client = Transport::new(client_config(), Box::new(SystemRandom), now);
        let mut server = Transport::new(server_config(), Box::new(SystemRandom), now);
        let mut none = Vec::new();
        for _ in 0..8 {
            pass(&mut client, &mut server, now, &mut none).expect("an honest client");
            pass(&mut server, &mut client, now, &mut none).expect("an honest server");
        }
        (client.freeze().expect("idle").to_vec(), server.freeze().expect("idle").to_vec())
    })
}

/// A client and a server with keys in use, before the login.
pub fn established(now: Instant) -> (Transport, Transport) {
    let (client, server) = frozen();
    (
        Transport::thaw(client, client_config(), Box::new(Counter(1)), now).expect("its own state"),
        Transport::thaw(server, server_config(), Box::new(Counter(2)), now).expect("its own state"),
    )
}
