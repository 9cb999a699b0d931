//! Errors of security keys, with OpenSSH's words and numbers.

use std::io;

/// Error of a security key, or of the software that talks to it.
#[derive(Debug, thiserror::Error)]
pub enum SkError {
    /// The provider failed or returned invalid data.
    #[error("invalid format")]
    Invalid,
    /// A PIN is required, or the PIN was wrong.
    #[error("incorrect passphrase supplied to decrypt private key")]
    Pin,
    /// Such a key exists already.
    #[error("bad permissions")]
    Exists,
    /// The security key does not support the operation.
    #[error("requested feature not supported")]
    Unsupported,
    /// No security key is plugged in.
    #[error("device not found")]
    NoDevice,
    /// The request is invalid.
    #[error("invalid argument")]
    Argument,
    /// Another of OpenSSH's error numbers, from its helper.
    #[error("helper error {0}")]
    Other(u32),
    /// The helper cannot be started, or communication with it failed.
    #[error("{what}: {source}")]
    Helper {
        /// The failed operation, with the helper's name.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The helper ended without an answer; its message on standard error explains why.
    #[error("agent refused operation")]
    Died,
}

impl SkError {
    /// Errors that have an OpenSSH number, the negative of its `SSH_ERR_…`.
    const NUMBERED: [(u32, Self); 6] = [
        (4, Self::Invalid),
        (10, Self::Argument),
        (43, Self::Pin),
        (44, Self::Exists),
        (59, Self::Unsupported),
        (60, Self::NoDevice),
    ];

    /// Returns the number that the helper sends.
    pub fn number(&self) -> u32 {
        let same = |known: &&(u32, Self)| std::mem::discriminant(&known.1) == std::mem::discriminant(self);
        match self {
            Self::Other(number) => *number,
            _ => Self::NUMBERED.iter().find(same).map_or(1, |(number, _)| *number),
        }
    }

    /// Converts a helper's number to an error.
    pub fn from_number(number: u32) -> Self {
        let known = Self::NUMBERED.into_iter().find(|(known, _)| *known == number);
        known.map_or(Self::Other(number), |(_, error)| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_round_trip() {
        for number in [4, 10, 43, 44, 59, 60, 77] {
            assert_eq!(SkError::from_number(number).number(), number);
        }
        assert_eq!(SkError::Died.number(), 1);
    }
}
