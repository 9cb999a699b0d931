//! Errors of signatures: making them, reading them, verifying them, and the lists of their signers.

use std::io;
use std::path::PathBuf;

use lh_client::agent::AgentError;
use lh_client::sanitise;
use lh_crypto::{CryptoError, KrlError, SshSignatureError, VerifyError};
use lh_security_key::SkError;
use lh_security_key::pkcs11::TokenError;
use lh_sys::errno_text;

use crate::console::shown;

/// A signature that cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    #[error(transparent)]
    Key(CryptoError),
    #[error(transparent)]
    SecurityKey(SkError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The data cannot be read.
    #[error("{}", errno_text(.0))]
    Data(io::Error),
    /// A hash that signatures of files do not use.
    #[error("signature algorithm not supported")]
    Hash,
}

/// An `-O` that the task of `-Y` does not take.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionError {
    #[error("Invalid \"verify-time\" option")]
    VerifyTime,
    #[error("Invalid option \"{}\"", sanitise(.0))]
    Unknown(String),
}

/// A file that is no signature.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnreadableSignature {
    #[error("Couldn't read signature file: {}", errno_text(.0))]
    File(io::Error),
    #[error("Couldn't parse signature: missing header\n{task}: sshsig_armor: {}", short_or_wrong(*.short))]
    Header { task: &'static str, short: bool },
    #[error("Couldn't parse signature: missing footer\n{task}: sshsig_armor: invalid format")]
    Footer { task: &'static str },
    #[error("{task}: sshsig_armor: {why}")]
    Contents { task: &'static str, why: SshSignatureError },
}

/// OpenSSH's words for a text that is shorter than the expected one, and for another text.
const fn short_or_wrong(short: bool) -> &'static str {
    if short { "incomplete message" } else { "invalid format" }
}

/// A signature that is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unverified {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Unreadable(#[from] UnreadableSignature),
    #[error("Couldn't read data: {}", errno_text(.0))]
    Data(io::Error),
    #[error("{}", verification(.0))]
    Signature(#[from] SshSignatureError),
    /// An unreadable list might contain the key.
    #[error("Invalid KRL file {}: {why}", shown(.list))]
    Revocations { list: PathBuf, why: KrlError },
    /// The key is revoked, or not the signer's: nothing is printed, or it has been printed.
    #[error("")]
    NotAllowed,
}

fn verification(error: &SshSignatureError) -> String {
    match error {
        SshSignatureError::Namespace => "Couldn't verify signature: namespace does not match".to_owned(),
        SshSignatureError::Verify(VerifyError::BadSignature) => {
            "Signature verification failed: incorrect signature".to_owned()
        }
        other => format!("Couldn't verify signature: {other}"),
    }
}

/// A signature whose principals cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSearched {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Unreadable(#[from] UnreadableSignature),
    #[error("sig_find_principals: sshsig_get_pubkey: incorrect signature")]
    Certificate,
    #[error("sig_find_principals: sshsig_find_principal: No such file or directory")]
    NoList,
}

/// Options of a line of `allowed_signers` that are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignerOptionsError {
    #[error("multiple \"{0}\" clauses")]
    Repeated(String),
    #[error("invalid \"{0}\" time")]
    Time(String),
    #[error("unknown key option")]
    Unknown,
    #[error("unexpected end-of-options")]
    End,
    #[error("\"valid-before\" time is before \"valid-after\"")]
    Backwards,
    #[error("missing start quote")]
    NoStartQuote,
    #[error("missing end quote")]
    NoEndQuote,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_signatures_are_openssh_words() {
        let task = "sig_verify";
        for (error, words) in [
            (
                UnreadableSignature::Header { task, short: true },
                "Couldn't parse signature: missing header\nsig_verify: sshsig_armor: incomplete message",
            ),
            (
                UnreadableSignature::Footer { task },
                "Couldn't parse signature: missing footer\nsig_verify: sshsig_armor: invalid format",
            ),
            (
                UnreadableSignature::Contents { task, why: SshSignatureError::Format },
                "sig_verify: sshsig_armor: invalid format",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
        let wrong = Unverified::Signature(SshSignatureError::Verify(VerifyError::BadSignature));
        assert_eq!(wrong.to_string(), "Signature verification failed: incorrect signature");
    }
}
