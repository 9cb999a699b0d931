//! Tokens: each operation carries one, and its answer comes with that token and so finds its purpose.

use crate::table::Key;

/// One of the two ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where files come from.
    Source,
    /// Where they go.
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
    /// Whether the target's server permits renames.
    Renames,
    /// Which user the target's server runs as.
    TargetUser(OwnerStep),
    /// Something of ours was to be removed.
    Removed(Key),
    /// Whether the server answers at all on this channel.
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
    /// Of a path without magic.
    SourceStat(usize),
    /// Of the path as it was typed, backslashes and all.
    SourceStatTyped(usize),
    /// Its path without symlinks, and what is in it if it is a directory.
    SourceReal(usize),
    SourceList(usize),
    /// Whether there is something below the target that a source would replace.
    BelowTarget(usize),
    GlobOpen(Key),
    /// Of the listing that was begun so often before.
    GlobList(Key, u8),
    GlobStat(Key),
}

/// Which question about a directory an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DirStep {
    Mkdir,
    /// Making it failed: is there one already?
    Check,
    List,
    /// Of the listing that was begun so often before.
    ListMore(u8),
    Finish,
    /// Is there something under a name that differs from another one by case only?
    Twin,
    /// The listing of the target, and its parts; begun so often before.
    TargetList,
    TargetMore(u8),
}

/// Which question about a file an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileStep {
    Stat,
    /// How long the copy is that is to be resumed.
    TargetStat,
    /// It is a directory behind a symlink: which?
    RealPath,
    OpenSource,
    /// How long the file is that the copy is written over.
    OldSize,
    /// Opening for reading what is to be continued, to compare it.
    OpenContinued,
    OpenTarget,
    /// How long it is then, where OPEN may have emptied it.
    SizeContinued,
    /// Whether the target is a plain file, for additional channels.
    IsPlain,
    OpenOnChannel {
        channel: usize,
    },
    /// How long it is then, where OPEN may have emptied it.
    SizeReopened,
    /// Of a source; that of a target says whether everything was written.
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
    /// Setting them by the path: the server does not take them on the handle.
    AttributesByPath,
    /// The server takes them in no way: asking for the size, which may be right.
    SizeCheck,
    /// What was there before may have been longer.
    SizeAfter,
    /// Opening an end to compare what it has: nothing is copied yet.
    Contents(Side),
    /// Opening an end to read it back.
    Proof(Side),
    Sync,
    /// Where its holes are.
    Ranges,
    CloseTarget,
    /// Cutting a file that was closed before its failure was known.
    Repair,
    /// What the source is like when it has been read.
    SourceAfter,
    /// Where the file grows, and comparing what is there.
    Place(PlaceStep),
    Check(CheckStep),
}

/// Which question about the place of a file an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlaceStep {
    /// What is under the final name? `followed`: of where the link leads that was there.
    Target {
        followed: bool,
    },
    /// May the link there be followed?
    BehindLink,
    /// Where does it lead?
    Link,
    /// What is under our name?
    Part {
        followed: bool,
    },
    Open,
    /// Opening for reading what is under the final name, to compare it.
    Adopt,
    /// Opening it for writing, because it is the beginning of the copy.
    Continue,
    /// How long it is then, where OPEN may have emptied it.
    ContinuedSize,
    /// Who owns the part file.
    Owner,
    /// Giving it to the owner of what it replaces.
    Give,
    /// The rename; with what it replaces out of the way.
    Rename,
    RemoveOld,
    RenameNew,
    /// Moving away what it replaces.
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
    /// About the range that begins here, of this end's file.
    Range(Side, u64),
    SumBegun,
    Sum,
    /// Of one of several handles.
    ChannelSum,
}

/// Which question an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameStep {
    /// What is it like? Listings of this host do not say.
    Look,
    /// Where does the link lead?
    Read,
    Make,
    /// Making it under a name of ours: there is something under the final one.
    MakeBeside,
    Replace,
    /// Making a symbolic link on a server whose order of SYMLINK's strings is not known.
    Trial,
    /// Moving away what is there.
    BackUp,
    /// Its times and its owner.
    Finish,
}

/// What the attributes belong to.
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
    /// What the source is, links followed.
    Source,
    /// What the target has under the name.
    Target,
    /// Where the two symbolic links lead.
    SourceLink,
    TargetLink,
    /// What stands in the way is removed.
    Cleared,
    /// The extended attributes of a file that is unchanged, at both ends.
    SourceXattrs,
    TargetXattrs,
    /// Attributes of a file that is unchanged.
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
    /// Of the thing itself.
    Delete,
    /// The times of the directory that it was in.
    Restore,
}
