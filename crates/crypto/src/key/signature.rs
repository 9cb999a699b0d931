//! The encoding of signature blobs.

use super::curve::{Curve, put_padded};
use crate::VerifyError;
use lh_wire::{Reader, Writer};

/// Opens a signature blob and checks that it names the algorithm `expected` (a plain name). Fields after the
/// signature (security keys add two) remain in the reader.
pub(super) fn open_blob<'a>(blob: &'a [u8], expected: &str) -> Result<(&'a [u8], Reader<'a>), VerifyError> {
    let mut reader = Reader::new(blob);
    let name = reader.string().map_err(|_| VerifyError::Malformed { why: "truncated" })?;
    if name != expected.as_bytes() {
        return Err(VerifyError::Malformed { why: "not the negotiated algorithm" });
    }
    let signature = reader.string().map_err(|_| VerifyError::Malformed { why: "truncated" })?;
    Ok((signature, reader))
}

/// Encodes `string` algorithm, `string` signature (RFC 4253 section 6.6).
pub(super) fn blob(algorithm: &str, signature: &[u8]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(8 + algorithm.len() + signature.len());
    blob.put_string(algorithm.as_bytes());
    blob.put_string(signature);
    blob
}

/// Converts `mpint r, mpint s` (RFC 5656 section 3.1.2) to two numbers of fixed length.
pub(super) fn ecdsa_to_fixed(curve: Curve, signature: &[u8]) -> Result<Vec<u8>, VerifyError> {
    const BAD: VerifyError = VerifyError::Malformed { why: "not two numbers of the curve's size" };
    let mut reader = Reader::new(signature);
    let (r, s) = (reader.mpint().map_err(|_| BAD)?, reader.mpint().map_err(|_| BAD)?);
    reader.finish().map_err(|_| BAD)?;
    let mut fixed = Vec::with_capacity(2 * curve.scalar_len());
    put_padded(&mut fixed, r.magnitude(), curve.scalar_len()).ok_or(BAD)?;
    put_padded(&mut fixed, s.magnitude(), curve.scalar_len()).ok_or(BAD)?;
    Ok(fixed)
}

/// Inverse of [`ecdsa_to_fixed`]. `fixed` is two numbers of equal length.
pub(super) fn ecdsa_from_fixed(fixed: &[u8]) -> Vec<u8> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    let mut signature = Vec::with_capacity(fixed.len() + 10);
    signature.put_mpint(r);
    signature.put_mpint(s);
    signature
}
