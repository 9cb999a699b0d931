//! Names of signature algorithms, and their relation to certificate names.
//!
//! The order matters to callers that offer these lists: it is OpenSSH's, best first.

use std::borrow::Cow;

/// Suffix of certificate names.
pub const CERTIFICATE_SUFFIX: &str = "-cert-v01@openssh.com";

/// Algorithms of plain keys, which certificate authorities may also sign with.
pub const PLAIN: [&str; 8] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// Default algorithms of host and user keys: certificates, then plain keys.
pub const DEFAULT: [&str; 16] = [
    "ssh-ed25519-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    PLAIN[0],
    PLAIN[1],
    PLAIN[2],
    PLAIN[3],
    PLAIN[4],
    PLAIN[5],
    PLAIN[6],
    PLAIN[7],
];

/// RSA with SHA-1, for old equipment: used only where a configuration names it.
pub const SHA1: [&str; 2] = ["ssh-rsa", "ssh-rsa-cert-v01@openssh.com"];

/// The composite of ML-DSA-44 and Ed25519: used only where a configuration names it, as in OpenSSH 10.5.
pub const COMPOSITE: [&str; 2] =
    ["ssh-mldsa44-ed25519@openssh.com", "ssh-mldsa44-ed25519-cert-v01@openssh.com"];

/// All usable algorithms, including [`SHA1`] and [`COMPOSITE`], in the order of `ssh -Q key-sig`.
pub const ALL: [&str; 20] = [
    "ssh-ed25519",
    "ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "ssh-mldsa44-ed25519@openssh.com",
    "ssh-mldsa44-ed25519-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ssh-rsa",
    "ssh-rsa-cert-v01@openssh.com",
    "rsa-sha2-256",
    "rsa-sha2-256-cert-v01@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-512-cert-v01@openssh.com",
];

/// Names that OpenSSH accepts in a configuration but that we cannot use: those of browsers' security keys,
/// and DSA, which is removed.
pub const FOREIGN: [&str; 4] = [
    "ssh-dss",
    "ssh-dss-cert-v01@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
];

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
