//! Speed of a cipher on this machine, without a network.

use std::time::{Duration, Instant};

use lh_crypto::{Cipher, Direction, Mac, PacketIndex, PacketKey};

/// Bytes after the length field: one packet of a bulk transfer, in whole blocks.
const BODY: u32 = 32_784;

/// Bytes per second of sealing packets on one core; `None` where the suite is not ours.
pub(super) fn seal_rate(cipher: &str, mac: Option<&str>, time: Duration) -> Option<f64> {
    let cipher = Cipher::by_name(cipher)?;
    let mac = match mac {
        Some(name) => Some(Mac::by_name(name)?),
        None => None,
    };
    let mac_key = vec![3; mac.map_or(0, |mac| mac.key_len)];
    let (key, iv) = (vec![1; cipher.key_len], vec![2; cipher.iv_len]);
    let key = PacketKey::new(Direction::Seal, cipher, mac, &key, &iv, &mac_key).ok()?;
    let mut packet = vec![0; 4 + BODY as usize + key.tag_len()];
    let mut index = PacketIndex::default();
    let begun = Instant::now();
    let mut sealed = 0_u64;
    while begun.elapsed() < time {
        packet.get_mut(..4)?.copy_from_slice(&BODY.to_be_bytes());
        *packet.get_mut(4)? = 16;
        key.seal(&index, &mut packet).ok()?;
        index.seq = index.seq.wrapping_add(1);
        index.invocation += 1;
        index.offset += key.encrypted_len(4 + BODY as usize);
        sealed += u64::from(BODY);
    }
    Some(sealed as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cipher_is_measured() {
        for (cipher, mac) in [
            ("chacha20-poly1305@openssh.com", None),
            ("aes128-gcm@openssh.com", None),
            ("aes128-ctr", Some("hmac-sha2-256-etm@openssh.com")),
        ] {
            let rate = seal_rate(cipher, mac, Duration::from_millis(20));
            assert!(rate.is_some_and(|rate| rate > 1e5), "{cipher}: {rate:?}");
        }
        assert_eq!(seal_rate("rot13", None, Duration::ZERO), None);
        assert_eq!(seal_rate("aes128-ctr", None, Duration::ZERO), None);
    }
}
