//! Tickets: further connections of a session that has logged in, without another login (docs/protocol.md).

use lh_auth::client::{Client as Machine, Event};
use lh_auth::{TICKET, TicketRequest};
use lh_crypto::{KeyType, PrivateKey};
use lh_driver::ControlCx;
use lh_wire::Writer;

use crate::error::ClientError;
use crate::log::Log;
use crate::login::Packets;

/// The name under which the control hears whether a ticket that was asked for is good.
pub const TICKET_REQUEST: &str = TICKET;

/// A key that was made to join one session once. The private half never leaves this process.
pub struct Ticket {
    key: PrivateKey,
    /// The identifier of that session.
    joined: Vec<u8>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl Ticket {
    /// Makes one for the session that the control belongs to and asks the server to honour it. The answer is a
    /// [`GlobalReply`](lh_driver::ControlEvent::GlobalReply) named [`TICKET_REQUEST`]. `None`: the server does not know tickets.
    pub fn request(cx: &mut ControlCx<'_>) -> Option<Self> {
        if cx.transport().peer_extension(TICKET) != Some(b"0") {
            return None;
        }
        let joined = cx.transport().session_id()?.to_vec();
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
/// [`ClientError::Denied`] when the server does not take it; or what ended the connection.
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
            // It was shown when the user logged in.
            Ok(Event::Banner(_)) => {}
            Ok(Event::Success) => return Ok(()),
            Ok(_) => return Err(denied("Permission denied")),
            Err(error) => return Err(ClientError::Lost(error.to_string())),
        }
    }
}
