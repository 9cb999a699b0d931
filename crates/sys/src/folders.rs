//! Making folders.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Makes a folder that only its owner may look into.
///
/// # Errors
/// As `mkdir(2)`; among them that it is there already.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Makes it where it is missing.
///
/// # Errors
/// As `mkdir(2)`.
pub fn private(folder: &Path) -> io::Result<()> {
    match make_private(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
