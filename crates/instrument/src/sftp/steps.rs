//! What is asked of the server, and what it answers.

use std::rc::Rc;

use crate::fault::Fault;

/// One thing to do with the server's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    MakeDirectory(String),
    /// Makes a file with this content, which fits into one message.
    MakeFile(String, Rc<[u8]>),
    List(String),
    RemoveFile(String),
    RemoveDirectory(String),
}

/// What a session does once the user wants an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnStop {
    /// It begins no more steps.
    End,
    /// It does all steps, and waits a shorter time for answers.
    Hurry,
}

/// What steps had as results.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The entries of directories that were listed.
    pub(super) entries: Vec<Entry>,
    /// The steps that the server refused.
    pub(super) refused: Vec<Refusal>,
}

/// An entry of a directory that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: Kind,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    /// Anything that is removed as a file is.
    File,
    /// The server does not tell.
    Unknown,
}

/// A step that the server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) path: String,
    /// The server's words.
    pub(super) words: String,
    /// There is nothing with this path.
    pub(super) is_missing: bool,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.words)
    }
}

impl Outcome {
    /// Fails where the server refused a step.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) fn all_done(self) -> Result<(), Fault> {
        let refusal = self.refused.first().map(ToString::to_string);
        refusal.map_or(Ok(()), |why| Err(Fault::Server(lh_client::sanitise(&why))))
    }
}
