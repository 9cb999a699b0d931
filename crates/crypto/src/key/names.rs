//! Names of key types and signature algorithms.

pub(crate) const ED25519: &str = "ssh-ed25519";
pub(crate) const ED25519_CERT: &str = "ssh-ed25519-cert-v01@openssh.com";
pub(crate) const SK_ED25519: &str = "sk-ssh-ed25519@openssh.com";
pub(crate) const SK_ED25519_CERT: &str = "sk-ssh-ed25519-cert-v01@openssh.com";
pub(crate) const MLDSA44_ED25519: &str = "ssh-mldsa44-ed25519";
// The only certificate type of OpenSSH whose name does not end in `-cert-v01@openssh.com`.
pub(crate) const MLDSA44_ED25519_CERT: &str = "ssh-mldsa44-ed25519-cert";
pub(crate) const ECDSA_P256: &str = "ecdsa-sha2-nistp256";
pub(crate) const ECDSA_P256_CERT: &str = "ecdsa-sha2-nistp256-cert-v01@openssh.com";
pub(crate) const ECDSA_P384: &str = "ecdsa-sha2-nistp384";
pub(crate) const ECDSA_P384_CERT: &str = "ecdsa-sha2-nistp384-cert-v01@openssh.com";
pub(crate) const ECDSA_P521: &str = "ecdsa-sha2-nistp521";
pub(crate) const ECDSA_P521_CERT: &str = "ecdsa-sha2-nistp521-cert-v01@openssh.com";
pub(crate) const SK_ECDSA: &str = "sk-ecdsa-sha2-nistp256@openssh.com";
pub(crate) const SK_ECDSA_CERT: &str = "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com";
pub(crate) const SSH_RSA: &str = "ssh-rsa";
pub(crate) const SSH_RSA_CERT: &str = "ssh-rsa-cert-v01@openssh.com";
pub(crate) const RSA_SHA2_256: &str = "rsa-sha2-256";
pub(crate) const RSA_SHA2_256_CERT: &str = "rsa-sha2-256-cert-v01@openssh.com";
pub(crate) const RSA_SHA2_512: &str = "rsa-sha2-512";
pub(crate) const RSA_SHA2_512_CERT: &str = "rsa-sha2-512-cert-v01@openssh.com";
