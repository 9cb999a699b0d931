//! MACs with their keys, over a packet and its sequence number.

use crate::mac::MacKind;
use crate::umac::{Umac, UmacTag};
use crate::{CryptoError, Mac};
use aws_lc_rs::hmac;

/// The key of one direction. Only read, as everything in a packet key.
pub(super) enum MacKey {
    Hmac(Box<hmac::Key>),
    Umac(Box<Umac>),
}

/// A tag: `as_ref()` gives the bytes.
pub(super) enum PacketTag {
    Hmac(hmac::Tag),
    Umac(UmacTag),
}

impl AsRef<[u8]> for PacketTag {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Hmac(tag) => tag.as_ref(),
            Self::Umac(tag) => tag.as_ref(),
        }
    }
}

impl MacKey {
    pub(super) fn new(mac: &Mac, key: &[u8]) -> Result<Self, CryptoError> {
        if key.len() != mac.key_len {
            return Err(CryptoError::WrongLength { what: "MAC key" });
        }
        let algorithm = match mac.kind {
            MacKind::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            MacKind::HmacSha256 => hmac::HMAC_SHA256,
            MacKind::HmacSha512 => hmac::HMAC_SHA512,
            MacKind::Umac => return Ok(Self::Umac(Box::new(Umac::new(key, mac.tag_len)?))),
        };
        Ok(Self::Hmac(Box::new(hmac::Key::new(algorithm, key))))
    }

    /// The tag of a packet. HMAC puts the sequence number in front of it; UMAC takes it as nonce, in 64 bits (OpenSSH).
    ///
    /// `None` when the packet is longer than UMAC hashes, 16 MiB.
    pub(super) fn tag(&self, seq: u32, packet: &[u8]) -> Option<PacketTag> {
        match self {
            Self::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                context.update(&seq.to_be_bytes());
                context.update(packet);
                Some(PacketTag::Hmac(context.sign()))
            }
            Self::Umac(key) => key.tag(seq.into(), packet).map(PacketTag::Umac),
        }
    }
}
