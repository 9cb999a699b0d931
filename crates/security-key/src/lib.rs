//! Keys in hardware: those of FIDO security keys with their files, and those of PKCS#11 tokens ([`pkcs11`]).
//!
//! The library that talks to the hardware (a *provider* with OpenSSH's C interface) is third-party code. A
//! separate program, `lhssh-sk-helper`, loads it, so that its crashes and its memory do not affect an agent
//! or a client. The helper speaks the protocol of OpenSSH's `ssh-sk-helper` ([`messages`]), so the helpers
//! are interchangeable: `SSH_SK_HELPER` selects one.

mod failure;
mod file;
mod helper;
pub mod messages;
pub mod pkcs11;
pub mod program;

pub use failure::SkError;
pub use file::FileKey;
pub use helper::{Pin, Residents, enroll, residents, sign};

/// Flags of a key: conditions for signing, and where it is stored (OpenSSH's `sk-api.h`).
pub mod flags {
    /// The user must touch the security key.
    pub const USER_PRESENCE: u8 = 0x01;
    /// The security key must verify the user, by a PIN or fingerprint.
    pub const USER_VERIFICATION: u8 = 0x04;
    /// At creation: proceed even if a key for this application and user exists.
    pub const FORCE: u8 = 0x10;
    /// The key can be read back from the hardware.
    pub const RESIDENT: u8 = 0x20;
}

/// The provider name for direct hardware access, without a library of the user's.
pub const INTERNAL: &str = "internal";
