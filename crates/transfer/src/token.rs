//! Tokens: each operation carries one, and its answer comes with that token and so finds its purpose.

use crate::table::Key;

/// One of the two ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that files come from.
    Source,
    /// The end that files go to.
    Target,
}

/// Purpose of an awaited answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Token {
    Prepare(PrepareStep),
    Dir(Key, DirStep),
    File(Key, FileStep),
    Batch(Key),
    Name(Key, NameStep),
    Sync(Key, SyncStep),
    Removal(Key, RemovalStep),
    /// Something is moved out of the way of a copy.
    Backup(Key),
    Preserve(AttributeSubject, PreserveStep),
    /// Query whether the target's server permits renames.
    Renames,
    /// Which user the target's server runs as.
    TargetUser(OwnerStep),
    /// Removal of a file of ours.
    Removed(Key),
    /// Query whether the server answers at all on this channel.
    Probe(Side, usize),
    /// The answer does not matter.
    Nothing,
}

impl Token {
    /// Returns true when both are about one file or directory.
    pub(crate) fn same_owner(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::File(one, _), Self::File(other, _)) | (Self::Dir(one, _), Self::Dir(other, _)) => {
                one == other
            }
            _ => false,
        }
    }
}

/// Which question of the preparation an answer belongs to. Numbers are those of sources.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PrepareStep {
    TargetPath,
    TargetStat,
    TargetMkdir,
    SourcePath(usize),
    /// STAT of a path without wildcards.
    SourceStat(usize),
    /// STAT of the path as it was typed, backslashes included.
    SourceStatTyped(usize),
    /// Its path without symlinks, and what is in it if it is a directory.
    SourceReal(usize),
    SourceList(usize),
    /// LSTAT of the target.
    TargetLink,
    /// Query for an entry below the target that a source would replace.
    BelowTarget(usize),
    GlobOpen(Key),
    /// Further part of the listing; the number counts its restarts.
    GlobList(Key, u8),
    GlobStat(Key),
}

/// Which question about a directory an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DirStep {
    Mkdir,
    /// Creating the directory failed: query whether it exists.
    Check,
    /// Where the link leads that is in its place.
    LinkTarget,
    /// Creating the directory where that link leads.
    MkdirBehindLink,
    List,
    /// Further part of the listing; the number counts its restarts.
    ListMore(u8),
    Finish,
    /// Query for a name that differs from another one by case only.
    Twin,
    /// The target's listing, and its further parts with the number of restarts.
    TargetList,
    TargetMore(u8),
}

/// Which question about a file an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileStep {
    Stat,
    /// Length of the copy to be resumed.
    TargetStat,
    /// Real path of a directory behind a symlink.
    RealPath,
    OpenSource,
    /// Length of the file that is overwritten.
    OldSize,
    /// Opening the file to be continued for reading, to compare it.
    OpenContinued,
    OpenTarget,
    /// Length after OPEN, which may have emptied it.
    SizeContinued,
    /// Query whether the target is a plain file, for additional channels.
    IsPlain,
    OpenOnChannel {
        channel: usize,
    },
    /// Length after OPEN, which may have emptied it.
    SizeReopened {
        channel: usize,
    },
    /// Bytes from `offset` on, read through the second handle.
    DataReopened {
        channel: usize,
        offset: u64,
    },
    /// CLOSE of a source; CLOSE of a target reports whether everything was written.
    CloseOnChannel,
    Read {
        offset: u64,
        len: u32,
    },
    Write {
        offset: u64,
        len: u32,
    },
    Attributes,
    /// Setting attributes by path: the server does not support that on the handle.
    AttributesByPath,
    /// The server cannot set attributes: query for the size, which may be right.
    SizeCheck,
    /// Size after CLOSE: the file may have been longer before, or the server may store something else.
    SizeAfter,
    /// Opening an end to compare its content, before anything is copied.
    Contents(Side),
    /// Opening an end to read it back.
    Proof(Side),
    Sync,
    /// Data ranges of the source.
    Ranges,
    CloseTarget,
    /// Cutting a file that was closed before its failure was known.
    Repair,
    /// Attributes of the source after reading it.
    SourceAfter,
    /// The file's names, and comparing an existing file.
    Place(PlaceStep),
    Check(CheckStep),
}

/// Which question about the place of a file an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlaceStep {
    /// Entry under the final name. `followed`: under the path that a link there leads to.
    Target {
        followed: bool,
    },
    /// Query whether the link there may be followed.
    BehindLink,
    /// Target of the link.
    Link,
    /// Entry under the part file's name.
    Part {
        followed: bool,
    },
    Open,
    /// Opening the file with the final name for reading, to compare it.
    Adopt,
    /// Opening that file for writing, because it is the beginning of the copy.
    Continue,
    /// Length after OPEN, which may have emptied it.
    ContinuedSize,
    /// Who owns the part file.
    Owner,
    /// Changing the part file's owner to that of the file it replaces.
    Give,
    /// The rename; then, if the target must go first, removal and second rename.
    Rename,
    RemoveOld,
    RenameNew,
    /// Moving the replaced file to the backups.
    Backup,
    /// Removing a copy that failed for good.
    Discard,
}

/// Which question an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnerStep {
    Make,
    Look,
}

/// Which question an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CheckStep {
    /// Bytes of the range at this offset, of this end's file.
    Range(Side, u64),
    /// Bytes of the target behind the last range: there must be none.
    Tail,
    SumBegun,
    Sum,
    /// The sum of one of several handles.
    ChannelSum,
}

/// Which question an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameStep {
    /// Attributes, which listings of this host do not contain.
    Look,
    /// Target of the link.
    Read,
    Make,
    /// Creating it under a temporary name, because the final name exists.
    MakeBeside,
    Replace,
    /// Making a symbolic link on a server whose order of SYMLINK's strings is not known.
    Trial,
    /// Moving the existing file to the backups.
    BackUp,
    /// Setting its times and owner.
    Finish,
}

/// The object that attributes belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttributeSubject {
    File(Key),
    Dir(Key),
}

/// Which question an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreserveStep {
    Owner,
    /// The group alone, after the owner was refused.
    Group,
    Xattrs {
        owned: bool,
    },
    SetXattrs {
        owned: bool,
    },
}

/// Which question about an item an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SyncStep {
    /// Attributes of the source, links followed.
    Source,
    /// Attributes of the target's entry.
    Target,
    /// Targets of the two symbolic links.
    SourceLink,
    TargetLink,
    /// Removal of the entry that blocks the name.
    Cleared,
    /// Extended attributes of an unchanged file, at both ends.
    SourceXattrs,
    TargetXattrs,
    /// Corrections of an unchanged file's attributes.
    Owner,
    Xattrs,
    Attributes,
}

impl SyncStep {
    /// The end that is asked.
    pub(crate) const fn side(self) -> Side {
        match self {
            Self::Source | Self::SourceLink | Self::SourceXattrs => Side::Source,
            Self::Target
            | Self::TargetLink
            | Self::Cleared
            | Self::TargetXattrs
            | Self::Owner
            | Self::Xattrs
            | Self::Attributes => Side::Target,
        }
    }
}

/// Which question about a deletion an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RemovalStep {
    List,
    ListMore,
    /// Deletion of the entry itself.
    Delete,
    /// Restoring the times of its parent directory.
    Restore,
}
