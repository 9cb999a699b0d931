//! A client of the authentication agent (RFC 9987, formerly draft-miller-ssh-agent).
//!
//! The agent is asked over a blocking unix socket: authentication has nothing else to do meanwhile, and an agent
//! that waits for a touch or a confirmation may take minutes, so there is no timeout.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use lh_wire::{Reader, WireError, Writer};

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Ask for `rsa-sha2-256` instead of `ssh-rsa`.
const RSA_SHA2_256: u32 = 2;
/// Ask for `rsa-sha2-512` instead of `ssh-rsa`.
const RSA_SHA2_512: u32 = 4;

/// Longest message taken from an agent, bytes: the limit OpenSSH has on both sides.
const MAX_REPLY: usize = 256 * 1024;
/// Most keys taken from an agent: OpenSSH's limit.
const MAX_KEYS: u32 = 2048;

/// Why the agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The socket could not be reached or broke.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The agent said no.
    #[error("agent refused operation")]
    Refused,
    /// The agent's answer is not one.
    #[error("invalid agent reply: {0}")]
    Malformed(#[from] WireError),
    /// The agent's answer is longer than any real one.
    #[error("agent reply too long")]
    TooLong,
}

/// A key the agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKey {
    /// Public key or certificate blob.
    pub blob: Vec<u8>,
    /// What the user calls it, usually the file it came from.
    pub comment: String,
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Agent {
    socket: UnixStream,
}

impl Agent {
    /// Connects to the agent listening at `path`.
    ///
    /// # Errors
    /// [`AgentError::Io`].
    pub fn connect(path: &Path) -> Result<Self, AgentError> {
        Ok(Self { socket: UnixStream::connect(path)? })
    }

    /// The keys the agent holds, in its order.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn identities(&mut self) -> Result<Vec<AgentKey>, AgentError> {
        parse_identities(&self.request(&[REQUEST_IDENTITIES])?)
    }

    /// Lets the agent sign `data` with the key `blob`; returns the signature blob. `algorithm` chooses the hash
    /// of RSA keys and is implied by the key for all others.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn sign(&mut self, blob: &[u8], algorithm: &str, data: &[u8]) -> Result<Vec<u8>, AgentError> {
        let flags = match algorithm.split('@').next().unwrap_or(algorithm).trim_end_matches("-cert-v01") {
            "rsa-sha2-256" => RSA_SHA2_256,
            "rsa-sha2-512" => RSA_SHA2_512,
            _ => 0,
        };
        let mut message = vec![SIGN_REQUEST];
        message.put_string(blob);
        message.put_string(data);
        message.put_u32(flags);
        parse_signature(&self.request(&message)?)
    }

    fn request(&mut self, message: &[u8]) -> Result<Vec<u8>, AgentError> {
        let mut framed = Vec::with_capacity(4 + message.len());
        framed.put_string(message);
        self.socket.write_all(&framed)?;
        let mut len = [0; 4];
        self.socket.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len) as usize;
        if len > MAX_REPLY {
            return Err(AgentError::TooLong);
        }
        let mut reply = vec![0; len];
        self.socket.read_exact(&mut reply)?;
        Ok(reply)
    }
}

fn open_reply(reply: &[u8], expected: u8) -> Result<Reader<'_>, AgentError> {
    let mut reader = Reader::new(reply);
    match reader.u8()? {
        got if got == expected => Ok(reader),
        // 30 and 102 are what PuTTY's and ssh.com's agents say instead of 5.
        FAILURE | 30 | 102 => Err(AgentError::Refused),
        got => Err(WireError::WrongMessage { expected, got }.into()),
    }
}

fn parse_identities(reply: &[u8]) -> Result<Vec<AgentKey>, AgentError> {
    let mut reader = open_reply(reply, IDENTITIES_ANSWER)?;
    let count = reader.u32()?;
    if count > MAX_KEYS {
        return Err(AgentError::TooLong);
    }
    let mut keys = Vec::new();
    for _ in 0..count {
        let blob = reader.string()?.to_vec();
        let comment = String::from_utf8_lossy(reader.string()?).into_owned();
        keys.push(AgentKey { blob, comment });
    }
    reader.finish()?;
    Ok(keys)
}

fn parse_signature(reply: &[u8]) -> Result<Vec<u8>, AgentError> {
    let mut reader = open_reply(reply, SIGN_RESPONSE)?;
    let signature = reader.string()?.to_vec();
    reader.finish()?;
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn identities_are_read_and_refusals_recognised() {
        let mut reply = vec![IDENTITIES_ANSWER];
        reply.put_u32(1);
        reply.put_string(b"blob");
        reply.put_string(b"me@host");
        let keys = parse_identities(&reply).expect("well-formed");
        assert_eq!(keys, [AgentKey { blob: b"blob".to_vec(), comment: "me@host".to_owned() }]);
        assert!(matches!(parse_identities(&[FAILURE]), Err(AgentError::Refused)));
        assert!(matches!(parse_signature(&[FAILURE]), Err(AgentError::Refused)));
        reply.push(0);
        assert!(matches!(parse_identities(&reply), Err(AgentError::Malformed(_))));
    }

    #[test]
    fn a_count_the_reply_cannot_hold_costs_nothing() {
        let mut reply = vec![IDENTITIES_ANSWER];
        reply.put_u32(u32::MAX);
        assert!(matches!(parse_identities(&reply), Err(AgentError::TooLong)));
    }

    #[test]
    fn a_signature_request_carries_the_rsa_hash() {
        let (ours, mut theirs) = UnixStream::pair().expect("socket pair");
        let mut agent = Agent { socket: ours };
        let peer = std::thread::spawn(move || {
            let mut len = [0; 4];
            theirs.read_exact(&mut len).expect("length");
            let mut body = vec![0; u32::from_be_bytes(len) as usize];
            theirs.read_exact(&mut body).expect("body");
            let mut reply = vec![SIGN_RESPONSE];
            reply.put_string(b"signature");
            let mut framed = Vec::new();
            framed.put_string(&reply);
            theirs.write_all(&framed).expect("reply");
            body
        });
        assert_eq!(agent.sign(b"key", "rsa-sha2-512", b"data").expect("signed"), b"signature");
        let body = peer.join().expect("peer");
        let mut reader = Reader::new(&body);
        assert_eq!(reader.u8(), Ok(SIGN_REQUEST));
        assert_eq!(reader.string(), Ok(&b"key"[..]));
        assert_eq!(reader.string(), Ok(&b"data"[..]));
        assert_eq!(reader.u32(), Ok(RSA_SHA2_512));
    }

    proptest! {
        #[test]
        fn replies_never_panic(reply in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_identities(&reply);
            let _ = parse_signature(&reply);
        }
    }
}
