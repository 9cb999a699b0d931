//! Messages between a client and the helper that signs with the host's keys. They are those of OpenSSH's
//! `ssh-keysign`, so that either end may be OpenSSH's.

use lh_wire::{Reader, Result, WireError, Writer};

/// Version of the messages.
const VERSION: u8 = 2;

/// Longest message, bytes: OpenSSH's limit.
pub const LONGEST: usize = 256 * 1024;

/// Encodes the request to the helper: a descriptor that it has inherited (the connection), and the data to
/// sign.
pub fn request(descriptor: u32, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(data.len() + 9);
    body.put_u8(VERSION);
    body.put_u32(descriptor);
    body.put_string(data);
    framed(&body)
}

/// Decodes a message of [`request`].
pub fn read_request(message: &[u8]) -> Result<(u32, &[u8])> {
    let mut body = body(message)?;
    let fields = (body.u32()?, body.string()?);
    body.finish()?;
    Ok(fields)
}

/// Encodes the helper's answer: the signature.
pub fn answer(signature: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(signature.len() + 5);
    body.put_u8(VERSION);
    body.put_string(signature);
    framed(&body)
}

/// Decodes a message of [`answer`].
pub fn read_answer(message: &[u8]) -> Result<&[u8]> {
    let mut body = body(message)?;
    let signature = body.string()?;
    body.finish()?;
    Ok(signature)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(body.len() + 4);
    message.put_string(body);
    message
}

/// Returns the content after length and version.
fn body(message: &[u8]) -> Result<Reader<'_>> {
    let mut frame = Reader::new(message);
    let mut body = Reader::new(frame.string()?);
    frame.finish()?;
    if body.u8()? != VERSION {
        return Err(WireError::Invalid { what: "version" });
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_messages_are_refused() {
        let message = request(7, b"data");
        assert_eq!(message, b"\0\0\0\x0d\x02\0\0\0\x07\0\0\0\x04data");
        assert_eq!(read_request(&message), Ok((7, &b"data"[..])));
        assert_eq!(read_answer(&answer(b"signature")), Ok(&b"signature"[..]));
        for end in 0..message.len() {
            assert!(read_request(&message[..end]).is_err());
        }
        assert!(read_request(&[&message[..], b"x"].concat()).is_err());
        assert!(read_answer(b"\0\0\0\x06\x01\0\0\0\x01s").is_err());
    }
}
