//! Types of algorithms in the keywords' lists.

/// The type of algorithms in a keyword's list, for checks and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlgorithmKind {
    /// `Ciphers`.
    Cipher,
    /// `MACs`.
    Mac,
    /// `KexAlgorithms`.
    Kex,
    /// `HostKeyAlgorithms`, `PubkeyAcceptedAlgorithms`, `CASignatureAlgorithms`,
    /// `HostbasedAcceptedAlgorithms`.
    Key,
}

impl AlgorithmKind {
    /// Returns the type of a keyword; `None` if its value is not an algorithm list.
    pub fn of_keyword(name: &str) -> Option<Self> {
        Some(match name {
            "Ciphers" => Self::Cipher,
            "MACs" => Self::Mac,
            "KexAlgorithms" => Self::Kex,
            "HostKeyAlgorithms"
            | "PubkeyAcceptedAlgorithms"
            | "CASignatureAlgorithms"
            | "HostbasedAcceptedAlgorithms" => Self::Key,
            _ => return None,
        })
    }

    /// Returns OpenSSH's line before [`message`](Self::message) that names the unknown item; key exchange
    /// only.
    pub fn detail(self, unknown: &str) -> Option<String> {
        (self == Self::Kex).then(|| format!("Unsupported KEX algorithm \"{unknown}\""))
    }

    /// Returns OpenSSH's message for a list from a program's flag (`-c`, `-m`).
    pub fn flag_message(self, list: &str) -> Option<String> {
        match self {
            Self::Cipher => Some(format!("Unknown cipher type '{list}'")),
            Self::Mac => Some(format!("Unknown mac type '{list}'")),
            Self::Kex | Self::Key => None,
        }
    }

    /// Returns OpenSSH's message for a list with an unknown name.
    pub fn message(self, list: &str) -> String {
        match self {
            Self::Cipher => format!("Bad SSH2 cipher spec '{list}'."),
            Self::Mac => format!("Bad SSH2 MAC spec '{list}'."),
            Self::Kex => format!("Bad SSH2 KexAlgorithms '{list}'."),
            Self::Key => format!("Bad key types '{list}'."),
        }
    }
}
