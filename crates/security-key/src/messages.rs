//! Requests to a helper and its replies: the protocol of OpenSSH's `ssh-sk-helper`, version 5.
//!
//! A message consists of its length, the version, and a body. A helper answers one request and exits.

use lh_agent::SecurityKey;
use lh_wire::{Reader, WireError, Writer as _};
use zeroize::Zeroizing;

use crate::SkError;

/// Version of the protocol.
pub const VERSION: u8 = 5;

const ERROR: u32 = 0;
const SIGN: u32 = 1;
const ENROLL: u32 = 2;
const RESIDENTS: u32 = 3;

/// OpenSSH's numbers for key types. They have changed since version 10; programs only use helpers of their
/// own version.
const ECDSA: u32 = 10;
const ED25519: u32 = 12;

/// A text that must be wiped from memory, or none.
pub type Secret = Option<Zeroizing<String>>;

/// A request to the helper.
pub enum Request {
    /// Requests a signature over `data`.
    Sign {
        /// The key, without a certificate.
        key: Box<SecurityKey>,
        /// Path of the library.
        provider: String,
        /// The bytes to sign.
        data: Vec<u8>,
        /// The PIN, if required.
        pin: Secret,
    },
    /// Requests a new key.
    Enroll(Enrollment),
    /// Requests the resident keys of the hardware.
    Residents {
        /// Path of the library.
        provider: String,
        /// Name of the device, for libraries that support several.
        device: String,
        /// The PIN.
        pin: Secret,
    },
}

/// Parameters of a new key.
pub struct Enrollment {
    /// True for Ed25519, false for ECDSA.
    pub ed25519: bool,
    /// Path of the library.
    pub provider: String,
    /// Name of the device; empty for any.
    pub device: String,
    /// Application of the key: `ssh:`, optionally with a suffix.
    pub application: String,
    /// User of the key; empty for none.
    pub user: String,
    /// Flags of [`crate::flags`].
    pub flags: u8,
    /// The PIN, if required.
    pub pin: Secret,
    /// Challenge that the hardware signs to prove that the key is new; empty for a random one.
    pub challenge: Vec<u8>,
}

/// A resident key of the hardware.
pub struct Resident {
    /// The key.
    pub key: SecurityKey,
    /// The user that was stored with the key when it was created.
    pub user: Vec<u8>,
}

/// A reply of the helper.
pub enum Reply {
    /// The request failed.
    Failed(SkError),
    /// A signature blob.
    Signature(Vec<u8>),
    /// A new key, and the hardware's attestation (`ssh-sk-attest-v01`).
    Enrolled(Box<SecurityKey>, Vec<u8>),
    /// Resident keys of the hardware.
    Residents(Vec<Resident>),
}

impl Request {
    /// Encodes the body. `verbose`: the helper may log to standard error.
    pub fn encode(&self, verbose: bool) -> Zeroizing<Vec<u8>> {
        /// `SYSLOG_LEVEL_DEBUG3` and `SYSLOG_LEVEL_ERROR`.
        const LEVELS: [u32; 2] = [2, 7];
        // Reserved in full, so that no copy of a PIN is left behind.
        let mut out = Zeroizing::new(Vec::with_capacity(4096 + self.data_len()));
        let number = match self {
            Self::Sign { .. } => SIGN,
            Self::Enroll(_) => ENROLL,
            Self::Residents { .. } => RESIDENTS,
        };
        out.put_u32(number);
        out.put_u8(1);
        out.put_u32(LEVELS[usize::from(verbose)]);
        match self {
            Self::Sign { key, provider, data, pin } => {
                out.nested(|out| key.write(out));
                out.put_string(provider.as_bytes());
                out.put_string(data);
                out.put_string(b"");
                out.put_u32(0);
                put_secret(&mut out, pin);
            }
            Self::Enroll(wanted) => {
                out.put_u32(if wanted.ed25519 { ED25519 } else { ECDSA });
                for text in [&wanted.provider, &wanted.device, &wanted.application, &wanted.user] {
                    out.put_string(text.as_bytes());
                }
                out.put_u8(wanted.flags);
                put_secret(&mut out, &wanted.pin);
                out.put_string(&wanted.challenge);
            }
            Self::Residents { provider, device, pin } => {
                out.put_string(provider.as_bytes());
                out.put_string(device.as_bytes());
                put_secret(&mut out, pin);
                out.put_u32(0);
            }
        }
        out
    }

    fn data_len(&self) -> usize {
        match self {
            Self::Sign { data, key, .. } => data.len() + key.handle.len(),
            Self::Enroll(wanted) => wanted.challenge.len(),
            Self::Residents { .. } => 0,
        }
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// [`SkError::Invalid`], and [`SkError::Unsupported`] for an unknown request.
    pub fn parse(body: &[u8]) -> Result<Self, SkError> {
        let mut reader = Reader::new(body);
        let number = reader.u32().map_err(invalid)?;
        let _log_to_stderr = reader.u8().map_err(invalid)?;
        let _log_level = reader.u32().map_err(invalid)?;
        let request = match number {
            SIGN => {
                let key = read_key(reader.string().map_err(invalid)?)?;
                let provider = text(&mut reader)?;
                let data = reader.string().map_err(invalid)?.to_vec();
                let _algorithm = reader.string().map_err(invalid)?;
                let _compatibility = reader.u32().map_err(invalid)?;
                Self::Sign { key: Box::new(key), provider, data, pin: secret(&mut reader)? }
            }
            ENROLL => Self::Enroll(Enrollment {
                ed25519: match reader.u32().map_err(invalid)? {
                    ED25519 => true,
                    ECDSA => false,
                    _ => return Err(SkError::Argument),
                },
                provider: text(&mut reader)?,
                device: text(&mut reader)?,
                application: text(&mut reader)?,
                user: text(&mut reader)?,
                flags: reader.u8().map_err(invalid)?,
                pin: secret(&mut reader)?,
                challenge: reader.string().map_err(invalid)?.to_vec(),
            }),
            RESIDENTS => {
                let (provider, device) = (text(&mut reader)?, text(&mut reader)?);
                let pin = secret(&mut reader)?;
                let _flags = reader.u32().map_err(invalid)?;
                Self::Residents { provider, device, pin }
            }
            _ => return Err(SkError::Unsupported),
        };
        reader.finish().map_err(invalid)?;
        Ok(request)
    }
}

impl Reply {
    /// Encodes the body.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Failed(error) => {
                out.put_u32(ERROR);
                out.put_u32(error.number());
            }
            Self::Signature(signature) => {
                out.put_u32(SIGN);
                out.put_string(signature);
            }
            Self::Enrolled(key, attestation) => {
                out.put_u32(ENROLL);
                out.nested(|out| key.write(out));
                out.put_string(attestation);
            }
            Self::Residents(keys) => {
                out.put_u32(RESIDENTS);
                for resident in keys {
                    out.nested(|out| resident.key.write(out));
                    out.put_string(b"");
                    out.put_string(&resident.user);
                }
            }
        }
        out
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// [`SkError::Invalid`] for a malformed or unknown reply.
    pub fn parse(body: &[u8]) -> Result<Self, SkError> {
        let mut reader = Reader::new(body);
        let reply = match reader.u32().map_err(invalid)? {
            ERROR => Self::Failed(SkError::from_number(reader.u32().map_err(invalid)?)),
            SIGN => Self::Signature(reader.string().map_err(invalid)?.to_vec()),
            ENROLL => {
                let key = read_key(reader.string().map_err(invalid)?)?;
                Self::Enrolled(Box::new(key), reader.string().map_err(invalid)?.to_vec())
            }
            RESIDENTS => {
                let mut keys = Vec::new();
                while !reader.is_empty() {
                    let key = read_key(reader.string().map_err(invalid)?)?;
                    let _comment = reader.string().map_err(invalid)?;
                    keys.push(Resident { key, user: reader.string().map_err(invalid)?.to_vec() });
                }
                Self::Residents(keys)
            }
            _ => return Err(SkError::Invalid),
        };
        reader.finish().map_err(invalid)?;
        Ok(reply)
    }
}

fn invalid(_: WireError) -> SkError {
    SkError::Invalid
}

fn text(reader: &mut Reader<'_>) -> Result<String, SkError> {
    reader.text().map(str::to_owned).map_err(invalid)
}

fn secret(reader: &mut Reader<'_>) -> Result<Secret, SkError> {
    let text = reader.text().map_err(invalid)?;
    Ok((!text.is_empty()).then(|| Zeroizing::new(text.to_owned())))
}

fn put_secret(out: &mut Vec<u8>, secret: &Secret) {
    out.put_string(secret.as_ref().map_or(&b""[..], |text| text.as_bytes()));
}

fn read_key(fields: &[u8]) -> Result<SecurityKey, SkError> {
    let mut reader = Reader::new(fields);
    let key = SecurityKey::read(&mut reader).map_err(|_| SkError::Invalid)?;
    reader.finish().map_err(invalid)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey, PublicKey};
    use proptest::prelude::*;

    fn key() -> SecurityKey {
        let inner = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
        let mut blob = Vec::new();
        blob.put_string(b"sk-ssh-ed25519@openssh.com");
        blob.put_bytes(&inner.public().blob()[15..]);
        blob.put_string(b"ssh:");
        let public = PublicKey::from_blob(&blob).expect("a key");
        SecurityKey { public, flags: 1, handle: b"handle".to_vec().into(), reserved: Vec::new() }
    }

    #[test]
    fn helper_requests_round_trip() {
        let pin: Secret = Some(Zeroizing::new("1234".to_owned()));
        let sign = Request::Sign {
            key: Box::new(key()),
            provider: "/p".to_owned(),
            data: b"data".to_vec(),
            pin: pin.clone(),
        };
        let enroll = Request::Enroll(Enrollment {
            ed25519: true,
            provider: "/p".to_owned(),
            device: "d".to_owned(),
            application: "ssh:".to_owned(),
            user: "u".to_owned(),
            flags: 0x25,
            pin: None,
            challenge: vec![1, 2],
        });
        let residents = Request::Residents { provider: "/p".to_owned(), device: String::new(), pin };
        for request in [sign, enroll, residents] {
            let body = request.encode(false);
            assert_eq!(Request::parse(&body).ok().map(|again| again.encode(false)), Some(body.clone()));
            assert!(Request::parse(&body[..body.len() - 1]).is_err());
            assert!(Request::parse(&[&body[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn helper_replies_round_trip() {
        let replies = [
            Reply::Failed(SkError::Pin),
            Reply::Signature(b"signature".to_vec()),
            Reply::Enrolled(Box::new(key()), b"attestation".to_vec()),
            Reply::Residents(vec![Resident { key: key(), user: b"me".to_vec() }]),
        ];
        for reply in replies {
            let body = reply.encode();
            assert_eq!(Reply::parse(&body).ok().map(|again| again.encode()), Some(body.clone()));
        }
        assert!(Reply::parse(&[0, 0, 0, 9]).is_err());
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
