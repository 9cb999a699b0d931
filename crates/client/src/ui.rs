//! What the library asks of a person and tells them.

use zeroize::Zeroizing;

/// A password, passphrase or answer. Wiped when dropped.
pub type Secret = Zeroizing<String>;

/// How much is said, in OpenSSH's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// Nothing at all.
    Quiet,
    /// Only what ends the connection.
    Fatal,
    /// Errors (`-q` shows these no longer).
    Error,
    /// The default.
    #[default]
    Info,
    /// More than the default.
    Verbose,
    /// `-v`.
    Debug1,
    /// `-vv`.
    Debug2,
    /// `-vvv`.
    Debug3,
}

impl LogLevel {
    /// All of them, the quietest first.
    pub const ALL: [Self; 8] = [
        Self::Quiet,
        Self::Fatal,
        Self::Error,
        Self::Info,
        Self::Verbose,
        Self::Debug1,
        Self::Debug2,
        Self::Debug3,
    ];

    /// The level as `LogLevel` spells it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Quiet => "QUIET",
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Info => "INFO",
            Self::Verbose => "VERBOSE",
            Self::Debug1 => "DEBUG1",
            Self::Debug2 => "DEBUG2",
            Self::Debug3 => "DEBUG3",
        }
    }

    /// The next level up, as `-v` and `~v` take it.
    #[must_use]
    pub fn more(self) -> Self {
        Self::ALL.into_iter().find(|level| *level > self).unwrap_or(Self::Debug3)
    }

    /// The next level down.
    #[must_use]
    pub fn less(self) -> Self {
        Self::ALL.into_iter().rev().find(|level| *level < self).unwrap_or(Self::Quiet)
    }
}

/// The person at the other end of the library, or what stands in for one.
///
/// Texts come without a final newline and are already free of control characters from the peer.
pub trait UserInterface {
    /// Says something, on standard error. Called only for levels that are to be shown.
    fn message(&mut self, level: LogLevel, text: &str);

    /// Shows the server's login banner; `text` keeps its newlines.
    fn banner(&mut self, text: &str);

    /// Asks a question whose answer is shown while typed, such as `… continue connecting (yes/no/[fingerprint])? `.
    /// `None` when there is nobody to ask.
    fn ask(&mut self, prompt: &str) -> Option<Secret>;

    /// Asks for a password or passphrase, not shown while typed. `None` when there is nobody to ask.
    fn ask_secret(&mut self, prompt: &str) -> Option<Secret>;

    /// Asks for permission, in a window where there is one. No when there is nobody to ask.
    fn confirm(&mut self, prompt: &str) -> bool;
}
