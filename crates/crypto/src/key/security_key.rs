//! Signatures of FIDO security keys (`sk-…@openssh.com`, OpenSSH's PROTOCOL.u2f).

use crate::{Hash, VerifyError};
use lh_wire::{Reader, Writer};

/// Somebody touched the key.
const USER_PRESENT: u8 = 1;

/// What the security key really signed: hashes of the application and of the data, around the flags and the counter that
/// stand behind the signature (`rest`).
///
/// Fails when the flags do not say that the user was present: a signature made by software that got at a plugged-in key
/// is what these keys are there to prevent.
pub(super) fn signed_data(
    application: &[u8],
    data: &[u8],
    mut rest: Reader<'_>,
) -> Result<Vec<u8>, VerifyError> {
    const TRUNCATED: VerifyError = VerifyError::Malformed { why: "truncated" };
    let flags = rest.u8().map_err(|_| TRUNCATED)?;
    let counter = rest.u32().map_err(|_| TRUNCATED)?;
    rest.finish().map_err(|_| VerifyError::Malformed { why: "trailing bytes" })?;
    if flags & USER_PRESENT == 0 {
        return Err(VerifyError::BadSignature);
    }
    let mut signed = Vec::with_capacity(69);
    signed.put_bytes(Hash::Sha256.digest(&[application]).as_ref());
    signed.put_u8(flags);
    signed.put_u32(counter);
    signed.put_bytes(Hash::Sha256.digest(&[data]).as_ref());
    Ok(signed)
}
