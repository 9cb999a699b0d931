//! The cipher `none` (RFC 4253 section 6.3) as HPN-SSH uses it after authentication: packets in plain text,
//! with a MAC or without.
//!
//! Without encryption, both orders of MAC and cipher cover the same bytes. They differ only in whether the
//! length field counts towards the padding, which the MAC's name determines.

use super::index::PacketIndex;
use super::mac::{MacKey, PacketTag};
use crate::mac::MacKind;
use crate::{CryptoError, Mac, OpenError};
use subtle::ConstantTimeEq;

pub(super) struct ClearKey {
    /// `None` for the MAC `none`.
    mac: Option<MacKey>,
    tag_len: usize,
    etm: bool,
}

impl ClearKey {
    pub(super) fn new(mac: Option<&Mac>, mac_key: &[u8]) -> Result<Self, CryptoError> {
        let mac = mac.ok_or(CryptoError::Unsupported { what: "the cipher none without a choice of MAC" })?;
        let key = match mac.kind {
            MacKind::Nothing => None,
            _ => Some(MacKey::new(mac, mac_key)?),
        };
        Ok(Self { mac: key, tag_len: mac.tag_len, etm: mac.etm })
    }

    pub(super) const fn tag_len(&self) -> usize {
        self.tag_len
    }

    pub(super) const fn is_etm(&self) -> bool {
        self.etm
    }

    pub(super) fn seal(
        &self,
        index: &PacketIndex,
        body: &[u8],
        tag_out: &mut [u8],
    ) -> Result<(), CryptoError> {
        let Some(mac) = &self.mac else { return Ok(()) };
        let tag = mac.tag(index.seq, body).ok_or(CryptoError::WrongLength { what: "packet" })?;
        if tag_out.len() != tag.as_ref().len() {
            return Err(CryptoError::WrongLength { what: "tag" });
        }
        tag_out.copy_from_slice(tag.as_ref());
        Ok(())
    }

    pub(super) fn open(&self, index: &PacketIndex, body: &[u8], tag: &[u8]) -> Result<(), OpenError> {
        let Some(mac) = &self.mac else { return Ok(()) };
        let expected: PacketTag = mac.tag(index.seq, body).ok_or(OpenError)?;
        if bool::from(expected.as_ref().ct_eq(tag)) { Ok(()) } else { Err(OpenError) }
    }
}
