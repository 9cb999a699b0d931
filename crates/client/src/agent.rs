//! A client of the authentication agent (RFC 9987).
//!
//! Requests block on the agent's unix socket. The caller has nothing else to do meanwhile, and an agent that
//! waits for a touch or a confirmation may take minutes, so there is no timeout.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use lh_agent::{
    AddedKey, Constraints, Extension, MAX_MESSAGE, ProtocolError, Reply, Request, SessionBind, flags_for,
    frame, names,
};
use lh_wire::Reader;

/// A key that the agent holds.
pub use lh_agent::IdentityEntry as AgentKey;

/// Why an agent request failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The socket could not be reached, or the connection broke.
    #[error("communication with agent failed")]
    Io(#[from] std::io::Error),
    /// The agent refused the request.
    #[error("agent refused operation")]
    Refused,
    /// The agent's reply is malformed.
    #[error("invalid agent reply: {0}")]
    Malformed(#[from] ProtocolError),
    /// The agent's reply is of the wrong type for the request.
    #[error("invalid agent reply")]
    Unexpected,
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

    /// Returns the keys that the agent holds, in its order.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn identities(&mut self) -> Result<Vec<AgentKey>, AgentError> {
        match self.ask(&Request::Identities)? {
            Reply::Identities(keys) => Ok(keys),
            other => Err(refusal(&other)),
        }
    }

    /// Makes the agent sign `data` with the key `blob`; returns the signature blob. `algorithm` selects the
    /// hash of RSA keys; every other key has only one algorithm.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn sign(&mut self, blob: &[u8], algorithm: &str, data: &[u8]) -> Result<Vec<u8>, AgentError> {
        match self.ask(&Request::Sign { key: blob, data, flags: flags_for(algorithm) })? {
            Reply::Signature(signature) => Ok(signature),
            other => Err(refusal(&other)),
        }
    }

    /// Adds a key to the agent.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn add(&mut self, key: AddedKey, comment: &str, constraints: Constraints) -> Result<(), AgentError> {
        self.done(&Request::Add { key: Box::new(key), comment: comment.to_owned(), constraints })
    }

    /// Sends a request whose reply is success or failure.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn done(&mut self, request: &Request<'_>) -> Result<(), AgentError> {
        match self.ask(request)? {
            Reply::Success => Ok(()),
            other => Err(refusal(&other)),
        }
    }

    /// Binds this connection to an SSH session. Agents require it before they use keys with destination
    /// constraints.
    ///
    /// # Errors
    /// [`AgentError::Refused`] also from agents that do not support the extension.
    pub fn bind(&mut self, bind: SessionBind<'_>) -> Result<(), AgentError> {
        self.done(&Request::Extension(Extension::SessionBind(bind)))
    }

    /// Returns the names of the extensions that the agent supports.
    ///
    /// # Errors
    /// [`AgentError::Refused`] also from agents that do not support the query.
    pub fn extensions(&mut self) -> Result<Vec<String>, AgentError> {
        let Reply::Extension { name, body } = self.ask(&Request::Extension(Extension::Query))? else {
            return Err(AgentError::Refused);
        };
        if name != names::QUERY {
            return Err(AgentError::Unexpected);
        }
        let mut reader = Reader::new(&body);
        let mut found = Vec::new();
        while !reader.is_empty() {
            found.push(reader.text().map_err(ProtocolError::from)?.to_owned());
        }
        Ok(found)
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Reply, AgentError> {
        self.socket.write_all(&frame(&request.encode()))?;
        let mut len = [0; 4];
        self.socket.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len);
        if len == 0 || len as usize > MAX_MESSAGE {
            return Err(ProtocolError::Length(len).into());
        }
        let mut reply = vec![0; len as usize];
        self.socket.read_exact(&mut reply)?;
        Ok(Reply::parse(&reply)?)
    }
}

fn refusal(reply: &Reply) -> AgentError {
    match reply {
        Reply::Failure | Reply::ExtensionFailure => AgentError::Refused,
        _ => AgentError::Unexpected,
    }
}

/// An agent with prepared replies; the thread returns the requests that it received.
#[cfg(test)]
pub(crate) fn scripted(path: &Path, replies: Vec<Reply>) -> std::thread::JoinHandle<Vec<Vec<u8>>> {
    let listener = std::os::unix::net::UnixListener::bind(path).expect("agent socket");
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let mut asked = Vec::new();
        for reply in replies {
            let mut len = [0; 4];
            if socket.read_exact(&mut len).is_err() {
                break;
            }
            let mut body = vec![0; u32::from_be_bytes(len) as usize];
            socket.read_exact(&mut body).expect("body");
            asked.push(body);
            socket.write_all(&frame(&reply.encode())).expect("reply");
        }
        asked
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_agent::SignFlags;

    #[test]
    fn rsa_hash_is_requested_and_refusal_is_an_error() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("agent");
        let peer = scripted(&path, vec![Reply::Signature(b"signature".to_vec()), Reply::Failure]);
        let mut agent = Agent::connect(&path).expect("connected");
        assert_eq!(agent.sign(b"key", "rsa-sha2-512", b"data").expect("signed"), b"signature");
        assert!(matches!(agent.identities(), Err(AgentError::Refused)));
        let asked = peer.join().expect("peer");
        match Request::parse(&asked[0]) {
            Ok(Request::Sign { key: b"key", data: b"data", flags: SignFlags::RSA_SHA2_512 }) => {}
            _ => panic!("another request"),
        }
    }

    #[test]
    fn reply_of_another_type_is_refused() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("agent");
        let peer = scripted(&path, vec![Reply::Success, Reply::Identities(Vec::new())]);
        let mut agent = Agent::connect(&path).expect("connected");
        assert!(matches!(agent.identities(), Err(AgentError::Unexpected)));
        assert!(matches!(agent.done(&Request::RemoveAll), Err(AgentError::Unexpected)));
        peer.join().expect("peer");
    }
}
