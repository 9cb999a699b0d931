//! The state of a login by Kerberos.

use lh_auth::gss::GssAttempt;
use lh_auth::server::Method;
use lh_sys::gssapi::Acceptor;
use zeroize::Zeroizing;

/// The dialogue, and what it has brought.
#[derive(Default)]
pub(super) struct Gss {
    pub(super) acceptor: Option<Acceptor>,
    /// The client's name in Kerberos, once the context is complete.
    pub(super) principal: String,
    pub(super) credentials: Option<Zeroizing<Vec<u8>>>,
    /// What the library says about its failure, for the client's.
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

/// Whether the attempt only asks if Kerberos is available. Its refusal is the host's business (no key table,
/// another mechanism), so it counts as no failure; the client learns nothing from it.
pub(super) fn is_offer(method: &Method) -> bool {
    matches!(method, Method::Gss(GssAttempt::Begin(_)))
}
