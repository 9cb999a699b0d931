//! A new connection's claim on an existing session: the new monitor's side of the exchange with the session's
//! monitor.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use lh_resume::Handle;
use zeroize::Zeroizing;

use super::messages::{FromClaimant, Login, ToClaimant};
use super::{TIMEOUT, connect};
use crate::monitor_ipc::{MonitorSocket, MonitorSocketError};

/// A session that this connection is about to take over.
pub(crate) struct Claimant {
    session: MonitorSocket,
}

/// The answer to a claim.
pub(crate) enum Claimed {
    /// The proof is right; the facts about the session's login.
    Right(Claimant, Login),
    /// The claim is refused. `overtaken`: the proof is right, but a later attempt of this client was
    /// accepted.
    Refused { overtaken: bool },
}

impl Claimant {
    /// Claims the session for this client.
    ///
    /// # Errors
    /// There is no such session, or its monitor does not answer.
    pub(crate) fn claim(
        handle: &Handle,
        user: &str,
        fields: &[u8],
        session_id: &[u8],
    ) -> Result<Claimed, MonitorSocketError> {
        let mut claimant = Self { session: MonitorSocket::new(connect(handle)?)? };
        let claim = FromClaimant::Claim {
            user: user.to_owned(),
            fields: fields.to_vec(),
            session_id: session_id.to_vec(),
        };
        match claimant.ask(&claim)? {
            ToClaimant::Right(login) => Ok(Claimed::Right(claimant, login)),
            ToClaimant::Refused { overtaken } => Ok(Claimed::Refused { overtaken }),
            ToClaimant::Accepted(_) => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    /// Takes over the session; returns the message to the client. `None`: the session cannot be resumed.
    ///
    /// # Errors
    /// The session's monitor does not answer.
    pub(crate) fn take(
        &mut self,
        export: &Zeroizing<Vec<u8>>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Option<Vec<u8>>, MonitorSocketError> {
        match self.ask(&FromClaimant::Take { export: export.clone(), peer, local })? {
            ToClaimant::Accepted(answer) => Ok(Some(answer)),
            _ => Ok(None),
        }
    }

    /// Asks the session's monitor to end the session.
    pub(crate) fn end(&self) {
        // A session that cannot be reached ends when its waiting time is over.
        let _ = self.session.send(&FromClaimant::End.encode());
    }

    /// Hands the connection over to the session's monitor.
    ///
    /// # Errors
    /// The session's monitor has ended.
    pub(crate) fn deliver(
        &self,
        socket: &OwnedFd,
        state: Zeroizing<Vec<u8>>,
    ) -> Result<(), MonitorSocketError> {
        lh_sys::pass::send_fd(self.session.socket(), socket.as_fd())?;
        self.session.send(&FromClaimant::Connection(state).encode())
    }

    fn ask(&mut self, message: &FromClaimant) -> Result<ToClaimant, MonitorSocketError> {
        self.session.send(&message.encode())?;
        let answer = self.session.receive_until(Instant::now().checked_add(TIMEOUT))?;
        Ok(ToClaimant::decode(&answer)?)
    }
}
