//! Kerberos by way of the GSS-API (RFC 2743, 2744, 4121): both ends of a security context, and what may be done with its result.
//!
//! The bindings are ours, for MIT's library: some twenty functions, against crates that generate theirs with libclang at build time
//! and leave out what a server needs (who may become which user, and credentials that move to another process). Without the Cargo
//! feature `gssapi` nothing here links to anything and every context fails to start; the programs need not know which build they are
//! in.

#[cfg(feature = "gssapi")]
mod library;
#[cfg(not(feature = "gssapi"))]
#[path = "gssapi/missing.rs"]
mod library;

pub use library::{Acceptor, Initiator, store};

/// Whether this build can do it.
pub const SUPPORTED: bool = cfg!(feature = "gssapi");

/// The object identifier of Kerberos 5 (1.2.840.113554.1.2.2) in DER, as SSH names mechanisms (RFC 4462 section 3.2).
pub const KERBEROS: [u8; 11] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// What a step of a context has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// What the other end is to get; empty: nothing.
    pub token: Vec<u8>,
    /// The context is there. Otherwise a token of the other end is waited for.
    pub complete: bool,
}

/// Why there is no context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct GssError {
    /// The library's words.
    pub text: String,
    /// What the other end is to get about it; empty: nothing.
    pub token: Vec<u8>,
}

impl GssError {
    /// An error of which the other end need not hear.
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), token: Vec::new() }
    }
}
