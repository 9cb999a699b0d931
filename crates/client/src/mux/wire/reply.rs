//! Messages of the master: replies, and the end of sessions.

use lh_wire::{Reader, Result, WireError, Writer};

use super::forward::text;
use super::hello::INFORMATION;
use super::numbers::*;

/// The master's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The request succeeded.
    Ok,
    /// The request is not permitted; holds the reason.
    PermissionDenied(String),
    /// The request failed; holds the reason.
    Failure(String),
    /// The master's process id.
    Alive(u32),
    /// The session with this number is open.
    SessionOpened(u32),
    /// A remote forward listens on this port.
    RemotePort(u16),
    /// Proxy mode is on: the following messages are for the client's channels.
    Proxy,
    /// Lines for the user.
    Information(String),
}

/// A message of the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterMessage {
    /// The master's greeting.
    Hello {
        /// Protocol version.
        version: u32,
        /// The master answers [`Request::Information`](super::Request::Information).
        information: bool,
    },
    /// The answer to the request with this number.
    Reply(u32, Reply),
    /// The program of a session has ended with this status.
    Exit(u32, u32),
    /// The session gets no terminal.
    NoTerminal(u32),
    /// A message of an unknown type.
    Unknown(u32),
}

impl Reply {
    /// Returns the message, without its length.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut head = |number: u32| {
            out.put_u32(number);
            out.put_u32(id);
        };
        match self {
            Self::Ok => head(S_OK),
            Self::PermissionDenied(why) => {
                head(S_PERMISSION_DENIED);
                out.put_string(why.as_bytes());
            }
            Self::Failure(why) => {
                head(S_FAILURE);
                out.put_string(why.as_bytes());
            }
            Self::Alive(pid) => {
                head(S_ALIVE);
                out.put_u32(*pid);
            }
            Self::SessionOpened(session) => {
                head(S_SESSION_OPENED);
                out.put_u32(*session);
            }
            Self::RemotePort(port) => {
                head(S_REMOTE_PORT);
                out.put_u32((*port).into());
            }
            Self::Proxy => head(S_PROXY),
            Self::Information(text) => {
                head(S_INFORMATION);
                out.put_string(text.as_bytes());
            }
        }
        out
    }
}

impl MasterMessage {
    /// Returns the message about a session, without its length; `None` for variants that other types encode.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Exit(session, status) => {
                out.put_u32(S_EXIT_MESSAGE);
                out.put_u32(*session);
                out.put_u32(*status);
            }
            Self::NoTerminal(session) => {
                out.put_u32(S_TTY_ALLOC_FAIL);
                out.put_u32(*session);
            }
            _ => return None,
        }
        Some(out)
    }

    /// Decodes a master's message.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(message);
        let number = reader.u32()?;
        let id = reader.u32()?;
        let reply = match number {
            HELLO => {
                let mut information = false;
                while !reader.is_empty() {
                    let (name, _version) = (reader.string()?, reader.string()?);
                    information |= name == INFORMATION;
                }
                return Ok(Self::Hello { version: id, information });
            }
            S_OK => Reply::Ok,
            S_PERMISSION_DENIED => Reply::PermissionDenied(text(&mut reader)?),
            S_FAILURE => Reply::Failure(text(&mut reader)?),
            S_ALIVE => Reply::Alive(reader.u32()?),
            S_SESSION_OPENED => Reply::SessionOpened(reader.u32()?),
            S_REMOTE_PORT => Reply::RemotePort(
                u16::try_from(reader.u32()?).map_err(|_| WireError::Invalid { what: "port" })?,
            ),
            S_PROXY => Reply::Proxy,
            S_INFORMATION => Reply::Information(text(&mut reader)?),
            S_EXIT_MESSAGE => return Ok(Self::Exit(id, reader.u32()?)),
            S_TTY_ALLOC_FAIL => return Ok(Self::NoTerminal(id)),
            number => return Ok(Self::Unknown(number)),
        };
        Ok(Self::Reply(id, reply))
    }
}
