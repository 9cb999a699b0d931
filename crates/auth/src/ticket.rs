//! `ticket@longhaul`: an additional connection joins an authenticated session (docs/protocol.md).
//!
//! The ticket is the public half of a key that the client generated for this purpose and sent to the server
//! over the authenticated connection. The private half never leaves the client's memory. Its signature
//! authenticates the new connection and covers both session identifiers and the host key, so that it is
//! worthless for any other connection.

use lh_wire::msg::UserauthRequest;
use lh_wire::{Message, Reader, Result, Writer};

use crate::CONNECTION_SERVICE;

/// Name of the method, of the global request for a ticket, and of the extension that announces tickets.
pub const TICKET: &str = "ticket@longhaul";

/// The fields of a ticket request after the method's name, without the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketRequest<'a> {
    /// Blob of the Ed25519 ticket key.
    pub key: &'a [u8],
    /// The host key blob of the new connection's first key exchange.
    pub host_key: &'a [u8],
}

impl<'a> TicketRequest<'a> {
    /// Decodes the fields after the method's name; the second value is the signature blob.
    pub fn decode(fields: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let mut reader = Reader::new(fields);
        let (key, host_key, signature) = (reader.string()?, reader.string()?, reader.string()?);
        reader.finish()?;
        Ok((Self { key, host_key }, signature))
    }

    /// Appends the whole request.
    pub fn encode(&self, user: &[u8], signature: &[u8], out: &mut Vec<u8>) {
        self.encode_unsigned(user, out);
        out.put_string(signature);
    }

    /// Returns the bytes to sign: the identifier of the joined session, that of the new connection, and the
    /// request.
    pub fn signed_data(&self, joined: &[u8], session_id: &[u8], user: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        data.put_string(joined);
        data.put_string(session_id);
        self.encode_unsigned(user, &mut data);
        data
    }

    fn encode_unsigned(&self, user: &[u8], out: &mut Vec<u8>) {
        out.put_u8(<UserauthRequest<'_> as Message<'_>>::NUMBER);
        for field in [user, CONNECTION_SERVICE, TICKET.as_bytes(), self.key, self.host_key] {
            out.put_string(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_round_trips_and_every_field_is_signed() {
        let request = TicketRequest { key: b"key", host_key: b"host key" };
        let mut payload = Vec::new();
        request.encode(b"ada", b"signature", &mut payload);
        let message = UserauthRequest::decode(&payload).unwrap();
        assert_eq!((message.user, message.method), (&b"ada"[..], TICKET.as_bytes()));
        assert_eq!(TicketRequest::decode(message.fields.0), Ok((request, &b"signature"[..])));
        for end in 0..message.fields.0.len() {
            assert!(TicketRequest::decode(&message.fields.0[..end]).is_err());
        }
        let data = request.signed_data(b"one", b"two", b"ada");
        for other in [
            request.signed_data(b"two", b"one", b"ada"),
            request.signed_data(b"one", b"twx", b"ada"),
            request.signed_data(b"one", b"two", b"bob"),
            TicketRequest { key: b"kez", ..request }.signed_data(b"one", b"two", b"ada"),
            TicketRequest { host_key: b"", ..request }.signed_data(b"one", b"two", b"ada"),
        ] {
            assert_ne!(data, other);
        }
    }
}
