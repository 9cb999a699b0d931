//! Signatures of FIDO security keys (`sk-…@openssh.com`, OpenSSH's PROTOCOL.u2f).

use crate::{Hash, VerifyError};
use lh_wire::{Reader, Writer};

/// Somebody touched the key.
const USER_PRESENT: u8 = 1;
/// The key knows who (by a PIN or a finger).
const USER_VERIFIED: u8 = 4;

/// What a security key says about the moment of the signature. It has signed that too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attested {
    /// Somebody touched the key.
    pub present: bool,
    /// The key knows who (by a PIN or a finger).
    pub verified: bool,
    /// The key's counter of signatures; some keys leave it at 0.
    pub counter: u32,
}

/// What the security key really signed: hashes of the application and of the data, around the flags and the counter that
/// stand behind the signature (`rest`). Whether what the flags say is enough is the caller's question.
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
