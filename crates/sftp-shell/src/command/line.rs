//! A parsed line: the command with its arguments, or the error.

use std::ffi::OsString;

use crate::detail::Detail;
use crate::words::Unterminated;

/// Flags of `get`, `put` and their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyFlags {
    /// `-a`: resume.
    pub resume: bool,
    /// `-f`: have it written to the disk.
    pub sync: bool,
    /// `-p`, `-P`: keep times and modes.
    pub preserve: bool,
    /// `-r`, `-R`: directories too.
    pub recursive: bool,
}

/// Sort key of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By name.
    #[default]
    Name,
    /// The server's order (`-f`).
    None,
    /// Largest first (`-S`).
    Size,
    /// Newest first (`-t`).
    Time,
}

/// Flags of `ls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListFlags {
    /// `-1`: one name a line.
    pub single: bool,
    /// `-a`: names that start with a dot too.
    pub all: bool,
    /// `-l`: with attributes.
    pub long: bool,
    /// `-n`: ids as numbers; implies long.
    pub numeric: bool,
    /// `-h`: sizes for people.
    pub human: bool,
    /// `-r`.
    pub reverse: bool,
    /// `-f`, `-S`, `-t`.
    pub order: Order,
}

impl ListFlags {
    /// Returns how much must be known of each listed entry.
    pub(crate) fn detail(&self) -> Detail {
        let names = !self.long && matches!(self.order, Order::Name | Order::None);
        if names { Detail::Names } else { Detail::Attrs }
    }

    /// True when each entry can be shown as it arrives: in the server's order, a line each, nothing else to
    /// be asked.
    pub fn in_order_of_arrival(&self) -> bool {
        let line_each = self.single || self.long;
        self.order == Order::None && !self.reverse && line_each && !self.numeric && !self.human
    }
}

/// Attribute that a command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    /// `chmod`.
    Mode,
    /// `chown`.
    Owner,
    /// `chgrp`.
    Group,
}

/// What `df` shows of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// Sizes in kilobytes (1024 bytes).
    Kilobytes,
    /// Sizes with units (`-h`).
    Scaled,
    /// Numbers of inodes (`-i`).
    Inodes,
}

/// A command with its arguments. Paths are patterns where they may be ones, else names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the commands and their arguments are")]
pub enum Command {
    Quit,
    Help,
    Version,
    Progress,
    Pwd,
    Lpwd,
    Cd(Option<Vec<u8>>),
    Lcd(Option<Vec<u8>>),
    Lmkdir {
        parents: bool,
        path: Vec<u8>,
    },
    Lumask(u32),
    /// `lls`, with what follows it as it was typed.
    Lls(OsString),
    /// `!`, with the command as it was typed.
    Escape(OsString),
    Ls {
        flags: ListFlags,
        pattern: Option<Vec<u8>>,
    },
    Df {
        shown: DiskUse,
        path: Option<Vec<u8>>,
    },
    Get {
        flags: CopyFlags,
        source: Vec<u8>,
        target: Option<Vec<u8>>,
    },
    Put {
        flags: CopyFlags,
        source: Vec<u8>,
        target: Option<Vec<u8>>,
    },
    Change {
        what: Attribute,
        no_follow: bool,
        value: u32,
        pattern: Vec<u8>,
    },
    Rm(Vec<u8>),
    Mkdir {
        parents: bool,
        path: Vec<u8>,
    },
    Rmdir(Vec<u8>),
    Rename {
        legacy: bool,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Link {
        symbolic: bool,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Copy {
        from: Vec<u8>,
        to: Vec<u8>,
    },
}

/// Error in a line, in the words of OpenSSH's `sftp`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No command has this name.
    #[error("Invalid command.")]
    Unknown,
    /// A quote is not closed.
    #[error(transparent)]
    Unterminated(#[from] Unterminated),
    /// The command has no such flag.
    #[error("{command}: Invalid flag -{}", char::from(*.letter).escape_default())]
    Flag {
        /// The command.
        command: &'static str,
        /// The flag's letter.
        letter: u8,
    },
    /// This command needs a path.
    #[error("You must specify a path after a {0} command.")]
    NoPath(&'static str),
    /// This command copies, and needs a source.
    #[error("You must specify at least one path after a {0} command.")]
    NoSource(&'static str),
    /// This command needs two paths.
    #[error("You must specify two paths after a {0} command.")]
    NotTwoPaths(&'static str),
    /// This command needs a number first.
    #[error("You must supply a numeric argument to the {0} command.")]
    NoNumber(&'static str),
}

/// A line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `-` in front: a failure does not end the batch.
    pub ignore_errors: bool,
    /// `@` in front: the line is not shown.
    pub no_echo: bool,
    /// The command; `None` on an empty line or a comment.
    pub command: Result<Option<Command>, CommandError>,
}
