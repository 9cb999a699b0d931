//! Going on without encryption after the login: HPN-SSH's `NoneSwitch`.
//!
//! Nothing of the user's is sent before the key exchange that switches is complete, and it is complete or the connection is over:
//! who wanted plain text and was refused it hears why instead of waiting for a slow copy.

use lh_config::client_table::ClientSettings;
use lh_crypto::Cipher;
use lh_driver::{Link, LinkError};
use lh_transport::{Event, Negotiated, TransportError, Unencrypted};

use crate::error::ClientError;
use crate::failure::{PeerName, link_failed};
use crate::handshake::{self, KEY_CHANGED_AT_REKEY};
use crate::log::Log;

/// What the configuration comes to, after saying what in it has no effect.
pub(crate) fn wanted(settings: &ClientSettings, terminal: bool, log: &mut Log<'_>) -> Option<Unencrypted> {
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
    if terminal {
        log.warn("NONE cipher switch disabled when a TTY is allocated");
        return None;
    }
    Some(Unencrypted::Wanted { without_mac: mac })
}

/// Exchanges keys anew, for none to encrypt with, and warns. Events that have nothing to do with it are left for later.
///
/// # Errors
/// The server does not allow it, or the connection broke.
pub(crate) fn switch(
    link: &mut Link,
    wanted: Unencrypted,
    peer: &PeerName,
    log: &mut Log<'_>,
) -> Result<(), ClientError> {
    link.transport().set_unencrypted(wanted);
    link.transport().request_rekey();
    let mut later = Vec::new();
    let names = loop {
        match link.next_event(None).map_err(|error| refused(&error, wanted, peer))? {
            // A key exchange that was under way when we asked for ours changes nothing yet.
            Event::KexDone { names, .. } if !link.transport_ref().is_encrypted() => break names,
            Event::KexDone { .. } => link.transport().request_rekey(),
            Event::HostKey { .. } => return Err(ClientError::HostKey(KEY_CHANGED_AT_REKEY.to_owned())),
            Event::Disconnected { reason, description } => {
                let error = crate::failure::disconnected(reason, &description, peer);
                return Err(explained(&error));
            }
            event => later.push(event),
        }
    };
    link.transport().put_back_events(later);
    handshake::show_names(&names, log);
    warn(&names, log);
    Ok(())
}

/// Every time, and whatever the log level says.
fn warn(names: &Negotiated, log: &mut Log<'_>) {
    // What scripts know from HPN-SSH.
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
    let told = link_failed(error, peer);
    match error {
        LinkError::Transport(TransportError::NoMatch { what: "MAC", .. })
            if wanted == (Unencrypted::Wanted { without_mac: true }) =>
        {
            ClientError::Lost(format!(
                "{told}\nThe server does not allow the NONE MAC; NoneMacEnabled has to be set there too."
            ))
        }
        _ => explained(&told),
    }
}

fn explained(error: &ClientError) -> ClientError {
    ClientError::Lost(format!(
        "{error}\nThe server does not allow the NONE cipher; NoneEnabled has to be set there too."
    ))
}
