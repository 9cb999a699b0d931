//! `password` (RFC 4252 section 8).

use super::exchange::Exchange;
use crate::error::ClientError;
use crate::log::{Log, sanitise};

/// Passwords of a login.
#[derive(Default)]
pub(super) struct Passwords {
    /// Number of requests since the beginning, or since a partial success.
    sent: u32,
}

impl Passwords {
    /// Asks for a password and sends it. False if no further one is wanted.
    pub(super) fn offer(&mut self, exchange: &mut Exchange<'_>, log: &mut Log<'_>) -> bool {
        if log.is_batch() || self.sent >= exchange.config.password_prompts {
            return false;
        }
        if self.sent > 0 {
            log.error("Permission denied, please try again.");
        }
        self.sent += 1;
        let prompt = format!("{}@{}'s password: ", exchange.config.user, exchange.shown_host());
        let Some(password) = log.ask_secret(&prompt) else { return false };
        exchange.machine.password(password.as_bytes(), exchange.packets.sink());
        true
    }
}

/// Asks for a new password in place of an expired one, and sends it.
///
/// # Errors
/// The user gives no password.
pub(super) fn change(
    server_prompt: &str,
    exchange: &mut Exchange<'_>,
    log: &mut Log<'_>,
) -> Result<(), ClientError> {
    let (user, host) = (exchange.config.user.clone(), exchange.shown_host().to_owned());
    if !server_prompt.is_empty() {
        log.info(&sanitise(server_prompt));
    }
    let asked = |log: &mut Log<'_>, text: String| {
        log.ask_secret(&text).ok_or_else(|| ClientError::Denied(format!("{user}@{host}: password expired")))
    };
    let old = asked(log, format!("Enter {user}@{host}'s old password: "))?;
    loop {
        let new = asked(log, format!("Enter {user}@{host}'s new password: "))?;
        let again = asked(log, format!("Retype {user}@{host}'s new password: "))?;
        if new == again {
            exchange.machine.change_password(old.as_bytes(), new.as_bytes(), exchange.packets.sink());
            return Ok(());
        }
        log.info("Mismatch; try again, EOF to quit.");
    }
}
