//! The host's own files.

use std::path::PathBuf;

/// A [`crate::fs::FileSystem`] over the host's files, with the rights of the process.
#[derive(Debug, Clone)]
pub struct LocalFs {
    start: PathBuf,
}

impl LocalFs {
    /// Relative paths start at `start` (sftp-server's `-d`), which should be absolute. The process's own working
    /// directory is neither used nor changed.
    pub fn new(start: impl Into<PathBuf>) -> Self {
        Self { start: start.into() }
    }
}
