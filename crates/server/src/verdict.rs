//! The monitor's answers to login attempts.

use lh_auth::gss::GssReply;

/// The monitor's answer to a login attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The login succeeded; [`Grant`](crate::grant::Grant) has the account.
    Accept,
    /// The connection takes over a session that has lost its own. Holds the message for the client.
    Resume(Vec<u8>),
    /// Not now, through no fault of the client: end the connection.
    Later,
    /// The attempt is refused. `partial`: it was right, but further methods are required.
    Reject { methods: Vec<String>, partial: bool },
    /// The key is acceptable; the client may sign.
    KeyOk,
    /// Prompts for the user; the boolean says whether to echo the input.
    Prompt(Vec<(String, bool)>),
    /// The next message of the GSSAPI exchange.
    Gss(GssReply),
    /// No method could ever admit this user: end the connection.
    NoMethods,
    /// Too many failures: end the connection.
    TooMany,
    /// The user is authenticated, but the account may not be used: show the text and end the connection.
    Denied(String),
}
