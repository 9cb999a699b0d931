//! Reference implementation of RFC 4418, section by section and without optimisation, for the tests. It
//! shares only the block cipher with the production code.

use aws_lc_rs::cipher::{AES_128, EncryptingKey, EncryptionContext, UnboundCipherKey};

fn encipher(key: &[u8], mut block: [u8; 16]) -> [u8; 16] {
    let key = EncryptingKey::ecb(UnboundCipherKey::new(&AES_128, key).unwrap()).unwrap();
    key.less_safe_encrypt(&mut block, EncryptionContext::None).unwrap();
    block
}

/// Section 3.2.1.
fn kdf(key: &[u8], index: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 1..=len.div_ceil(16) as u64 {
        let mut block = [0; 16];
        block[..8].copy_from_slice(&index.to_be_bytes());
        block[8..].copy_from_slice(&number.to_be_bytes());
        out.extend(encipher(key, block));
    }
    out.truncate(len);
    out
}

/// Section 3.3.1.
fn pdf(key: &[u8], nonce: [u8; 8], tag_len: usize) -> Vec<u8> {
    let mut block = [0; 16];
    block[..8].copy_from_slice(&nonce);
    let per_block = 16 / tag_len;
    let index = usize::from(nonce[7]) % per_block;
    block[7] ^= index as u8;
    encipher(&kdf(key, 0, 16), block)[index * tag_len..][..tag_len].to_vec()
}

/// Section 5.1.2.
fn nh(key: &[u8], message: &[u8]) -> u64 {
    let k = |at: usize| u32::from_be_bytes(key[4 * at..][..4].try_into().unwrap());
    let m = |at: usize| u32::from_le_bytes(message[4 * at..][..4].try_into().unwrap());
    let mut sum = 0u64;
    for first in (0..message.len() / 4).step_by(8) {
        for at in first..first + 4 {
            let (left, right) = (m(at).wrapping_add(k(at)), m(at + 4).wrapping_add(k(at + 4)));
            sum = sum.wrapping_add(u64::from(left) * u64::from(right));
        }
    }
    sum
}

/// Section 5.1.1.
fn level1(key: &[u8], message: &[u8]) -> Vec<u64> {
    let mut chunks: Vec<&[u8]> = message.chunks(1024).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let words = chunks.into_iter().map(|chunk| {
        let mut padded = chunk.to_vec();
        padded.resize(chunk.len().next_multiple_of(32).max(32), 0);
        nh(key, &padded).wrapping_add(chunk.len() as u64 * 8)
    });
    words.collect()
}

/// Sections 5.2.1 and 5.2.3, for messages up to 16 MiB.
fn level2(key: &[u8], words: &[u64]) -> u64 {
    const PRIME: u128 = (1 << 64) - 59;
    let key = u128::from(u64::from_be_bytes(key[..8].try_into().unwrap()) & 0x01ff_ffff_01ff_ffff);
    let mut value = 1u128;
    for &word in words {
        if word >= 0xffff_ffff_0000_0000 {
            value = (key * value + PRIME - 1) % PRIME;
            value = (key * value + u128::from(word) - 59) % PRIME;
        } else {
            value = (key * value + u128::from(word)) % PRIME;
        }
    }
    value as u64
}

/// Section 5.3.1.
fn level3(key1: &[u8], key2: &[u8], value: u128) -> [u8; 4] {
    let mut sum = 0u128;
    for (word, key) in value.to_be_bytes().chunks(2).zip(key1.chunks(8)) {
        let key = u64::from_be_bytes(key.try_into().unwrap()) % ((1 << 36) - 5);
        sum += u128::from(u16::from_be_bytes(word.try_into().unwrap())) * u128::from(key);
    }
    let hash = (sum % ((1 << 36) - 5)) as u32;
    (hash ^ u32::from_be_bytes(key2.try_into().unwrap())).to_be_bytes()
}

/// Sections 4.2 and 5: the tag.
pub(super) fn umac(key: &[u8], nonce: [u8; 8], message: &[u8], tag_len: usize) -> Vec<u8> {
    let columns = tag_len / 4;
    let key1 = kdf(key, 1, 1024 + (columns - 1) * 16);
    let key2 = kdf(key, 2, columns * 24);
    let key3 = kdf(key, 3, columns * 64);
    let key4 = kdf(key, 4, columns * 4);
    let mut hash = Vec::new();
    for column in 0..columns {
        let words = level1(&key1[column * 16..][..1024], message);
        let value = if message.len() <= 1024 { words[0] } else { level2(&key2[column * 24..][..24], &words) };
        hash.extend(level3(&key3[column * 64..][..64], &key4[column * 4..][..4], value.into()));
    }
    hash.iter().zip(pdf(key, nonce, tag_len)).map(|(hash, pad)| hash ^ pad).collect()
}
