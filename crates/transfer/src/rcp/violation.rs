//! How a source breaks the protocol, in the words that `scp` has behind `protocol error: `.

/// See the module documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A line begins with nothing that a record begins with.
    #[error("expected control record")]
    NoRecord,
    /// A line is empty.
    #[error("unexpected <newline>")]
    Empty,
    /// A line is longer than any record.
    #[error("control record too long")]
    TooLong,
    /// The mode is not four octal digits.
    #[error("bad mode")]
    Mode,
    /// A number is not there.
    #[error("{0} not present")]
    Missing(Field),
    /// What should be behind a field is not there.
    #[error("{0} not delimited")]
    NotDelimited(Field),
    /// A number is larger than the receiver can hold.
    #[error("{0} out of range")]
    OutOfRange(Field),
    /// Without `-r` nobody asked for a directory.
    #[error("received directory without -r")]
    Directory,
    /// Nobody asked for this name.
    #[error("filename does not match request")]
    Name,
    /// A directory ends, and none has begun.
    #[error("unexpected end of directory")]
    EndOfDirectory,
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Permission bits.
    Mode,
    /// Length of a file.
    Size,
    /// Time of modification, seconds.
    ModificationSeconds,
    /// Time of modification, microseconds.
    ModificationMicros,
    /// Time of access, seconds.
    AccessSeconds,
    /// Time of access, microseconds.
    AccessMicros,
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mode => "mode",
            Self::Size => "size",
            Self::ModificationSeconds => "mtime.sec",
            Self::ModificationMicros => "mtime.usec",
            Self::AccessSeconds => "atime.sec",
            Self::AccessMicros => "atime.usec",
        })
    }
}
