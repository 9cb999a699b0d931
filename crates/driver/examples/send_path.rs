//! Cost of the send path alone, from a channel to the sealed slab, in memory: no socket, file or thread.
//!
//! To measure, run `cargo build --release -p lh-driver --example send_path`, then `valgrind --tool=callgrind
//! target/release/examples/send_path [MiB] [cipher] [retain]` with two sizes. The cost of a MiB is the
//! difference of the instruction counts, divided by the difference of the sizes. With `retain` packets are
//! kept until they are acknowledged, as in sessions that outlive their connection; each MiB is acknowledged.

use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use lh_connection::{ChannelOptions, Config, Connection};
use lh_crypto::{KeyType, PrivateKey, SystemRandom};
use lh_transport::{AcceptedHostKey, Event, HostKey, Transport};
use lh_wire::Message;
use lh_wire::msg::{ChannelOpenConfirmation, ChannelWindowAdjust, Rest};

type Result<T> = core::result::Result<T, Box<dyn Error>>;

/// Bytes of one read of a file or pipe.
const READ: usize = 256 << 10;
/// Data in one packet, bytes.
const PACKET: u32 = 64 << 10;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mib: usize = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(64);
    let cipher = args.next().unwrap_or_else(|| "aes128-gcm@openssh.com".to_owned());
    let mut transport = established(&cipher)?;
    if args.next().is_some_and(|word| word == "retain") {
        transport.retain(16 << 20)?;
    }
    let mut connection = Connection::new(Config { max_send_packet: PACKET, ..Config::default() });
    let now = Instant::now();
    let id = connection.open("session", b"", &ChannelOptions::default(), &mut transport)?;
    let opened = ChannelOpenConfirmation::new(id.number(), 0, u32::MAX, PACKET, Rest(b"")).to_payload();
    connection.handle(Bytes::from(opened), now, &mut transport)?;
    let mut left = mib << 20;
    while left > 0 {
        if connection.send_budget(id) < READ {
            let adjust = ChannelWindowAdjust::new(id.number(), u32::MAX / 2).to_payload();
            connection.handle(Bytes::from(adjust), now, &mut transport)?;
        }
        // The memory already holds the data: filling it would be the kernel's work.
        let total = connection.reserve(id, None, READ.min(left), &mut transport);
        let slices = connection.slices(&mut transport);
        assert_eq!(slices.total(), total);
        left -= connection.commit(total, &mut transport);
        transport.output(now);
        let mut output = Vec::with_capacity(64);
        transport.output_slices(&mut output);
        let written = output.iter().map(|slice| slice.len()).sum();
        transport.written(written);
        if left.is_multiple_of(1 << 20)
            && let Some((_, sent)) = transport.message_counts()
        {
            transport.acknowledge(sent)?;
        }
    }
    println!("{cipher}: {mib} MiB, {} bytes sent", transport.bytes_out());
    Ok(())
}

/// Returns a client after a key exchange with a server in memory.
fn established(cipher: &str) -> Result<Transport> {
    let now = Instant::now();
    let key = PrivateKey::generate(KeyType::Ed25519, None)?;
    let host_key = HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: key.public().blob().to_vec() };
    let mut config = lh_transport::Config::client();
    config.algorithms.cipher_c2s = vec![cipher.to_owned()];
    let mut client = Transport::new(config, Box::new(SystemRandom), now);
    let mut server =
        Transport::new(lh_transport::Config::server(vec![host_key]), Box::new(SystemRandom), now);
    while client.negotiated().is_none() || server.negotiated().is_none() {
        carry(&mut client, &mut server, now);
        carry(&mut server, &mut client, now);
        for end in [&mut client, &mut server] {
            while let Some(event) = end.poll(now)? {
                match event {
                    Event::HostKey { blob, .. } => {
                        end.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))?;
                    }
                    Event::SignExchangeHash { algorithm, data, .. } => {
                        end.exchange_hash_signed(&key.sign(&algorithm, &data)?)?;
                    }
                    _ => {}
                }
            }
        }
    }
    carry(&mut client, &mut server, now);
    client.set_authenticated();
    Ok(client)
}

/// Moves all output of `from` to `to`.
fn carry(from: &mut Transport, to: &mut Transport, now: Instant) {
    from.output(now);
    let mut output = Vec::new();
    from.output_slices(&mut output);
    let bytes = output.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>();
    from.written(bytes.len());
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let space = to.recv_space();
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        to.received(n);
        rest = &rest[n..];
    }
}
