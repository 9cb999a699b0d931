//! Answers to prompts: their kinds, their maximum length, and the errors in place of one.

use zeroize::Zeroizing;

/// Upper limit of an answer, bytes, without its newline. The rest of a longer line is dropped, as in OpenSSH.
pub const MAX_ANSWER: usize = 1023;

/// Kind of answer; decides about echo and the request to an askpass program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A password or passphrase, not shown while typed.
    Secret,
    /// An answer that may be visible, such as a user name or yes/no/fingerprint.
    Visible,
    /// Yes or no. An askpass program gets `SSH_ASKPASS_PROMPT=confirm` and answers by its exit status.
    Confirm,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// There is no terminal and no askpass program, or prompts are forbidden.
    #[error("no terminal and no askpass program to prompt by")]
    Unavailable,
    /// End of file, an interrupted prompt, an answer that is not text, or an askpass program that failed.
    #[error("no answer")]
    NoAnswer,
}

/// Decodes the answer as UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<Zeroizing<String>, PromptError> {
    std::str::from_utf8(bytes).map(|text| Zeroizing::new(text.to_owned())).map_err(|_| PromptError::NoAnswer)
}
