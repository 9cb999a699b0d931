//! Key exchange methods by name.

use super::ecdh::Curve;
use super::groups::FixedGroup;
use super::hybrid::Kem;
use crate::Hash;
use crate::listing::Listing;

/// Message set of a key exchange method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KexFamily {
    /// RFC 5656 and RFC 8731: public values are strings, the secret is an mpint.
    Ecdh,
    /// RFC 4253 section 8: public values and secret are mpints.
    DhGroup,
    /// RFC 4419: the server chooses the group.
    DhGex,
    /// A post-quantum KEM with X25519: messages as in [`Ecdh`](Self::Ecdh), the secret is a string.
    Hybrid,
}

/// Arithmetic of a key exchange method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Ecdh(Curve),
    Hybrid(Kem),
    Group(FixedGroup),
    GroupExchange,
}

/// A key exchange method that can be negotiated. Aliases are separate methods, so that names are preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KexAlgorithm {
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    pub(crate) hash: Hash,
    pub(crate) listing: Listing,
}

impl KexAlgorithm {
    /// Returns the name in a KEXINIT.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the place in the lists of names.
    pub const fn listing(self) -> Listing {
        self.listing
    }

    /// Returns true for methods that only old equipment needs (SHA-1, and a group of 1024 bits); no default
    /// list contains them.
    pub const fn is_legacy(self) -> bool {
        self.listing.is_legacy()
    }

    /// Returns the hash for the exchange hash and for deriving keys.
    pub const fn hash(self) -> Hash {
        self.hash
    }

    /// Returns the message set of the method.
    pub const fn family(self) -> KexFamily {
        match self.method {
            Method::Ecdh(_) => KexFamily::Ecdh,
            Method::Hybrid(_) => KexFamily::Hybrid,
            Method::Group(_) => KexFamily::DhGroup,
            Method::GroupExchange => KexFamily::DhGex,
        }
    }
}
