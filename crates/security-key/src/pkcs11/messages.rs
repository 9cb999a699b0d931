//! Requests to `lhssh-pkcs11-helper` and its replies, version 2: a number, then the fields in SSH's encoding.

use lh_wire::{Reader, Result, WireError, Writer as _};
use zeroize::Zeroizing;

use crate::messages::Secret;

/// Version of the protocol.
pub const VERSION: u8 = 2;
/// Largest number of keys that one library may offer.
pub const MAX_KEYS: usize = 1024;

const FAILED: u32 = 0;
const OPEN: u32 = 1;
const SIGN: u32 = 2;
const PIN: u32 = 3;

/// A request to the helper.
pub enum Request {
    /// Loads the library and lists the keys of its tokens. The first request, and again with a PIN where the
    /// reply was [`Reply::PinWanted`].
    Open {
        /// Path of the library.
        provider: String,
        /// The user's PIN, to log in to tokens that require it.
        pin: Secret,
    },
    /// Requests a signature over `data`.
    Sign {
        /// Blob of the public key.
        key: Vec<u8>,
        /// Name of the signature algorithm.
        algorithm: String,
        /// The bytes to sign.
        data: Vec<u8>,
        /// Their hash by the algorithm, so that the helper needs no library for it; empty for an algorithm
        /// that leaves hashing to the token.
        digest: Vec<u8>,
        /// The PIN, where the reply was [`Reply::PinWanted`].
        pin: Secret,
    },
}

/// A key of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKey {
    /// Blob of the public key.
    pub blob: Vec<u8>,
    /// Its label on the token; may be empty.
    pub label: String,
}

/// A reply of the helper.
pub enum Reply {
    /// The request failed for this reason.
    Failed(String),
    /// The keys of all tokens.
    Keys(Vec<TokenKey>),
    /// A signature blob.
    Signature(Vec<u8>),
    /// The token with this label needs a PIN for the request.
    PinWanted(String),
}

impl Request {
    /// Encodes the body.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // Reserved, so that no copy of a PIN is left behind by growing.
        let capacity = match self {
            Self::Open { provider, .. } => provider.len(),
            Self::Sign { key, data, digest, .. } => key.len() + data.len() + digest.len(),
        };
        let mut out = Zeroizing::new(Vec::with_capacity(capacity + 1024));
        match self {
            Self::Open { provider, pin } => {
                out.put_u32(OPEN);
                out.put_string(provider.as_bytes());
                put_pin(&mut out, pin);
            }
            Self::Sign { key, algorithm, data, digest, pin } => {
                out.put_u32(SIGN);
                out.put_string(key);
                out.put_string(algorithm.as_bytes());
                out.put_string(data);
                out.put_string(digest);
                put_pin(&mut out, pin);
            }
        }
        out
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// The bytes are no request.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let request = match reader.u32()? {
            OPEN => Self::Open { provider: reader.text()?.to_owned(), pin: pin(&mut reader)? },
            SIGN => Self::Sign {
                key: reader.string()?.to_vec(),
                algorithm: reader.text()?.to_owned(),
                data: reader.string()?.to_vec(),
                digest: reader.string()?.to_vec(),
                pin: pin(&mut reader)?,
            },
            _ => return Err(WireError::Invalid { what: "request" }),
        };
        reader.finish()?;
        Ok(request)
    }
}

impl Reply {
    /// Encodes the body.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Failed(why) => {
                out.put_u32(FAILED);
                out.put_string(why.as_bytes());
            }
            Self::Keys(keys) => {
                out.put_u32(OPEN);
                for key in keys {
                    out.put_string(&key.blob);
                    out.put_string(key.label.as_bytes());
                }
            }
            Self::Signature(blob) => {
                out.put_u32(SIGN);
                out.put_string(blob);
            }
            Self::PinWanted(label) => {
                out.put_u32(PIN);
                out.put_string(label.as_bytes());
            }
        }
        out
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// The bytes are no reply.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let reply = match reader.u32()? {
            FAILED => Self::Failed(reader.text()?.to_owned()),
            OPEN => {
                let mut keys = Vec::new();
                while !reader.is_empty() {
                    if keys.len() == MAX_KEYS {
                        return Err(WireError::Invalid { what: "number of keys" });
                    }
                    let blob = reader.string()?.to_vec();
                    keys.push(TokenKey { blob, label: reader.text()?.to_owned() });
                }
                Self::Keys(keys)
            }
            SIGN => Self::Signature(reader.string()?.to_vec()),
            PIN => Self::PinWanted(reader.text()?.to_owned()),
            _ => return Err(WireError::Invalid { what: "reply" }),
        };
        reader.finish()?;
        Ok(reply)
    }
}

fn put_pin(out: &mut Vec<u8>, pin: &Secret) {
    out.put_string(pin.as_ref().map_or(&b""[..], |text| text.as_bytes()));
}

fn pin(reader: &mut Reader<'_>) -> Result<Secret> {
    let text = reader.text()?;
    Ok((!text.is_empty()).then(|| Zeroizing::new(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn token_requests_round_trip() {
        let pin: Secret = Some(Zeroizing::new("1234".to_owned()));
        let open = Request::Open { provider: "/lib/p11.so".to_owned(), pin: pin.clone() };
        let sign = Request::Sign {
            key: b"key".to_vec(),
            algorithm: "rsa-sha2-256".to_owned(),
            data: b"data".to_vec(),
            digest: b"digest".to_vec(),
            pin: None,
        };
        for request in [open, sign] {
            let body = request.encode();
            assert_eq!(Request::parse(&body).map(|again| again.encode()), Ok(body.clone()));
            assert!(Request::parse(&body[..body.len() - 1]).is_err());
            assert!(Request::parse(&[&body[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn token_replies_round_trip() {
        let key = TokenKey { blob: b"key".to_vec(), label: "label".to_owned() };
        for reply in [
            Reply::Failed("why".to_owned()),
            Reply::Keys(vec![key.clone(), key]),
            Reply::Keys(Vec::new()),
            Reply::Signature(b"signature".to_vec()),
            Reply::PinWanted("token".to_owned()),
        ] {
            let body = reply.encode();
            assert_eq!(Reply::parse(&body).map(|again| again.encode()), Ok(body.clone()));
        }
        let many = TokenKey { blob: Vec::new(), label: String::new() };
        assert!(Reply::parse(&Reply::Keys(vec![many; MAX_KEYS + 1]).encode()).is_err());
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_never_panics(body in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u32..5) {
            let body = [&kind.to_be_bytes()[..], &body].concat();
            let _ = Request::parse(&body);
            let _ = Reply::parse(&body);
        }
    }
}
