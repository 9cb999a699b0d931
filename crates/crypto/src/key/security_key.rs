//! Signatures of FIDO security keys (`sk-…@openssh.com`, OpenSSH's PROTOCOL.u2f).

use crate::{Hash, VerifyError};
use lh_wire::{Reader, Writer};

/// Flag: the user touched the key.
const USER_PRESENT: u8 = 1;
/// Flag: the key verified the user (by a PIN or fingerprint).
const USER_VERIFIED: u8 = 4;

/// A security key's signed statement about the moment of the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attested {
    /// The user touched the key.
    pub present: bool,
    /// The key verified the user (by a PIN or fingerprint).
    pub verified: bool,
    /// The key's signature counter; some keys leave it at 0.
    pub counter: u32,
}

/// Returns the data that the security key actually signed: hashes of the application and of the data, around
/// the flags and the counter that follow the signature (`rest`). The caller decides whether the flags
/// suffice.
pub(super) fn signed_data(
    application: &[u8],
    data: &[u8],
    mut rest: Reader<'_>,
) -> Result<(Vec<u8>, Attested), VerifyError> {
    const TRUNCATED: VerifyError = VerifyError::Malformed { why: "truncated" };
    let flags = rest.u8().map_err(|_| TRUNCATED)?;
    let counter = rest.u32().map_err(|_| TRUNCATED)?;
    rest.finish().map_err(|_| VerifyError::Malformed { why: "trailing bytes" })?;
    let mut signed = Vec::with_capacity(69);
    signed.put_bytes(Hash::Sha256.digest(&[application]).as_ref());
    signed.put_u8(flags);
    signed.put_u32(counter);
    signed.put_bytes(Hash::Sha256.digest(&[data]).as_ref());
    let attested =
        Attested { present: flags & USER_PRESENT != 0, verified: flags & USER_VERIFIED != 0, counter };
    Ok((signed, attested))
}
