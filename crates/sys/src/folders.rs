//! Creation of private directories.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates a directory that only its owner may access.
///
/// # Errors
/// Those of `mkdir(2)`; one of them is that it exists.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Like [`make_private`], but an existing directory is no error.
///
/// # Errors
/// Those of `mkdir(2)`.
pub fn private(folder: &Path) -> io::Result<()> {
    match make_private(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
