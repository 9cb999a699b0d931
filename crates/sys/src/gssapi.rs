//! Kerberos through the GSS-API (RFC 2743, 2744, 4121): both ends of a security context, and operations on
//! the result.
//!
//! The bindings are our own: some twenty functions of MIT's library, which is loaded when the first context
//! starts. Existing crates generate theirs with libclang at build time and link to the library. They also
//! lack functions that a server needs: mapping principals to users, and moving credentials to another
//! process. Builds for other systems than Linux, and static builds, load no libraries. Every context fails to
//! start there, so programs need no conditional code.

#[cfg(all(target_os = "linux", not(target_env = "musl")))]
mod library;
#[cfg(not(all(target_os = "linux", not(target_env = "musl"))))]
#[path = "gssapi/missing.rs"]
mod library;

pub use library::{Acceptor, Initiator, load, may_log_in, store};

/// True when this build supports GSSAPI, on hosts that have the library.
pub const SUPPORTED: bool = cfg!(all(target_os = "linux", not(target_env = "musl")));

/// The object identifier of Kerberos 5 (1.2.840.113554.1.2.2) in DER, SSH's form for mechanisms (RFC 4462
/// section 3.2).
pub const KERBEROS: [u8; 11] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// Result of one step of a context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Token for the peer; empty: none.
    pub token: Vec<u8>,
    /// The context is established. Otherwise it expects a token from the peer.
    pub complete: bool,
}

/// Why a context failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct GssError {
    /// The library's text.
    pub text: String,
    /// Error token for the peer; empty: none.
    pub token: Vec<u8>,
}

impl GssError {
    /// An error without a token for the peer.
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), token: Vec::new() }
    }
}
