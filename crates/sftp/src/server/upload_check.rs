//! The check of uploads: a file is hidden until it is complete and the [`UploadCheck`] accepts it.
//!
//! A file is hidden by its name. `.RANDOM.lhupload` is a file of the engine: only REMOVE and requests for
//! attributes may use it. `.NAME.lhpart` is a file that a client writes in parts, possibly over several
//! handles and sessions. All other names are final: a regular file gets one only after [`UploadCheck::check`]
//! accepts it, and nothing can write to it through this server from then on.

use std::io;

use super::log::FileOutcome;
use super::paths::directory_and_name;
use crate::Request;
use crate::fs::{PART_SUFFIX, status_of};
use crate::refusal::{is_rejection, refused, rejected};

/// End of the names of the engine's hidden files.
const HELD: &[u8] = b".lhupload";

/// A check that accepts or rejects uploads, for [`super::Server::set_upload_check`].
pub trait UploadCheck: Send {
    /// Checks a complete file before it gets its final name. Paths are as in [`crate::fs::FileSystem`]. May
    /// block for any time: no request is served meanwhile.
    fn check(&mut self, upload: &Upload<'_>) -> Verdict;
    /// Returns an unpredictable number, for the name of a hidden file.
    fn random(&mut self) -> u128;
}

/// A complete file.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// Path of the file during the check.
    pub file: &'a [u8],
    /// Path of the file after it is accepted.
    pub path: &'a [u8],
}

/// Result of the check of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The file gets its final name.
    Accepted,
    /// The file is removed, and the client receives this text.
    Rejected(String),
    /// The check failed, for this reason: the file does not get its final name.
    Undecided(String),
}

/// Returns the usage record's outcome for a file whose last step failed.
pub(super) fn outcome_of(error: &io::Error) -> FileOutcome {
    if is_rejection(error) { FileOutcome::Rejected } else { FileOutcome::Failed(status_of(error)) }
}

/// Turns a verdict into the result of the request.
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

/// Returns true if this is the name of a hidden file of the engine.
pub(super) fn is_held(path: &[u8]) -> bool {
    has_form(path, HELD)
}

/// Returns true if this is the name of a file that a client writes in parts.
pub(super) fn is_part(path: &[u8]) -> bool {
    has_form(path, PART_SUFFIX.as_bytes())
}

/// Returns a hidden name of the engine's, in the directory of `path`.
pub(super) fn held_name(path: &[u8], random: u128) -> Vec<u8> {
    let directory = directory_and_name(path).0;
    [directory, format!(".{random:032x}").as_bytes(), HELD].concat()
}

/// Returns the hidden name with its end in capitals. If a file system finds the file by that name too, names
/// cannot tell hidden files.
pub(super) fn in_capitals(path: &[u8]) -> Vec<u8> {
    let mut other = path.to_vec();
    if let Some(dot) = other.iter().rposition(|&byte| byte == b'.') {
        other[dot..].make_ascii_uppercase();
    }
    other
}

/// Returns true if a request uses a hidden file of the engine, other than to remove it or to read its
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
