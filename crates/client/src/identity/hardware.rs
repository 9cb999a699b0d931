//! Keys that are in FIDO security keys: what is asked and said while one signs.

use std::io::IsTerminal as _;

use lh_agent::SecurityKey;
use lh_crypto::FingerprintHash;
use lh_security_key::flags;

use super::short_type;
use crate::log::Log;
use crate::ui::LogLevel;

/// Has the hardware sign. `name` is how the user knows the key.
pub(super) fn sign(
    key: &SecurityKey,
    name: &str,
    provider: &str,
    hash: FingerprintHash,
    data: &[u8],
    log: &mut Log<'_>,
) -> Result<Vec<u8>, String> {
    let kind = short_type(key.public.key_type());
    // Whoever sits there must know that it waits for a finger; scripts need not.
    let waits = key.flags & flags::USER_PRESENCE != 0 && !log.is_batch();
    if waits && std::io::stderr().is_terminal() {
        log.warn(&format!("Confirm user presence for key {kind} {}", key.public.fingerprint(hash)));
    }
    let verbose = log.shows(LogLevel::Debug1);
    let mut pin = || log.ask_secret(&format!("Enter PIN for {kind} key {name}: "));
    lh_security_key::sign(key, provider, data, verbose, &mut pin).map_err(|error| error.to_string())
}
