//! Keyed MACs over a packet and its sequence number.

use crate::mac::MacKind;
use crate::umac::{Umac, UmacTag};
use crate::{CryptoError, Mac};
use aws_lc_rs::hmac;
use hmac_rs::{KeyInit as _, Mac as _};
use md5::Md5;

/// The MAC key of one direction. Immutable, like everything in a packet key.
pub(super) enum MacKey {
    Hmac {
        key: Box<hmac::Key>,
        tag_len: usize,
    },
    /// AWS-LC offers no HMAC-MD5 through its safe interface.
    Md5 {
        key: Box<hmac_rs::Hmac<Md5>>,
        tag_len: usize,
    },
    Umac(Box<Umac>),
}

/// A tag; `as_ref()` returns the bytes.
pub(super) enum PacketTag {
    Hmac { tag: hmac::Tag, len: usize },
    Md5 { tag: [u8; 16], len: usize },
    Umac(UmacTag),
}

impl AsRef<[u8]> for PacketTag {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Hmac { tag, len } => tag.as_ref().get(..*len).unwrap_or_default(),
            Self::Md5 { tag, len } => tag.get(..*len).unwrap_or_default(),
            Self::Umac(tag) => tag.as_ref(),
        }
    }
}

impl MacKey {
    pub(super) fn new(mac: &Mac, key: &[u8]) -> Result<Self, CryptoError> {
        if key.len() != mac.key_len {
            return Err(CryptoError::WrongLength { what: "MAC key" });
        }
        if !mac.listing.is_built() {
            return Err(CryptoError::Unsupported { what: "this MAC in a FIPS build" });
        }
        let algorithm = match mac.kind {
            MacKind::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            MacKind::HmacSha256 => hmac::HMAC_SHA256,
            MacKind::HmacSha512 => hmac::HMAC_SHA512,
            MacKind::HmacMd5 => {
                let key = hmac_rs::Hmac::<Md5>::new_from_slice(key)
                    .map_err(|_| CryptoError::WrongLength { what: "MAC key" })?;
                return Ok(Self::Md5 { key: Box::new(key), tag_len: mac.tag_len });
            }
            MacKind::Nothing => return Err(CryptoError::Unsupported { what: "a cipher without a MAC" }),
            MacKind::Umac => return Ok(Self::Umac(Box::new(Umac::new(key, mac.tag_len)?))),
        };
        Ok(Self::Hmac { key: Box::new(hmac::Key::new(algorithm, key)), tag_len: mac.tag_len })
    }

    /// Computes the tag of a packet. HMAC prepends the sequence number; UMAC takes it as a 64-bit nonce
    /// (OpenSSH).
    ///
    /// Returns `None` when the packet exceeds UMAC's limit of 16 MiB.
    pub(super) fn tag(&self, seq: u32, packet: &[u8]) -> Option<PacketTag> {
        match self {
            Self::Hmac { key, tag_len } => {
                let mut context = hmac::Context::with_key(key);
                context.update(&seq.to_be_bytes());
                context.update(packet);
                Some(PacketTag::Hmac { tag: context.sign(), len: *tag_len })
            }
            Self::Md5 { key, tag_len } => {
                let mut context = (**key).clone();
                context.update(&seq.to_be_bytes());
                context.update(packet);
                Some(PacketTag::Md5 { tag: context.finalize().into_bytes().into(), len: *tag_len })
            }
            Self::Umac(key) => key.tag(seq.into(), packet).map(PacketTag::Umac),
        }
    }
}
