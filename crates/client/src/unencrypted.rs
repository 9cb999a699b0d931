//! Switching encryption off after the login: HPN-SSH's `NoneSwitch`.
//!
//! No user data is sent before the rekey that switches is complete; if that fails, the connection ends. So a
//! user who asked for plain text and was refused learns the reason instead of waiting for a slow copy.
//!
//! | `NoneSwitch` is set | what goes unencrypted |
//! |---|---|
//! | on the command line | everything but sessions with a terminal |
//! | in a file | a command, a subsystem or a copy that is alone on its connection: no agent, X11, port or tunnel forwarding, no master |
//!
//! A line in `Host *` was written for copies, and would otherwise also cover what the user types into a
//! shell.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_config::client_table::ClientSettings;
use lh_config::enums::{ControlMaster, Tunnel};
use lh_config::special::ForwardAgent;
use lh_config::table::Origin;
use lh_crypto::Cipher;
use lh_driver::{Link, LinkError};
use lh_transport::{Event, Negotiated, TransportError, Unencrypted};
use lh_wire::msg::disconnect;

use crate::error::ClientError;
use crate::failure::{PeerName, link_failed};
use crate::farewell::DISCONNECT_TIMEOUT;
use crate::handshake::{self, KEY_CHANGED_AT_REKEY};
use crate::log::Log;
use crate::options::Purpose;
use crate::ui::LogLevel;

/// Returns the requested switch, after warnings about settings without effect.
pub(crate) fn wanted(settings: &ClientSettings, purpose: Purpose, log: &mut Log<'_>) -> Option<Unencrypted> {
    let (enabled, switch, mac) = (*settings.none_enabled, *settings.none_switch, *settings.none_mac_enabled);
    if mac && !(enabled && switch) {
        log.warn("None MAC can only be used with the None cipher. None MAC disabled.");
    }
    if !switch {
        return None;
    }
    if !enabled {
        log.warn("NoneEnabled must be enabled to use the None Switch option. None cipher disabled.");
        return None;
    }
    if purpose == Purpose::Terminal {
        log.warn("NONE cipher switch disabled when a TTY is allocated");
        return None;
    }
    if settings.none_switch.origin != Origin::CommandLine
        && let Some(what) = other_use(settings, purpose)
    {
        log.warn(&format!(
            "NONE cipher switch disabled with {what}; -o NoneSwitch=yes on the command line would allow it."
        ));
        return None;
    }
    Some(Unencrypted::Wanted { without_mac: mac })
}

/// Names a use of the connection, now or later, besides one command, subsystem or copy.
fn other_use(settings: &ClientSettings, purpose: Purpose) -> Option<&'static str> {
    let forwards = !settings.local_forward.0.is_empty()
        || !settings.remote_forward.0.is_empty()
        || !settings.dynamic_forward.0.is_empty();
    let checks = [
        (purpose == Purpose::Shell, "a shell"),
        (purpose == Purpose::Forwards, "forwards alone"),
        (*settings.forward_agent != ForwardAgent::No, "agent forwarding"),
        (*settings.forward_x11, "X11 forwarding"),
        (forwards, "port forwarding"),
        (*settings.tunnel != Tunnel::No, "a tunnel"),
        (
            purpose != Purpose::Copy
                && *settings.control_master != ControlMaster::No
                && settings.control_path.is_some(),
            "a connection that is shared",
        ),
    ];
    checks.into_iter().find_map(|(holds, what)| holds.then_some(what))
}

/// Time limit for the key exchange that switches, where `ConnectTimeout` sets none: OpenSSH's
/// `LoginGraceTime`.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(120);

/// Largest number of events between the login and the switch. A server sends host keys, EXT_INFO, a few debug
/// messages.
const MAX_LATER_EVENTS: usize = 1024;
/// Largest size of these events, bytes.
const MAX_LATER_BYTES: usize = 1 << 20;

/// Events that arrive before the switch, kept for the session.
#[derive(Default)]
struct DeferredEvents {
    events: Vec<Event>,
    bytes: usize,
}

impl DeferredEvents {
    /// Keeps an event. Returns false if there are too many.
    fn keep(&mut self, event: Event) -> bool {
        // A packet refers to its whole receive buffer, so a copy is kept.
        let event = match event {
            Event::Packet(payload) => Event::Packet(Bytes::copy_from_slice(&payload)),
            Event::Pong(content) => Event::Pong(Bytes::copy_from_slice(&content)),
            event => event,
        };
        self.bytes += match &event {
            Event::Packet(bytes) | Event::Pong(bytes) => bytes.len(),
            Event::Debug { text, .. } => text.len(),
            Event::ExtInfo(all) => all.iter().map(|(name, value)| name.len() + value.len()).sum(),
            _ => 0,
        };
        self.events.push(event);
        self.events.len() <= MAX_LATER_EVENTS && self.bytes <= MAX_LATER_BYTES
    }
}

/// Rekeys to the none cipher, and warns. Other events are kept for the session. `timeout`: `ConnectTimeout`.
///
/// # Errors
/// The server refuses the switch, takes too long or sends too much before it; or the connection broke.
pub(crate) fn switch(
    link: &mut Link,
    wanted: Unencrypted,
    peer: &PeerName,
    timeout: Option<Duration>,
    log: &mut Log<'_>,
) -> Result<(), ClientError> {
    link.set_unencrypted(wanted);
    link.request_rekey();
    let deadline = Instant::now() + timeout.unwrap_or(SWITCH_TIMEOUT);
    let mut later = DeferredEvents::default();
    let names = loop {
        let event = match link.next_event(Some(deadline)) {
            Ok(event) => event,
            Err(LinkError::TimedOut) => {
                let at = peer.text();
                let text = format!("Connection to {at} timed out during the switch to the NONE cipher");
                return Err(ClientError::lost(LogLevel::Info, text));
            }
            Err(error) => return Err(refused(&error, wanted, peer)),
        };
        match event {
            Event::KexDone { names, .. } if !link.is_encrypted() => break names,
            // The end of a key exchange that was already in progress: only the next one switches.
            Event::KexDone { .. } => link.request_rekey(),
            Event::HostKey { .. } => return Err(ClientError::HostKey(KEY_CHANGED_AT_REKEY.to_owned())),
            Event::Disconnected { reason, description } => {
                let error = crate::failure::disconnected(reason, &description, peer);
                return Err(explained(error));
            }
            event => {
                if !later.keep(event) {
                    let error = TransportError::TooMany("messages before the switch to the NONE cipher");
                    link.disconnect(disconnect::PROTOCOL_ERROR, &error.to_string(), DISCONNECT_TIMEOUT);
                    return Err(link_failed(&LinkError::Transport(error), peer));
                }
            }
        }
    };
    link.put_back_events(later.events);
    handshake::show_names(&names, log);
    warn(&names, log);
    Ok(())
}

/// Warns every time, at any log level.
fn warn(names: &Negotiated, log: &mut Log<'_>) {
    // HPN-SSH's line, which scripts match.
    log.warn("WARNING: ENABLED NONE CIPHER!!!");
    let (cipher, mac) = (&names.cipher_c2s, &names.mac_c2s);
    if mac == "none" {
        log.warn("WARNING: ENABLED NONE MAC");
        log.warn("What is sent from here on can be read and changed by others on the way.");
    } else {
        let by = if cipher == Cipher::INTEGRITY_ONLY.name { cipher } else { mac };
        log.warn(&format!(
            "What is sent from here on can be read by others on the way, but not changed ({by})."
        ));
    }
}

fn refused(error: &LinkError, wanted: Unencrypted, peer: &PeerName) -> ClientError {
    let reason = link_failed(error, peer);
    match error {
        LinkError::Transport(TransportError::NoMatch { what: "MAC", .. })
            if wanted == (Unencrypted::Wanted { without_mac: true }) =>
        {
            let why = "The server does not allow the NONE MAC; NoneMacEnabled has to be set there too.";
            with_reason(reason, why)
        }
        _ => explained(reason),
    }
}

fn explained(error: ClientError) -> ClientError {
    with_reason(error, "The server does not allow the NONE cipher; NoneEnabled has to be set there too.")
}

fn with_reason(error: ClientError, why: &str) -> ClientError {
    match error {
        ClientError::Lost(loss) => ClientError::Lost(loss.with_line(LogLevel::Error, why)),
        other => other,
    }
}
