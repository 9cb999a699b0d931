//! Creation of private directories.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates a directory that only its owner may access.
///
/// # Errors
/// Those of `mkdir(2)`; one of them is that it exists.
pub fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)
}

/// Like [`make_private`], but an existing directory is no error.
///
/// # Errors
/// Those of `mkdir(2)`.
pub fn private(directory: &Path) -> io::Result<()> {
    match make_private(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Like [`private`], and also creates the directories above it.
///
/// # Errors
/// Those of `mkdir(2)`.
pub fn private_with_parents(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
