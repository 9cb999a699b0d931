//! Names of signature algorithms, and their relation to certificate names.
//!
//! The lists derive from the [registry](crate::registry). Their order matters to callers that offer them: it
//! is OpenSSH's, best first.

use super::names::{MLDSA44_ED25519, MLDSA44_ED25519_CERT, SSH_RSA, SSH_RSA_CERT};
use crate::registry::{FOREIGN_KEYS, KEYS, KeyAlgorithm};
use std::borrow::Cow;

/// Suffix of certificate names.
pub const CERTIFICATE_SUFFIX: &str = "-cert-v01@openssh.com";

/// Number of algorithms in the default lists.
const DEFAULTS: usize = {
    let (mut count, mut row) = (0, 0);
    while row < KeyAlgorithm::ALL.len() {
        count += KeyAlgorithm::ALL[row].listing.is_default() as usize;
        row += 1;
    }
    count
};

/// Algorithms of plain keys, which certificate authorities may also sign with.
pub const PLAIN: [&str; DEFAULTS] = {
    let mut names = [""; DEFAULTS];
    let mut row = 0;
    // The algorithms of default lists have the best ranks.
    while row < DEFAULTS {
        names[row] = KeyAlgorithm::ALL[row].name;
        row += 1;
    }
    names
};

/// Default algorithms of host and user keys: certificates, then plain keys.
pub const DEFAULT: [&str; 2 * DEFAULTS] = {
    let mut names = [""; 2 * DEFAULTS];
    let mut row = 0;
    while row < DEFAULTS {
        names[row] = KeyAlgorithm::ALL[row].certificate;
        names[DEFAULTS + row] = KeyAlgorithm::ALL[row].name;
        row += 1;
    }
    names
};

/// RSA with SHA-1, for old equipment: used only where a configuration names it.
pub const SHA1: [&str; 2] = [SSH_RSA, SSH_RSA_CERT];

/// The composite of ML-DSA-44 and Ed25519: used only where a configuration names it, as in OpenSSH 10.5.
pub const COMPOSITE: [&str; 2] = [MLDSA44_ED25519, MLDSA44_ED25519_CERT];

/// All usable algorithms, including [`SHA1`] and [`COMPOSITE`], in the order of `ssh -Q key-sig`.
pub const ALL: [&str; 2 * KEYS.len()] = {
    let mut names = [""; 2 * KEYS.len()];
    let mut row = 0;
    while row < KEYS.len() {
        names[2 * row] = KEYS[row].name;
        names[2 * row + 1] = KEYS[row].certificate;
        row += 1;
    }
    names
};

/// Names that OpenSSH accepts in a configuration but that we cannot use: those of browsers' security keys,
/// and DSA, which is removed.
pub const FOREIGN: [&str; 4] = FOREIGN_KEYS;

/// Returns true for the name of a certificate type or its signature algorithm.
pub fn is_certificate(name: &str) -> bool {
    name.ends_with(CERTIFICATE_SUFFIX)
}

/// Returns the key or signature algorithm that a certificate's name stands for:
/// `ssh-ed25519-cert-v01@openssh.com` → `ssh-ed25519`. Other names are returned unchanged. Signature blobs
/// always contain the plain name.
pub fn plain(name: &str) -> Cow<'_, str> {
    match name.strip_suffix(CERTIFICATE_SUFFIX) {
        // The names of security keys end in @openssh.com with and without a certificate.
        Some(plain) if ["sk-", "webauthn-sk-", "ssh-mldsa"].iter().any(|start| plain.starts_with(start)) => {
            format!("{plain}@openssh.com").into()
        }
        Some(plain) => plain.into(),
        None => name.into(),
    }
}

/// Returns the certificate name of a plain key or signature algorithm: the inverse of [`plain`].
pub fn certified(plain: &str) -> String {
    let stem = plain.strip_suffix("@openssh.com").unwrap_or(plain);
    format!("{stem}{CERTIFICATE_SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_certificate_names_map_both_ways() {
        for (at, name) in PLAIN.iter().chain([&SHA1[0], &COMPOSITE[0], &FOREIGN[0], &FOREIGN[2]]).enumerate()
        {
            let certificate = certified(name);
            assert!(is_certificate(&certificate) && !is_certificate(name));
            assert_eq!((plain(&certificate).as_ref(), plain(name).as_ref()), (*name, *name));
            if at < PLAIN.len() {
                assert_eq!((DEFAULT[at], DEFAULT[at + PLAIN.len()]), (certificate.as_str(), *name));
            }
        }
    }
}
