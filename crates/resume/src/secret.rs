//! The rolling secret of a session: proofs, their check, and the step to the next secret.
//!
//! docs/security.md has the argument. A proof names the new connection by its session identifier, so it is
//! worthless on any other connection. Each resumption mixes key material of the new connection into the
//! secret, so a secret that was copied before is worthless afterwards. After a resumption the server keeps
//! the previous secret until the client has proved that it has the new one.

use lh_crypto::{Hash, constant_time_eq};
use lh_wire::Writer;
use zeroize::Zeroizing;

use crate::NAME;
use crate::message::{Accepted, Handle, PROOF_LEN, Request};

/// Length of a secret and of exported key material, bytes.
pub const SECRET_LEN: usize = 32;

/// Key material of one connection, from the transport's exporter with the label [`NAME`] and the session's
/// handle as context.
pub type Export = Zeroizing<[u8; SECRET_LEN]>;

/// Reason for not accepting the other end of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The proof is wrong, or was made with a secret that is no longer valid. Charge it to its source address
    /// like a wrong password.
    #[error("wrong proof")]
    WrongProof,
    /// The proof is valid, but a later attempt of this client was accepted before: a delayed connection that
    /// the client has given up. Do not charge it.
    #[error("an attempt that was overtaken by a later one")]
    Overtaken,
}

/// A secret of one generation.
struct Secret {
    generation: u64,
    bytes: Zeroizing<[u8; SECRET_LEN]>,
}

impl Secret {
    fn first(handle: &Handle, export: &Export) -> Self {
        let key = Hash::Sha256.hkdf_extract(&handle.0, &export[..]);
        Self { generation: 0, bytes: expand(&key, b"first secret") }
    }

    /// Returns the secret that follows a resumption. `export` is key material of the new connection.
    fn next(&self, export: &Export) -> Self {
        let key = Hash::Sha256.hkdf_extract(&self.bytes[..], &export[..]);
        Self { generation: self.generation + 1, bytes: expand(&key, b"next secret") }
    }

    fn proof(&self, purpose: &[u8], data: &[u8]) -> [u8; PROOF_LEN] {
        let key = expand(&self.bytes[..], purpose);
        let mut proof = [0; PROOF_LEN];
        proof.copy_from_slice(Hash::Sha256.hmac(&key[..], data).as_ref());
        proof
    }

    fn client_proof(&self, request: &Request, session_id: &[u8]) -> [u8; PROOF_LEN] {
        self.proof(b"client proof", &proven(request, session_id))
    }

    fn server_proof(&self, request: &Request, session_id: &[u8], received: u64) -> [u8; PROOF_LEN] {
        let mut data = proven(request, session_id);
        data.put_u64(received);
        self.proof(b"server proof", &data)
    }
}

/// Derives a key of one digest by HKDF-Expand (RFC 5869 section 2.3), for one purpose of this extension: the
/// first block of the expansion, which is an HMAC. Unlike a library's expansion it has no error, for which
/// there would be no secret.
fn expand(key: &[u8], purpose: &[u8]) -> Zeroizing<[u8; SECRET_LEN]> {
    let block = [NAME.as_bytes(), b" ", purpose, &[1]].concat();
    let mut out = Zeroizing::new([0; SECRET_LEN]);
    out.copy_from_slice(Hash::Sha256.hmac(key, &block).as_ref());
    out
}

/// Returns the bytes that both proofs authenticate: every field of the request, and the session identifier of
/// its connection.
fn proven(request: &Request, session_id: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(160);
    data.put_string(NAME.as_bytes());
    data.put_string(session_id);
    data.put_string(request.user.as_bytes());
    data.put_bytes(&request.handle.0);
    data.put_u64(request.generation);
    data.put_u64(request.attempt);
    data.put_u64(request.received);
    data
}

/// The client's side.
pub struct ClientSecret {
    handle: Handle,
    secret: Secret,
    attempts: u64,
}

impl ClientSecret {
    /// Derives the first secret of a session, from the connection of its login.
    pub fn new(handle: Handle, export: &Export) -> Self {
        Self { handle, secret: Secret::first(&handle, export), attempts: 0 }
    }

    /// Returns the session's public name.
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the claim for a new connection with this session identifier. From now on the caller must
    /// ignore input from older connections, because the server continues from `received`.
    pub fn request(&mut self, user: &str, session_id: &[u8], received: u64) -> Request {
        self.attempts += 1;
        let mut request = Request {
            user: user.to_owned(),
            handle: self.handle,
            generation: self.secret.generation,
            attempt: self.attempts,
            received,
            proof: [0; PROOF_LEN],
        };
        request.proof = self.secret.client_proof(&request, session_id);
        request
    }

    /// Checks the server's answer to `request`, rolls the secret, and returns the number of counted messages
    /// that the server has received.
    ///
    /// # Errors
    /// The server does not have the secret, or it answers another request. The state is unchanged.
    pub fn accepted(
        &mut self,
        request: &Request,
        session_id: &[u8],
        export: &Export,
        answer: &Accepted,
    ) -> Result<u64, Refused> {
        let expected = self.secret.server_proof(request, session_id, answer.received);
        let current = request.generation == self.secret.generation && request.attempt == self.attempts;
        if !current || !constant_time_eq(&expected, &answer.proof) {
            return Err(Refused::WrongProof);
        }
        self.secret = self.secret.next(export);
        Ok(answer.received)
    }

    /// Returns the number of resumptions that the client knows of.
    pub const fn generation(&self) -> u64 {
        self.secret.generation
    }
}

/// A valid proof: the permission to take a session over, until another attempt is accepted.
#[derive(Debug, Clone)]
pub struct Verified {
    request: Request,
    session_id: Vec<u8>,
}

impl Verified {
    /// Returns the number of counted messages that the client has received.
    pub const fn received(&self) -> u64 {
        self.request.received
    }
}

/// The server's side.
pub struct ServerSecret {
    handle: Handle,
    secret: Secret,
    /// The previous secret, while the client may not know the new one.
    previous: Option<Secret>,
    /// Number of the last accepted attempt.
    attempt: u64,
}

impl ServerSecret {
    /// Derives the first secret of a session, from the connection of its login.
    pub fn new(handle: Handle, export: &Export) -> Self {
        Self { handle, secret: Secret::first(&handle, export), previous: None, attempt: 0 }
    }

    /// Checks a claim from a connection with this session identifier. Nothing changes: the session keeps its
    /// connection until [`accept`](Self::accept).
    ///
    /// # Errors
    /// The claim is not valid.
    pub fn verify(&self, request: &Request, session_id: &[u8]) -> Result<Verified, Refused> {
        let secret = self.secret_for(request).ok_or(Refused::WrongProof)?;
        let expected = secret.client_proof(request, session_id);
        if !constant_time_eq(&expected, &request.proof) {
            return Err(Refused::WrongProof);
        }
        if request.attempt <= self.attempt {
            return Err(Refused::Overtaken);
        }
        Ok(Verified { request: request.clone(), session_id: session_id.to_vec() })
    }

    /// Moves the session to the connection of a verified claim, rolls the secret, and returns the answer.
    /// Call it when the previous connection is closed, so that `received` is final.
    ///
    /// # Errors
    /// Another attempt was accepted since the claim was verified.
    pub fn accept(&mut self, claim: &Verified, export: &Export, received: u64) -> Result<Accepted, Refused> {
        let Verified { request, session_id } = claim;
        if request.attempt <= self.attempt {
            return Err(Refused::Overtaken);
        }
        let secret = self.secret_for(request).ok_or(Refused::WrongProof)?;
        let proof = secret.server_proof(request, session_id, received);
        let next = secret.next(export);
        if request.generation == self.secret.generation {
            // This claim was made with the latest secret, so the client has it, and the secret before it is
            // dropped.
            self.previous = Some(std::mem::replace(&mut self.secret, next));
        } else {
            // The answer to the previous attempt was lost, so the secret that it led to is dropped.
            self.secret = next;
        }
        self.attempt = request.attempt;
        Ok(Accepted { received, proof })
    }

    /// Records that the client has sent something under the keys of the last accepted connection *after* our
    /// SUCCESS. The client has the answer, so the previous secret is wiped.
    pub fn confirm(&mut self) {
        self.previous = None;
    }

    /// Returns the session's public name.
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the number of resumptions, without those whose answer was lost.
    pub const fn generation(&self) -> u64 {
        self.secret.generation
    }

    fn secret_for(&self, request: &Request) -> Option<&Secret> {
        let secrets = [Some(&self.secret), self.previous.as_ref()].into_iter().flatten();
        let mut named = secrets.filter(|secret| secret.generation == request.generation);
        if request.handle == self.handle { named.next() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: Handle = Handle([9; 16]);

    fn export(byte: u8) -> Export {
        Zeroizing::new([byte; SECRET_LEN])
    }

    fn ends() -> (ClientSecret, ServerSecret) {
        (ClientSecret::new(HANDLE, &export(0)), ServerSecret::new(HANDLE, &export(0)))
    }

    /// A stolen copy of the client's state.
    fn copy(client: &ClientSecret) -> ClientSecret {
        let Secret { generation, bytes } = &client.secret;
        let secret = Secret { generation: *generation, bytes: bytes.clone() };
        ClientSecret { handle: client.handle, secret, attempts: client.attempts }
    }

    /// Resumes over a connection with this number, which is its session identifier and key material.
    fn resume(client: &mut ClientSecret, server: &mut ServerSecret, link: u8) -> Result<(), Refused> {
        let request = client.request("alice", &[link], 1);
        let claim = server.verify(&request, &[link])?;
        let answer = server.accept(&claim, &export(link), 2)?;
        assert_eq!(client.accepted(&request, &[link], &export(link), &answer)?, 2);
        server.confirm();
        Ok(())
    }

    #[test]
    fn keys_are_those_of_hkdf_expand() {
        for (key, purpose) in
            [([0; 32], b"first secret".as_slice()), ([7; 32], b"client proof"), ([9; 32], b"")]
        {
            let info = [b"resume@longhaul ".as_slice(), purpose].concat();
            let expected = Hash::Sha256.hkdf_expand_array(&key, &info).unwrap();
            assert_eq!(expand(&key, purpose), expected);
        }
    }

    #[test]
    fn sessions_resume_again_and_again() {
        let (mut client, mut server) = ends();
        for link in 1..100 {
            resume(&mut client, &mut server, link).unwrap();
            assert_eq!((client.generation(), server.generation()), (u64::from(link), u64::from(link)));
        }
    }

    #[test]
    fn every_field_of_a_claim_is_proven() {
        let (mut client, server) = ends();
        let request = client.request("alice", b"one", 1);
        server.verify(&request, b"one").unwrap();
        let mut proof = request.proof;
        proof[31] ^= 0x80;
        let changes = [
            Request { user: "alicex".to_owned(), ..request.clone() },
            Request { handle: Handle([8; 16]), ..request.clone() },
            Request { generation: request.generation + 1, ..request.clone() },
            Request { attempt: request.attempt + 1, ..request.clone() },
            Request { received: request.received + 1, ..request.clone() },
            Request { proof, ..request.clone() },
        ];
        for changed in changes {
            assert_eq!(server.verify(&changed, b"one").unwrap_err(), Refused::WrongProof, "{changed:?}");
        }
    }

    #[test]
    fn a_replayed_proof_is_refused_on_another_link() {
        let (mut client, server) = ends();
        let request = client.request("alice", b"one", 1);
        assert_eq!(server.verify(&request, b"two").unwrap_err(), Refused::WrongProof);
    }

    #[test]
    fn an_old_secret_is_worth_nothing() {
        let (mut client, mut server) = ends();
        let mut stolen = copy(&client);
        resume(&mut client, &mut server, 1).unwrap();
        let request = stolen.request("alice", &[2], 1);
        assert_eq!(server.verify(&request, &[2]).unwrap_err(), Refused::WrongProof);
        // Nor can the next one be computed from it without key material of the connection.
        stolen.secret = stolen.secret.next(&export(7));
        let request = stolen.request("alice", &[2], 1);
        assert_eq!(server.verify(&request, &[2]).unwrap_err(), Refused::WrongProof);
        resume(&mut client, &mut server, 3).unwrap();
    }

    #[test]
    fn a_lost_answer_does_not_lose_the_session() {
        let (mut client, mut server) = ends();
        for link in 1..6 {
            let request = client.request("alice", &[link], 1);
            let claim = server.verify(&request, &[link]).unwrap();
            server.accept(&claim, &export(link), 2).unwrap();
        }
        assert_eq!((client.generation(), server.generation()), (0, 1));
        resume(&mut client, &mut server, 6).unwrap();
        resume(&mut client, &mut server, 7).unwrap();
        assert_eq!(server.generation(), 2);
    }

    #[test]
    fn a_lost_confirmation_does_not_lose_the_session() {
        let (mut client, mut server) = ends();
        for link in 1..6 {
            let mut stolen = copy(&client);
            let request = client.request("alice", &[link], 1);
            let claim = server.verify(&request, &[link]).unwrap();
            let answer = server.accept(&claim, &export(link), 2).unwrap();
            client.accepted(&request, &[link], &export(link), &answer).unwrap();
            // The next claim with the new secret confirms that the client has it.
            if link > 1 {
                stolen.secret.generation -= 1;
                let request = stolen.request("alice", &[link], 1);
                assert_eq!(server.verify(&request, &[link]).unwrap_err(), Refused::WrongProof);
            }
        }
        assert_eq!(server.generation(), 5);
    }

    #[test]
    fn a_delayed_attempt_cannot_take_the_session_back() {
        let (mut client, mut server) = ends();
        let delayed = client.request("alice", &[1], 1);
        let waiting = server.verify(&delayed, &[1]).unwrap();
        let request = client.request("alice", &[2], 1);
        let claim = server.verify(&request, &[2]).unwrap();
        let answer = server.accept(&claim, &export(2), 2).unwrap();
        // The answer is in flight, so the previous secret is still valid.
        assert_eq!(server.verify(&delayed, &[1]).unwrap_err(), Refused::Overtaken);
        assert_eq!(server.accept(&waiting, &export(1), 2).unwrap_err(), Refused::Overtaken);
        client.accepted(&request, &[2], &export(2), &answer).unwrap();
        resume(&mut client, &mut server, 3).unwrap();
    }

    #[test]
    fn a_server_without_the_secret_is_refused() {
        let (mut client, mut server) = ends();
        let mut other = ServerSecret::new(HANDLE, &export(1));
        let request = client.request("alice", &[1], 1);
        assert!(other.verify(&request, &[1]).is_err());
        // This server answers although it does not own the session.
        let claim = Verified { request: request.clone(), session_id: vec![1] };
        let answer = other.accept(&claim, &export(1), 2).unwrap();
        assert_eq!(client.accepted(&request, &[1], &export(1), &answer), Err(Refused::WrongProof));
        // A valid answer with another count, or to an earlier attempt, is refused too.
        let claim = server.verify(&request, &[1]).unwrap();
        let right = server.accept(&claim, &export(1), 2).unwrap();
        let changed = Accepted { received: 3, ..right.clone() };
        assert_eq!(client.accepted(&request, &[1], &export(1), &changed), Err(Refused::WrongProof));
        client.request("alice", &[2], 1);
        assert_eq!(client.accepted(&request, &[1], &export(1), &right), Err(Refused::WrongProof));
    }

    #[test]
    fn proofs_of_both_sides_differ() {
        let (mut client, mut server) = ends();
        let request = client.request("alice", &[1], 1);
        let claim = server.verify(&request, &[1]).unwrap();
        let answer = server.accept(&claim, &export(1), 1).unwrap();
        assert_ne!(request.proof, answer.proof);
    }
}
