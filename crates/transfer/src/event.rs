//! Events that an engine reports to its owner.

use std::time::Instant;

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something the user named is begun (only with [`crate::Reporting::begun`]).
    Started {
        /// Its path.
        source: Vec<u8>,
        /// The path of its copy.
        target: Vec<u8>,
    },
    /// The files of a directory are begun (only with [`crate::Reporting::begun`]).
    Entered {
        /// Its path on the source; without symlinks where that path is known.
        source: Vec<u8>,
    },
    /// A file is complete: written, cut to length, closed and confirmed.
    FileDone {
        /// Identifies the file, as in [`crate::Engine::current`].
        id: u64,
        /// The last component of its name.
        name: Vec<u8>,
        /// Its size: bytes copied, and those that were there before.
        size: u64,
        /// Bytes that were there before, of a copy that was resumed.
        kept: u64,
        /// When its data began to move.
        started: Instant,
    },
    /// A file would be copied (only with [`crate::Options::dry_run`]).
    Planned {
        /// Its path.
        source: Vec<u8>,
        /// The path of its copy.
        target: Vec<u8>,
        /// Its size, where that is known without opening it.
        size: Option<u64>,
    },
    /// Something was deleted at the target, because the source does not have it.
    Deleted {
        /// Its path.
        target: Vec<u8>,
    },
    /// Something would be deleted at the target (only with [`crate::Options::dry_run`]).
    PlannedDelete {
        /// Its path.
        target: Vec<u8>,
    },
    /// A file that an earlier attempt has left unfinished is continued: its first `kept` bytes were compared.
    Resumed {
        /// Its path on the source.
        source: Vec<u8>,
        /// Bytes that need not be copied again.
        kept: u64,
        /// Bytes of the source.
        size: u64,
    },
    /// Something went wrong; the text names the file, in the words of OpenSSH's `scp`. The copy goes on with
    /// what is left, and the exit status will not be 0.
    Failed {
        /// One line without a program name; control characters are escaped.
        text: String,
    },
    /// A decision of the engine, shown with `-v`.
    Notice {
        /// One line.
        text: String,
    },
    /// A file was written to while it was copied: the copy holds what was read. Not where a verified copy was
    /// asked for: there it is an [`Event::Failed`].
    Changed {
        /// Its path on the source.
        source: Vec<u8>,
        /// Like [`Event::Failed::text`].
        text: String,
    },
    /// A file is in its place: copied, or found unchanged (only with [`crate::Reporting::sums`]).
    Copied(Box<Copied>),
    /// Something was not copied (only with [`crate::Reporting::missed`]). Not complete for a copy that
    /// is stopped or lost.
    Missed {
        /// Its path from the top of its tree, which is what a manifest names; empty for a whole tree, `None`
        /// for a file that the command line names.
        path: Option<Vec<u8>>,
    },
    /// Something was left out on purpose (a socket in a tree). No failure.
    Skipped {
        /// Like [`Event::Failed::text`].
        text: String,
    },
}

/// A file or symbolic link that is complete under its final name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its path below the target that was asked for; empty where it is that target.
    pub path: Vec<u8>,
    /// Its path on the source.
    pub source: Vec<u8>,
    /// Its path on the target.
    pub target: Vec<u8>,
    /// Size of the file, or length of the link's target, bytes.
    pub size: u64,
    /// When the source was modified: seconds since 1970, nanoseconds; as exactly as the source's end has it.
    pub modified: Option<(i64, u32)>,
    /// Kind of the item.
    pub kind: CopiedKind,
}

/// See [`Copied`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopiedKind {
    /// A file, and the sum of what was read of the source. None where the data did not pass in order, or not
    /// in this run.
    File(Option<Vec<u8>>),
    /// A symbolic link, and where it leads.
    Link(Vec<u8>),
}

/// Progress of a whole copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Files that are complete, those of earlier attempts included.
    pub files: u64,
    /// Files found so far.
    pub files_found: u64,
    /// Bytes that are at the target, those that were there before included.
    pub bytes: u64,
    /// Bytes of the files that have been opened so far.
    pub bytes_found: u64,
    /// Bytes of `bytes` that the target already had.
    pub kept: u64,
    /// Files being opened, copied or closed.
    pub in_flight: usize,
    /// Nothing further will be found.
    pub all_found: bool,
    /// Nothing waits to be opened either: `bytes_found` is all there is to copy.
    pub all_opened: bool,
}

/// Time of a copy, by what it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// Reading and writing files of this host.
    pub disk: std::time::Duration,
    /// There was something to send that could not be sent: the peer's window, or the path behind it.
    pub window: std::time::Duration,
    /// Waiting for replies, with as much in flight as allowed, or with everything requested.
    pub answers: std::time::Duration,
}

/// Numbers of a copy at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Files copied completely.
    pub files: u64,
    /// Files and links that were found as they should be ([`crate::TreeSync`]).
    pub unchanged: u64,
    /// Files, links and directories deleted at the target, or that would be.
    pub deleted: u64,
    /// Directories finished.
    pub directories: u64,
    /// Bytes of files that were confirmed, those of failed files included.
    pub bytes: u64,
    /// Bytes that were there before and need not have been copied.
    pub kept: u64,
    /// Files of which both ends found that they hold the same.
    pub verified: u64,
    /// [`Event::Failed`]s.
    pub failures: u64,
    /// A connection was lost on the way.
    pub lost: bool,
}
