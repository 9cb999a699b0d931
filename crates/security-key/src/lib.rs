//! Keys that live in FIDO security keys: what a program holds of them, and how it has them made, listed and used.
//!
//! A library that talks to the hardware (a *provider*, with OpenSSH's C interface) is other people's code. It is loaded by a
//! program of its own, `lhssh-sk-helper`, so that its crashes and its memory are not those of an agent or a client. The helper is
//! asked in the language of OpenSSH's `ssh-sk-helper` ([`messages`]), so either's helper does for both: `SSH_SK_HELPER` names one.

mod failure;
mod file;
mod helper;
pub mod messages;

pub use failure::SkError;
pub use file::FileKey;
pub use helper::{Pin, Residents, enroll, residents, sign};

/// What a key needs before it signs, and where it lives; the bits of a key's flags (OpenSSH's `sk-api.h`).
pub mod flags {
    /// Somebody touches it.
    pub const USER_PRESENCE: u8 = 0x01;
    /// It knows who, by a PIN or a finger.
    pub const USER_VERIFICATION: u8 = 0x04;
    /// While it is made: even if there is one for this application and user already.
    pub const FORCE: u8 = 0x10;
    /// It can be read from the hardware again.
    pub const RESIDENT: u8 = 0x20;
}

/// The provider that means the hardware itself, without a library of the user's.
pub const INTERNAL: &str = "internal";
