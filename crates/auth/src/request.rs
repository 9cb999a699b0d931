//! The `publickey` request: what is sent and what is signed (RFC 4252 section 7, OpenSSH PROTOCOL 3.1).

use lh_wire::{Reader, Result, WireError, Writer};

use crate::CONNECTION_SERVICE;

/// The variant of `publickey` that binds the signature to the server's host key.
pub const HOSTBOUND_METHOD: &str = "publickey-hostbound-v00@openssh.com";

/// The fields of a `publickey` request after the method's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRequest<'a> {
    /// Signature algorithm, `rsa-sha2-512` and so on.
    pub algorithm: &'a str,
    /// Public key or certificate blob.
    pub key: &'a [u8],
    /// The host key blob of the first key exchange, in the hostbound variant only.
    pub host_key: Option<&'a [u8]>,
}

impl<'a> KeyRequest<'a> {
    /// The method's name on the wire.
    pub const fn method(&self) -> &'static str {
        if self.host_key.is_some() { HOSTBOUND_METHOD } else { "publickey" }
    }

    /// Reads the fields behind the method's name; the second value is the signature blob if there is one.
    pub fn decode(fields: &'a [u8], hostbound: bool) -> Result<(Self, Option<&'a [u8]>)> {
        let mut reader = Reader::new(fields);
        let signed = reader.boolean()?;
        let algorithm = reader.text().map_err(|_| WireError::Invalid { what: "public key algorithm" })?;
        let key = reader.string()?;
        let host_key = if hostbound { Some(reader.string()?) } else { None };
        let signature = if signed { Some(reader.string()?) } else { None };
        reader.finish()?;
        Ok((Self { algorithm, key, host_key }, signature))
    }

    /// Appends the whole request; the signature, if any, is the last field.
    pub fn encode(&self, user: &[u8], signature: Option<&[u8]>, out: &mut Vec<u8>) {
        self.encode_unsigned(user, signature.is_some(), out);
        if let Some(signature) = signature {
            out.put_string(signature);
        }
    }

    fn encode_unsigned(&self, user: &[u8], has_signature: bool, out: &mut Vec<u8>) {
        out.put_u8(<lh_wire::msg::UserauthRequest<'_> as lh_wire::Message<'_>>::NUMBER);
        out.put_string(user);
        out.put_string(CONNECTION_SERVICE);
        out.put_string(self.method().as_bytes());
        out.put_bool(has_signature);
        out.put_string(self.algorithm.as_bytes());
        out.put_string(self.key);
        if let Some(host_key) = self.host_key {
            out.put_string(host_key);
        }
    }
}

/// What the user's key signs: the session identifier and the request without its signature.
pub fn signed_data(session_id: &[u8], user: &[u8], request: &KeyRequest<'_>) -> Vec<u8> {
    let mut data = Vec::with_capacity(session_id.len() + user.len() + request.key.len() + 128);
    data.put_string(session_id);
    request.encode_unsigned(user, true, &mut data);
    data
}
