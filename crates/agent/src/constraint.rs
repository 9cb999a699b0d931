//! Constraints on the use of a key (RFC 9987 section 3.2.7, OpenSSH's PROTOCOL.agent sections 2 and 3).

use lh_crypto::PublicKey;
use lh_wire::{Reader, Writer};

use crate::number::{CONSTRAIN_CONFIRM, CONSTRAIN_EXTENSION, CONSTRAIN_LIFETIME, CONSTRAIN_MAXSIGN};
use crate::{MAX_CONSTRAINTS, ProtocolError, names};

/// Upper limit of a user name in a destination, bytes; OpenSSH's limit.
const MAX_USER: usize = 256;

/// All constraints of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Lifetime of the key in the agent, seconds.
    pub lifetime: Option<u32>,
    /// Ask the user before each use.
    pub confirm: bool,
    /// Permitted uses of the key; empty for no restriction.
    pub destinations: Vec<Destination>,
    /// Path of the library that talks to the security key.
    pub sk_provider: Option<String>,
    /// Certificates for the keys of a token; valid in requests about tokens only.
    pub associated_certs: Option<AssociatedCerts>,
}

/// One permitted use: from one host (or from the agent's machine) to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Origin of the use; without host and keys it is the agent's own machine.
    pub from: Hop,
    /// Target of the use.
    pub to: Hop,
}

/// One end of a [`Destination`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hop {
    /// Pattern of the user name on the host; empty for any.
    pub user: String,
    /// Name of the host, for display and for matching the principals of its certificate. Empty: the agent's
    /// own machine.
    pub host: String,
    /// Keys that identify the host.
    pub keys: Vec<HopKey>,
}

/// A key of a host, or of the authority that certifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopKey {
    /// The key itself.
    pub key: PublicKey,
    /// The key is an authority that signs the host's certificates.
    pub is_ca: bool,
}

/// Certificates that come with the keys of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssociatedCerts {
    /// Load the certificates without the plain keys.
    pub certs_only: bool,
    /// The certificates.
    pub certificates: Vec<PublicKey>,
}

impl Constraints {
    /// Returns true when there are no constraints, so that the plain request suffices.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Decodes constraints up to the end of the message.
    pub(crate) fn read(reader: &mut Reader<'_>, token: bool) -> Result<Self, ProtocolError> {
        let mut found = Self::default();
        while !reader.is_empty() {
            match reader.u8()? {
                CONSTRAIN_LIFETIME => set(&mut found.lifetime, reader.u32()?, "lifetime")?,
                CONSTRAIN_CONFIRM if found.confirm => {
                    return Err(ProtocolError::MisplacedConstraint("confirm"));
                }
                CONSTRAIN_CONFIRM => found.confirm = true,
                // `maxsign` was defined for key types that no longer exist.
                CONSTRAIN_MAXSIGN => return Err(ProtocolError::UnknownConstraint("maxsign".to_owned())),
                CONSTRAIN_EXTENSION => found.read_extension(reader, token)?,
                other => return Err(ProtocolError::UnknownConstraint(other.to_string())),
            }
        }
        Ok(found)
    }

    fn read_extension(&mut self, reader: &mut Reader<'_>, token: bool) -> Result<(), ProtocolError> {
        match reader.text()? {
            names::SK_PROVIDER if !token => {
                let provider = reader.text()?.to_owned();
                set(&mut self.sk_provider, provider, names::SK_PROVIDER)
            }
            names::SK_PROVIDER => Err(ProtocolError::MisplacedConstraint(names::SK_PROVIDER)),
            names::RESTRICT_DESTINATION => {
                if !self.destinations.is_empty() {
                    return Err(ProtocolError::MisplacedConstraint(names::RESTRICT_DESTINATION));
                }
                let mut list = Reader::new(reader.string()?);
                while !list.is_empty() {
                    if self.destinations.len() == MAX_CONSTRAINTS {
                        return Err(ProtocolError::TooMany("destination constraints"));
                    }
                    self.destinations.push(Destination::read(list.string()?)?);
                }
                // An empty list would leave the key unrestricted, contrary to the request's intention.
                if self.destinations.is_empty() { Err(ProtocolError::BadDestination) } else { Ok(()) }
            }
            names::ASSOCIATED_CERTS if token => {
                let certs_only = reader.boolean()?;
                let mut list = Reader::new(reader.string()?);
                let mut certificates = Vec::new();
                while !list.is_empty() {
                    if certificates.len() == MAX_CONSTRAINTS {
                        return Err(ProtocolError::TooMany("certificates"));
                    }
                    certificates.push(PublicKey::from_blob(list.string()?)?);
                }
                let found = AssociatedCerts { certs_only, certificates };
                set(&mut self.associated_certs, found, names::ASSOCIATED_CERTS)
            }
            names::ASSOCIATED_CERTS => Err(ProtocolError::MisplacedConstraint(names::ASSOCIATED_CERTS)),
            other => Err(ProtocolError::UnknownConstraint(other.escape_default().to_string())),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(seconds) = self.lifetime {
            out.put_u8(CONSTRAIN_LIFETIME);
            out.put_u32(seconds);
        }
        if self.confirm {
            out.put_u8(CONSTRAIN_CONFIRM);
        }
        if let Some(provider) = &self.sk_provider {
            put_extension(out, names::SK_PROVIDER);
            out.put_string(provider.as_bytes());
        }
        if !self.destinations.is_empty() {
            put_extension(out, names::RESTRICT_DESTINATION);
            out.nested(|out| {
                for destination in &self.destinations {
                    out.nested(|out| destination.write(out));
                }
            });
        }
        if let Some(certs) = &self.associated_certs {
            put_extension(out, names::ASSOCIATED_CERTS);
            out.put_bool(certs.certs_only);
            out.nested(|out| {
                for certificate in &certs.certificates {
                    out.put_string(certificate.blob());
                }
            });
        }
    }
}

fn put_extension(out: &mut Vec<u8>, name: &str) {
    out.put_u8(CONSTRAIN_EXTENSION);
    out.put_string(name.as_bytes());
}

fn set<T>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), ProtocolError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ProtocolError::MisplacedConstraint(name)),
    }
}

impl Destination {
    fn read(content: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(content);
        let (from, to) = (Hop::read(reader.string()?)?, Hop::read(reader.string()?)?);
        let _reserved = reader.string()?;
        reader.finish()?;
        let origin = from.host.is_empty() == from.keys.is_empty() && from.user.is_empty();
        if origin && !to.host.is_empty() && !to.keys.is_empty() {
            Ok(Self { from, to })
        } else {
            Err(ProtocolError::BadDestination)
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.nested(|out| self.from.write(out));
        out.nested(|out| self.to.write(out));
        out.put_string(b"");
    }
}

impl Hop {
    fn read(content: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(content);
        let (user, host) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        // The user is a pattern: a long one could keep the agent busy.
        if user.len() > MAX_USER {
            return Err(ProtocolError::BadDestination);
        }
        let _reserved = reader.string()?;
        let mut keys = Vec::new();
        while !reader.is_empty() {
            if keys.len() == MAX_CONSTRAINTS {
                return Err(ProtocolError::TooMany("host keys"));
            }
            let key = PublicKey::from_blob(reader.string()?)?;
            keys.push(HopKey { key, is_ca: reader.boolean()? });
        }
        Ok(Self { user, host, keys })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.user.as_bytes());
        out.put_string(self.host.as_bytes());
        out.put_string(b"");
        for key in &self.keys {
            out.put_string(key.key.blob());
            out.put_bool(key.is_ca);
        }
    }
}
