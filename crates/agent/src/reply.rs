//! Replies of an agent.

use lh_wire::{Reader, WireError, Writer};

use crate::number::{
    EXTENSION_FAILURE, EXTENSION_RESPONSE, FAILURE, IDENTITIES_ANSWER, OTHER_FAILURES, SIGN_RESPONSE, SUCCESS,
};
use crate::{MAX_IDENTITIES, ProtocolError};

/// A key that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityEntry {
    /// Public key or certificate.
    pub blob: Vec<u8>,
    /// The user's name for the key, usually its file name. Untrusted: escape before printing.
    pub comment: String,
}

/// A reply of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The request failed or was refused.
    Failure,
    /// The request succeeded.
    Success,
    /// The extension is known, but its request failed.
    ExtensionFailure,
    /// The keys.
    Identities(Vec<IdentityEntry>),
    /// A signature blob.
    Signature(Vec<u8>),
    /// The reply of an extension.
    Extension {
        /// Name of the extension.
        name: String,
        /// Extension-specific fields.
        body: Vec<u8>,
    },
}

impl Reply {
    /// Decodes the body of a message.
    ///
    /// # Errors
    /// The reply is unknown or malformed.
    pub fn parse(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(body);
        let reply = match reader.u8()? {
            FAILURE => Self::Failure,
            number if OTHER_FAILURES.contains(&number) => Self::Failure,
            SUCCESS => Self::Success,
            EXTENSION_FAILURE => Self::ExtensionFailure,
            IDENTITIES_ANSWER => {
                let count = reader.u32()? as usize;
                if count > MAX_IDENTITIES {
                    return Err(ProtocolError::TooMany("identities"));
                }
                let mut entries = Vec::new();
                for _ in 0..count {
                    let blob = reader.string()?.to_vec();
                    let comment = String::from_utf8_lossy(reader.string()?).into_owned();
                    entries.push(IdentityEntry { blob, comment });
                }
                Self::Identities(entries)
            }
            SIGN_RESPONSE => Self::Signature(reader.string()?.to_vec()),
            EXTENSION_RESPONSE => {
                let name = reader.text()?.to_owned();
                Self::Extension { name, body: reader.rest().to_vec() }
            }
            got => return Err(WireError::WrongMessage { expected: SUCCESS, got }.into()),
        };
        match reply {
            // OpenSSH's agent, before RFC 9987, appended the answer of `query` to a plain success.
            Self::Success | Self::Failure => {}
            _ => reader.finish()?,
        }
        Ok(reply)
    }

    /// Encodes the body of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Failure => out.put_u8(FAILURE),
            Self::Success => out.put_u8(SUCCESS),
            Self::ExtensionFailure => out.put_u8(EXTENSION_FAILURE),
            Self::Identities(entries) => {
                out.put_u8(IDENTITIES_ANSWER);
                out.put_u32(u32::try_from(entries.len()).unwrap_or(u32::MAX));
                for entry in entries {
                    out.put_string(&entry.blob);
                    out.put_string(entry.comment.as_bytes());
                }
            }
            Self::Signature(signature) => {
                out.put_u8(SIGN_RESPONSE);
                out.put_string(signature);
            }
            Self::Extension { name, body } => {
                out.put_u8(EXTENSION_RESPONSE);
                out.put_string(name.as_bytes());
                out.put_bytes(body);
            }
        }
        out
    }

    /// Returns the answer to `query` of an agent that supports these extensions.
    pub fn extensions(names: &[&str]) -> Self {
        let mut body = Vec::new();
        for name in names {
            body.put_string(name.as_bytes());
        }
        Self::Extension { name: crate::names::QUERY.to_owned(), body }
    }
}
