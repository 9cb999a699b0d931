//! Paths relative to the remote working directory.

use lh_transfer::join;

use crate::words::escaped;

/// Returns `path`, which may be relative to `directory`, as an absolute path.
pub(crate) fn absolute(path: &[u8], directory: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") { path.to_vec() } else { join(directory, path) }
}

/// Returns `pattern`, which may be relative to `directory`, as an absolute pattern. Magic characters of
/// `directory` are escaped.
pub(crate) fn absolute_pattern(pattern: &[u8], directory: &[u8]) -> Vec<u8> {
    if pattern.starts_with(b"/") { pattern.to_vec() } else { join(&escaped(directory), pattern) }
}
