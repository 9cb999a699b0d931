//! Keys in FIDO security keys: prompts and messages while one signs.

use std::io::IsTerminal as _;

use lh_agent::SecurityKey;
use lh_crypto::FingerprintHash;
use lh_security_key::{SkError, flags};

use crate::key_types::short_type;
use crate::log::Log;
use crate::ui::LogLevel;

/// Signs with the hardware. `name` is the key's name for the user.
pub(super) fn sign(
    key: &SecurityKey,
    name: &str,
    provider: &str,
    hash: FingerprintHash,
    data: &[u8],
    log: &mut Log<'_>,
) -> Result<Vec<u8>, SkError> {
    let kind = short_type(key.public.key_type());
    // The user must learn that the key waits for a touch; a script need not.
    let waits = key.flags & flags::USER_PRESENCE != 0 && !log.is_batch();
    let text = format!("Confirm user presence for key {kind} {}", key.public.fingerprint(hash));
    let notice = match (waits, std::io::stderr().is_terminal()) {
        (true, true) => {
            log.warn(&text);
            None
        }
        (true, false) => log.notify(&text),
        (false, _) => None,
    };
    let verbose = log.shows(LogLevel::Debug1);
    let mut pin = || log.ask_secret(&format!("Enter PIN for {kind} key {name}: "));
    let signed = lh_security_key::sign(key, provider, data, verbose, &mut pin);
    drop(notice);
    signed
}
