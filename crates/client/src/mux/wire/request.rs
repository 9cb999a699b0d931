//! Requests of a mux client to the master.

use std::path::PathBuf;

use lh_config::forward::{Endpoint, Forward};
use lh_driver::Target;
use lh_wire::{Reader, Result, WireError, Writer};

use super::forward::{Kind, endpoint, forward, put_endpoint, put_forward, text};
use super::numbers::*;

/// A session request (`MUX_C_NEW_SESSION`). Three descriptors follow it: standard input, output and error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewSession {
    /// Allocate a terminal.
    pub tty: bool,
    /// Forward X11.
    pub x11: bool,
    /// Forward the agent.
    pub agent: bool,
    /// The command is a subsystem's name.
    pub subsystem: bool,
    /// The escape character; `None` for none.
    pub escape: Option<u8>,
    /// Value of `TERM`.
    pub term: String,
    /// The command; empty for a shell.
    pub command: Vec<u8>,
    /// Variables as `NAME=value`.
    pub environment: Vec<Vec<u8>>,
}

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Run a session.
    NewSession(Box<NewSession>),
    /// Return the master's process id.
    Alive,
    /// End the connection.
    Terminate,
    /// Add a forward.
    OpenForward(Kind, Forward),
    /// Cancel a forward.
    CloseForward(Kind, Forward),
    /// Connect two descriptors, which follow, to a target.
    StdioForward(Target),
    /// Accept no further clients.
    StopListening,
    /// Switch to proxy mode: after the reply the client sends and receives channel messages itself.
    Proxy,
    /// Return the lines that `-O` shows about the connection: `connection` or `channels`.
    Information(String),
}

impl Request {
    /// Returns the message, without its length.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut head = |number: u32| {
            out.put_u32(number);
            out.put_u32(id);
        };
        match self {
            Self::NewSession(session) => {
                head(C_NEW_SESSION);
                out.put_string(b"");
                for flag in [session.tty, session.x11, session.agent, session.subsystem] {
                    // OpenSSH encodes them as uint32.
                    out.put_u32(flag.into());
                }
                out.put_u32(session.escape.map_or(0xffff_ffff, u32::from));
                out.put_string(session.term.as_bytes());
                out.put_string(&session.command);
                session.environment.iter().for_each(|variable| out.put_string(variable));
            }
            Self::Alive => head(C_ALIVE_CHECK),
            Self::Terminate => head(C_TERMINATE),
            Self::StopListening => head(C_STOP_LISTENING),
            Self::Proxy => head(C_PROXY),
            Self::Information(what) => {
                head(C_INFORMATION);
                out.put_string(what.as_bytes());
            }
            Self::OpenForward(kind, forward) => {
                head(C_OPEN_FWD);
                put_forward(&mut out, *kind, forward);
            }
            Self::CloseForward(kind, forward) => {
                head(C_CLOSE_FWD);
                put_forward(&mut out, *kind, forward);
            }
            Self::StdioForward(target) => {
                head(C_NEW_STDIO_FWD);
                out.put_string(b"");
                let endpoint = match target {
                    Target::Tcp { host, port } => Endpoint::Tcp { host: Some(host.clone()), port: *port },
                    Target::Unix(path) => Endpoint::Unix(path.to_string_lossy().into_owned()),
                };
                put_endpoint(&mut out, Some(&endpoint));
            }
        }
        out
    }

    /// Decodes a client's message after the greeting. `Ok((id, None))` is a request of an unknown type.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn decode(message: &[u8]) -> Result<(u32, Option<Self>)> {
        let mut reader = Reader::new(message);
        let number = reader.u32()?;
        let id = reader.u32()?;
        let request = match number {
            C_NEW_SESSION => {
                let _reserved = reader.string()?;
                let mut flags = [false; 4];
                for flag in &mut flags {
                    *flag = reader.u32()? != 0;
                }
                let [tty, x11, agent, subsystem] = flags;
                let escape = u8::try_from(reader.u32()?).ok();
                let term = text(&mut reader)?;
                let command = reader.string()?.to_vec();
                let mut environment = Vec::new();
                while !reader.is_empty() {
                    environment.push(reader.string()?.to_vec());
                }
                Self::NewSession(Box::new(NewSession {
                    tty,
                    x11,
                    agent,
                    subsystem,
                    escape,
                    term,
                    command,
                    environment,
                }))
            }
            C_ALIVE_CHECK => Self::Alive,
            C_TERMINATE => Self::Terminate,
            C_STOP_LISTENING => Self::StopListening,
            C_PROXY => Self::Proxy,
            C_INFORMATION => Self::Information(text(&mut reader)?),
            C_OPEN_FWD | C_CLOSE_FWD => {
                let (kind, forward) = forward(&mut reader)?;
                if number == C_OPEN_FWD {
                    Self::OpenForward(kind, forward)
                } else {
                    Self::CloseForward(kind, forward)
                }
            }
            C_NEW_STDIO_FWD => {
                let _reserved = reader.string()?;
                Self::StdioForward(match endpoint(&mut reader)? {
                    Endpoint::Tcp { host: Some(host), port } => Target::Tcp { host, port },
                    Endpoint::Tcp { host: None, .. } => return Err(WireError::Invalid { what: "host" }),
                    Endpoint::Unix(path) => Target::Unix(PathBuf::from(path)),
                })
            }
            _ => return Ok((id, None)),
        };
        reader.finish()?;
        Ok((id, Some(request)))
    }
}
