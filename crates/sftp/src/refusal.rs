//! Refusals whose own text the client shows.

use std::fmt;
use std::io;

/// Text of the refusal to rename a file when its name now refers to another file. Short enough for replies
/// about batches.
pub const REPLACED: &str = "replaced by another program while it was copied";

/// A refusal that the client receives as FAILURE with this text. PERMISSION_DENIED is not used: many clients
/// show no text for it, and conclude that files in this directory have to be written in place.
#[derive(Debug)]
struct Refused {
    text: String,
    /// The file itself was rejected, not only this request.
    rejected: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refused {}

fn of_error(error: &io::Error) -> Option<&Refused> {
    error.get_ref()?.downcast_ref()
}

/// Returns the refusal's text, if the error is one.
pub(crate) fn refusal_text(error: &io::Error) -> Option<String> {
    of_error(error).map(ToString::to_string)
}

/// Returns true if the error says that the file itself was rejected.
pub(crate) fn is_rejection(error: &io::Error) -> bool {
    of_error(error).is_some_and(|refused| refused.rejected)
}

/// Returns the error of a request that is not permitted.
pub(crate) fn refused(text: impl Into<String>) -> io::Error {
    io::Error::other(Refused { text: text.into(), rejected: false })
}

/// Returns the error of a request whose file was rejected.
pub(crate) fn rejected(text: impl Into<String>) -> io::Error {
    io::Error::other(Refused { text: text.into(), rejected: true })
}
