//! `gssapi-with-mic` (RFC 4462 section 3): the fields beside the library's tokens, which are the offered
//! mechanisms and the data that the checksum covers.

use lh_wire::{Message, Reader, Result, WireError, Writer};

use crate::CONNECTION_SERVICE;

/// The method's name.
pub const GSS_METHOD: &str = "gssapi-with-mic";

/// Limit of mechanisms in one request; clients offer one or two.
const MOST_MECHANISMS: u32 = 32;

/// One message of the client in the exchange.
#[derive(Clone, PartialEq, Eq)]
pub enum GssAttempt {
    /// Offers mechanisms: object identifiers in DER. The server answers with one of them.
    Begin(Vec<Vec<u8>>),
    /// A token for the server's library.
    Token(Vec<u8>),
    /// The context is complete; this is the client's checksum over [`mic_data`].
    Mic(Vec<u8>),
    /// The context is complete, but it supports no checksums, so it proves nothing about this connection.
    Complete,
}

impl core::fmt::Debug for GssAttempt {
    /// Prints the kind of message without its content.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Begin(_) => "Begin",
            Self::Token(_) => "Token",
            Self::Mic(_) => "Mic",
            Self::Complete => "Complete",
        })
    }
}

/// Answer of the server to a [`GssAttempt`] that does not end the exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GssReply {
    /// The chosen mechanism.
    Mechanism(Vec<u8>),
    /// A token for the client's library; empty when it needs none.
    Token(Vec<u8>),
}

/// Encodes the fields of a request after the method's name.
pub(crate) fn put_mechanisms(mechanisms: &[&[u8]], out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(mechanisms.len()).unwrap_or(u32::MAX));
    mechanisms.iter().for_each(|each| out.put_string(each));
}

/// Decodes the fields that [`put_mechanisms`] encodes.
pub(crate) fn read_mechanisms(fields: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader::new(fields);
    let count = reader.u32()?;
    if count == 0 || count > MOST_MECHANISMS {
        return Err(WireError::Invalid { what: "number of mechanisms" });
    }
    let mechanisms = (0..count).map(|_| Ok(reader.string()?.to_vec())).collect::<Result<_>>()?;
    reader.finish()?;
    Ok(mechanisms)
}

/// Returns the bytes that the checksum covers (RFC 4462 section 3.5): this connection and this user.
pub fn mic_data(session_id: &[u8], user: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(session_id.len() + user.len() + 64);
    data.put_string(session_id);
    data.put_u8(<lh_wire::msg::UserauthRequest<'_> as Message<'_>>::NUMBER);
    data.put_string(user);
    data.put_string(CONNECTION_SERVICE);
    data.put_string(GSS_METHOD.as_bytes());
    data
}
