//! Fuzz entry points for files that others may have written: lists of signers, and candidates for moduli.

/// Reads a list of signers, and asks who may sign with a key of the list, or with another one.
pub fn allowed_signers(bytes: &[u8]) {
    crate::signers::fuzz(bytes);
}

/// Parses the lines of a file of candidates.
pub fn candidates(bytes: &[u8]) {
    crate::moduli::fuzz(bytes);
}
