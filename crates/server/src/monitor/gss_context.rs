//! The state of a Kerberos login.

use lh_auth::gss::GssAttempt;
use lh_auth::server::Method;
use lh_sys::gssapi::Acceptor;
use zeroize::Zeroizing;

/// The acceptor's context and its results.
#[derive(Default)]
pub(super) struct Gss {
    pub(super) acceptor: Option<Acceptor>,
    /// The client's Kerberos principal, once the context is complete.
    pub(super) principal: String,
    pub(super) credentials: Option<Zeroizing<Vec<u8>>>,
    /// The library's error token for the client.
    pub(super) error_token: Vec<u8>,
}

impl Gss {
    pub(super) fn principal(&self) -> &str {
        &self.principal
    }

    pub(super) fn take_credentials(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        self.credentials.take()
    }

    pub(super) fn take_error(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.error_token)
    }
}

/// Returns whether the attempt only asks if Kerberos is available. A refusal depends on the host (no key
/// table, another mechanism) and reveals nothing to the client, so it does not count as a failure.
pub(super) fn is_offer(method: &Method) -> bool {
    matches!(method, Method::Gss(GssAttempt::Begin(_)))
}
