//! Monitor IPC: the messages between the processes of one connection.
//!
//! Two processes send requests, which the monitor answers. The pre-auth process reads an unauthenticated
//! client's bytes and is therefore not trusted. After the login, the user session process is as trustworthy
//! as its user. Each message is a length, a kind and its fields in SSH's encoding. Decoding returns errors
//! and bounds the length.

pub(crate) mod fields;
mod methods;
mod socket;

use lh_auth::gss::GssReply;
use lh_auth::server::Attempt;
use lh_session_list::Programs;
use lh_sys::records::Last;
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use self::fields::{put_list, put_option, read_list, read_option, text};
use self::methods::{put_method, read_method};
pub(crate) use self::socket::{MonitorSocket, MonitorSocketError};
use crate::log_level::Level;
use crate::usage::{ConnectionUsage, FileOperation, Transfer};
use crate::verdict::Verdict;

/// Upper bound of a request, bytes: longer than any login attempt that fits a packet.
pub(crate) const MAX_MONITOR_REQUEST: usize = 512 * 1024;
/// Upper bound of the serialized connection, bytes: a buffer of received bytes, and the few that a server
/// sends before the login.
pub(crate) const MAX_HAND_OVER: usize = 4 << 20;

/// Largest number of reads after the user session process has ended: more than the socket's buffer holds. A
/// process of the user may hold the other end, and send without end.
pub(crate) const MOST_LAST_READS: usize = 1024;

/// Longest `TERM` value that a recording has, characters.
const LONGEST_TERMINAL_TYPE: usize = 256;

/// A terminal that is about to be used, for its recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TerminalFacts {
    /// Width in characters.
    pub(crate) columns: u32,
    /// Height in characters.
    pub(crate) rows: u32,
    /// The client's `TERM` value.
    pub(crate) kind: String,
}

/// A request to the monitor.
#[derive(Debug)]
pub(crate) enum MonitorRequest {
    /// Write a line to the log. No answer.
    Log { level: Level, text: String },
    /// Sign an exchange hash.
    Sign { key_index: usize, algorithm: String, hash: Vec<u8> },
    /// Decide about a login attempt. The signed data is not included, because the monitor builds it itself.
    Decide(Attempt),
    /// Hand the connection over after the login. The last request of the pre-auth process.
    HandOver(Zeroizing<Vec<u8>>),
    /// Sign a proof that the host has this key (`hostkeys-prove-00@openssh.com`). From the user session
    /// process.
    Prove { algorithm: String, key: Vec<u8> },
    /// Record that the user has a session on this terminal (`pts/3`). The answer is the time of the last
    /// login. From the user session process.
    Arrived { line: String, pid: u32 },
    /// Record that the terminal's session has ended. No answer.
    Left { line: String },
    /// Allocate a terminal for a session inside a chroot, which may have no devices for one.
    Terminal,
    /// Record this terminal, which is about to be used. The answer is a descriptor of the recording, or none.
    /// From the user session process.
    Record(TerminalFacts),
    /// A transfer of a file, or a command of the user's, has ended. No answer.
    Transfer(Transfer),
    /// An SFTP request changed something, or was denied. No answer.
    Operation(FileOperation),
    /// Statistics of the connection. No answer.
    ConnectionUsage(ConnectionUsage),
    /// Make a ticket of this key for an additional connection of the client.
    Ticket {
        /// Blob of an Ed25519 key.
        key: Vec<u8>,
    },
    /// Let the session outlive its connection. The answer is a descriptor, of the socket on which monitor and
    /// session process talk about that, or none. From the user session process.
    Resumable { handle: [u8; 16], export: Zeroizing<Vec<u8>> },
    /// The programs that run in the session now. No answer. From the user session process.
    Programs(Programs),
}

/// Encodes the answer to [`MonitorRequest::Arrived`].
pub(crate) fn encode_last(last: Option<&Last>) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_bool(last.is_some());
    if let Some(Last { time, host }) = last {
        out.put_u64(u64::try_from(*time).unwrap_or(0));
        out.put_string(host.as_bytes());
    }
    out
}

/// Decodes the result of [`encode_last`].
pub(crate) fn decode_last(bytes: &[u8]) -> Result<Option<Last>, WireError> {
    let mut reader = Reader::new(bytes);
    let last = if reader.boolean()? {
        let time = i64::try_from(reader.u64()?).map_err(|_| WireError::Invalid { what: "time" })?;
        Some(Last { time, host: text(&mut reader)? })
    } else {
        None
    };
    reader.finish()?;
    Ok(last)
}

/// The monitor's answer to an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    /// The banner text to show before the verdict.
    pub(crate) banner: Option<Vec<u8>>,
    /// The client's name in log lines from now on.
    pub(crate) client: Option<String>,
    /// The log level from now on.
    pub(crate) level: Level,
    /// The accepted signature algorithms for this user; empty after the first attempt.
    pub(crate) algorithms: Vec<String>,
    /// The Kerberos library's error token for the client.
    pub(crate) error_token: Vec<u8>,
}

impl MonitorRequest {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let room = match self {
            Self::HandOver(state) => state.len() + 64,
            _ => 4096,
        };
        let mut out = Zeroizing::new(Vec::with_capacity(room));
        match self {
            Self::Log { level, text } => {
                out.put_u8(1);
                out.put_u8(*level as u8);
                out.put_string(text.as_bytes());
            }
            Self::Sign { key_index, algorithm, hash } => {
                out.put_u8(2);
                out.put_u32(u32::try_from(*key_index).unwrap_or(u32::MAX));
                out.put_string(algorithm.as_bytes());
                out.put_string(hash);
            }
            Self::Decide(attempt) => {
                out.put_u8(3);
                out.put_string(attempt.user.as_bytes());
                put_method(&mut out, &attempt.method);
            }
            Self::HandOver(state) => {
                out.put_u8(4);
                out.put_string(state);
            }
            Self::Prove { algorithm, key } => {
                out.put_u8(5);
                out.put_string(algorithm.as_bytes());
                out.put_string(key);
            }
            Self::Arrived { line, pid } => {
                out.put_u8(6);
                out.put_string(line.as_bytes());
                out.put_u32(*pid);
            }
            Self::Left { line } => {
                out.put_u8(7);
                out.put_string(line.as_bytes());
            }
            Self::Terminal => out.put_u8(10),
            Self::Record(TerminalFacts { columns, rows, kind }) => {
                out.put_u8(12);
                out.put_u32(*columns);
                out.put_u32(*rows);
                out.put_string(kind.as_bytes());
            }
            Self::Transfer(transfer) => {
                out.put_u8(8);
                transfer.write_to(&mut out);
            }
            Self::Operation(operation) => {
                out.put_u8(11);
                operation.write_to(&mut out);
            }
            Self::ConnectionUsage(usage) => {
                out.put_u8(9);
                usage.write_to(&mut out);
            }
            Self::Ticket { key } => {
                out.put_u8(20);
                out.put_string(key);
            }
            Self::Resumable { handle, export } => {
                out.put_u8(21);
                out.put_bytes(handle);
                out.put_string(export);
            }
            Self::Programs(Programs { shells, commands, subsystems }) => {
                out.put_u8(22);
                [*shells, *commands, *subsystems].into_iter().for_each(|count| out.put_u32(count));
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let request = match reader.u8()? {
            1 => {
                // The attacker may control the sender: its lines are never above level ERROR.
                let level = Level::from_number(reader.u8()?).max(Level::Error);
                Self::Log { level, text: text(&mut reader)? }
            }
            2 => Self::Sign {
                key_index: reader.u32()? as usize,
                algorithm: text(&mut reader)?,
                hash: reader.string()?.to_vec(),
            },
            3 => {
                let user = text(&mut reader)?;
                Self::Decide(Attempt { user, method: read_method(&mut reader)? })
            }
            4 => Self::HandOver(Zeroizing::new(reader.string()?.to_vec())),
            5 => Self::Prove { algorithm: text(&mut reader)?, key: reader.string()?.to_vec() },
            6 => Self::Arrived { line: text(&mut reader)?, pid: reader.u32()? },
            7 => Self::Left { line: text(&mut reader)? },
            8 => Self::Transfer(Transfer::read_from(&mut reader)?),
            9 => Self::ConnectionUsage(ConnectionUsage::read_from(&mut reader)?),
            10 => Self::Terminal,
            11 => Self::Operation(FileOperation::read_from(&mut reader)?),
            12 => Self::Record(TerminalFacts {
                columns: reader.u32()?,
                rows: reader.u32()?,
                kind: text(&mut reader)?.chars().take(LONGEST_TERMINAL_TYPE).collect(),
            }),
            20 => Self::Ticket { key: reader.string()?.to_vec() },
            21 => {
                Self::Resumable { handle: reader.array()?, export: Zeroizing::new(reader.string()?.to_vec()) }
            }
            22 => Self::Programs(Programs {
                shells: reader.u32()?,
                commands: reader.u32()?,
                subsystems: reader.u32()?,
            }),
            _ => return Err(WireError::Invalid { what: "kind of request" }),
        };
        reader.finish()?;
        Ok(request)
    }
}

impl Decision {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.verdict {
            Verdict::Accept => out.put_u8(0),
            Verdict::Reject { methods, partial } => {
                out.put_u8(1);
                out.put_bool(*partial);
                put_list(&mut out, methods);
            }
            Verdict::KeyOk => out.put_u8(2),
            Verdict::Prompt(prompts) => {
                out.put_u8(3);
                out.put_u32(u32::try_from(prompts.len()).unwrap_or(u32::MAX));
                for (prompt, echo) in prompts {
                    out.put_string(prompt.as_bytes());
                    out.put_bool(*echo);
                }
            }
            Verdict::TooMany => out.put_u8(4),
            Verdict::Denied(text) => {
                out.put_u8(5);
                out.put_string(text.as_bytes());
            }
            Verdict::Gss(GssReply::Mechanism(name)) => {
                out.put_u8(6);
                out.put_string(name);
            }
            Verdict::Gss(GssReply::Token(token)) => {
                out.put_u8(7);
                out.put_string(token);
            }
            Verdict::Resume(answer) => {
                out.put_u8(8);
                out.put_string(answer);
            }
            Verdict::Later => out.put_u8(9),
            Verdict::NoMethods => out.put_u8(10),
        }
        put_option(&mut out, self.banner.as_deref());
        put_option(&mut out, self.client.as_deref().map(str::as_bytes));
        out.put_u8(self.level as u8);
        put_list(&mut out, &self.algorithms);
        out.put_string(&self.error_token);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let verdict = match reader.u8()? {
            0 => Verdict::Accept,
            1 => Verdict::Reject { partial: reader.boolean()?, methods: read_list(&mut reader)? },
            2 => Verdict::KeyOk,
            3 => {
                let mut prompts = Vec::new();
                for _ in 0..reader.u32()? {
                    prompts.push((text(&mut reader)?, reader.boolean()?));
                }
                Verdict::Prompt(prompts)
            }
            4 => Verdict::TooMany,
            5 => Verdict::Denied(text(&mut reader)?),
            6 => Verdict::Gss(GssReply::Mechanism(reader.string()?.to_vec())),
            7 => Verdict::Gss(GssReply::Token(reader.string()?.to_vec())),
            8 => Verdict::Resume(reader.string()?.to_vec()),
            9 => Verdict::Later,
            10 => Verdict::NoMethods,
            _ => return Err(WireError::Invalid { what: "kind of verdict" }),
        };
        let owned = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let banner = read_option(&mut reader)?.map(<[u8]>::to_vec);
        let client = owned(read_option(&mut reader)?);
        let level = Level::from_number(reader.u8()?);
        let algorithms = read_list(&mut reader)?;
        let error_token = reader.string()?.to_vec();
        reader.finish()?;
        Ok(Self { verdict, banner, client, level, algorithms, error_token })
    }
}

#[cfg(test)]
mod tests;
