//! Authentication requests of a client, one at a time, in the form in which the caller decides them.

use zeroize::Zeroizing;

use crate::HostRequest;
use crate::gss::{GSS_METHOD, GssAttempt};
use crate::ticket::TICKET;

#[cfg(doc)]
use crate::ticket::TicketRequest;

/// One authentication request that needs a decision.
#[derive(Debug)]
pub struct Attempt {
    /// The requested user. Equal in all attempts of a connection.
    pub user: String,
    /// The method of authentication.
    pub method: Method,
}

/// The method of an [`Attempt`] with its fields.
pub enum Method {
    /// Asks for the possible methods; also succeeds where an empty password is allowed.
    None,
    /// A password in plain text (RFC 4252 section 8).
    Password(Zeroizing<Vec<u8>>),
    /// A password with its replacement; the server rejects it if it does not support changing passwords.
    PasswordChange,
    /// A key or certificate.
    PublicKey(PublicKeyAttempt),
    /// The client's host authenticates its user.
    HostBased(HostBasedAttempt),
    /// Asks for prompts; answer with `Server::prompts`. The string is the client's list of submethods (RFC
    /// 4256 section 3.1), usually empty.
    KeyboardInteractive(String),
    /// The answers to `Server::prompts`.
    Responses(Vec<Zeroizing<Vec<u8>>>),
    /// A step of the exchange between two GSS-API libraries; answer with `Server::gss_reply` unless it is
    /// the last.
    Gss(GssAttempt),
    /// A ticket of an authenticated session.
    Ticket(TicketAttempt),
    /// A claim on a session that has lost its connection.
    Resume(ResumeAttempt),
    /// An unknown method, or one with malformed fields.
    Other(String),
}

impl core::fmt::Debug for Method {
    /// Prints the method's name but no secrets.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Method {
    /// Returns the name as in OpenSSH's log lines.
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Password(_) | Self::PasswordChange => "password",
            Self::PublicKey(_) => "publickey",
            Self::HostBased(_) => HostRequest::METHOD,
            Self::KeyboardInteractive(_) | Self::Responses(_) => "keyboard-interactive",
            Self::Gss(_) => GSS_METHOD,
            Self::Ticket(_) => TICKET,
            Self::Resume(_) => lh_resume::NAME,
            Self::Other(name) => name,
        }
    }
}

/// A `publickey` request.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKeyAttempt {
    /// Signature algorithm that the client named.
    pub algorithm: String,
    /// Key or certificate blob.
    pub key: Vec<u8>,
    /// `None`: the client only asks whether the key is acceptable. `Some`: a signature to verify over
    /// `signed`.
    pub signature: Option<Vec<u8>>,
    /// The bytes that the signature must cover. Empty when there is no signature.
    pub signed: Vec<u8>,
    /// The host-bound variant of the method; the host key has been checked.
    pub hostbound: bool,
}

/// A `hostbased` request (RFC 4252 section 9).
#[derive(Clone, PartialEq, Eq)]
pub struct HostBasedAttempt {
    /// Signature algorithm that the client named.
    pub algorithm: String,
    /// Host key or certificate blob.
    pub key: Vec<u8>,
    /// Host name that the client claims.
    pub host: String,
    /// User name on the client's host that the client claims.
    pub local_user: String,
    /// The signature; it must cover the result of [`HostRequest::signed_data`] for the fields above.
    pub signature: Vec<u8>,
}

/// A `ticket@longhaul` request. Its host key has been checked.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketAttempt {
    /// Blob of the ticket key.
    pub key: Vec<u8>,
    /// The signature; it must cover the result of [`TicketRequest::signed_data`] for the key and both
    /// sessions.
    pub signature: Vec<u8>,
}

/// A `resume@longhaul` request (docs/protocol.md), undecoded.
#[derive(Clone, PartialEq, Eq)]
pub struct ResumeAttempt {
    /// The fields after the method's name.
    pub fields: Vec<u8>,
    /// Key material of this connection, which the caller adds: see `Transport::export`.
    pub export: Zeroizing<Vec<u8>>,
}

impl HostBasedAttempt {
    /// Returns the request without its signature.
    pub fn request(&self) -> HostRequest<'_> {
        let Self { algorithm, key, host, local_user, .. } = self;
        HostRequest { algorithm, key, host, local_user }
    }
}

impl core::fmt::Debug for PublicKeyAttempt {
    /// Prints the variant without its content: a log line needs the fingerprint, which the caller computes.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PublicKeyAttempt")
            .field("algorithm", &self.algorithm)
            .field("signed", &self.signature.is_some())
            .finish_non_exhaustive()
    }
}
