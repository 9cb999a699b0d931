//! The ceilings: raw TCP, and the packet cipher over raw TCP.
//!
//! A source (the client) sends, a sink (run in inetd mode) receives; both use one thread and large buffers.
//! With a cipher, the source seals packets of Longhaul's size in place in its buffer, many per `write`, and
//! the sink opens them in place. Key exchange, channels, windows, files and pipes are left out. The bytes are
//! neither produced nor stored.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use lh_crypto::{Direction, PacketIndex, PacketKey};
use rustix::stdio::stdin;

use crate::cipher_suite::CipherSuite;
use crate::end::EndArgs;

/// Bytes passed to the kernel at once; 8 packets of 32 KiB stay in a core's own cache while they are sealed.
const BATCH: usize = 256 * 1024;
/// Upper limit of one read of the sink, bytes.
const SLAB: usize = 1 << 20;

/// Layout of packets of one suite.
pub(crate) struct Layout {
    /// Length of a packet without tag, bytes.
    pub(crate) body: usize,
    /// Length of a packet with tag, as sent, bytes.
    pub(crate) total: usize,
}

impl Layout {
    pub(crate) fn new(key: &PacketKey, payload: usize) -> Self {
        let counted = payload + 1 + if key.length_is_padded() { 4 } else { 0 };
        let padded = (counted + 4).next_multiple_of(key.block_len());
        let body = padded + if key.length_is_padded() { 0 } else { 4 };
        Self { body, total: body + key.tag_len() }
    }

    /// Returns a packet with `payload` bytes of payload, not sealed yet.
    pub(crate) fn packet(&self, payload: usize) -> Vec<u8> {
        let mut packet = vec![0x5a; self.total];
        let length = (self.body - 4) as u32;
        packet[..4].copy_from_slice(&length.to_be_bytes());
        packet[4] = (self.body - 5 - payload) as u8;
        packet
    }
}

/// Advances an index by one packet.
pub(crate) fn advance(index: &mut PacketIndex, key: &PacketKey, body: usize) {
    index.seq = index.seq.wrapping_add(1);
    index.invocation += 1;
    index.offset += key.encrypted_len(body);
}

fn options(args: &[String]) -> Result<(Option<CipherSuite>, usize, u64), String> {
    let with_end = [args, &["--".to_owned()]].concat();
    let args = EndArgs::parse(&with_end)?;
    let number = |name: &str, default: u64| {
        args.value(name).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} {text}")))
    };
    let suite = args.value("--cipher").map(CipherSuite::parse).transpose()?;
    Ok((suite, number("--packet", 32 * 1024)? as usize, number("--bytes", 0)?))
}

/// `lh-bench tcp-source --to ADDRESS:PORT --bytes N [--cipher SUITE] [--packet N]`.
///
/// # Errors
/// The connection fails.
pub fn source(args: &[String]) -> Result<(), String> {
    let (suite, payload, bytes) = options(args)?;
    let at = args.iter().position(|arg| arg == "--to").ok_or("no --to")?;
    let to = args.get(at + 1).ok_or("no --to")?;
    let mut stream = TcpStream::connect(to).map_err(|error| format!("{to}: {error}"))?;
    let _ = stream.set_nodelay(true);
    let failed = |error: std::io::Error| format!("sending: {error}");
    match suite {
        None => {
            let block = vec![0x5a; BATCH];
            let mut left = bytes;
            while left > 0 {
                let take = left.min(BATCH as u64);
                stream.write_all(&block[..take as usize]).map_err(failed)?;
                left -= take;
            }
        }
        Some(suite) => seal_and_send(&suite, payload, bytes, &mut stream).map_err(failed)?,
    }
    stream.shutdown(Shutdown::Write).map_err(failed)?;
    // The sink answers when it has received everything.
    let mut answer = [0; 1];
    match stream.read(&mut answer) {
        Ok(1) => Ok(()),
        _ => Err("the sink has not received everything".to_owned()),
    }
}

fn seal_and_send(
    suite: &CipherSuite,
    payload: usize,
    bytes: u64,
    stream: &mut impl Write,
) -> std::io::Result<()> {
    let wrong = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
    let key = suite.key(Direction::Seal).map_err(|error| wrong(&error))?;
    let layout = Layout::new(&key, payload);
    let template = layout.packet(payload);
    let per_batch = (BATCH / layout.total).max(1);
    let mut slab = vec![0x5a; per_batch * layout.total];
    let mut index = PacketIndex::default();
    let mut packets = bytes.div_ceil(payload as u64);
    while packets > 0 {
        let now = packets.min(per_batch as u64) as usize;
        let part = &mut slab[..now * layout.total];
        for packet in part.chunks_exact_mut(layout.total) {
            // The sealed payload of the last batch serves as plaintext.
            packet[..5].copy_from_slice(&template[..5]);
            key.seal(&index, packet).map_err(|error| wrong(&error))?;
            advance(&mut index, &key, layout.body);
        }
        stream.write_all(part)?;
        packets -= now as u64;
    }
    Ok(())
}

/// `lh-bench tcp-sink [--cipher SUITE]`, with the connection as standard input.
///
/// # Errors
/// The connection fails, or a packet is not authentic.
pub fn sink(args: &[String]) -> Result<(), String> {
    let (suite, ..) = options(args)?;
    let fd = stdin().try_clone_to_owned().map_err(|error| format!("stdin: {error}"))?;
    let mut stream = TcpStream::from(fd);
    let failed = |error: std::io::Error| format!("receiving: {error}");
    match suite {
        None => {
            let mut slab = vec![0; SLAB];
            while stream.read(&mut slab).map_err(failed)? > 0 {}
        }
        Some(suite) => {
            receive_and_open(&suite, &mut stream, |_| Ok(())).map_err(failed)?;
        }
    }
    stream.write_all(b".").map_err(failed)
}

/// Opens packets in place as they arrive, and passes them to `take` without their tags, in groups that have
/// arrived together.
pub(crate) fn receive_and_open(
    suite: &CipherSuite,
    stream: &mut impl Read,
    mut take: impl FnMut(&[&[u8]]) -> std::io::Result<()>,
) -> std::io::Result<u64> {
    let wrong = |text: &str| std::io::Error::other(text.to_owned());
    let key = suite.key(Direction::Open).map_err(|error| wrong(&error))?;
    let mut slab = vec![0; SLAB];
    let mut index = PacketIndex::default();
    let (mut filled, mut packets) = (0, 0);
    let mut bodies = Vec::new();
    loop {
        let count = stream.read(&mut slab[filled..])?;
        if count == 0 {
            return if filled == 0 { Ok(packets) } else { Err(wrong("half a packet at the end")) };
        }
        filled += count;
        let mut at = 0;
        bodies.clear();
        while filled - at >= key.head_len() {
            let body = key.packet_length(&index, &slab[at..filled]) as usize + 4;
            let total = body + key.tag_len();
            if total > SLAB {
                return Err(wrong("a packet too large"));
            }
            if filled - at < total {
                break;
            }
            key.open(&index, &mut slab[at..at + total])
                .map_err(|_| wrong("a packet that is not authentic"))?;
            advance(&mut index, &key, body);
            packets += 1;
            bodies.push(at..at + body);
            at += total;
        }
        let opened: Vec<&[u8]> = bodies.iter().filter_map(|body| slab.get(body.clone())).collect();
        take(&opened)?;
        slab.copy_within(at..filled, 0);
        filled -= at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns odd lengths, so that packets are split at every position.
    struct Pieces<'a>(&'a [u8]);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let take = out.len().min(self.0.len()).min(7919);
            out[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    #[test]
    fn sink_opens_packets_of_the_source() {
        for name in ["aes128-gcm", "chacha20-poly1305", "aes128-ctr+umac-64-etm", "aes128-ctr+hmac-sha2-256"]
        {
            let suite = CipherSuite::parse(name).unwrap();
            let mut sent = Vec::new();
            seal_and_send(&suite, 32 * 1024, 1_000_000, &mut sent).unwrap();
            assert_eq!(receive_and_open(&suite, &mut Pieces(&sent), |_| Ok(())).unwrap(), 31, "{name}");
            sent[500_000] ^= 1;
            assert!(receive_and_open(&suite, &mut Pieces(&sent), |_| Ok(())).is_err(), "{name}");
        }
    }
}
