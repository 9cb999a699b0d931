//! The SOCKS server's side of the handshake: 4, 4a, and 5 without authentication (RFC 1928), CONNECT only.
//!
//! A state machine without a socket: bytes in; replies, and finally a request, out. Bytes behind the request
//! belong to the connection and are not consumed.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest user name and host name of SOCKS 4, bytes; SOCKS 5 has the same limit by its format.
const NAME_MAX: usize = 255;

/// The client's protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// SOCKS 4 and 4a.
    Four,
    /// SOCKS 5.
    Five,
}

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The version for the reply.
    pub version: Version,
    /// Target host: a name or an address.
    pub host: String,
    /// Target port.
    pub port: u16,
}

/// Next step after the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// Send these bytes to the client and continue.
    Reply(Vec<u8>),
    /// The handshake is complete except for [`answer`].
    Request(Request),
    /// The protocol or the command is not supported. Send these bytes (may be empty) and close.
    Refuse(Vec<u8>),
}

/// The handshake of one connection.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    /// Bytes of the incomplete message; never more than the longest message.
    partial: Vec<u8>,
    greeted: bool,
}

impl Handshake {
    /// Takes bytes of the handshake, and no others, from the front of `input`, up to one step.
    pub fn feed(&mut self, input: &mut &[u8]) -> Step {
        loop {
            let step = match self.step() {
                Ok(step) => step,
                Err(Incomplete) => {
                    let [byte, rest @ ..] = *input else { return Step::More };
                    self.partial.push(*byte);
                    *input = rest;
                    continue;
                }
            };
            self.partial.clear();
            return step;
        }
    }

    fn step(&mut self) -> Result<Step, Incomplete> {
        let mut fields = Fields(&self.partial);
        match fields.byte()? {
            4 if !self.greeted => four(fields),
            5 if !self.greeted => {
                let count = fields.byte()?;
                let methods = fields.take(count.into())?;
                if !methods.contains(&0) {
                    return Ok(Step::Refuse(vec![5, 0xff]));
                }
                self.greeted = true;
                Ok(Step::Reply(vec![5, 0]))
            }
            5 => five(fields),
            _ => Ok(Step::Refuse(Vec::new())),
        }
    }
}

/// Error: more bytes are needed.
struct Incomplete;

/// The received part of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Incomplete> {
        let (first, rest) = self.0.split_at_checked(n).ok_or(Incomplete)?;
        self.0 = rest;
        Ok(first)
    }

    fn byte(&mut self) -> Result<u8, Incomplete> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Incomplete> {
        self.take(N)?.try_into().map_err(|_| Incomplete)
    }

    fn port(&mut self) -> Result<u16, Incomplete> {
        self.array().map(u16::from_be_bytes)
    }

    /// Text up to a NUL; `None` if it is longer than the limit.
    fn text(&mut self) -> Result<Option<&'a [u8]>, Incomplete> {
        match self.0.iter().position(|&byte| byte == 0) {
            Some(at) => {
                let text = self.take(at)?;
                self.byte()?;
                Ok(Some(text))
            }
            None if self.0.len() > NAME_MAX => Ok(None),
            None => Err(Incomplete),
        }
    }
}

fn four(mut fields: Fields<'_>) -> Result<Step, Incomplete> {
    let refuse = Ok(Step::Refuse(answer(Version::Four, Outcome::Failed)));
    let command = fields.byte()?;
    let port = fields.port()?;
    let ip = fields.array::<4>()?;
    if fields.text()?.is_none() {
        return refuse;
    }
    // SOCKS 4a: an impossible address means that a host name follows.
    let host = if ip[..3] == [0, 0, 0] && ip[3] != 0 {
        match fields.text()?.map(std::str::from_utf8) {
            Some(Ok(name)) if !name.is_empty() => name.to_owned(),
            _ => return refuse,
        }
    } else {
        Ipv4Addr::from(ip).to_string()
    };
    if command != 1 {
        return refuse;
    }
    Ok(Step::Request(Request { version: Version::Four, host, port }))
}

fn five(mut fields: Fields<'_>) -> Result<Step, Incomplete> {
    let command = fields.byte()?;
    let _reserved = fields.byte()?;
    let host = match fields.byte()? {
        1 => Ipv4Addr::from(fields.array::<4>()?).to_string(),
        4 => Ipv6Addr::from(fields.array::<16>()?).to_string(),
        3 => {
            let length = fields.byte()?;
            match std::str::from_utf8(fields.take(length.into())?) {
                Ok(name) if !name.is_empty() && !name.contains('\0') => name.to_owned(),
                _ => return Ok(Step::Refuse(five_answer(1))),
            }
        }
        _ => return Ok(Step::Refuse(five_answer(8))),
    };
    let port = fields.port()?;
    if command != 1 {
        return Ok(Step::Refuse(five_answer(7)));
    }
    Ok(Step::Request(Request { version: Version::Five, host, port }))
}

/// Result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Connected: the next bytes belong to the connection.
    Connected,
    /// Forbidden by the rules.
    Forbidden,
    /// The target could not be reached.
    Failed,
}

/// The reply to a request.
pub fn answer(version: Version, outcome: Outcome) -> Vec<u8> {
    match (version, outcome) {
        (Version::Four, Outcome::Connected) => vec![0, 90, 0, 0, 0, 0, 0, 0],
        (Version::Four, _) => vec![0, 91, 0, 0, 0, 0, 0, 0],
        (Version::Five, Outcome::Connected) => five_answer(0),
        (Version::Five, Outcome::Forbidden) => five_answer(2),
        (Version::Five, Outcome::Failed) => five_answer(5),
    }
}

fn five_answer(code: u8) -> Vec<u8> {
    vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}
