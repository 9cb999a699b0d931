//! The server's side of the SOCKS handshake: 4, 4a, and 5 without authentication (RFC 1928), CONNECT only.
//!
//! A machine without a socket: bytes in; replies, and at last a request, out. What lies behind the request belongs to the
//! connection and is not touched.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest user name and host name of SOCKS 4; those of 5 cannot be longer than 255.
const NAME_MAX: usize = 255;

/// Which protocol the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// SOCKS 4 and 4a.
    Four,
    /// SOCKS 5.
    Five,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// How to answer.
    pub version: Version,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// What comes of the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// More are needed.
    More,
    /// Send this to the client and go on.
    Reply(Vec<u8>),
    /// The handshake is over but for [`answer`].
    Request(Request),
    /// The client speaks something else, or asks for what is not done here. Send this (it may be empty) and hang up.
    Refuse(Vec<u8>),
}

/// The handshake of one connection.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    /// Bytes of the message that is not complete, never more than the longest message.
    partial: Vec<u8>,
    greeted: bool,
}

impl Handshake {
    /// Takes bytes from the front of `input`, those of the handshake and no more, up to one step.
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

/// More bytes are needed.
struct Incomplete;

/// The message so far.
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

    /// Up to a NUL; `None` when that does not come.
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
    // 4a: an address that cannot be says that a name follows.
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

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Connected: what follows is the connection's.
    Connected,
    /// The rules forbid it.
    Forbidden,
    /// It could not be reached.
    Failed,
}

/// The answer to a request.
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
