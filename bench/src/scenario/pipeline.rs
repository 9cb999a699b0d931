//! The packet pipeline of a connection, in memory. Packets in the send buffer of one transport, and arrived
//! packets in the receive buffer of another, become jobs that a pool of 1 to N workers executes, as in the
//! loop.
//!
//! Filling the buffers (copies that a real end makes with the kernel) is not counted. Counted is everything
//! from cutting jobs to having their results in order: hand-over, ciphers, wake-ups, framing and delivery.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use lh_crypto::{KeyType, PrivateKey, SystemRandom};
use lh_driver::WorkerPool;
use lh_transport::{AcceptedHostKey, Config, Event, HostKey, Transport};
use lh_wire::PacketSink as _;
use rustix::event::{PollFd, PollFlags, poll};

use super::by_workers;
use crate::bench::Bench;
use crate::cipher_suite::CipherSuite;
use crate::table::Table;

/// Bytes laid out together: the contents of a connection's slab.
const SLAB: usize = 256 << 10;
/// Bytes sealed or opened between two clock readings. They exceed a second-level cache, as on a fast path.
const SPELL: usize = 8 << 20;

/// Runs all suites that encrypt (no key exchange starts with another), each with 1, 2, 4, … workers up to the
/// limit.
pub(super) fn run(bench: &Bench, counts: &[usize]) -> Vec<Table> {
    let time = Duration::from_millis(if bench.options.smoke { 10 } else { 200 });
    let payload = bench.options.packet;
    let suites = bench.options.suites.iter().filter(|suite| suite.cipher.encrypts());
    let table = |suite| {
        by_workers::table(bench, "pipeline", suite, counts, &|workers| measure(suite, workers, payload, time))
    };
    suites.map(table).collect()
}

/// Payload rate of sealing and opening with this number of workers, MB/s.
fn measure(
    suite: &CipherSuite,
    workers: usize,
    payload: usize,
    time: Duration,
) -> Result<(f64, f64), String> {
    let (mut client, mut server) = connected(suite)?;
    let pool = WorkerPool::start(workers).map_err(|error| format!("threads: {error}"))?;
    let (mut sealing, mut opening, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    let mut wire = Vec::new();
    while sealing + opening < time {
        client.set_workers(true);
        server.set_workers(true);
        while client.queued_bytes() < SPELL {
            let sizes = vec![payload; (SLAB / payload).max(1)];
            client.reserve(&sizes);
            for slice in client.reserved(sizes.len()).iter_mut() {
                // A message number above the transport's own.
                slice[0] = 94;
            }
            client.commit(&sizes);
            bytes += payload * sizes.len();
        }
        let start = Instant::now();
        client.output(start);
        through(&pool, &mut client)?;
        sealing += start.elapsed();

        wire.clear();
        while client.queued_bytes() > 0 {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            client.output_slices(&mut slices);
            let before = wire.len();
            slices.iter().for_each(|slice| wire.extend_from_slice(slice));
            let count = wire.len() - before;
            client.written(count);
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let space = server.recv_space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            server.received(count);
            let start = Instant::now();
            // Cuts the arrived packets into jobs; no packet is opened yet.
            deliver(&mut server)?;
            opening += start.elapsed();
        }
        let start = Instant::now();
        // Without jobs this thread has opened the packets, and the measurement would not be of the workers.
        if through(&pool, &mut server)? == 0 && bytes > 0 {
            return Err("no arrived packet was given to the workers".to_owned());
        }
        deliver(&mut server)?;
        opening += start.elapsed();
    }
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    Ok((rate(sealing), rate(opening)))
}

/// Has every job of `transport` executed, sleeping meanwhile like the loop. Returns their number.
fn through(pool: &WorkerPool, transport: &mut Transport) -> Result<usize, String> {
    let (mut done, mut jobs) = (Vec::new(), 0);
    loop {
        while let Some(job) = transport.next_job() {
            pool.submit(job);
            jobs += 1;
        }
        if transport.jobs_out() == 0 {
            return Ok(jobs);
        }
        if pool.prepare_wait() {
            poll(&mut [PollFd::from_borrowed_fd(pool.fd(), PollFlags::IN)], None)
                .map_err(|error| error.to_string())?;
        }
        pool.wake_up();
        pool.collect(&mut done);
        for job in done.drain(..) {
            transport.finish_job(job);
        }
    }
}

/// Takes all events of `transport`.
fn deliver(transport: &mut Transport) -> Result<(), String> {
    loop {
        match transport.poll(Instant::now()).map_err(|error| error.to_string())? {
            Some(_) => {}
            None => return Ok(()),
        }
    }
}

/// Two transports with keys of `suite`.
fn connected(suite: &CipherSuite) -> Result<(Transport, Transport), String> {
    let key = PrivateKey::generate(KeyType::Ed25519, None).map_err(|error| error.to_string())?;
    let host_key = HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: key.public().blob().to_vec() };
    let mut config = Config::client();
    config.algorithms.cipher_c2s = vec![suite.cipher.name.to_owned()];
    config.algorithms.mac_c2s = suite.mac.iter().map(|mac| mac.name.to_owned()).collect();
    if suite.mac.is_none() {
        config.algorithms.mac_c2s = vec!["hmac-sha2-256".to_owned()];
    }
    // Rekey limits are not reached during the measurement.
    let now = Instant::now();
    let mut client = Transport::new(config, Box::new(SystemRandom), now);
    let mut server = Transport::new(Config::server(vec![host_key]), Box::new(SystemRandom), now);
    while client.negotiated().is_none() || server.negotiated().is_none() {
        carry(&mut client, &mut server, &key)?;
        carry(&mut server, &mut client, &key)?;
    }
    // Before authentication, packets are opened one at a time.
    client.set_authenticated();
    server.set_authenticated();
    Ok((client, server))
}

/// Passes the output of one end to the other, and answers its requests.
fn carry(from: &mut Transport, to: &mut Transport, key: &PrivateKey) -> Result<(), String> {
    let now = Instant::now();
    from.output(now);
    let mut slices: Vec<IoSlice<'_>> = Vec::new();
    from.output_slices(&mut slices);
    let wire: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    from.written(wire.len());
    let mut rest = &wire[..];
    while !rest.is_empty() {
        let space = to.recv_space();
        let count = space.len().min(rest.len());
        space[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        to.received(count);
    }
    let failed = |error: &dyn std::fmt::Display| format!("key exchange in memory: {error}");
    while let Some(event) = to.poll(now).map_err(|error| failed(&error))? {
        match event {
            Event::HostKey { blob, .. } => to
                .host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))
                .map_err(|error| failed(&error))?,
            Event::SignExchangeHash { algorithm, data, .. } => {
                let signature = key.sign(&algorithm, &data).map_err(|error| failed(&error))?;
                to.exchange_hash_signed(&signature).map_err(|error| failed(&error))?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_seal_and_open_all_packets() {
        for name in ["aes128-gcm", "chacha20-poly1305", "aes128-ctr+umac-64-etm"] {
            let suite = CipherSuite::parse(name).unwrap();
            for payload in [1000, 32 << 10] {
                let (seal, open) = measure(&suite, 2, payload, Duration::from_millis(1)).unwrap();
                assert!(seal > 0.0 && open > 0.0, "{name}");
            }
        }
    }
}
