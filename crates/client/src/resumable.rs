//! Decides whether a session may outlive its connection (`Resume`), and prepares for that before the session
//! begins.

use std::time::Duration;

use lh_config::special::Resume;
use lh_driver::Link;
use lh_resume::{BUDGET, NAME, is_offered};

use crate::options::Options;

/// Keepalive interval and count where `ServerAliveInterval` is not set: without keepalives a silent path
/// would never count as broken.
pub(crate) const KEEPALIVE: (Duration, u32) = (Duration::from_secs(15), 3);

/// True if the session of these options should outlive its connection. Connections that join a session by a
/// ticket should not: when one breaks, the others take over its work.
pub(crate) fn is_wanted(options: &Options) -> bool {
    *options.config.resume != Resume::No && options.ticket.is_none() && !*options.config.none_switch
}

/// Starts to keep sent messages, if the server has offered to resume. Must be called before the first message
/// of the session.
pub(crate) fn keep_messages(link: &mut Link) {
    let offered = link.peer_extension(NAME).is_some_and(is_offered);
    if offered && link.message_counts().is_none() {
        // Fails only without keys, and then there is no session either.
        let _ = link.retain_messages(BUDGET);
    }
}
