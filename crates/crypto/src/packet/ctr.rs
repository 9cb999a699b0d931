//! AES in counter mode (RFC 4344 section 4) with a MAC, in both orders.

use super::index::{LENGTH_LEN, PacketIndex};
use super::mac::{MacKey, PacketTag};
use crate::{CryptoError, Mac, OpenError};
use aws_lc_rs::cipher::{AES_128, AES_192, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use subtle::ConstantTimeEq;

const BLOCK_LEN: u64 = 16;

pub(super) struct CtrKey {
    cipher: EncryptingKey,
    /// The counter block of the first byte after NEWKEYS.
    first_block: u128,
    mac: MacKey,
    tag_len: usize,
    etm: bool,
}

impl CtrKey {
    pub(super) fn new(key: &[u8], iv: &[u8], mac: &Mac, mac_key: &[u8]) -> Result<Self, CryptoError> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            _ => &AES_256,
        };
        let iv = iv.try_into().map_err(|_| CryptoError::WrongLength { what: "IV" })?;
        let cipher = UnboundCipherKey::new(algorithm, key)
            .and_then(EncryptingKey::ctr)
            .map_err(|_| CryptoError::Library { what: "set up an AES-CTR key" })?;
        Ok(Self {
            cipher,
            first_block: u128::from_be_bytes(iv),
            mac: MacKey::new(mac, mac_key)?,
            tag_len: mac.tag_len,
            etm: mac.etm,
        })
    }

    pub(super) const fn tag_len(&self) -> usize {
        self.tag_len
    }

    pub(super) const fn is_etm(&self) -> bool {
        self.etm
    }

    /// Decrypts the length field. It cannot fail; if it did, the length would be invalid and the packet
    /// refused.
    pub(super) fn decrypt_head(&self, index: &PacketIndex, mut head: [u8; LENGTH_LEN]) -> [u8; LENGTH_LEN] {
        if self.apply(index, &mut head).is_err() {
            return [0; LENGTH_LEN];
        }
        head
    }

    pub(super) fn seal(
        &self,
        index: &PacketIndex,
        body: &mut [u8],
        tag_out: &mut [u8],
    ) -> Result<(), CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "encrypt a packet" };
        let tag = if self.etm {
            self.apply(index, self.whole_blocks(body).ok_or(CryptoError::WrongLength { what: "padding" })?)
                .map_err(|()| FAILED)?;
            self.tag(index, body)
        } else {
            let tag = self.tag(index, body);
            self.apply(index, self.whole_blocks(body).ok_or(CryptoError::WrongLength { what: "padding" })?)
                .map_err(|()| FAILED)?;
            tag
        };
        let tag = tag.ok_or(CryptoError::WrongLength { what: "packet" })?;
        if tag_out.len() != tag.as_ref().len() {
            return Err(CryptoError::WrongLength { what: "tag" });
        }
        tag_out.copy_from_slice(tag.as_ref());
        Ok(())
    }

    pub(super) fn open(&self, index: &PacketIndex, body: &mut [u8], tag: &[u8]) -> Result<(), OpenError> {
        if self.etm {
            self.check(index, body, tag)?;
            self.apply(index, self.whole_blocks(body).ok_or(OpenError)?).map_err(|()| OpenError)
        } else {
            self.apply(index, self.whole_blocks(body).ok_or(OpenError)?).map_err(|()| OpenError)?;
            self.check(index, body, tag)
        }
    }

    /// Returns the part of a packet that the cipher covers. A partial block would leave the next packet's
    /// counter in the middle of a block, which RFC 4253 section 6 excludes.
    fn whole_blocks<'a>(&self, body: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let covered = body.get_mut(if self.etm { LENGTH_LEN } else { 0 }..)?;
        (covered.len() as u64).is_multiple_of(BLOCK_LEN).then_some(covered)
    }

    /// Encrypts or decrypts; both are the same operation.
    fn apply(&self, index: &PacketIndex, data: &mut [u8]) -> Result<(), ()> {
        let block = self.first_block.wrapping_add(u128::from(index.offset / BLOCK_LEN));
        let context = EncryptionContext::Iv128(FixedLength::from(&block.to_be_bytes()));
        self.cipher.less_safe_encrypt(data, context).map(|_| ()).map_err(|_| ())
    }

    fn check(&self, index: &PacketIndex, body: &[u8], tag: &[u8]) -> Result<(), OpenError> {
        let expected = self.tag(index, body).ok_or(OpenError)?;
        if bool::from(expected.as_ref().ct_eq(tag)) { Ok(()) } else { Err(OpenError) }
    }

    fn tag(&self, index: &PacketIndex, body: &[u8]) -> Option<PacketTag> {
        self.mac.tag(index.seq, body)
    }
}
