//! Private keys as they are handed to an agent (RFC 9987 section 3.2).

use lh_crypto::key_algorithms::is_certificate;
use lh_crypto::{KeyFileError, PrivateKey, PublicKey};
use lh_wire::{Reader, Writer};
use zeroize::Zeroizing;

use crate::ProtocolError;

const SK_ED25519: &str = "sk-ssh-ed25519@openssh.com";
const SK_ECDSA: &str = "sk-ecdsa-sha2-nistp256@openssh.com";
const FORMAT: fn(lh_wire::WireError) -> ProtocolError = ProtocolError::Wire;

/// A key that an agent is to hold.
#[derive(Clone)]
pub enum AddedKey {
    /// A key.
    Plain(PrivateKey),
    /// A key under a certificate of it.
    Certified {
        /// The key.
        key: PrivateKey,
        /// A certificate for it.
        certificate: PublicKey,
    },
    /// A key whose private half is in a security key.
    Security(SecurityKey),
}

/// What a computer holds of a key on a FIDO security key (OpenSSH's PROTOCOL.u2f): nothing that signs by itself.
#[derive(Clone)]
pub struct SecurityKey {
    /// The public key, or a certificate for it.
    pub public: PublicKey,
    /// Whether touch, PIN and so on are needed.
    pub flags: u8,
    /// What the security key needs to find or make its private half.
    pub handle: Zeroizing<Vec<u8>>,
    /// For the future.
    pub reserved: Vec<u8>,
}

impl AddedKey {
    /// A key, with a certificate if there is one.
    ///
    /// # Errors
    /// [`ProtocolError::CertificateMismatch`].
    pub fn new(key: PrivateKey, certificate: Option<PublicKey>) -> Result<Self, ProtocolError> {
        match certificate {
            None => Ok(Self::Plain(key)),
            Some(certificate) if certificate.certificate().is_some_and(|c| c.key() == key.public()) => {
                Ok(Self::Certified { key, certificate })
            }
            Some(_) => Err(ProtocolError::CertificateMismatch),
        }
    }

    /// The public key or certificate the agent lists it under.
    pub const fn public(&self) -> &PublicKey {
        match self {
            Self::Plain(key) => key.public(),
            Self::Certified { certificate, .. } => certificate,
            Self::Security(key) => &key.public,
        }
    }

    /// Reads type and numbers and leaves the reader behind them.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let key_type = reader.clone().text()?;
        if key_type.starts_with("sk-") {
            return SecurityKey::read(reader).map(Self::Security);
        }
        if !is_certificate(key_type) {
            return Ok(Self::Plain(PrivateKey::from_wire(reader)?));
        }
        reader.text()?;
        let certificate = certificate(reader, key_type)?;
        let public = certificate.plain().clone();
        // The numbers that stand in the certificate are left out: put them back.
        let mut whole = Zeroizing::new(Vec::with_capacity(6 * 1024));
        let mut fields = Reader::new(public.blob());
        let plain_type = fields.text()?;
        whole.put_string(plain_type.as_bytes());
        match plain_type {
            "ssh-ed25519" => {
                whole.put_string(reader.string()?);
                whole.put_string(reader.string()?);
            }
            "ssh-rsa" => {
                // Public keys have the exponent first, private ones the modulus.
                let (e, n) = (fields.string()?, fields.string()?);
                whole.put_string(n);
                whole.put_string(e);
                for _ in 0..4 {
                    whole.put_string(reader.string()?);
                }
            }
            _ => {
                whole.put_bytes(fields.rest());
                whole.put_string(reader.string()?);
            }
        }
        let mut numbers = Reader::new(&whole);
        let key = PrivateKey::from_wire(&mut numbers)?;
        numbers.finish()?;
        Self::new(key, Some(certificate))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(key) => out.put_bytes(&key.to_wire()),
            Self::Certified { key, certificate } => {
                out.put_string(certificate.key_type().as_bytes());
                out.put_string(certificate.blob());
                // What we wrote ourselves can be read; if not, the agent will say that it makes no key.
                let _ = put_private_fields(out, &key.to_wire());
            }
            Self::Security(key) => key.write(out),
        }
    }
}

/// Copies the numbers that the public half does not have.
fn put_private_fields(out: &mut Vec<u8>, numbers: &[u8]) -> Result<(), lh_wire::WireError> {
    let mut reader = Reader::new(numbers);
    let public_fields = match reader.text()? {
        // This one is there in any case.
        "ssh-ed25519" => 0,
        "ssh-mldsa44-ed25519@openssh.com" => 1,
        _ => 2,
    };
    for _ in 0..public_fields {
        reader.string()?;
    }
    out.put_bytes(reader.rest());
    Ok(())
}

fn certificate(reader: &mut Reader<'_>, key_type: &str) -> Result<PublicKey, ProtocolError> {
    let certificate = PublicKey::from_blob(reader.string()?)?;
    if certificate.key_type() == key_type && certificate.certificate().is_some() {
        Ok(certificate)
    } else {
        Err(ProtocolError::CertificateMismatch)
    }
}

impl SecurityKey {
    /// Reads type and fields, as in a key file or a request, and leaves the reader behind them.
    ///
    /// # Errors
    /// The bytes are no such key.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let key_type = reader.text()?;
        let public = if is_certificate(key_type) {
            let certificate = certificate(reader, key_type)?;
            if key_type.starts_with("sk-ssh-ed25519") {
                let _point = reader.string().map_err(FORMAT)?;
            }
            let _application = reader.string().map_err(FORMAT)?;
            certificate
        } else {
            // The public half stands in front, as in its blob.
            let fields = match key_type {
                SK_ED25519 => 2,
                SK_ECDSA => 3,
                other => {
                    let what = format!("key type {}", other.escape_default());
                    return Err(KeyFileError::Unsupported { what }.into());
                }
            };
            let mut blob = Vec::new();
            blob.put_string(key_type.as_bytes());
            for _ in 0..fields {
                blob.put_string(reader.string().map_err(FORMAT)?);
            }
            PublicKey::from_blob(&blob)?
        };
        let flags = reader.u8()?;
        let handle = Zeroizing::new(reader.string()?.to_vec());
        let reserved = reader.string()?.to_vec();
        Ok(Self { public, flags, handle, reserved })
    }

    /// Writes what [`read`](Self::read) reads.
    pub fn write(&self, out: &mut Vec<u8>) {
        let plain = self.public.plain().blob();
        if self.public.certificate().is_some() {
            out.put_string(self.public.key_type().as_bytes());
            out.put_string(self.public.blob());
            let mut fields = Reader::new(plain);
            let ed25519 = fields.text() == Ok(SK_ED25519);
            let behind_public = if ed25519 { 0 } else { 2 };
            for _ in 0..behind_public {
                let _ = fields.string();
            }
            out.put_bytes(fields.rest());
        } else {
            out.put_bytes(plain);
        }
        out.put_u8(self.flags);
        out.put_string(&self.handle);
        out.put_string(&self.reserved);
    }

    /// What the key is for: `ssh:`, and perhaps more.
    pub fn application(&self) -> &[u8] {
        let mut fields = Reader::new(self.public.plain().blob());
        let mut last = &b""[..];
        while let Ok(field) = fields.string() {
            last = field;
        }
        last
    }

    /// The same key without a certificate.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { public: self.public.plain().clone(), ..self.clone() }
    }

    /// The same key under a certificate for it.
    ///
    /// # Errors
    /// [`ProtocolError::CertificateMismatch`].
    pub fn with_certificate(&self, certificate: PublicKey) -> Result<Self, ProtocolError> {
        if certificate.certificate().is_some_and(|c| c.key() == self.public.plain()) {
            Ok(Self { public: certificate, ..self.clone() })
        } else {
            Err(ProtocolError::CertificateMismatch)
        }
    }
}
