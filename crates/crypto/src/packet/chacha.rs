//! chacha20-poly1305@openssh.com (OpenSSH's PROTOCOL.chacha20poly1305): two keys, one of them for the length
//! field; the tag covers all bytes sent.
//!
//! AWS-LC implements it with AVX2 code at best. On processors with AVX-512, RustCrypto's ChaCha20 with
//! Poly1305 is 1.5 times as fast for bulk packets. Short packets stay with AWS-LC, which has less setup per
//! packet. Both produce the same bytes. (Measurements: docs/performance.md.)

use super::index::{Direction, LENGTH_LEN};
use crate::{CryptoError, OpenError};
use aws_lc_rs::aead::chacha20_poly1305_openssh as library;
use wide::WideKey;

pub(super) const TAG_LEN: usize = library::TAG_LEN;
/// Length of both keys together, bytes.
const KEY_LEN: usize = library::KEY_LEN;

/// The keys of one direction.
pub(super) struct ChaChaKey {
    narrow: LibraryKey,
    /// The AVX-512 implementation, if the processor supports it.
    wide: Option<WideKey>,
}

/// The library's keys, which work in one direction only.
enum LibraryKey {
    Seal(library::SealingKey),
    Open(library::OpeningKey),
}

impl ChaChaKey {
    pub(super) fn new(direction: Direction, key: &[u8]) -> Result<Self, CryptoError> {
        let key: &[u8; KEY_LEN] =
            key.try_into().map_err(|_| CryptoError::WrongLength { what: "cipher key" })?;
        let narrow = match direction {
            Direction::Seal => LibraryKey::Seal(library::SealingKey::new(key)),
            Direction::Open => LibraryKey::Open(library::OpeningKey::new(key)),
        };
        Ok(Self { narrow, wide: WideKey::new(key) })
    }

    /// Decrypts a copy of the length field; returns 0 with a key for the other direction.
    pub(super) fn packet_length(&self, seq: u32, head: [u8; LENGTH_LEN]) -> [u8; LENGTH_LEN] {
        match &self.narrow {
            LibraryKey::Open(key) => key.decrypt_packet_length(seq, head),
            LibraryKey::Seal(_) => [0; LENGTH_LEN],
        }
    }

    pub(super) fn seal(&self, seq: u32, body: &mut [u8], tag: &mut [u8]) -> Result<(), CryptoError> {
        let tag: &mut [u8; TAG_LEN] = tag.try_into().map_err(|_| CryptoError::WrongLength { what: "tag" })?;
        let LibraryKey::Seal(key) = &self.narrow else {
            return Err(CryptoError::Unsupported { what: "sealing with an opening key" });
        };
        match self.wide.as_ref().filter(|_| body.len() >= wide::LEAST) {
            Some(wide) => *tag = wide.seal(seq, body),
            None => key.seal_in_place(seq, body, tag),
        }
        Ok(())
    }

    /// Opens a packet and decrypts its length field too.
    pub(super) fn open(&self, seq: u32, body: &mut [u8], tag: &[u8]) -> Result<(), OpenError> {
        let tag: &[u8; TAG_LEN] = tag.try_into().map_err(|_| OpenError)?;
        let LibraryKey::Open(key) = &self.narrow else { return Err(OpenError) };
        if let Some(wide) = self.wide.as_ref().filter(|_| body.len() >= wide::LEAST) {
            return wide.open(seq, body, tag);
        }
        let opened = key.open_in_place(seq, body, tag).map_err(|_| OpenError)?;
        // The library leaves the length field encrypted. The field has been authenticated: a packet that was
        // not framed by its own length field has no valid tag.
        let length = u32::try_from(opened.len()).map_err(|_| OpenError)?;
        *body.first_chunk_mut().ok_or(OpenError)? = length.to_be_bytes();
        Ok(())
    }
}

/// RustCrypto's implementation, which uses AVX-512 if the compiler is configured for it
/// (`.cargo/config.toml`).
#[cfg(all(target_arch = "x86_64", chacha20_avx512))]
mod wide {
    use super::{KEY_LEN, LENGTH_LEN, TAG_LEN};
    use crate::OpenError;
    use chacha20::ChaCha20Legacy;
    use chacha20::cipher::{KeyIvInit, StreamCipher};
    use poly1305::Poly1305;
    use poly1305::universal_hash::{KeyInit, UniversalHash};
    use subtle::ConstantTimeEq;
    use zeroize::Zeroizing;

    /// Minimum packet length, bytes. Shorter packets are not faster this way, because the setup takes 2 µs
    /// more.
    pub(super) const LEAST: usize = 16 * 1024;
    const BLOCK: usize = 16;

    pub(super) struct WideKey {
        payload: Zeroizing<[u8; 32]>,
        length: Zeroizing<[u8; 32]>,
    }

    impl WideKey {
        /// Returns `None` if the processor does not have AVX-512 (F and VL) and AVX2.
        pub(super) fn new(key: &[u8; KEY_LEN]) -> Option<Self> {
            let capable = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx2");
            let (payload, length) = (key.first_chunk()?, key.last_chunk()?);
            capable.then(|| Self { payload: Zeroizing::new(*payload), length: Zeroizing::new(*length) })
        }

        /// Returns the cipher positioned after its first block, and the authenticator keyed with that block.
        fn start(&self, seq: u32) -> (ChaCha20Legacy, Poly1305) {
            let nonce = u64::from(seq).to_be_bytes();
            let mut cipher = ChaCha20Legacy::new((&*self.payload).into(), &nonce.into());
            let mut first = Zeroizing::new([0; 64]);
            cipher.apply_keystream(&mut first[..]);
            let mut key = Zeroizing::new([0; 32]);
            key.copy_from_slice(&first[..32]);
            (cipher, Poly1305::new((&*key).into()))
        }

        fn crypt_length(&self, seq: u32, body: &mut [u8]) {
            let nonce = u64::from(seq).to_be_bytes();
            let (length, _) = body.split_at_mut(LENGTH_LEN);
            ChaCha20Legacy::new((&*self.length).into(), &nonce.into()).apply_keystream(length);
        }

        /// Seals a packet; `body` has at least [`LEAST`] bytes.
        pub(super) fn seal(&self, seq: u32, body: &mut [u8]) -> [u8; TAG_LEN] {
            let (mut cipher, mut mac) = self.start(seq);
            self.crypt_length(seq, body);
            cipher.apply_keystream(body.get_mut(LENGTH_LEN..).unwrap_or_default());
            let (blocks, rest) = body.split_at(body.len() - body.len() % BLOCK);
            mac.update_padded(blocks);
            mac.compute_unpadded(rest).into()
        }

        /// Opens a packet; `body` has at least [`LEAST`] bytes. Unauthentic data is not decrypted.
        pub(super) fn open(&self, seq: u32, body: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), OpenError> {
            let (mut cipher, mut mac) = self.start(seq);
            let (blocks, rest) = body.split_at(body.len() - body.len() % BLOCK);
            mac.update_padded(blocks);
            let expected: [u8; TAG_LEN] = mac.compute_unpadded(rest).into();
            if !bool::from(expected.ct_eq(tag)) {
                return Err(OpenError);
            }
            self.crypt_length(seq, body);
            cipher.apply_keystream(body.get_mut(LENGTH_LEN..).unwrap_or_default());
            Ok(())
        }
    }
}

/// Stub for builds in which AWS-LC is always the fastest implementation.
#[cfg(not(all(target_arch = "x86_64", chacha20_avx512)))]
mod wide {
    use super::{KEY_LEN, TAG_LEN};
    use crate::OpenError;

    pub(super) const LEAST: usize = usize::MAX;

    /// Never constructed.
    pub(super) enum WideKey {}

    impl WideKey {
        pub(super) const fn new(_: &[u8; KEY_LEN]) -> Option<Self> {
            None
        }

        pub(super) fn seal(&self, _: u32, _: &mut [u8]) -> [u8; TAG_LEN] {
            match *self {}
        }

        pub(super) fn open(&self, _: u32, _: &mut [u8], _: &[u8; TAG_LEN]) -> Result<(), OpenError> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a key without the AVX-512 implementation.
    fn plain(direction: Direction, key: &[u8; KEY_LEN]) -> ChaChaKey {
        ChaChaKey { wide: None, ..ChaChaKey::new(direction, key).unwrap() }
    }

    #[test]
    fn both_implementations_make_the_same_bytes() {
        let key: [u8; KEY_LEN] = std::array::from_fn(|at| at as u8 * 3 + 1);
        let both = |direction| [plain(direction, &key), ChaChaKey::new(direction, &key).unwrap()];
        let (seal, open) = (both(Direction::Seal), both(Direction::Open));
        if seal[1].wide.is_none() {
            let why = "this processor or this build has one implementation only";
            lh_testkit::skip_unavailable("both_implementations_make_the_same_bytes", why);
        }
        let around = |n: usize| n - 9..n + 9;
        let lengths = around(16 * 1024).chain(around(32 * 1024)).chain([64 << 10, 250_001]);
        for (seq, len) in (u32::MAX - 20..=u32::MAX).chain(0..).zip(lengths) {
            let mut clear: Vec<u8> = (0..len).map(|at| (at * at) as u8).collect();
            clear[..4].copy_from_slice(&u32::try_from(len - 4).unwrap().to_be_bytes());
            let sealed = [0, 1].map(|way: usize| {
                let (mut body, mut tag) = (clear.clone(), [0; TAG_LEN]);
                seal[way].seal(seq, &mut body, &mut tag).unwrap();
                (body, tag)
            });
            assert!(sealed[0] == sealed[1], "{len} bytes, sequence number {seq}");
            let (body, tag) = &sealed[0];
            for key in &open {
                let mut opened = body.clone();
                key.open(seq, &mut opened, tag).unwrap();
                assert!(opened == clear, "{len} bytes, sequence number {seq}");
                for at in [0, 4, len / 2, len - 1] {
                    let mut wrong = body.clone();
                    wrong[at] ^= 0x10;
                    assert!(key.open(seq, &mut wrong, tag).is_err(), "byte {at} of {len} changed");
                }
                let mut wrong = *tag;
                wrong[15] ^= 1;
                assert!(key.open(seq, &mut body.clone(), &wrong).is_err());
                assert!(key.open(seq ^ 1, &mut body.clone(), tag).is_err());
            }
        }
    }
}
