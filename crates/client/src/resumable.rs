//! Decides if a session is to outlive its connection (`Resume`), and prepares for that before the session
//! begins.

use std::time::Duration;

use lh_config::special::Resume;
use lh_resume::{BUDGET, NAME, is_offered};
use lh_transport::Transport;

use crate::options::Options;

/// Keepalives where `ServerAliveInterval` asks for none: without them a path that is silent would not count as
/// broken.
pub(crate) const KEEPALIVE: (Duration, u32) = (Duration::from_secs(15), 3);

/// True if the session of these options is to outlive its connection. Connections that join a session by a
/// ticket do not: the work of one that breaks goes over the others.
pub(crate) fn is_wanted(options: &Options) -> bool {
    *options.config.resume != Resume::No && options.ticket.is_none() && !*options.config.none_switch
}

/// Keeps what is sent, from now on, if the server has offered to resume. Call it before the first message of the
/// session.
pub(crate) fn keep_messages(transport: &mut Transport) {
    let offered = transport.peer_extension(NAME).is_some_and(is_offered);
    if offered && transport.message_counts().is_none() {
        // Without keys there is no session either.
        let _ = transport.retain(BUDGET);
    }
}
