//! Pluggable authentication modules: one transaction, from the first question to the end of the session.
//!
//! The bindings are ours: a dozen functions, against crates that generate theirs with libclang at build time or have not seen a
//! release for years. Without the Cargo feature `pam` nothing here links to anything and [`Pam::start`] says so; the rest of the
//! server need not know which build it is in.

#[cfg(feature = "pam")]
mod library;
#[cfg(not(feature = "pam"))]
#[path = "pam/missing.rs"]
mod library;

use std::ffi::OsString;

use zeroize::Zeroizing;

pub use library::Pam;

/// Whether this build can do it.
pub const SUPPORTED: bool = cfg!(feature = "pam");

/// What a module wants to say or know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A question whose answer is not shown.
    Secret,
    /// A question whose answer is shown.
    Visible,
    /// A text about something that went wrong.
    Error,
    /// A text.
    Info,
}

/// Whoever talks with the user for the modules.
pub trait Conversation {
    /// Shows texts and asks questions: one answer for each message, empty for texts. `None` ends the conversation, and with it
    /// whatever the module was about to do.
    fn talk(&mut self, messages: &[(Style, String)]) -> Option<Vec<Zeroizing<Vec<u8>>>>;
}

/// How an operation ended: a `PAM_…` number of Linux-PAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// It went well.
    pub const SUCCESS: Self = Self(0);
    /// The library or a module is not there, or something like that.
    pub const SYSTEM_ERROR: Self = Self(4);
    /// The password is too old and must be changed.
    pub const NEW_TOKEN_REQUIRED: Self = Self(12);

    /// Whether it went well.
    pub fn ok(self) -> bool {
        self == Self::SUCCESS
    }
}

/// Facts about the login that modules ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Where the user comes from: name or address.
    RemoteHost,
    /// The terminal; `ssh` while there is none.
    Terminal,
}

/// What to do with the user's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// Make them.
    Establish,
    /// Destroy them.
    Delete,
}

/// Variables that modules set.
pub type Environment = Vec<(OsString, OsString)>;
