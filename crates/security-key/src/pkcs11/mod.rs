//! Keys of PKCS#11 tokens: smart cards, hardware modules, software tokens.
//!
//! The token's library is third-party code, so a separate program, `lhssh-pkcs11-helper`, loads it. Each
//! library has one process, which lives as long as its [`Provider`] and stays logged in to the token. The
//! caller therefore keeps no PIN. Frames and search path are those of the security key helper.

mod failure;
pub mod messages;
mod provider;

pub use failure::TokenError;
pub use messages::TokenKey;
pub use provider::{Pin, Provider};
