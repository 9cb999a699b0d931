//! What a client asks.

use lh_crypto::key_algorithms;
use lh_wire::{Reader, Writer};
use zeroize::Zeroizing;

use crate::number::{
    ADD_ID_CONSTRAINED, ADD_IDENTITY, ADD_SMARTCARD_KEY, ADD_SMARTCARD_KEY_CONSTRAINED, EXTENSION, LOCK,
    REMOVE_ALL_IDENTITIES, REMOVE_IDENTITY, REMOVE_SMARTCARD_KEY, REQUEST_IDENTITIES, SIGN_REQUEST, UNLOCK,
};
use crate::{AddedKey, Constraints, ProtocolError, names};

/// Which hash an RSA key signs with (RFC 9987 section 3.6.1). Bits that are not known are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignFlags(pub u32);

impl SignFlags {
    /// Ask for `rsa-sha2-256` instead of `ssh-rsa`.
    pub const RSA_SHA2_256: Self = Self(2);
    /// Ask for `rsa-sha2-512` instead of `ssh-rsa`.
    pub const RSA_SHA2_512: Self = Self(4);
}

/// The flags that ask for a signature algorithm, which may be named as for certificates.
pub fn flags_for(algorithm: &str) -> SignFlags {
    match &*key_algorithms::plain(algorithm) {
        "rsa-sha2-256" => SignFlags::RSA_SHA2_256,
        "rsa-sha2-512" => SignFlags::RSA_SHA2_512,
        _ => SignFlags::default(),
    }
}

/// The signature algorithm that a key of this plain type signs with under these flags. SHA-256 wins when both are
/// asked for, as in OpenSSH.
pub fn algorithm_for(key_type: &str, flags: SignFlags) -> &str {
    match key_type {
        "ssh-rsa" if flags.0 & SignFlags::RSA_SHA2_256.0 != 0 => "rsa-sha2-256",
        "ssh-rsa" if flags.0 & SignFlags::RSA_SHA2_512.0 != 0 => "rsa-sha2-512",
        other => other,
    }
}

/// A request.
#[derive(Clone)]
pub enum Request<'a> {
    /// The list of keys.
    Identities,
    /// A signature.
    Sign {
        /// Public key or certificate of the key to sign with.
        key: &'a [u8],
        /// What to sign.
        data: &'a [u8],
        /// How.
        flags: SignFlags,
    },
    /// Hold a key.
    Add {
        /// The key.
        key: Box<AddedKey>,
        /// What the user calls it.
        comment: String,
        /// What it may be used for.
        constraints: Constraints,
    },
    /// Forget a key.
    Remove {
        /// Public key or certificate.
        key: &'a [u8],
    },
    /// Forget all keys.
    RemoveAll,
    /// Use the keys of a token.
    AddToken {
        /// The library that talks to it.
        provider: &'a str,
        /// What opens it.
        pin: &'a [u8],
        /// What its keys may be used for.
        constraints: Constraints,
    },
    /// Forget the keys of a token.
    RemoveToken {
        /// The library that talks to it.
        provider: &'a str,
        /// Not used.
        pin: &'a [u8],
    },
    /// Do nothing until unlocked with the same passphrase.
    Lock(&'a [u8]),
    /// Undo [`Lock`](Self::Lock).
    Unlock(&'a [u8]),
    /// Something beyond the protocol.
    Extension(Extension<'a>),
    /// A request that is not known; the answer is a failure.
    Unknown(u8),
}

/// An extension's request.
#[derive(Clone)]
pub enum Extension<'a> {
    /// Which extensions there are.
    Query,
    /// The connection belongs to an SSH session.
    SessionBind(SessionBind<'a>),
    /// Anything else.
    Other {
        /// Its name.
        name: &'a str,
        /// Its fields.
        body: &'a [u8],
    },
}

/// Proof that a connection to the agent is used for an SSH session with a certain host: the host's signature from the key exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionBind<'a> {
    /// The host key or host certificate.
    pub host_key: &'a [u8],
    /// The session identifier.
    pub session_id: &'a [u8],
    /// The host's signature over it, from the first key exchange.
    pub signature: &'a [u8],
    /// What comes over this connection comes from that host; otherwise it is for logging in there.
    pub forwarding: bool,
}

impl<'a> Request<'a> {
    /// Reads the body of a message.
    ///
    /// # Errors
    /// What is wrong with it; the answer is a failure.
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

    /// Writes the body of the message.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // Reserved for the largest key: growing would leave copies of it behind.
        let room = match self {
            Self::Add { .. } => 32 * 1024,
            Self::Sign { key, data, .. } => 16 + key.len() + data.len(),
            _ => 1024,
        };
        let mut out = Zeroizing::new(Vec::with_capacity(room));
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

fn read_constraints(
    constrained: bool,
    reader: &mut Reader<'_>,
    token: bool,
) -> Result<Constraints, ProtocolError> {
    if constrained { Constraints::read(reader, token) } else { Ok(Constraints::default()) }
}
