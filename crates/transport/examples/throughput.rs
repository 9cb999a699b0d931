//! How fast one thread seals and opens: two transports in one process, the wire a `memcpy`.
//!
//! `cargo run --release -p lh-transport --example throughput [MiB]` prints a line per suite: the rate at which
//! 32 KiB payloads are laid out and sealed, and the rate at which they are framed, opened and handed on.

use std::error::Error;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use lh_crypto::{Cipher, KeyType, Mac, PrivateKey, SystemRandom};
use lh_transport::{AcceptedHostKey, Config, Event, HostKey, Transport};
use lh_wire::PacketSink;

const PACKET: usize = 32 * 1024;
const BATCH: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(2);
    let mib: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(512);
    let key = PrivateKey::generate(KeyType::Ed25519, None)?;
    for cipher in Cipher::ALL.iter().filter(|cipher| only.as_ref().is_none_or(|name| cipher.name == name)) {
        for mac in Mac::ALL {
            let (seal, open) = measure(&key, cipher.name, mac.name, mib)?;
            let mac = if cipher.is_aead() { "" } else { mac.name };
            println!("{:32} {mac:32} seal {seal:6.0} MB/s   open {open:6.0} MB/s", cipher.name);
            if cipher.is_aead() {
                break;
            }
        }
    }
    Ok(())
}

fn measure(key: &PrivateKey, cipher: &str, mac: &str, mib: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let host_key = HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: key.public().blob().to_vec() };
    let mut client = Config::client();
    client.algorithms.cipher_c2s = vec![cipher.to_owned()];
    client.algorithms.mac_c2s = vec![mac.to_owned()];
    let now = Instant::now();
    let mut client = Transport::new(client, Box::new(SystemRandom), now);
    let mut server = Transport::new(Config::server(vec![host_key]), Box::new(SystemRandom), now);
    while client.negotiated().is_none() || server.negotiated().is_none() {
        carry(&mut client, &mut server, key)?;
        carry(&mut server, &mut client, key)?;
    }

    let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
    let rounds = mib * 1024 * 1024 / (PACKET * BATCH);
    let mut wire = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        client.payloads(&mut [PACKET; BATCH], &mut |slices, _| {
            for slice in slices {
                slice[0] = 94;
            }
        });
        client.output(start);
        sealing += start.elapsed();
        wire.clear();
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        client.output_slices(&mut slices);
        slices.iter().for_each(|slice| wire.extend_from_slice(slice));
        client.written(wire.len());

        let mut rest = &wire[..];
        while !rest.is_empty() {
            let start = Instant::now();
            let space = server.recv_space();
            let n = space.len().min(rest.len());
            opening += start.elapsed();
            space[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            let start = Instant::now();
            server.received(n);
            while server.poll(start)?.is_some() {}
            opening += start.elapsed();
        }
    }
    let megabytes = (rounds * BATCH * PACKET) as f64 / 1e6;
    Ok((megabytes / sealing.as_secs_f64(), megabytes / opening.as_secs_f64()))
}

/// Moves what one end has to say to the other, and answers what it asks.
fn carry(from: &mut Transport, to: &mut Transport, key: &PrivateKey) -> Result<(), Box<dyn Error>> {
    let now = Instant::now();
    from.output(now);
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    from.output_slices(&mut slices);
    let wire: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    from.written(wire.len());
    let mut rest = &wire[..];
    while !rest.is_empty() {
        let space = to.recv_space();
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        to.received(n);
    }
    while let Some(event) = to.poll(now)? {
        match event {
            Event::HostKey { blob, .. } => {
                to.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))?
            }
            Event::SignExchangeHash { algorithm, data, .. } => {
                to.exchange_hash_signed(&key.sign(&algorithm, &data)?)?;
            }
            _ => {}
        }
    }
    Ok(())
}
