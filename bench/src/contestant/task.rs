//! Tasks of a client, and the variable parameters of connections.

use std::path::Path;

use crate::bench::{Bench, KEY_KINDS};
use crate::cipher_suite::CipherSuite;

/// Task of a client. Paths are equal at both ends.
#[derive(Debug, Clone)]
pub(crate) enum Task<'a> {
    /// Runs `cat FILE` remotely, with the output discarded locally.
    PipeDown(&'a Path),
    /// Sends a local file, which is discarded remotely.
    PipeUp(&'a Path),
    /// Receives zeros for this many seconds, counted locally.
    ZerosDown(u64),
    /// Sends zeros for this many seconds.
    ZerosUp(u64),
    /// Downloads a file.
    Get(&'a Path, &'a Path),
    /// Uploads a file.
    Put(&'a Path, &'a Path),
    /// Downloads a directory; the target does not exist.
    GetTree(&'a Path, &'a Path),
    /// Uploads a directory; the target does not exist.
    PutTree(&'a Path, &'a Path),
    /// Downloads the files of a remote directory that match a pattern to an existing directory.
    Glob(&'a Path, &'a str, &'a Path),
    /// Runs `true` this many times in a row.
    Nothing(u64),
    /// Runs any remote command.
    Command(&'a str),
}

/// Variable parameters of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variation {
    pub(crate) suite: Option<CipherSuite>,
    pub(crate) kex: Option<String>,
    /// Size of the only groups that the server has for diffie-hellman-group-exchange, bits; `None`: all.
    pub(crate) group_bits: Option<u16>,
    /// Key type of the host; `None` is the first one.
    pub(crate) host_key: Option<&'static str>,
    /// Key type of the user; `None` is the first one.
    pub(crate) user_key: Option<&'static str>,
    /// Whether sessions outlive their connections (`Resume`, `ResumeGrace`), between Longhaul's programs;
    /// `None`: what is their default.
    pub(crate) resume: Option<bool>,
}

impl Variation {
    pub(crate) fn of(suite: &CipherSuite) -> Self {
        Self { suite: Some(*suite), ..Self::default() }
    }

    pub(crate) fn host_key(&self) -> &'static str {
        self.host_key.unwrap_or(KEY_KINDS[0].0)
    }

    pub(crate) fn user_key(&self) -> &'static str {
        self.user_key.unwrap_or(KEY_KINDS[0].0)
    }
}

/// A program that transfers data over SSH but has no server of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mover {
    Mscp,
    Rclone,
    Lftp,
    Rsync,
}

/// A remote location: `user@address:path`.
pub(super) fn remote(bench: &Bench, path: &Path) -> String {
    format!("{}@{{address}}:{}", bench.user(), path.display())
}
