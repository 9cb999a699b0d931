//! What the processes of one connection say to each other.
//!
//! Two of them ask and the monitor answers: the process before authentication, which reads a stranger's bytes and is
//! therefore believed nothing, and afterwards the user's process, which is as trustworthy as the user. Each message is a
//! length, a kind and its fields in SSH's own encoding. Whoever reads decodes with errors and with a bound on the length.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lh_auth::gss::{GssAttempt, GssReply};
use lh_auth::server::{Attempt, HostBasedAttempt, Method, PublicKeyAttempt, TicketAttempt};
use lh_sys::records::Last;
use lh_wire::{Reader, WireError, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use crate::figures::{Conduct, Transfer};
use crate::log::Level;
use crate::monitor::Verdict;

/// Longer than any attempt to log in that fits a packet.
pub(crate) const LARGEST_QUESTION: usize = 512 * 1024;
/// Longer than any state that moves: a slab of received bytes, and what little a server says before it has a user.
pub(crate) const LARGEST_HAND_OVER: usize = 4 << 20;
/// An answer is a signature, a verdict with a banner, or the grant with the state that moves.
const LARGEST_ANSWER: usize = LARGEST_HAND_OVER + (1 << 20);

/// How long a message may take to leave when the other side does not read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a conversation cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TalkError {
    /// The other process is gone.
    #[error("the other process has ended")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The message is not what its sender should send.
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    /// The message is longer than any that makes sense now.
    #[error("message of {0} bytes")]
    TooLong(usize),
}

/// To the monitor.
#[derive(Debug)]
pub(crate) enum Question {
    /// No question: a line for the log.
    Log { level: Level, text: String },
    /// A signature over an exchange hash.
    Sign { key_index: usize, algorithm: String, hash: Vec<u8> },
    /// May this user in? What a signature covers is not part of it: the monitor knows that itself.
    Decide(Attempt),
    /// The user is in: here is the connection. The last word of the process before authentication.
    HandOver(Zeroizing<Vec<u8>>),
    /// A proof that the host has this key (`hostkeys-prove-00@openssh.com`), from the user's process.
    Prove { algorithm: String, key: Vec<u8> },
    /// Somebody uses this terminal (`pts/3`) now, from the user's process: record it, and tell when he was here last.
    Arrived { line: String, pid: u32 },
    /// Nobody uses it any more. No answer.
    Left { line: String },
    /// No question: a file or a command of the user's is done.
    Transfer(Transfer),
    /// No question: how the connection goes.
    Conduct(Conduct),
    /// The client wants to bring a further connection; its key is to be the ticket.
    Ticket {
        /// Blob of an Ed25519 key.
        key: Vec<u8>,
    },
}

/// The answer to [`Question::Arrived`].
pub(crate) fn encode_last(last: Option<&Last>) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_bool(last.is_some());
    if let Some(Last { time, host }) = last {
        out.put_u64(u64::try_from(*time).unwrap_or(0));
        out.put_string(host.as_bytes());
    }
    out
}

/// The reverse of [`encode_last`].
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
    /// The text to show before the verdict.
    pub(crate) banner: Option<String>,
    /// How log lines name the client from now on.
    pub(crate) client: Option<String>,
    /// How much is logged from now on.
    pub(crate) level: Level,
    /// The signatures that count for this user, the first time.
    pub(crate) algorithms: Vec<String>,
    /// What the library for Kerberos says about its failure, for the client's.
    pub(crate) error_token: Vec<u8>,
}

impl Question {
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
            Self::Transfer(transfer) => {
                out.put_u8(8);
                transfer.write_to(&mut out);
            }
            Self::Conduct(conduct) => {
                out.put_u8(9);
                conduct.write_to(&mut out);
            }
            Self::Ticket { key } => {
                out.put_u8(20);
                out.put_string(key);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let question = match reader.u8()? {
            1 => {
                // An attacker's line is no more than a line.
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
            9 => Self::Conduct(Conduct::read_from(&mut reader)?),
            20 => Self::Ticket { key: reader.string()?.to_vec() },
            _ => return Err(WireError::Invalid { what: "kind of question" }),
        };
        reader.finish()?;
        Ok(question)
    }
}

fn put_method(out: &mut Vec<u8>, method: &Method) {
    match method {
        Method::None => out.put_u8(0),
        Method::Password(password) => {
            out.put_u8(1);
            out.put_string(password);
        }
        Method::PasswordChange => out.put_u8(2),
        Method::PublicKey(PublicKeyAttempt { algorithm, key, signature, hostbound, signed: _ }) => {
            out.put_u8(3);
            out.put_string(algorithm.as_bytes());
            out.put_string(key);
            out.put_bool(*hostbound);
            put_option(out, signature.as_deref());
        }
        Method::KeyboardInteractive => out.put_u8(4),
        Method::Responses(responses) => {
            out.put_u8(5);
            out.put_u32(u32::try_from(responses.len()).unwrap_or(u32::MAX));
            for response in responses {
                out.put_string(response);
            }
        }
        Method::HostBased(HostBasedAttempt { algorithm, key, host, local_user, signature }) => {
            out.put_u8(7);
            for field in [algorithm.as_bytes(), key, host.as_bytes(), local_user.as_bytes(), signature] {
                out.put_string(field);
            }
        }
        Method::Gss(step) => {
            let (kind, bytes): (u8, &[u8]) = match step {
                GssAttempt::Begin(_) => (8, b""),
                GssAttempt::Token(token) => (9, token),
                GssAttempt::Mic(mic) => (10, mic),
                GssAttempt::Complete => (11, b""),
            };
            out.put_u8(kind);
            match step {
                GssAttempt::Begin(mechanisms) => {
                    out.put_u32(u32::try_from(mechanisms.len()).unwrap_or(u32::MAX));
                    mechanisms.iter().for_each(|each| out.put_string(each));
                }
                _ => out.put_string(bytes),
            }
        }
        Method::Ticket(TicketAttempt { key, signature }) => {
            out.put_u8(20);
            out.put_string(key);
            out.put_string(signature);
        }
        Method::Other(name) => {
            out.put_u8(6);
            out.put_string(name.as_bytes());
        }
    }
}

fn read_method(reader: &mut Reader<'_>) -> Result<Method, WireError> {
    Ok(match reader.u8()? {
        0 => Method::None,
        1 => Method::Password(Zeroizing::new(reader.string()?.to_vec())),
        2 => Method::PasswordChange,
        3 => Method::PublicKey(PublicKeyAttempt {
            algorithm: text(reader)?,
            key: reader.string()?.to_vec(),
            hostbound: reader.boolean()?,
            signature: read_option(reader)?.map(<[u8]>::to_vec),
            signed: Vec::new(),
        }),
        4 => Method::KeyboardInteractive,
        5 => {
            let count = reader.u32()?;
            let mut responses = Vec::new();
            for _ in 0..count {
                responses.push(Zeroizing::new(reader.string()?.to_vec()));
            }
            Method::Responses(responses)
        }
        6 => Method::Other(text(reader)?),
        7 => Method::HostBased(HostBasedAttempt {
            algorithm: text(reader)?,
            key: reader.string()?.to_vec(),
            host: text(reader)?,
            local_user: text(reader)?,
            signature: reader.string()?.to_vec(),
        }),
        8 => {
            let mut mechanisms = Vec::new();
            for _ in 0..reader.u32()? {
                mechanisms.push(reader.string()?.to_vec());
            }
            Method::Gss(GssAttempt::Begin(mechanisms))
        }
        9 => Method::Gss(GssAttempt::Token(reader.string()?.to_vec())),
        10 => Method::Gss(GssAttempt::Mic(reader.string()?.to_vec())),
        11 => {
            reader.string()?;
            Method::Gss(GssAttempt::Complete)
        }
        20 => Method::Ticket(TicketAttempt {
            key: reader.string()?.to_vec(),
            signature: reader.string()?.to_vec(),
        }),
        _ => return Err(WireError::Invalid { what: "kind of method" }),
    })
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
        }
        put_option(&mut out, self.banner.as_deref().map(str::as_bytes));
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
            _ => return Err(WireError::Invalid { what: "kind of verdict" }),
        };
        let owned = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let banner = owned(read_option(&mut reader)?);
        let client = owned(read_option(&mut reader)?);
        let level = Level::from_number(reader.u8()?);
        let algorithms = read_list(&mut reader)?;
        let error_token = reader.string()?.to_vec();
        reader.finish()?;
        Ok(Self { verdict, banner, client, level, algorithms, error_token })
    }
}

/// Any text; names of users and files need not be in an encoding that we know.
pub(crate) fn text(reader: &mut Reader<'_>) -> Result<String, WireError> {
    Ok(String::from_utf8_lossy(reader.string()?).into_owned())
}

pub(crate) fn put_option(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.put_bool(value.is_some());
    if let Some(value) = value {
        out.put_string(value);
    }
}

pub(crate) fn read_option<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, WireError> {
    if reader.boolean()? { reader.string().map(Some) } else { Ok(None) }
}

pub(crate) fn put_list(out: &mut Vec<u8>, list: &[String]) {
    out.put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
    for each in list {
        out.put_string(each.as_bytes());
    }
}

pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    let count = reader.u32()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(text(reader)?);
    }
    Ok(list)
}

/// One end of a conversation.
#[derive(Debug)]
pub(crate) struct Talk {
    socket: UnixStream,
    /// What has come and is not a whole message yet.
    inbox: Zeroizing<Vec<u8>>,
}

impl Talk {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { socket, inbox: Zeroizing::default() })
    }

    /// What to wait on.
    pub(crate) const fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(crate) fn send(&self, message: &[u8]) -> Result<(), TalkError> {
        let mut framed = Zeroizing::new(Vec::with_capacity(message.len() + 4));
        framed.put_string(message);
        Ok((&self.socket).write_all(&framed)?)
    }

    /// Waits for an answer. For those who ask: nothing else can happen meanwhile.
    pub(crate) fn receive(&mut self) -> Result<Zeroizing<Vec<u8>>, TalkError> {
        loop {
            if let Some(message) = self.next(LARGEST_ANSWER)? {
                return Ok(message);
            }
            self.read()?;
        }
    }

    /// The same, but no longer than until `deadline`.
    pub(crate) fn receive_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Zeroizing<Vec<u8>>, TalkError> {
        loop {
            if let Some(message) = self.next(LARGEST_ANSWER)? {
                return Ok(message);
            }
            let timeout = deadline.map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
                Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
            });
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                Ok(_) => self.read()?,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    pub(crate) fn ask(&mut self, question: &Question) -> Result<Zeroizing<Vec<u8>>, TalkError> {
        self.send(&question.encode())?;
        self.receive()
    }

    /// A signature that was asked for; an empty answer is a refusal.
    pub(crate) fn ask_signature(&mut self, question: &Question) -> Result<Vec<u8>, TalkError> {
        let answer = self.ask(question)?;
        if answer.is_empty() {
            return Err(io::Error::other("refused by the monitor").into());
        }
        Ok(answer.to_vec())
    }

    /// Reads once, waiting if nothing has come. For the monitor, after poll has said that something has: a sender
    /// that stops in the middle of a message does not hold it up.
    pub(crate) fn read(&mut self) -> Result<(), TalkError> {
        let mut buffer = Zeroizing::new([0; 16 * 1024]);
        match self.socket.read(&mut buffer[..]) {
            Ok(0) => Err(TalkError::Closed),
            Ok(n) => {
                if self.inbox.capacity() - self.inbox.len() < n {
                    // Grown by hand, so that what is left behind is wiped.
                    let mut larger = Zeroizing::new(Vec::with_capacity((self.inbox.len() + n) * 2));
                    larger.extend_from_slice(&self.inbox);
                    self.inbox = larger;
                }
                self.inbox.extend_from_slice(buffer.get(..n).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(TalkError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// The next whole message of at most `largest` bytes.
    pub(crate) fn next(&mut self, largest: usize) -> Result<Option<Zeroizing<Vec<u8>>>, TalkError> {
        let Some((length, content)) = self.inbox.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > largest {
            return Err(TalkError::TooLong(length));
        }
        let Some((message, rest)) = content.split_at_checked(length) else { return Ok(None) };
        let message = Zeroizing::new(message.to_vec());
        self.inbox = Zeroizing::new(rest.to_vec());
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(question: &Question) {
        let bytes = question.encode();
        let again = Question::decode(&bytes).unwrap();
        assert_eq!(again.encode(), bytes);
        for end in 0..bytes.len() {
            assert!(Question::decode(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn every_question_arrives() {
        same(&Question::Log { level: Level::Info, text: "ünïcode".into() });
        same(&Question::Sign { key_index: 2, algorithm: "ssh-ed25519".into(), hash: vec![7; 32] });
        same(&Question::HandOver(Zeroizing::new(vec![1; 5000])));
        same(&Question::Prove { algorithm: "ssh-ed25519".into(), key: vec![3; 51] });
        same(&Question::Arrived { line: "pts/3".into(), pid: 77 });
        same(&Question::Left { line: "pts/3".into() });
        same(&Question::Ticket { key: vec![3; 51] });
        same(&Question::Conduct(crate::figures::tests::conduct()));
        let outcome = crate::figures::Outcome::Complete;
        same(&Question::Transfer(crate::figures::tests::transfer(b"/a\n\xff", outcome)));
        for last in [None, Some(Last { time: 1_700_000_000, host: "client.example".into() })] {
            assert_eq!(decode_last(&encode_last(last.as_ref())).unwrap(), last);
        }
        let key = |signature| PublicKeyAttempt {
            algorithm: "ssh-ed25519".into(),
            key: vec![1],
            signature,
            signed: vec![],
            hostbound: true,
        };
        for method in [
            Method::None,
            Method::Password(Zeroizing::new(b"secret".to_vec())),
            Method::PasswordChange,
            Method::PublicKey(key(None)),
            Method::PublicKey(key(Some(vec![9; 64]))),
            Method::KeyboardInteractive,
            Method::Responses(vec![Zeroizing::new(b"x".to_vec()), Zeroizing::default()]),
            Method::HostBased(HostBasedAttempt {
                algorithm: "ssh-ed25519".into(),
                key: vec![1; 51],
                host: "client.example.".into(),
                local_user: "ada".into(),
                signature: vec![9; 83],
            }),
            Method::Gss(GssAttempt::Begin(vec![vec![6, 1, 7], vec![]])),
            Method::Gss(GssAttempt::Token(vec![8; 700])),
            Method::Gss(GssAttempt::Mic(vec![9; 28])),
            Method::Gss(GssAttempt::Complete),
            Method::Ticket(TicketAttempt { key: vec![1; 51], signature: vec![9; 83] }),
            Method::Other("unknown".into()),
        ] {
            same(&Question::Decide(Attempt { user: "ada".into(), method }));
        }
    }

    #[test]
    fn every_decision_arrives() {
        let methods = vec!["publickey".to_owned(), "password".to_owned()];
        for verdict in [
            Verdict::Accept,
            Verdict::Reject { methods, partial: true },
            Verdict::KeyOk,
            Verdict::Prompt(vec![("Password: ".into(), false), ("Token: ".into(), true)]),
            Verdict::TooMany,
            Verdict::Denied("Not today\n".into()),
            Verdict::Gss(GssReply::Mechanism(vec![6, 1, 7])),
            Verdict::Gss(GssReply::Token(vec![5; 200])),
        ] {
            let banner = Some("Welcome\n".to_owned());
            let algorithms = vec!["ssh-ed25519".to_owned()];
            let error_token = vec![1, 2];
            let sent =
                Decision { verdict, banner, client: None, level: Level::Debug2, algorithms, error_token };
            assert_eq!(Decision::decode(&sent.encode()).unwrap(), sent);
        }
    }

    #[test]
    fn messages_come_whole_and_bounded() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut ours = Talk::new(ours).unwrap();
        let mut theirs = Talk::new(theirs).unwrap();
        theirs.send(b"one").unwrap();
        theirs.send(&[5; 100_000]).unwrap();
        assert_eq!(&ours.receive().unwrap()[..], b"one");
        assert_eq!(ours.receive().unwrap().len(), 100_000);
        ours.send(b"").unwrap();
        assert_eq!(theirs.receive().unwrap().len(), 0);
        theirs.send(&[0; 11]).unwrap();
        ours.read().unwrap();
        assert!(matches!(ours.next(10), Err(TalkError::TooLong(11))));
        drop(theirs);
        assert!(matches!(ours.read(), Err(TalkError::Closed)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0_u8..10) {
            let _ = Question::decode(&bytes);
            let _ = Decision::decode(&bytes);
            let _ = Question::decode(&[&[kind], &bytes[..]].concat());
        }
    }
}
