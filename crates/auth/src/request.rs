//! The `publickey` and `hostbased` requests: their fields and the signed data (RFC 4252 section 7 and 9,
//! OpenSSH PROTOCOL 3.1).

use lh_wire::{Reader, Result, WireError, Writer};

use crate::CONNECTION_SERVICE;

/// The variant of `publickey` that binds the signature to the server's host key.
pub const HOSTBOUND_METHOD: &str = "publickey-hostbound-v00@openssh.com";

/// The fields of a `publickey` request after the method's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRequest<'a> {
    /// Signature algorithm, such as `rsa-sha2-512`.
    pub algorithm: &'a str,
    /// Public key or certificate blob.
    pub key: &'a [u8],
    /// The host key blob of the first key exchange; only in the host-bound variant.
    pub host_key: Option<&'a [u8]>,
}

impl<'a> KeyRequest<'a> {
    /// Returns the method's name on the wire.
    pub const fn method(&self) -> &'static str {
        if self.host_key.is_some() { HOSTBOUND_METHOD } else { "publickey" }
    }

    /// Decodes the fields after the method's name; the second value is the signature blob, if any.
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

/// The fields of a `hostbased` request after the method's name (RFC 4252 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRequest<'a> {
    /// Signature algorithm.
    pub algorithm: &'a str,
    /// Public key or certificate blob of the client's host.
    pub key: &'a [u8],
    /// The name of the client's host; OpenSSH ends it with a dot.
    pub host: &'a str,
    /// The user's name on the client's host.
    pub local_user: &'a str,
}

impl<'a> HostRequest<'a> {
    /// The method's name on the wire.
    pub const METHOD: &'static str = "hostbased";

    /// Decodes the fields after the method's name; the second value is the signature blob.
    pub fn decode(fields: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let mut reader = Reader::new(fields);
        let request = Self::read(&mut reader)?;
        let signature = reader.string()?;
        reader.finish()?;
        Ok((request, signature))
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let algorithm = reader.text().map_err(|_| WireError::Invalid { what: "public key algorithm" })?;
        let key = reader.string()?;
        let host = reader.text().map_err(|_| WireError::Invalid { what: "client host name" })?;
        let local_user = reader.text().map_err(|_| WireError::Invalid { what: "client user name" })?;
        Ok(Self { algorithm, key, host, local_user })
    }

    /// Returns the bytes that the host's key signs for the server's `user`: the session identifier and the
    /// request without its signature.
    pub fn signed_data(&self, session_id: &[u8], user: &[u8]) -> Vec<u8> {
        let mut data = Vec::with_capacity(session_id.len() + user.len() + self.key.len() + 256);
        data.put_string(session_id);
        self.encode_unsigned(user, &mut data);
        data
    }

    /// Decodes the result of [`signed_data`](Self::signed_data) into the session identifier and the request.
    /// For a signer that checks what it signs for another process.
    pub fn from_signed_data(data: &'a [u8]) -> Result<(&'a [u8], Self)> {
        let mut reader = Reader::new(data);
        let session_id = reader.string()?;
        let number = reader.u8()?;
        let _server_user = reader.string()?;
        let (service, method) = (reader.string()?, reader.string()?);
        let right = number == <lh_wire::msg::UserauthRequest<'_> as lh_wire::Message<'_>>::NUMBER
            && service == CONNECTION_SERVICE
            && method == Self::METHOD.as_bytes();
        if !right {
            return Err(WireError::Invalid { what: "host-based request" });
        }
        let request = Self::read(&mut reader)?;
        reader.finish()?;
        Ok((session_id, request))
    }

    /// Appends the whole request.
    pub fn encode(&self, user: &[u8], signature: &[u8], out: &mut Vec<u8>) {
        self.encode_unsigned(user, out);
        out.put_string(signature);
    }

    fn encode_unsigned(&self, user: &[u8], out: &mut Vec<u8>) {
        out.put_u8(<lh_wire::msg::UserauthRequest<'_> as lh_wire::Message<'_>>::NUMBER);
        for field in [user, CONNECTION_SERVICE, Self::METHOD.as_bytes(), self.algorithm.as_bytes(), self.key]
        {
            out.put_string(field);
        }
        out.put_string(self.host.as_bytes());
        out.put_string(self.local_user.as_bytes());
    }
}

/// Returns the bytes that the user's key signs: the session identifier and the request without its signature.
pub fn signed_data(session_id: &[u8], user: &[u8], request: &KeyRequest<'_>) -> Vec<u8> {
    let mut data = Vec::with_capacity(session_id.len() + user.len() + request.key.len() + 128);
    data.put_string(session_id);
    request.encode_unsigned(user, true, &mut data);
    data
}
