//! What `gssapi-with-mic` (RFC 4462 section 3) says besides the library's tokens: which mechanisms a client offers, and what its
//! checksum covers.

use lh_wire::{Message, Reader, Result, WireError, Writer};

use crate::CONNECTION_SERVICE;

/// The method's name.
pub const GSS_METHOD: &str = "gssapi-with-mic";

/// Most mechanisms that are looked at in one request; clients offer one or two.
const MOST_MECHANISMS: u32 = 32;

/// One message of a client's, after the other.
#[derive(Clone, PartialEq, Eq)]
pub enum GssAttempt {
    /// Offers mechanisms: object identifiers in DER. Wants one of them back.
    Begin(Vec<Vec<u8>>),
    /// For the library.
    Token(Vec<u8>),
    /// The context is complete, and the client has made this checksum over [`mic_data`].
    Mic(Vec<u8>),
    /// The context is complete, but can make no checksums: it proves nothing about this connection.
    Complete,
}

impl core::fmt::Debug for GssAttempt {
    /// Leaves the bytes out.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Begin(_) => "Begin",
            Self::Token(_) => "Token",
            Self::Mic(_) => "Mic",
            Self::Complete => "Complete",
        })
    }
}

/// What the server says to a [`GssAttempt`] that does not end the dialogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GssReply {
    /// This mechanism of those that were offered.
    Mechanism(Vec<u8>),
    /// For the client's library; empty: it needs nothing more.
    Token(Vec<u8>),
}

/// The fields of a request behind the method's name.
pub(crate) fn put_mechanisms(mechanisms: &[&[u8]], out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(mechanisms.len()).unwrap_or(u32::MAX));
    mechanisms.iter().for_each(|each| out.put_string(each));
}

/// The reverse of [`put_mechanisms`].
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

/// What the checksum covers (RFC 4462 section 3.5): this connection and this user.
pub fn mic_data(session_id: &[u8], user: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(session_id.len() + user.len() + 64);
    data.put_string(session_id);
    data.put_u8(<lh_wire::msg::UserauthRequest<'_> as Message<'_>>::NUMBER);
    data.put_string(user);
    data.put_string(CONNECTION_SERVICE);
    data.put_string(GSS_METHOD.as_bytes());
    data
}
