//! The messages of OpenSSH's multiplexing protocol, version 4 (PROTOCOL.mux). Each is framed as a string: its
//! length first.

use std::path::PathBuf;

use lh_config::forward::{Endpoint, Forward};
use lh_driver::Target;
use lh_wire::{Reader, Result, WireError, Writer};

/// The protocol's version.
pub const VERSION: u32 = 4;
/// Longest message, bytes; its longest part is a session's environment.
pub const MESSAGE_MAX: usize = 256 << 10;

const HELLO: u32 = 1;
const C_NEW_SESSION: u32 = 0x1000_0002;
const C_ALIVE_CHECK: u32 = 0x1000_0004;
const C_TERMINATE: u32 = 0x1000_0005;
const C_OPEN_FWD: u32 = 0x1000_0006;
const C_CLOSE_FWD: u32 = 0x1000_0007;
const C_NEW_STDIO_FWD: u32 = 0x1000_0008;
const C_STOP_LISTENING: u32 = 0x1000_0009;
const C_PROXY: u32 = 0x1000_000f;
const C_INFORMATION: u32 = 0x2000_0001;
const S_OK: u32 = 0x8000_0001;
const S_PERMISSION_DENIED: u32 = 0x8000_0002;
const S_FAILURE: u32 = 0x8000_0003;
const S_EXIT_MESSAGE: u32 = 0x8000_0004;
const S_ALIVE: u32 = 0x8000_0005;
const S_SESSION_OPENED: u32 = 0x8000_0006;
const S_REMOTE_PORT: u32 = 0x8000_0007;
const S_TTY_ALLOC_FAIL: u32 = 0x8000_0008;
const S_PROXY: u32 = 0x8000_000f;
const S_INFORMATION: u32 = 0x9000_0001;

/// The greeting's extension of a master that answers [`Request::Information`].
const INFORMATION: &[u8] = b"info";

/// Port number that marks the host as a socket path.
const PORT_STREAMLOCAL: u32 = 0xffff_fffe;

/// Which side of a forward listens, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `-L`.
    Local,
    /// `-R`.
    Remote,
    /// `-D`.
    Dynamic,
}

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
    /// `TERM`.
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

/// The master's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Ok,
    /// Not allowed, and why.
    PermissionDenied(String),
    /// Not possible, and why.
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
pub enum Said {
    /// Its greeting.
    Hello {
        /// Protocol version.
        version: u32,
        /// The master answers [`Request::Information`].
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

/// The greeting of a client.
pub fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(HELLO);
    out.put_u32(VERSION);
    out
}

/// The greeting of a master.
pub fn master_hello() -> Vec<u8> {
    let mut out = hello();
    out.put_string(INFORMATION);
    out.put_string(b"0");
    out
}

fn text(reader: &mut Reader<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(reader.string()?).into_owned())
}

fn put_endpoint(out: &mut Vec<u8>, endpoint: Option<&Endpoint>) {
    match endpoint {
        // A dynamic forward, in OpenSSH's notation.
        None => {
            out.put_string(b"socks");
            out.put_u32(0);
        }
        Some(Endpoint::Tcp { host, port }) => {
            let host = match host.as_deref() {
                None => "",
                Some("") => "*",
                Some(host) => host,
            };
            out.put_string(host.as_bytes());
            out.put_u32((*port).into());
        }
        Some(Endpoint::Unix(path)) => {
            out.put_string(path.as_bytes());
            out.put_u32(PORT_STREAMLOCAL);
        }
    }
}

fn endpoint(reader: &mut Reader<'_>) -> Result<Endpoint> {
    let host = text(reader)?;
    match reader.u32()? {
        PORT_STREAMLOCAL if !host.is_empty() => Ok(Endpoint::Unix(host)),
        port => {
            let port = u16::try_from(port).map_err(|_| WireError::Invalid { what: "port" })?;
            Ok(Endpoint::Tcp { host: (!host.is_empty()).then_some(host), port })
        }
    }
}

fn put_forward(out: &mut Vec<u8>, kind: Kind, forward: &Forward) {
    out.put_u32(match kind {
        Kind::Local => 1,
        Kind::Remote => 2,
        Kind::Dynamic => 3,
    });
    put_endpoint(out, Some(&forward.listen));
    put_endpoint(out, forward.connect.as_ref());
}

fn forward(reader: &mut Reader<'_>) -> Result<(Kind, Forward)> {
    let kind = match reader.u32()? {
        1 => Kind::Local,
        2 => Kind::Remote,
        3 => Kind::Dynamic,
        _ => return Err(WireError::Invalid { what: "kind of forward" }),
    };
    let listen = endpoint(reader)?;
    let connect = endpoint(reader)?;
    // Port 0 marks a dynamic forward, on either side.
    let connect = match (kind, connect) {
        (Kind::Dynamic, _) | (Kind::Remote, Endpoint::Tcp { port: 0, .. }) => None,
        (_, connect) => Some(connect),
    };
    Ok((kind, Forward { listen, connect }))
}

impl Request {
    /// The message, without its length.
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

impl Reply {
    /// The message, without its length.
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

impl Said {
    /// The message about a session, without its length; `None` for variants that other types encode.
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

/// The version in a client's greeting.
///
/// # Errors
/// The message is no greeting.
pub fn read_hello(message: &[u8]) -> Result<u32> {
    let mut reader = Reader::new(message);
    if reader.u32()? != HELLO {
        return Err(WireError::Invalid { what: "greeting" });
    }
    let version = reader.u32()?;
    while !reader.is_empty() {
        let _extension = (reader.string()?, reader.string()?);
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_encode_and_decode(request: &Request) {
        let bytes = request.encode(7);
        assert_eq!(Request::decode(&bytes).unwrap(), (7, Some(request.clone())));
        for end in 8..bytes.len() {
            // A shorter environment may still be valid.
            let _ = Request::decode(&bytes[..end]);
        }
    }

    #[test]
    fn requests_survive_encoding_and_decoding() {
        let session = NewSession {
            tty: true,
            agent: true,
            escape: Some(b'~'),
            term: "xterm".into(),
            command: b"ls -l".to_vec(),
            environment: vec![b"LANG=C".to_vec(), b"A=".to_vec()],
            ..NewSession::default()
        };
        check_encode_and_decode(&Request::NewSession(Box::new(session)));
        check_encode_and_decode(&Request::NewSession(Box::default()));
        let information = Request::Information("channels".into());
        for request in
            [Request::Alive, Request::Terminate, Request::StopListening, Request::Proxy, information]
        {
            check_encode_and_decode(&request);
        }
        let local = |spec: &str| Forward::parse(spec, false).unwrap();
        for forward in ["8080:h:80", "*:8080:[::1]:80", "/a:/b", "1:/b", "/a:h:2"] {
            check_encode_and_decode(&Request::OpenForward(Kind::Local, local(forward)));
        }
        check_encode_and_decode(&Request::CloseForward(Kind::Remote, Forward::parse("0", true).unwrap()));
        check_encode_and_decode(&Request::OpenForward(
            Kind::Dynamic,
            Forward::parse_dynamic("h:1080").unwrap(),
        ));
        check_encode_and_decode(&Request::StdioForward(Target::Tcp { host: "h".into(), port: 22 }));
        check_encode_and_decode(&Request::StdioForward(Target::Unix("/run/s".into())));
        assert_eq!(Request::decode(&[0x1f, 0, 0, 0, 0, 0, 0, 9]).unwrap(), (9, None));
    }

    #[test]
    fn replies_survive_encoding_and_decoding() {
        for reply in [
            Reply::Ok,
            Reply::PermissionDenied("no".into()),
            Reply::Failure("not possible".into()),
            Reply::Alive(12),
            Reply::SessionOpened(3),
            Reply::RemotePort(8080),
            Reply::Proxy,
            Reply::Information("a\nb".into()),
        ] {
            assert_eq!(Said::decode(&reply.encode(5)).unwrap(), Said::Reply(5, reply));
        }
        for said in [Said::Exit(3, 7), Said::NoTerminal(3)] {
            assert_eq!(Said::decode(&said.encode().unwrap()).unwrap(), said);
        }
        for (greeting, information) in [(hello(), false), (master_hello(), true)] {
            assert_eq!(Said::decode(&greeting).unwrap(), Said::Hello { version: 4, information });
        }
        assert_eq!(read_hello(&hello()).unwrap(), 4);
        assert!(read_hello(&Reply::Ok.encode(4)).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(message in proptest::collection::vec(any::<u8>(), 0..120), number in 0usize..12) {
            let _ = Request::decode(&message);
            let _ = Said::decode(&message);
            let _ = read_hello(&message);
            let numbers = [HELLO, C_NEW_SESSION, C_OPEN_FWD, C_CLOSE_FWD, C_NEW_STDIO_FWD, S_FAILURE, S_REMOTE_PORT,
                S_ALIVE, S_EXIT_MESSAGE, S_OK, S_SESSION_OPENED, S_TTY_ALLOC_FAIL];
            let mut framed = numbers[number].to_be_bytes().to_vec();
            framed.extend(message);
            let _ = Request::decode(&framed);
            let _ = Said::decode(&framed);
        }
    }
}
