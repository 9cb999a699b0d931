//! Settings of all commands of a session, from the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lh_transfer::{Direction, Options, journal};

/// Settings of all commands, from the command line of the program.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `-b`: the first failure ends it.
    pub batch: bool,
    /// `-q`, `-b`: names of files that are copied or changed are not shown.
    pub quiet: bool,
    /// The progress meter is shown.
    pub progress: bool,
    /// Lines are printed after the prompt: they do not come from this terminal.
    pub echo: bool,
    /// `-a`: copies are resumed.
    pub resume: bool,
    /// `-f`: copies are written to the disk.
    pub sync: bool,
    /// `-p`: times and modes are kept.
    pub preserve: bool,
    /// `-v`: decisions of copies are printed.
    pub verbose: bool,
    /// `-r`: directories are copied.
    pub recursive: bool,
    /// Directory of journals, for resuming interrupted copies.
    pub journals: Option<Journals>,
    /// Other options of copies (`-B`, `-l`, `-R`, `-X`).
    pub copy: Options,
}

/// See [`Settings::journals`].
#[derive(Debug, Clone)]
pub struct Journals {
    /// The directory they are in.
    pub directory: PathBuf,
    /// Identity of the server in journals.
    pub server: Vec<u8>,
}

impl Journals {
    /// The journal of the copies of these sources to the names beside them.
    pub(crate) fn of(&self, direction: Direction, pairs: &[(Vec<u8>, Vec<u8>)]) -> PathBuf {
        let absolute = |path: &Vec<u8>| match std::path::absolute(OsStr::from_bytes(path)) {
            Ok(path) => path.into_os_string().into_vec(),
            Err(_) => path.clone(),
        };
        let upload = direction == Direction::Upload;
        let mut words = vec![if upload { b"put".to_vec() } else { b"get".to_vec() }, self.server.clone()];
        for (source, copy) in pairs {
            words.push(if upload { absolute(source) } else { source.clone() });
            words.push(if upload { copy.clone() } else { absolute(copy) });
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        journal::file_for(&self.directory, &words, None)
    }
}
