//! Benchmark of the packet suites: the best of many tries, so that a busy machine gives much the same result
//! as an idle one.
//!
//! `cargo run --release -p lh-crypto --example suites [bytes]` prints the rates of sealing and opening
//! packets of that many bytes (default: 32 KiB) and, for comparison, those of counter mode without a MAC.

use std::error::Error;
use std::time::{Duration, Instant};

use aws_lc_rs::cipher::{AES_128, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use lh_crypto::{Cipher, Direction, Mac, PacketIndex, PacketKey};

fn main() -> Result<(), Box<dyn Error>> {
    let len: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(32 * 1024);
    let key = EncryptingKey::ctr(UnboundCipherKey::new(&AES_128, &[1; 16])?)?;
    let mut data = vec![0; len];
    let rate = measure(len, || {
        let _ = key.less_safe_encrypt(&mut data, EncryptionContext::Iv128(FixedLength::from(&[2; 16])));
    });
    println!("{:32} {:32} {rate:6.0} MB/s", "aes128-ctr", "without a MAC");

    for cipher in Cipher::ALL {
        let macs: Vec<Option<&Mac>> =
            if cipher.is_aead() { vec![None] } else { Mac::ALL.iter().map(Some).collect() };
        for mac in macs {
            let (seal, open) = suite(cipher, mac, len)?;
            let mac = mac.map_or("", |mac| mac.name);
            println!("{:32} {mac:32} seal {seal:6.0} MB/s   open {open:6.0} MB/s", cipher.name);
        }
    }
    Ok(())
}

/// Returns the rates of sealing and opening.
fn suite(cipher: &Cipher, mac: Option<&Mac>, len: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let (key, iv) = (vec![1; cipher.key_len], vec![2; cipher.iv_len]);
    let mac_key = vec![3; mac.map_or(0, |mac| mac.key_len)];
    let new = |direction| PacketKey::new(direction, cipher, mac, &key, &iv, &mac_key);
    let (sealing, opening) = (new(Direction::Seal)?, new(Direction::Open)?);
    // The cipher covers whole blocks, with or without the length field.
    let covered = len.next_multiple_of(sealing.block_len());
    let total = covered + if sealing.length_is_padded() { 0 } else { 4 };
    let mut packet = vec![0; total + sealing.tag_len()];
    packet[..4].copy_from_slice(&u32::try_from(total - 4)?.to_be_bytes());
    let index = PacketIndex { seq: 7, invocation: 7, offset: 32 };
    let plain = packet.clone();
    let seal = measure(len, || {
        let _ = sealing.seal(&index, &mut packet);
    });
    packet.copy_from_slice(&plain);
    sealing.seal(&index, &mut packet)?;
    let mut work = packet.clone();
    // Every try needs the sealed packet anew; the time of the copy is subtracted.
    let copy = measure(len, || work.copy_from_slice(&packet));
    let both = measure(len, || {
        work.copy_from_slice(&packet);
        let _ = opening.open(&index, &mut work);
    });
    opening.open(&index, &mut packet)?;
    Ok((seal, 1.0 / (1.0 / both - 1.0 / copy)))
}

/// Returns the rate of the fastest of many short runs, MB/s.
fn measure(len: usize, mut run: impl FnMut()) -> f64 {
    const RUNS: u32 = 8;
    let (started, mut best) = (Instant::now(), Duration::MAX);
    while started.elapsed() < Duration::from_millis(200) {
        let start = Instant::now();
        for _ in 0..RUNS {
            run();
        }
        best = best.min(start.elapsed());
    }
    f64::from(RUNS) * len as f64 / best.as_secs_f64() / 1e6
}
