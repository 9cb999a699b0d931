//! Pluggable authentication modules: one transaction, from its start to the end of the session.
//!
//! The bindings are our own: a dozen functions of Linux-PAM, which is loaded when it is first used. Existing
//! crates generate theirs with libclang at build time or have had no release for years. Builds for other
//! systems than Linux, and static builds, load no libraries. [`Pam::start`] fails there, so the rest of the
//! server needs no conditional code.

#[cfg(all(target_os = "linux", not(target_env = "musl")))]
mod library;
#[cfg(not(all(target_os = "linux", not(target_env = "musl"))))]
#[path = "pam/missing.rs"]
mod library;

use std::ffi::OsString;

use zeroize::Zeroizing;

pub use library::{Pam, load};

/// True when this build supports PAM, on hosts that have the library.
pub const SUPPORTED: bool = cfg!(all(target_os = "linux", not(target_env = "musl")));

/// Kind of a module's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A prompt whose answer is not shown.
    Secret,
    /// A prompt whose answer is shown.
    Visible,
    /// An error text.
    Error,
    /// An informational text.
    Info,
}

/// Callback through which modules talk with the user.
pub trait Conversation {
    /// Shows texts and prompts. Returns one answer for each message, empty for texts. `None` ends the
    /// conversation and makes the module's operation fail.
    fn talk(&mut self, messages: &[(Style, String)]) -> Option<Vec<Zeroizing<Vec<u8>>>>;
}

/// Result of an operation: a `PAM_…` number of Linux-PAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// The operation succeeded.
    pub const SUCCESS: Self = Self(0);
    /// The library or a module is missing, or a similar system error.
    pub const SYSTEM_ERROR: Self = Self(4);
    /// The password has expired and must be changed.
    pub const NEW_TOKEN_REQUIRED: Self = Self(12);

    /// True for success.
    pub fn ok(self) -> bool {
        self == Self::SUCCESS
    }
}

/// Facts about the login that modules can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Host that the user connects from: name or address.
    RemoteHost,
    /// Name of the terminal, or `ssh` while the session has none.
    Terminal,
}

/// Operation on the user's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// Create them.
    Establish,
    /// Destroy them.
    Delete,
}

/// Environment variables that modules set.
pub type Environment = Vec<(OsString, OsString)>;
