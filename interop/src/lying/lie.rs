//! The faults of the server, by name.

/// A fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lie {
    /// The third open file and each later one get the handle of the third.
    ReusedHandles,
    /// All open files get the same handle.
    OneHandle,
    /// WRITEs of more than 1000 bytes store half of the data and report success.
    ShortWrites,
    /// Replies that are ready together are sent in reverse order.
    OutOfOrder,
    /// If more than 1024 requests arrive together, those beyond get no reply.
    DropsRequests,
    /// If more than 12 requests arrive together, those beyond get no reply.
    DropsMany,
    /// OPEN truncates if and only if it is for writing only; SETSTAT ignores sizes.
    CutsWriteOnly,
    /// STAT of a path always returns the size of the first STAT.
    StaleSizes,
    /// Names are converted to lower case.
    FoldsCase,
    /// Times are in milliseconds.
    OddTimes,
    /// The server announces requests of up to 256 KiB and serves 16 KiB.
    LimitsNotKept,
    /// READs return 1000 bytes at most.
    ShortReads,
    /// READs of less than 32 KiB return as much as one of 32 KiB does, like those of lsh's server.
    LongReads,
    /// READs return end of file at two thirds of the file.
    EarlyEof,
    /// Data written to one of two open files goes to the other.
    Swapped,
    /// Some bytes of each file are stored as zeros.
    Zeroed,
    /// As [`Zeroed`](Self::Zeroed), but READs through the handle that wrote the bytes return the original
    /// data.
    ZeroedUnseen,
    /// CLOSE cuts off the last byte.
    Truncated,
    /// CLOSE of a file that was written adds a byte.
    Padded,
    /// As [`Padded`](Self::Padded), but only files that are empty get the byte.
    PadsEmpty,
    /// As [`Padded`](Self::Padded), but attributes have the size without the byte.
    PaddedUnseen,
    /// WRITEs store whole blocks: zeros follow the data.
    StoresBlocks,
    /// Renames and new files use a different name than requested.
    WrongNames,
    /// FSETSTAT is refused.
    NoFsetstat,
    /// SETSTAT and FSETSTAT are refused.
    NoSetstat,
    /// REMOVE is refused.
    NoRemove,
    /// RENAME is refused.
    NoRename,
    /// READs through the first handle of a path return the data of the newest handle.
    MixedReads,
    /// Every fifth reply has an id that belongs to no request.
    WrongIds,
    /// Every reply is sent twice.
    TwiceAnswered,
    /// Replies that are ready together have exchanged ids.
    RotatedIds,
    /// OPEN and OPENDIR fail while three files or directories are open. No limit is announced.
    FewHandles,
    /// OPEN fails with "permission denied" while nine files are open, as in Maverick Synergy with fifty. No
    /// limit is announced.
    DeniesTenth,
    /// OPEN fails from the sixth call on, even if files are closed in between.
    FewOpens,
    /// FSTAT returns the size of the first STAT, LSTAT or FSTAT of the file's path.
    StaleFstat,
    /// SYMLINK is read in the draft's order: the link before its target.
    LinkFirst,
    /// SYMLINK reports success and creates nothing.
    NoLinks,
    /// READLINK is refused.
    NoReadlink,
    /// SETSTAT and FSETSTAT with a size empty the file first, as Paramiko's `set_file_attr` does.
    SizeEmpties,
    /// OPEN for writing empties the file, and WRITEs succeed only at its end. READs of such a handle write
    /// zeros there and report success, as in `rclone serve sftp` without a cache.
    NoSeeks,
    /// STAT and OPEN do not follow symbolic links, as with Linux's `fs.protected_symlinks`.
    GuardsLinks,
    /// WRITEs fail with "No space left on device" once 200,000 bytes have been written.
    FullDisk,
    /// RENAME reports success and does nothing.
    IdleRename,
    /// `posix-rename@openssh.com` is announced and not supported.
    NoPosixRename,
    /// All limits of `limits@openssh.com` are 0, which means that there are none.
    ZeroLimits,
    /// The limits of `limits@openssh.com` are 1000 bytes for a packet, 300 for READ and WRITE, and 2 handles.
    TinyLimits,
    /// The session ends after 60 replies, with exit status 0.
    EndsEarly,
    /// Attributes have no sizes.
    NoSizes,
    /// Attributes are all empty.
    NoAttrs,
    /// Sizes of files are half of what READs return.
    HalfSizes,
    /// READDIR returns each entry twice.
    TwiceListed,
    /// The second READDIR of a directory fails.
    ListingBreaks,
    /// CLOSE of a file that was written to fails, and loses its last byte.
    CloseFails,
    /// READs are answered with a STATUS of success.
    StatusForRead,
    /// READs return 10 bytes more than requested.
    MoreData,
    /// WRITEs are answered with DATA, and store nothing.
    DataForWrite,
    /// Requests are not carried out; EXTENDED_REPLY takes the place of a STATUS of success.
    ExtendedForStatus,
    /// Handles are 300 bytes long.
    LongHandles,
    /// Handles are 2,000 bytes long, and messages of more than 34,000 bytes end the session, as a server may
    /// that serves no more than the draft obliges it to.
    LongestHandles,
    /// All handles are empty.
    EmptyHandles,
    /// REALPATH returns no name.
    NoRealPath,
    /// REALPATH returns two names.
    TwoRealPaths,
    /// MKDIR reports success and makes nothing.
    NoMkdir,
    /// READDIR also returns names that lead elsewhere.
    BadNames,
    /// VERSION announces no extension.
    NoExtensions,
    /// STATUS has a code and nothing behind it, and NAME has no attributes where it answers READLINK, as in
    /// pysftpserver.
    BareReplies,
    /// READDIR returns the attributes of what links lead to, as in pysftpserver and Paramiko's example.
    ListsLinkTargets,
    /// OPEN is not answered unless it only reads, or writes what it makes or empties, as in node-sftp-server.
    IgnoresOddOpens,
    /// OPEN for reading and writing makes no file, also where it is to, as in ssh-mitm.
    MakesNoUpdated,
    /// OPEN for writing removes the file first, and fails where it is not to make a new one, as in copyparty.
    RemovesOpened,
}

impl Lie {
    /// Every fault.
    pub const ALL: [Self; 70] = [
        Self::ReusedHandles,
        Self::OneHandle,
        Self::ShortWrites,
        Self::OutOfOrder,
        Self::DropsRequests,
        Self::DropsMany,
        Self::CutsWriteOnly,
        Self::StaleSizes,
        Self::FoldsCase,
        Self::OddTimes,
        Self::LimitsNotKept,
        Self::ShortReads,
        Self::LongReads,
        Self::EarlyEof,
        Self::Swapped,
        Self::Zeroed,
        Self::ZeroedUnseen,
        Self::Truncated,
        Self::Padded,
        Self::PadsEmpty,
        Self::PaddedUnseen,
        Self::StoresBlocks,
        Self::WrongNames,
        Self::NoFsetstat,
        Self::NoSetstat,
        Self::NoRemove,
        Self::NoRename,
        Self::MixedReads,
        Self::WrongIds,
        Self::TwiceAnswered,
        Self::RotatedIds,
        Self::FewHandles,
        Self::DeniesTenth,
        Self::FewOpens,
        Self::StaleFstat,
        Self::LinkFirst,
        Self::NoLinks,
        Self::NoReadlink,
        Self::SizeEmpties,
        Self::NoSeeks,
        Self::GuardsLinks,
        Self::FullDisk,
        Self::IdleRename,
        Self::NoPosixRename,
        Self::ZeroLimits,
        Self::TinyLimits,
        Self::EndsEarly,
        Self::NoSizes,
        Self::NoAttrs,
        Self::HalfSizes,
        Self::TwiceListed,
        Self::ListingBreaks,
        Self::CloseFails,
        Self::StatusForRead,
        Self::MoreData,
        Self::DataForWrite,
        Self::ExtendedForStatus,
        Self::LongHandles,
        Self::LongestHandles,
        Self::EmptyHandles,
        Self::NoRealPath,
        Self::TwoRealPaths,
        Self::NoMkdir,
        Self::BadNames,
        Self::NoExtensions,
        Self::BareReplies,
        Self::ListsLinkTargets,
        Self::IgnoresOddOpens,
        Self::MakesNoUpdated,
        Self::RemovesOpened,
    ];

    /// The fault's name on a command line.
    pub fn word(self) -> String {
        format!("{self:?}")
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lie| lie.word() == word)
    }
}
