//! Encoding of private keys in requests to an agent (RFC 9987 section 3.2).

use lh_crypto::key_algorithms::is_certificate;
use lh_crypto::{KeyFileError, PrivateKey, PublicKey};
use lh_wire::{Reader, Writer};
use zeroize::Zeroizing;

use crate::ProtocolError;

const SK_ED25519: &str = "sk-ssh-ed25519@openssh.com";
const SK_ECDSA: &str = "sk-ecdsa-sha2-nistp256@openssh.com";
const FORMAT: fn(lh_wire::WireError) -> ProtocolError = ProtocolError::Wire;

/// A key to be added to an agent.
#[derive(Clone)]
pub enum AddedKey {
    /// A plain key.
    Plain(PrivateKey),
    /// A key with a certificate.
    Certified {
        /// The key.
        key: PrivateKey,
        /// A certificate for it.
        certificate: PublicKey,
    },
    /// A key whose private half is in a security key.
    Security(SecurityKey),
}

/// The part of a FIDO security key's key that a computer stores (OpenSSH's PROTOCOL.u2f); it cannot sign by
/// itself.
#[derive(Clone)]
pub struct SecurityKey {
    /// The public key, or a certificate for it.
    pub public: PublicKey,
    /// Flags: whether touch, PIN and so on are required.
    pub flags: u8,
    /// Data with which the security key finds or derives the private key.
    pub handle: Zeroizing<Vec<u8>>,
    /// Reserved for future versions.
    pub reserved: Vec<u8>,
}

impl AddedKey {
    /// Creates the entry from a key and an optional certificate.
    ///
    /// # Errors
    /// [`ProtocolError::CertificateMismatch`] when the certificate is for another key.
    pub fn new(key: PrivateKey, certificate: Option<PublicKey>) -> Result<Self, ProtocolError> {
        match certificate {
            None => Ok(Self::Plain(key)),
            Some(certificate) if certificate.certificate().is_some_and(|c| c.key() == key.public()) => {
                Ok(Self::Certified { key, certificate })
            }
            Some(_) => Err(ProtocolError::CertificateMismatch),
        }
    }

    /// Returns the public key or certificate under which the agent lists the key.
    pub const fn public(&self) -> &PublicKey {
        match self {
            Self::Plain(key) => key.public(),
            Self::Certified { certificate, .. } => certificate,
            Self::Security(key) => &key.public,
        }
    }

    /// Decodes type and numbers, and leaves the reader behind them.
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
        // The encoding omits the numbers that the certificate contains: insert them again.
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
                // Public keys start with the exponent, private keys with the modulus.
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
                // Our own encoding can always be decoded. If it could not, the agent would refuse the key.
                let _ = put_private_fields(out, &key.to_wire());
            }
            Self::Security(key) => key.write(out),
        }
    }
}

/// Copies the numbers that are not part of the public key.
fn put_private_fields(out: &mut Vec<u8>, numbers: &[u8]) -> Result<(), lh_wire::WireError> {
    let mut reader = Reader::new(numbers);
    let public_fields = match reader.text()? {
        // The encoding repeats the public key in this case.
        "ssh-ed25519" => 0,
        "ssh-mldsa44-ed25519" => 1,
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
    /// Decodes type and fields, as in a key file or a request, and leaves the reader behind them.
    ///
    /// # Errors
    /// The bytes are not a security key's key.
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
            // The public key comes first, as in its blob.
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

    /// Encodes the form that [`read`](Self::read) decodes.
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

    /// Returns the application of the key: `ssh:`, optionally with a suffix.
    pub fn application(&self) -> &[u8] {
        let mut fields = Reader::new(self.public.plain().blob());
        let mut last = &b""[..];
        while let Ok(field) = fields.string() {
            last = field;
        }
        last
    }

    /// Returns the key without its certificate.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { public: self.public.plain().clone(), ..self.clone() }
    }

    /// Returns the key with this certificate.
    ///
    /// # Errors
    /// [`ProtocolError::CertificateMismatch`] when the certificate is for another key.
    pub fn with_certificate(&self, certificate: PublicKey) -> Result<Self, ProtocolError> {
        if certificate.certificate().is_some_and(|c| c.key() == self.public.plain()) {
            Ok(Self { public: certificate, ..self.clone() })
        } else {
            Err(ProtocolError::CertificateMismatch)
        }
    }
}
