//! Tickets: additional connections join an authenticated session without another login (docs/protocol.md).

use lh_auth::client::{Client as Machine, Event};
use lh_auth::{TICKET, TicketRequest};
use lh_crypto::{KeyType, PrivateKey};
use lh_wire::Writer;

use crate::error::ClientError;
use crate::log::Log;
use crate::login::Packets;
use crate::ui::LogLevel;

/// Name of the global request for a ticket, of its [`GlobalReply`](lh_driver::ControlEvent::GlobalReply), and
/// of the extension with which a server announces it.
pub const TICKET_REQUEST: &str = TICKET;

/// A key made to join one session once. The private half never leaves this process.
pub struct Ticket {
    key: PrivateKey,
    /// The session's identifier.
    joined: Vec<u8>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl Ticket {
    /// Makes a ticket for the session with this identifier, on a server that announces `extension` as the
    /// value of [`TICKET_REQUEST`]. `None` if the server does not support tickets.
    pub fn generate(extension: Option<&[u8]>, session_id: Option<&[u8]>) -> Option<Self> {
        if extension != Some(b"0") {
            return None;
        }
        let joined = session_id?.to_vec();
        let key = PrivateKey::generate(KeyType::Ed25519, None).ok()?;
        Some(Self { key, joined })
    }

    /// Returns the fields of the global request [`TICKET_REQUEST`], which asks the server to register the
    /// ticket. The reply is a [`GlobalReply`](lh_driver::ControlEvent::GlobalReply) of that name.
    pub fn request(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        fields.put_string(self.key.public().blob());
        fields
    }
}

/// Joins the session of `ticket` on a new connection whose host key is `host_key`.
///
/// # Errors
/// [`ClientError::Denied`] if the server refuses the ticket, or the error that ended the connection.
pub(crate) fn join(
    packets: &mut dyn Packets,
    mut machine: Machine,
    ticket: &Ticket,
    host_key: &[u8],
    log: &mut Log<'_>,
) -> Result<(), ClientError> {
    let denied = |why: &str| ClientError::Denied(format!("the ticket was not taken: {why}"));
    machine.start(packets.sink());
    loop {
        let payload = packets.next(log)?;
        match machine.handle(&payload) {
            Ok(Event::Ready) => {
                let request = TicketRequest { key: ticket.key.public().blob(), host_key };
                let data = machine.ticket_data(&ticket.joined, &request);
                let signature =
                    ticket.key.sign("ssh-ed25519", &data).map_err(|error| denied(&error.to_string()))?;
                machine.ticket(&request, &signature, packets.sink());
            }
            // The banner was shown at the first login.
            Ok(Event::Banner(_)) => {}
            Ok(Event::Success) => return Ok(()),
            Ok(_) => return Err(denied("Permission denied")),
            Err(error) => return Err(ClientError::lost(LogLevel::Error, error.to_string())),
        }
    }
}
