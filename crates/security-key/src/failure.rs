//! What goes wrong with a security key, in OpenSSH's words and numbers.

use std::io;

/// Why a security key, or what talks to it, did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SkError {
    /// The provider failed, or what it said makes no sense.
    #[error("invalid format")]
    Invalid,
    /// It wants a PIN, or the PIN was wrong.
    #[error("incorrect passphrase supplied to decrypt private key")]
    Pin,
    /// There is such a key already.
    #[error("bad permissions")]
    Exists,
    /// It cannot do this.
    #[error("requested feature not supported")]
    Unsupported,
    /// No security key is plugged in.
    #[error("device not found")]
    NoDevice,
    /// What was asked for makes no sense.
    #[error("invalid argument")]
    Argument,
    /// Another of OpenSSH's numbers, from its helper.
    #[error("error {0} of the helper")]
    Other(u32),
    /// The helper cannot be started or talked to.
    #[error("{what}: {source}")]
    Helper {
        /// What was tried, with the helper's name.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The helper ended without an answer, which its own message on standard error explains.
    #[error("agent refused operation")]
    Died,
}

impl SkError {
    /// Those that have a number of OpenSSH's, the negative of its `SSH_ERR_…`.
    const NUMBERED: [(u32, Self); 6] = [
        (4, Self::Invalid),
        (10, Self::Argument),
        (43, Self::Pin),
        (44, Self::Exists),
        (59, Self::Unsupported),
        (60, Self::NoDevice),
    ];

    /// The number the helper sends.
    pub fn number(&self) -> u32 {
        let same = |known: &&(u32, Self)| std::mem::discriminant(&known.1) == std::mem::discriminant(self);
        match self {
            Self::Other(number) => *number,
            _ => Self::NUMBERED.iter().find(same).map_or(1, |(number, _)| *number),
        }
    }

    /// What a number of the helper means.
    pub fn from_number(number: u32) -> Self {
        let known = Self::NUMBERED.into_iter().find(|(known, _)| *known == number);
        known.map_or(Self::Other(number), |(_, error)| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_what_they_were() {
        for number in [4, 10, 43, 44, 59, 60, 77] {
            assert_eq!(SkError::from_number(number).number(), number);
        }
        assert_eq!(SkError::Died.number(), 1);
    }
}
