//! Tickets: additional connections join an authenticated session without another login (docs/protocol.md).

use lh_auth::client::{Client as Machine, Event};
use lh_auth::{TICKET, TicketRequest};
use lh_crypto::{KeyType, PrivateKey};
use lh_driver::ControlCx;
use lh_wire::Writer;

use crate::error::ClientError;
use crate::log::Log;
use crate::login::Packets;
use crate::ui::LogLevel;

/// Name of the [`GlobalReply`](lh_driver::ControlEvent::GlobalReply) to a ticket request.
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
    /// Makes a ticket for the control's session and asks the server to register it. The reply is a
    /// [`GlobalReply`](lh_driver::ControlEvent::GlobalReply) named [`TICKET_REQUEST`]. `None` if the server
    /// does not support tickets.
    pub fn request(cx: &mut ControlCx<'_>) -> Option<Self> {
        if cx.peer_extension(TICKET) != Some(b"0") {
            return None;
        }
        let joined = cx.session_id()?.to_vec();
        let key = PrivateKey::generate(KeyType::Ed25519, None).ok()?;
        let mut fields = Vec::new();
        fields.put_string(key.public().blob());
        cx.global_request(TICKET, true, &fields);
        Some(Self { key, joined })
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
