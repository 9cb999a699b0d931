//! Requests of a client.

use lh_crypto::key_algorithms;
use lh_wire::{Reader, Writer};
use zeroize::Zeroizing;

use crate::number::{
    ADD_ID_CONSTRAINED, ADD_IDENTITY, ADD_SMARTCARD_KEY, ADD_SMARTCARD_KEY_CONSTRAINED, EXTENSION, LOCK,
    REMOVE_ALL_IDENTITIES, REMOVE_IDENTITY, REMOVE_SMARTCARD_KEY, REQUEST_IDENTITIES, SIGN_REQUEST, UNLOCK,
};
use crate::{AddedKey, Constraints, ProtocolError, names};

/// Hash that an RSA key signs with (RFC 9987 section 3.6.1). Unknown bits are preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignFlags(pub u32);

impl SignFlags {
    /// Requests `rsa-sha2-256` instead of `ssh-rsa`.
    pub const RSA_SHA2_256: Self = Self(2);
    /// Requests `rsa-sha2-512` instead of `ssh-rsa`.
    pub const RSA_SHA2_512: Self = Self(4);
}

/// Returns the flags that request a signature algorithm, which may be a certificate's name.
pub fn flags_for(algorithm: &str) -> SignFlags {
    match &*key_algorithms::plain(algorithm) {
        "rsa-sha2-256" => SignFlags::RSA_SHA2_256,
        "rsa-sha2-512" => SignFlags::RSA_SHA2_512,
        _ => SignFlags::default(),
    }
}

/// Returns the signature algorithm of a key of this plain type under these flags. SHA-256 takes precedence
/// when both are requested, as in OpenSSH.
pub fn algorithm_for(key_type: &str, flags: SignFlags) -> &str {
    match key_type {
        "ssh-rsa" if flags.0 & SignFlags::RSA_SHA2_256.0 != 0 => "rsa-sha2-256",
        "ssh-rsa" if flags.0 & SignFlags::RSA_SHA2_512.0 != 0 => "rsa-sha2-512",
        other => other,
    }
}

/// A request of a client.
#[derive(Clone)]
pub enum Request<'a> {
    /// Requests the list of keys.
    Identities,
    /// Requests a signature.
    Sign {
        /// Public key or certificate of the key to sign with.
        key: &'a [u8],
        /// The bytes to sign.
        data: &'a [u8],
        /// Selects the hash.
        flags: SignFlags,
    },
    /// Adds a key.
    Add {
        /// The key.
        key: Box<AddedKey>,
        /// The user's name for the key.
        comment: String,
        /// Constraints on its use.
        constraints: Constraints,
    },
    /// Removes a key.
    Remove {
        /// Public key or certificate.
        key: &'a [u8],
    },
    /// Removes all keys.
    RemoveAll,
    /// Adds the keys of a token.
    AddToken {
        /// Path of the library that talks to the token.
        provider: &'a str,
        /// The token's PIN.
        pin: &'a [u8],
        /// Constraints on the use of its keys.
        constraints: Constraints,
    },
    /// Removes the keys of a token.
    RemoveToken {
        /// Path of the library that talks to the token.
        provider: &'a str,
        /// Unused.
        pin: &'a [u8],
    },
    /// Locks the agent until it is unlocked with the same passphrase.
    Lock(&'a [u8]),
    /// Unlocks the agent after [`Lock`](Self::Lock).
    Unlock(&'a [u8]),
    /// A request of an extension.
    Extension(Extension<'a>),
    /// An unknown request; the reply is a failure.
    Unknown(u8),
}

/// A request of an extension.
#[derive(Clone)]
pub enum Extension<'a> {
    /// Asks for the supported extensions.
    Query,
    /// Binds the connection to an SSH session.
    SessionBind(SessionBind<'a>),
    /// Another extension.
    Other {
        /// Name of the extension.
        name: &'a str,
        /// Extension-specific fields.
        body: &'a [u8],
    },
}

/// Proof that an agent connection belongs to an SSH session with a certain host: the host's signature from
/// the key exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionBind<'a> {
    /// The host key or host certificate.
    pub host_key: &'a [u8],
    /// The session identifier.
    pub session_id: &'a [u8],
    /// The host's signature over the session identifier, from the first key exchange.
    pub signature: &'a [u8],
    /// True: requests on this connection come from that host. False: they serve to log in there.
    pub forwarding: bool,
}

impl<'a> Request<'a> {
    /// Decodes the body of a message.
    ///
    /// # Errors
    /// The decoding error; the reply to the client is a failure.
    pub fn parse(body: &'a [u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(body);
        let request = match reader.u8()? {
            REQUEST_IDENTITIES => Self::Identities,
            SIGN_REQUEST => {
                Self::Sign { key: reader.string()?, data: reader.string()?, flags: SignFlags(reader.u32()?) }
            }
            number @ (ADD_IDENTITY | ADD_ID_CONSTRAINED) => {
                let key = Box::new(AddedKey::read(&mut reader)?);
                let comment = String::from_utf8_lossy(reader.string()?).into_owned();
                let constraints = read_constraints(number == ADD_ID_CONSTRAINED, &mut reader, false)?;
                Self::Add { key, comment, constraints }
            }
            REMOVE_IDENTITY => Self::Remove { key: reader.string()? },
            REMOVE_ALL_IDENTITIES => Self::RemoveAll,
            number @ (ADD_SMARTCARD_KEY | ADD_SMARTCARD_KEY_CONSTRAINED) => {
                let (provider, pin) = (reader.text()?, reader.string()?);
                let constraints =
                    read_constraints(number == ADD_SMARTCARD_KEY_CONSTRAINED, &mut reader, true)?;
                Self::AddToken { provider, pin, constraints }
            }
            REMOVE_SMARTCARD_KEY => Self::RemoveToken { provider: reader.text()?, pin: reader.string()? },
            LOCK => Self::Lock(reader.string()?),
            UNLOCK => Self::Unlock(reader.string()?),
            EXTENSION => Self::Extension(match reader.text()? {
                names::QUERY => Extension::Query,
                names::SESSION_BIND => Extension::SessionBind(SessionBind {
                    host_key: reader.string()?,
                    session_id: reader.string()?,
                    signature: reader.string()?,
                    forwarding: reader.boolean()?,
                }),
                name => Extension::Other { name, body: reader.rest() },
            }),
            number => return Ok(Self::Unknown(number)),
        };
        reader.finish()?;
        Ok(request)
    }

    /// Encodes the body of the message.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // Reserved for the largest key: growing would leave copies of it behind.
        let capacity = match self {
            Self::Add { .. } => 32 * 1024,
            Self::Sign { key, data, .. } => 16 + key.len() + data.len(),
            _ => 1024,
        };
        let mut out = Zeroizing::new(Vec::with_capacity(capacity));
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Identities => out.put_u8(REQUEST_IDENTITIES),
            Self::Sign { key, data, flags } => {
                out.put_u8(SIGN_REQUEST);
                out.put_string(key);
                out.put_string(data);
                out.put_u32(flags.0);
            }
            Self::Add { key, comment, constraints } => {
                out.put_u8(if constraints.is_empty() { ADD_IDENTITY } else { ADD_ID_CONSTRAINED });
                key.write(out);
                out.put_string(comment.as_bytes());
                constraints.write(out);
            }
            Self::Remove { key } => {
                out.put_u8(REMOVE_IDENTITY);
                out.put_string(key);
            }
            Self::RemoveAll => out.put_u8(REMOVE_ALL_IDENTITIES),
            Self::AddToken { provider, pin, constraints } => {
                let plain = constraints.is_empty();
                out.put_u8(if plain { ADD_SMARTCARD_KEY } else { ADD_SMARTCARD_KEY_CONSTRAINED });
                out.put_string(provider.as_bytes());
                out.put_string(pin);
                constraints.write(out);
            }
            Self::RemoveToken { provider, pin } => {
                out.put_u8(REMOVE_SMARTCARD_KEY);
                out.put_string(provider.as_bytes());
                out.put_string(pin);
            }
            Self::Lock(passphrase) => {
                out.put_u8(LOCK);
                out.put_string(passphrase);
            }
            Self::Unlock(passphrase) => {
                out.put_u8(UNLOCK);
                out.put_string(passphrase);
            }
            Self::Extension(extension) => {
                out.put_u8(EXTENSION);
                extension.write(out);
            }
            Self::Unknown(number) => out.put_u8(*number),
        }
    }
}

impl Extension<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Query => out.put_string(names::QUERY.as_bytes()),
            Self::SessionBind(bind) => {
                out.put_string(names::SESSION_BIND.as_bytes());
                out.put_string(bind.host_key);
                out.put_string(bind.session_id);
                out.put_string(bind.signature);
                out.put_bool(bind.forwarding);
            }
            Self::Other { name, body } => {
                out.put_string(name.as_bytes());
                out.put_bytes(body);
            }
        }
    }
}

/// Returns true for the body of a request to bind a session, even when the rest of it cannot be decoded.
pub fn is_session_bind(body: &[u8]) -> bool {
    let mut reader = Reader::new(body);
    reader.u8() == Ok(EXTENSION) && reader.text() == Ok(names::SESSION_BIND)
}

fn read_constraints(
    constrained: bool,
    reader: &mut Reader<'_>,
    token: bool,
) -> Result<Constraints, ProtocolError> {
    if constrained { Constraints::read(reader, token) } else { Ok(Constraints::default()) }
}
