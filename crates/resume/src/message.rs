//! The messages of the extension, as docs/protocol.md specifies them.
//!
//! Two are sent on an authenticated connection: [`Session`] and [`Acknowledge`]. They share one number of the
//! range for local extensions (RFC 4250 section 4.1.2), because they are not counted and must differ from
//! messages of the connection protocol. Two belong to the authentication method: [`Request`] and
//! [`Accepted`].

use lh_wire::{Reader, WireError, Writer};

use crate::NAME;

/// Length of a proof, bytes: HMAC-SHA256.
pub const PROOF_LEN: usize = 32;

/// Public name of a session: random bytes that the server chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; 16]);

/// Message number of [`Session`] and [`Acknowledge`].
pub const NUMBER: u8 = 224;

/// Message number of [`Accepted`]: the first number that an authentication method may use (RFC 4252 section
/// 6).
pub const ACCEPTED: u8 = 60;

const KIND_SESSION: u8 = 0;
const KIND_ACKNOWLEDGE: u8 = 1;

/// A message with [`NUMBER`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Names the session. The server sends it once.
    Session(Session),
    /// Acknowledges messages. Both ends send it.
    Acknowledge(Acknowledge),
}

/// The server's consent to resume this session, sent right behind USERAUTH_SUCCESS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Public name of the session, random.
    pub handle: Handle,
    /// Seconds for which a session waits for its client.
    pub grace: u32,
}

/// Cumulative acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledge {
    /// Number of counted messages received since the session began.
    pub received: u64,
}

impl Message {
    /// Decodes a message whose number is [`NUMBER`].
    ///
    /// # Errors
    /// The message is malformed, or of an unknown kind.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        expect(reader.u8()?, NUMBER)?;
        let message = match reader.u8()? {
            KIND_SESSION => Self::Session(Session { handle: Handle(reader.array()?), grace: reader.u32()? }),
            KIND_ACKNOWLEDGE => Self::Acknowledge(Acknowledge { received: reader.u64()? }),
            _ => return Err(WireError::Invalid { what: "kind of message" }),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl Session {
    /// Encodes the message.
    pub fn to_payload(&self) -> Vec<u8> {
        let mut out = vec![NUMBER, KIND_SESSION];
        out.put_bytes(&self.handle.0);
        out.put_u32(self.grace);
        out
    }
}

impl Acknowledge {
    /// Encodes the message.
    pub fn to_payload(self) -> Vec<u8> {
        let mut out = vec![NUMBER, KIND_ACKNOWLEDGE];
        out.put_u64(self.received);
        out
    }
}

/// The client's claim on a session: SSH_MSG_USERAUTH_REQUEST with the method `resume@longhaul`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// User name of the session's login.
    pub user: String,
    /// The session.
    pub handle: Handle,
    /// Generation of the secret that the proof is made with.
    pub generation: u64,
    /// Number of this attempt, larger than the numbers of all earlier attempts in the session.
    pub attempt: u64,
    /// Number of counted messages that the client has received.
    pub received: u64,
    /// Proof of the secret.
    pub proof: [u8; PROOF_LEN],
}

impl Request {
    /// Encodes the message.
    pub fn to_payload(&self) -> Vec<u8> {
        let mut out = vec![50];
        out.put_string(self.user.as_bytes());
        out.put_string(b"ssh-connection");
        out.put_string(NAME.as_bytes());
        out.put_bytes(&self.handle.0);
        out.put_u64(self.generation);
        out.put_u64(self.attempt);
        out.put_u64(self.received);
        out.put_bytes(&self.proof);
        out
    }

    /// Decodes the message.
    ///
    /// # Errors
    /// The message is malformed, or asks for another service or method.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        expect(reader.u8()?, 50)?;
        let user = reader.text()?.to_owned();
        if reader.string()? != b"ssh-connection" {
            return Err(WireError::Invalid { what: "service" });
        }
        if reader.string()? != NAME.as_bytes() {
            return Err(WireError::Invalid { what: "method" });
        }
        Self::read_fields(user, reader)
    }

    /// Decodes the fields behind the method's name.
    ///
    /// # Errors
    /// They are malformed.
    pub fn from_fields(user: &str, fields: &[u8]) -> Result<Self, WireError> {
        Self::read_fields(user.to_owned(), Reader::new(fields))
    }

    fn read_fields(user: String, mut reader: Reader<'_>) -> Result<Self, WireError> {
        let request = Self {
            user,
            handle: Handle(reader.array()?),
            generation: reader.u64()?,
            attempt: reader.u64()?,
            received: reader.u64()?,
            proof: reader.array()?,
        };
        reader.finish()?;
        Ok(request)
    }
}

/// The server's answer to a valid proof, sent directly before USERAUTH_SUCCESS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Number of counted messages that the server has received over all earlier links.
    pub received: u64,
    /// The server's proof of the secret.
    pub proof: [u8; PROOF_LEN],
}

impl Accepted {
    /// Encodes the message.
    pub fn to_payload(&self) -> Vec<u8> {
        let mut out = vec![ACCEPTED];
        out.put_u64(self.received);
        out.put_bytes(&self.proof);
        out
    }

    /// Decodes the message.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        expect(reader.u8()?, ACCEPTED)?;
        let accepted = Self { received: reader.u64()?, proof: reader.array()? };
        reader.finish()?;
        Ok(accepted)
    }
}

fn expect(got: u8, expected: u8) -> Result<(), WireError> {
    if got == expected { Ok(()) } else { Err(WireError::WrongMessage { expected, got }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_round_trip() {
        let session = Session { handle: Handle([7; 16]), grace: 600 };
        assert_eq!(Message::decode(&session.to_payload()), Ok(Message::Session(session)));
        let acknowledge = Acknowledge { received: u64::MAX };
        assert_eq!(Message::decode(&acknowledge.to_payload()), Ok(Message::Acknowledge(acknowledge)));
        let request = Request {
            user: "alice".to_owned(),
            handle: Handle([1; 16]),
            generation: 2,
            attempt: 3,
            received: 4,
            proof: [5; PROOF_LEN],
        };
        let payload = request.to_payload();
        let fields = &payload[payload.len() - 16 - 3 * 8 - PROOF_LEN..];
        assert_eq!(Request::from_fields("alice", fields), Ok(request.clone()));
        assert_eq!(Request::decode(&payload), Ok(request));
        let accepted = Accepted { received: 6, proof: [7; PROOF_LEN] };
        assert_eq!(Accepted::decode(&accepted.to_payload()), Ok(accepted));
    }

    #[test]
    fn unknown_kinds_and_trailing_bytes_are_refused() {
        assert!(Message::decode(&[NUMBER, 2]).is_err());
        let mut payload = Acknowledge { received: 1 }.to_payload();
        payload.push(0);
        assert!(Message::decode(&payload).is_err());
        assert!(Message::decode(&[94, 1, 0, 0, 0, 0, 0, 0, 0, 1]).is_err());
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (Message::decode(&bytes), Request::decode(&bytes), Accepted::decode(&bytes));
        }
    }
}
