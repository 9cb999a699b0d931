//! The owner's decision about uploads: a file is hidden until it is complete and accepted.
//!
//! Names decide what is hidden. `.RANDOM.lhupload` is a file of the engine's own: no request reaches it but
//! REMOVE and those that look at attributes. `.NAME.lhpart` is a file that a client lets grow, possibly over
//! several handles and sessions. All other names are final: a regular file gets one only after
//! [`UploadCheck::check`] has accepted it, and nothing writes to it from then on.

use std::io;

use super::log::FileOutcome;
use super::paths::directory_and_name;
use crate::Request;
use crate::fs::{PART_SUFFIX, status_of};
use crate::refusal::{is_rejection, refused, rejected};

/// End of the names of the engine's own hidden files.
const HELD: &[u8] = b".lhupload";

/// Decides about uploads, for [`super::Server::set_upload_check`].
pub trait UploadCheck: Send {
    /// Decides about a complete file before it gets its final name. Paths are as in
    /// [`crate::fs::FileSystem`]. May block for as long as the decision takes: no request is served meanwhile.
    fn check(&mut self, upload: &Upload<'_>) -> Verdict;
    /// Returns an unpredictable number, for the name of a hidden file.
    fn random(&mut self) -> u128;
}

/// A complete file.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// Its name now.
    pub file: &'a [u8],
    /// The name that it gets when it is accepted.
    pub path: &'a [u8],
}

/// What was decided about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It gets its final name.
    Accepted,
    /// It is removed, and the client is told this text.
    Rejected(String),
    /// Nothing could be decided, for this reason: it does not get its final name.
    Undecided(String),
}

/// Returns the outcome of a file whose last step failed.
pub(super) fn outcome_of(error: &io::Error) -> FileOutcome {
    if is_rejection(error) { FileOutcome::Rejected } else { FileOutcome::Failed(status_of(error)) }
}

/// Turns a verdict into the outcome of the request.
pub(super) fn outcome(verdict: Verdict) -> io::Result<()> {
    match verdict {
        Verdict::Accepted => Ok(()),
        Verdict::Rejected(text) => {
            let text = if text.is_empty() { "upload rejected".to_owned() } else { text };
            Err(rejected(text))
        }
        Verdict::Undecided(text) => Err(refused(text)),
    }
}

fn has_form(path: &[u8], end: &[u8]) -> bool {
    let name = directory_and_name(path).1;
    name.len() > end.len() && name.starts_with(b".") && name.ends_with(end)
}

/// Whether this is the name of a hidden file of the engine's own.
pub(super) fn is_held(path: &[u8]) -> bool {
    has_form(path, HELD)
}

/// Whether this is the name of a file that a client lets grow.
pub(super) fn is_part(path: &[u8]) -> bool {
    has_form(path, PART_SUFFIX.as_bytes())
}

/// Returns a name of the engine's own beside `path`.
pub(super) fn held_name(path: &[u8], random: u128) -> Vec<u8> {
    let directory = directory_and_name(path).0;
    [directory, format!(".{random:032x}").as_bytes(), HELD].concat()
}

/// Returns the hidden name with its end in capitals: where that leads to a file, names do not decide what is
/// hidden.
pub(super) fn in_capitals(path: &[u8]) -> Vec<u8> {
    let mut other = path.to_vec();
    if let Some(dot) = other.iter().rposition(|&byte| byte == b'.') {
        other[dot..].make_ascii_uppercase();
    }
    other
}

/// Whether a request uses a hidden file of the engine's own for more than removing it or looking at its
/// attributes.
pub(super) fn uses_held(request: &Request<'_>) -> bool {
    match *request {
        Request::Open { path, .. }
        | Request::Setstat { path, .. }
        | Request::Lsetstat { path, .. }
        | Request::Mkdir { path, .. }
        | Request::CheckFileName { path, .. }
        | Request::SetXattrs { path, .. } => is_held(path),
        Request::Rename { old: first, new: second }
        | Request::PosixRename { old: first, new: second }
        | Request::Hardlink { old: first, new: second }
        | Request::Symlink { target: first, link: second } => is_held(first) || is_held(second),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::refusal_text;

    #[test]
    fn names_say_what_is_hidden() {
        let held = held_name(b"/d/x", 7);
        assert_eq!(held, b"/d/.00000000000000000000000000000007.lhupload");
        assert_eq!(held_name(b"x", 7), &held[3..]);
        assert_eq!(held_name(b"d/x/", 7), &held[1..]);
        assert!(is_held(&held) && is_held(b".x.lhupload//") && !is_held(b"/.x.lhupload/y"));
        assert!(is_part(b"/d/.x.lhpart") && is_part(b".x.lhpart/"));
        for other in [&b".lhpart"[..], b"x.lhpart", b".x.lhpart.", b"/.x.lhpart/..", b"", b"/"] {
            assert!(!is_part(other), "{other:?}");
        }
        assert_eq!(in_capitals(b"/a.b/.x.lhpart"), b"/a.b/.x.LHPART");
    }

    #[test]
    fn refusals_keep_their_text() {
        let rejected = outcome(Verdict::Rejected("virus".to_owned())).unwrap_err();
        assert_eq!(refusal_text(&rejected).as_deref(), Some("virus"));
        assert_eq!(outcome_of(&rejected), FileOutcome::Rejected);
        let undecided = outcome(Verdict::Undecided("no answer".to_owned())).unwrap_err();
        assert_eq!(refusal_text(&undecided).as_deref(), Some("no answer"));
        assert_eq!(outcome_of(&undecided), FileOutcome::Failed(crate::StatusCode::FAILURE));
        assert!(outcome(Verdict::Accepted).is_ok());
        assert_eq!(refusal_text(&io::ErrorKind::PermissionDenied.into()), None);
    }
}
