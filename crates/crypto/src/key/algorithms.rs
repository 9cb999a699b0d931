//! Names of signature algorithms, and their relation to certificate names.
//!
//! The lists derive from the [registry](crate::registry). Their order matters to callers that offer them: it
//! is OpenSSH's, best first.

use super::names::{SSH_RSA, SSH_RSA_CERT};
use crate::registry::{FOREIGN_KEYS, KEYS, KeyAlgorithm};
use std::borrow::Cow;

/// Suffix of certificate names. The registry has those without it.
const CERTIFICATE_SUFFIX: &str = "-cert-v01@openssh.com";

/// Number of algorithms in the default lists.
const DEFAULTS: usize = {
    let (mut count, mut row) = (0, 0);
    while row < KeyAlgorithm::ALL.len() {
        count += KeyAlgorithm::ALL[row].listing.is_default() as usize;
        row += 1;
    }
    count
};

/// Default algorithms of plain keys.
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

/// Number of default algorithms that certificate authorities may sign with.
const AUTHORITIES: usize = {
    let (mut count, mut row) = (0, 0);
    while row < DEFAULTS {
        count += KeyAlgorithm::ALL[row].certifies as usize;
        row += 1;
    }
    count
};

/// Default algorithms of the signatures of certificate authorities: [`PLAIN`] without the composite of
/// ML-DSA-44 and Ed25519, as in OpenSSH 10.6.
pub const AUTHORITY: [&str; AUTHORITIES] = {
    let mut names = [""; AUTHORITIES];
    let (mut at, mut row) = (0, 0);
    while row < DEFAULTS {
        if KeyAlgorithm::ALL[row].certifies {
            names[at] = KeyAlgorithm::ALL[row].name;
            at += 1;
        }
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

/// All usable algorithms, including [`SHA1`], in the order of `ssh -Q key-sig`.
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
    name.ends_with(CERTIFICATE_SUFFIX) || KEYS.iter().any(|row| row.certificate == name)
}

/// Returns the key or signature algorithm that a certificate's name stands for:
/// `ssh-ed25519-cert-v01@openssh.com` → `ssh-ed25519`. Other names are returned unchanged. Signature blobs
/// always contain the plain name.
pub fn plain(name: &str) -> Cow<'_, str> {
    if let Some(row) = KEYS.iter().find(|row| row.certificate == name) {
        return row.name.into();
    }
    match name.strip_suffix(CERTIFICATE_SUFFIX) {
        // The names of browsers' security keys end in @openssh.com with and without a certificate.
        Some(plain) if plain.starts_with("webauthn-sk-") => format!("{plain}@openssh.com").into(),
        Some(plain) => plain.into(),
        None => name.into(),
    }
}

/// Returns the certificate name of a plain key or signature algorithm: the inverse of [`plain`].
pub fn certified(plain: &str) -> String {
    if let Some(row) = KEYS.iter().find(|row| row.name == plain) {
        return row.certificate.to_owned();
    }
    let stem = plain.strip_suffix("@openssh.com").unwrap_or(plain);
    format!("{stem}{CERTIFICATE_SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_certificate_names_map_both_ways() {
        for (at, name) in PLAIN.iter().chain([&SHA1[0], &FOREIGN[0], &FOREIGN[2]]).enumerate() {
            let certificate = certified(name);
            assert!(is_certificate(&certificate) && !is_certificate(name));
            assert_eq!((plain(&certificate).as_ref(), plain(name).as_ref()), (*name, *name));
            if at < PLAIN.len() {
                assert_eq!((DEFAULT[at], DEFAULT[at + PLAIN.len()]), (certificate.as_str(), *name));
            }
        }
    }

    #[test]
    fn authorities_sign_with_all_defaults_but_the_composite() {
        let composite = "ssh-mldsa44-ed25519";
        assert_eq!(PLAIN.last(), Some(&composite));
        assert_eq!(AUTHORITY[..], PLAIN[..PLAIN.len() - 1]);
        assert_eq!(certified(composite), "ssh-mldsa44-ed25519-cert");
        // The name of OpenSSH 10.4 and 10.5.
        assert!(!ALL.contains(&"ssh-mldsa44-ed25519@openssh.com"));
        assert!(!is_certificate("ssh-other-cert"));
    }
}
