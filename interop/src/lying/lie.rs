//! The lies that the server can be told to tell, by name.

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lie {
    /// The third and each later open file has the handle of the third one.
    ReusedHandles,
    /// All handles are equal.
    OneHandle,
    /// WRITEs of more than 1000 bytes store half of them, and say that all is well.
    ShortWrites,
    /// Answers that are ready together come in reverse.
    OutOfOrder,
    /// Of requests that come together those beyond 1024 get no answer.
    DropsRequests,
    /// OPEN for writing only cuts; for reading and writing it never does, and sizes are not set.
    CutsWriteOnly,
    /// Sizes of paths are what they were when they were first asked for.
    StaleSizes,
    /// Names are folded to small letters.
    FoldsCase,
    /// Times are milliseconds.
    OddTimes,
    /// Requests of 256 KiB are announced, and 16 KiB served.
    LimitsNotKept,
    /// READs return 1000 bytes at most.
    ShortReads,
    /// Files end at two thirds.
    EarlyEof,
    /// What is written to one of two open files goes to the other one.
    Swapped,
    /// Some bytes of each file are stored as zeros.
    Zeroed,
    /// The same, but the handle that wrote them gives back what was written.
    ZeroedUnseen,
    /// The last byte is lost at CLOSE.
    Truncated,
    /// Renames put files elsewhere, and what is made is made elsewhere.
    WrongNames,
    /// FSETSTAT is refused.
    NoFsetstat,
    /// SETSTAT too.
    NoSetstat,
    /// REMOVE is refused.
    NoRemove,
    /// RENAME is refused.
    NoRename,
    /// READs through the first handle that a path was opened with return the data of the newest one.
    MixedReads,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::ReusedHandles,
        Self::OneHandle,
        Self::ShortWrites,
        Self::OutOfOrder,
        Self::DropsRequests,
        Self::CutsWriteOnly,
        Self::StaleSizes,
        Self::FoldsCase,
        Self::OddTimes,
        Self::LimitsNotKept,
        Self::ShortReads,
        Self::EarlyEof,
        Self::Swapped,
        Self::Zeroed,
        Self::ZeroedUnseen,
        Self::Truncated,
        Self::WrongNames,
        Self::NoFsetstat,
        Self::NoSetstat,
        Self::NoRemove,
        Self::NoRename,
        Self::MixedReads,
    ];

    /// The word for it on a command line.
    pub fn word(self) -> String {
        format!("{self:?}")
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lie| lie.word() == word)
    }
}
