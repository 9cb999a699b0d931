//! Messages about resumption, in SSH's encoding.

use std::net::SocketAddr;

use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::grant::{put_options, read_options};
use crate::key_options::KeyOptions;
use crate::monitor_ipc::fields::text;

/// A message from a new connection's monitor to the session's monitor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FromClaimant {
    /// The client claims the session: its user name, the fields of its request, and the new connection's
    /// session identifier.
    Claim { user: String, fields: Vec<u8>, session_id: Vec<u8> },
    /// The account may be used: let the connection take over the session.
    Take { export: Zeroizing<Vec<u8>>, peer: SocketAddr, local: SocketAddr },
    /// The account may not be used any more: end the session.
    End,
    /// The serialized connection. A byte that carries its socket precedes this message.
    Connection(Zeroizing<Vec<u8>>),
}

/// A message from the session's monitor to a new connection's monitor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToClaimant {
    /// The claim is refused. `overtaken`: the proof is right, but a later attempt of this client was
    /// accepted.
    Refused { overtaken: bool },
    /// The proof is right; the facts about the session's login.
    Right(Login),
    /// The message for the client.
    Accepted(Vec<u8>),
}

/// What a client says of its host and its user there in a host-based login (RFC 4252 section 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientHost {
    /// The host's name, with a dot at its end from OpenSSH.
    pub(crate) name: String,
    pub(crate) user: String,
}

/// Facts about a session's login, which the new connection's monitor compares with the current state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    /// Proofs of the user's identity, one line for each method that succeeded.
    pub(crate) proofs: String,
    /// The client's host, of a host-based login.
    pub(crate) host: Option<ClientHost>,
    /// Options of the key or certificate that was used.
    pub(crate) options: Box<KeyOptions>,
    /// The configuration's rules for the session, one line for each keyword.
    pub(crate) rules: Vec<String>,
    /// Fingerprints of the server's host keys.
    pub(crate) host_keys: Vec<String>,
}

/// A message from the session's monitor to its user session process. A byte precedes each; for a connection
/// it carries the socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToUser {
    /// Close the connection, and report the number of messages received over it.
    LetGo,
    /// Continue the session over this connection.
    Connection(Moved),
}

/// A connection that takes over a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Number of the session's messages that the client has received.
    pub(crate) received: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) session_id: Vec<u8>,
    /// The serialized transport state.
    pub(crate) state: Zeroizing<Vec<u8>>,
}

/// A message from the user session process to its monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FromUser {
    /// The connection is broken; the session waits for this time, seconds.
    Away { grace: u32 },
    /// The answer to [`ToUser::LetGo`]: the final number of received messages.
    Received(u64),
    /// The answer to [`ToUser::LetGo`] of a session that cannot be resumed.
    Cannot,
    /// The session continues.
    Resumed,
    /// The client has sent a message over its new connection.
    Heard,
    /// While the session waits: number of bytes that it keeps because its client has not acknowledged them.
    Keeps(u64),
}

const TIME: WireError = WireError::Invalid { what: "kind of message" };

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    out.put_u32(u32::try_from(texts.len()).unwrap_or(u32::MAX));
    texts.iter().for_each(|line| out.put_string(line.as_bytes()));
}

fn read_texts(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    (0..reader.u32()?).map(|_| text(reader)).collect()
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    out.put_string(address.to_string().as_bytes());
}

fn read_address(reader: &mut Reader<'_>) -> Result<SocketAddr, WireError> {
    text(reader)?.parse().map_err(|_| WireError::Invalid { what: "address" })
}

impl FromClaimant {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let size = if let Self::Connection(state) = self { state.len() + 16 } else { 4096 };
        let mut out = Zeroizing::new(Vec::with_capacity(size));
        match self {
            Self::Claim { user, fields, session_id } => {
                out.put_u8(0);
                out.put_string(user.as_bytes());
                out.put_string(fields);
                out.put_string(session_id);
            }
            Self::Take { export, peer, local } => {
                out.put_u8(1);
                out.put_string(export);
                put_address(&mut out, *peer);
                put_address(&mut out, *local);
            }
            Self::End => out.put_u8(2),
            Self::Connection(state) => {
                out.put_u8(3);
                out.put_string(state);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            0 => Self::Claim {
                user: text(&mut reader)?,
                fields: reader.string()?.to_vec(),
                session_id: reader.string()?.to_vec(),
            },
            1 => Self::Take {
                export: Zeroizing::new(reader.string()?.to_vec()),
                peer: read_address(&mut reader)?,
                local: read_address(&mut reader)?,
            },
            2 => Self::End,
            3 => Self::Connection(Zeroizing::new(reader.string()?.to_vec())),
            _ => return Err(TIME),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl ToClaimant {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Refused { overtaken } => {
                out.put_u8(0);
                out.put_bool(*overtaken);
            }
            Self::Right(Login { proofs, host, options, rules, host_keys }) => {
                out.put_u8(1);
                out.put_string(proofs.as_bytes());
                out.put_bool(host.is_some());
                if let Some(ClientHost { name, user }) = host {
                    out.put_string(name.as_bytes());
                    out.put_string(user.as_bytes());
                }
                put_options(&mut out, options);
                put_texts(&mut out, rules);
                put_texts(&mut out, host_keys);
            }
            Self::Accepted(answer) => {
                out.put_u8(2);
                out.put_string(answer);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            0 => Self::Refused { overtaken: reader.boolean()? },
            1 => {
                let proofs = text(&mut reader)?;
                let host = match reader.boolean()? {
                    true => Some(ClientHost { name: text(&mut reader)?, user: text(&mut reader)? }),
                    false => None,
                };
                let options = Box::new(read_options(&mut reader)?);
                let (rules, host_keys) = (read_texts(&mut reader)?, read_texts(&mut reader)?);
                Self::Right(Login { proofs, host, options, rules, host_keys })
            }
            2 => Self::Accepted(reader.string()?.to_vec()),
            _ => return Err(TIME),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl ToUser {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::LetGo => Zeroizing::new(vec![0]),
            Self::Connection(Moved { received, peer, local, session_id, state }) => {
                let mut out = Zeroizing::new(Vec::with_capacity(state.len() + 1024));
                out.put_u8(1);
                out.put_u64(*received);
                put_address(&mut out, *peer);
                put_address(&mut out, *local);
                out.put_string(session_id);
                out.put_string(state);
                out
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            0 => Self::LetGo,
            1 => Self::Connection(Moved {
                received: reader.u64()?,
                peer: read_address(&mut reader)?,
                local: read_address(&mut reader)?,
                session_id: reader.string()?.to_vec(),
                state: Zeroizing::new(reader.string()?.to_vec()),
            }),
            _ => return Err(TIME),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl FromUser {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Self::Away { grace } => {
                let mut out = vec![0];
                out.put_u32(grace);
                out
            }
            Self::Received(count) => {
                let mut out = vec![1];
                out.put_u64(count);
                out
            }
            Self::Cannot => vec![2],
            Self::Resumed => vec![3],
            Self::Heard => vec![4],
            Self::Keeps(bytes) => {
                let mut out = vec![5];
                out.put_u64(bytes);
                out
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            0 => Self::Away { grace: reader.u32()? },
            1 => Self::Received(reader.u64()?),
            2 => Self::Cannot,
            3 => Self::Resumed,
            4 => Self::Heard,
            5 => Self::Keeps(reader.u64()?),
            _ => return Err(TIME),
        };
        reader.finish()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives() {
        let (peer, local) = (([192, 0, 2, 7], 50_000).into(), "[::1]:22".parse().unwrap());
        for message in [
            FromClaimant::Claim { user: "ada".into(), fields: vec![1; 72], session_id: vec![2; 32] },
            FromClaimant::Take { export: vec![3; 32].into(), peer, local },
            FromClaimant::End,
            FromClaimant::Connection(vec![4; 9000].into()),
        ] {
            assert_eq!(FromClaimant::decode(&message.encode()), Ok(message));
        }
        for message in [
            ToClaimant::Refused { overtaken: true },
            ToClaimant::Right(Login {
                proofs: "publickey ssh-ed25519 AAAA\n".into(),
                host: Some(ClientHost { name: "client.example.".into(), user: "eve".into() }),
                options: Box::new(KeyOptions::parse("restrict,command=\"x\"").unwrap()),
                rules: vec!["PermitTTY no".into(), "ForceCommand none".into()],
                host_keys: vec!["SHA256:abc".into()],
            }),
            ToClaimant::Accepted(vec![60; 41]),
        ] {
            assert_eq!(ToClaimant::decode(&message.encode()), Ok(message));
        }
        let moved = Moved { received: 7, peer, local, session_id: vec![5; 32], state: vec![6; 900].into() };
        for message in [ToUser::LetGo, ToUser::Connection(moved)] {
            let bytes = message.encode();
            assert_eq!(ToUser::decode(&bytes).as_ref(), Ok(&message));
            assert!(ToUser::decode(&bytes[..bytes.len() - 1]).is_err());
        }
        for message in [
            FromUser::Away { grace: 9 },
            FromUser::Received(8),
            FromUser::Cannot,
            FromUser::Resumed,
            FromUser::Heard,
            FromUser::Keeps(64 << 20),
        ] {
            assert_eq!(FromUser::decode(&message.encode()), Ok(message));
        }
    }
}
