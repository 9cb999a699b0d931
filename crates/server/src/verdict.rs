//! The monitor's answers to attempts to log in.

use lh_auth::gss::GssReply;

/// The monitor's answer to an attempt to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The user is logged in; [`Grant`](crate::grant::Grant) has the account.
    Accept,
    /// The connection takes over a session that has lost its own; with the message that tells the client.
    Resume(Vec<u8>),
    /// Not now, through no fault of the client: end the connection.
    Later,
    /// Not that way. `partial`: the attempt was right but is not enough.
    Reject { methods: Vec<String>, partial: bool },
    /// The key would do; let the client sign.
    KeyOk,
    /// Prompts for the user; the second value says whether to show what is typed.
    Prompt(Vec<(String, bool)>),
    /// Go on with the dialogue of two libraries.
    Gss(GssReply),
    /// No method could ever let this user in: end the connection.
    NoMethods,
    /// Too many failures: end the connection.
    TooMany,
    /// The user is authenticated, but the account is closed: show the text and end the connection.
    Denied(String),
}
