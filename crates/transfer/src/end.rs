//! The operations both ends of a copy understand, and what they answer.
//!
//! An operation is started with a token and answered later with that token. A local end answers before the
//! start returns, a remote end when the server's reply comes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lh_sftp::batch::PutStep;
use lh_sftp::extended_attrs::{FileTimes, Ranges, Xattrs};
use lh_sftp::link_order::LinkOrder;
use lh_sftp::{Attrs, Handle as RemoteHandle, ReadBack};

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Dir,
    Symlink,
    /// Devices, sockets, pipes.
    Special,
    /// The end has not said.
    Unknown,
}

/// Access and modification time: seconds since 1970, and nanoseconds where the end has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) access: (i64, u32),
    pub(crate) modification: (i64, u32),
}

/// Attributes of a file or directory, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) kind: Kind,
    /// Permission bits, without type.
    pub(crate) mode: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) times: Option<Times>,
    /// User and group.
    pub(crate) ids: Option<(u32, u32)>,
    /// Bytes that it takes on its disk, where the end says so.
    pub(crate) storage: Option<u64>,
    /// Number of its names, where the end says so.
    pub(crate) links: Option<u64>,
    /// Device and inode, where the end says so.
    pub(crate) identity: Option<(u64, u64)>,
    /// A named pipe of a server: it would wait for a reader, and cannot write at an offset in the end.
    pub(crate) pipe_there: bool,
}

impl Info {
    pub(crate) const UNKNOWN: Self = Self {
        kind: Kind::Unknown,
        mode: None,
        size: None,
        times: None,
        ids: None,
        storage: None,
        links: None,
        identity: None,
        pipe_there: false,
    };

    /// The fault of a path that no server can write to.
    pub(crate) fn refused_there(&self) -> Option<Fault> {
        self.pipe_there.then(|| Fault::other("is a named pipe, which an SFTP server cannot write to"))
    }

    /// Converts what a server says of a file.
    pub(crate) fn of_attrs(attrs: &Attrs) -> Self {
        use lh_sftp::mode;
        let kind = match attrs.permissions.map(|bits| bits & mode::TYPE) {
            Some(mode::REGULAR) => Kind::File,
            Some(mode::DIRECTORY) => Kind::Dir,
            Some(mode::SYMLINK) => Kind::Symlink,
            // Some servers send bare permission bits.
            None | Some(0) => Kind::Unknown,
            Some(_) => Kind::Special,
        };
        Self {
            kind,
            mode: attrs.permissions.map(|bits| bits & 0o7777),
            size: attrs.size,
            times: match (attrs.full_times, attrs.times) {
                (Some(FileTimes { access, modification }), _) => Some(Times { access, modification }),
                (None, times) => times.map(|(access, modification)| Times {
                    access: (i64::from(access), 0),
                    modification: (i64::from(modification), 0),
                }),
            },
            ids: attrs.ids,
            storage: attrs.storage,
            links: attrs.inode.map(|inode| inode.links.into()),
            identity: attrs.inode.map(|inode| (inode.device, inode.number)),
            pipe_there: attrs.permissions.is_some_and(|bits| bits & mode::TYPE == mode::FIFO),
        }
    }
}

/// Attributes to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Change {
    pub(crate) size: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) times: Option<Times>,
    pub(crate) ids: Option<(u32, u32)>,
}

impl Change {
    /// For a server that takes [`FileTimes`], or for one that does not.
    pub(crate) fn to_attrs(self, full: bool) -> Attrs {
        // The protocol has 32 bits of seconds: what does not fit is clamped.
        let seconds = |(seconds, _): (i64, u32)| seconds.clamp(0, i64::from(u32::MAX)) as u32;
        Attrs {
            size: self.size,
            ids: self.ids,
            permissions: self.mode,
            times: self.times.map(|times| (seconds(times.access), seconds(times.modification))),
            full_times: self
                .times
                .filter(|_| full)
                .map(|Times { access, modification }| FileTimes { access, modification }),
            ..Attrs::NONE
        }
    }
}

/// An open file or directory of either end.
#[derive(Debug, Clone)]
pub(crate) enum Handle {
    Local(Arc<OwnedFd>),
    /// A directory of this host that is being listed.
    LocalDir(Arc<Mutex<rustix::fs::Dir>>),
    /// What a server gave on this channel. On another one, where another SFTP server runs, the same bytes
    /// may mean another file.
    Remote(RemoteHandle, usize),
}

impl Handle {
    /// The channel that it belongs to: 0, the first one, for this host as well.
    pub(crate) const fn channel(&self) -> usize {
        match self {
            Self::Local(_) | Self::LocalDir(_) => 0,
            Self::Remote(_, channel) => *channel,
        }
    }
}

/// An operation.
#[derive(Debug)]
pub(crate) enum Op<'a> {
    /// → `Info`; symlinks followed.
    Stat(&'a [u8]),
    /// → `Opened`.
    OpenRead(&'a [u8]),
    /// → `Opened`. Made with `mode` if it does not exist, never cut. A server is asked for a handle that
    /// reads, too.
    OpenWrite { path: &'a [u8], mode: u32 },
    /// Like `OpenWrite`; a file is opened for reading, too, where that is permitted. Local only.
    OpenContinued { path: &'a [u8], mode: u32 },
    /// Like `OpenWrite`, where reading is not allowed: some servers cut the file. Remote only.
    OpenWriteOnly { path: &'a [u8], mode: u32 },
    /// → `Opened`: an existing file is emptied. Remote only.
    OpenEmptied { path: &'a [u8], mode: u32 },
    /// → `Opened`, for writing and reading. Remote only.
    OpenExisting(&'a [u8]),
    /// → `Info`; a symlink itself.
    Lstat(&'a [u8]),
    /// → `Info` of an open file.
    Fstat(&'a Handle),
    /// → `Opened`, for writing and reading: the name under which a file grows.
    OpenPart { path: &'a [u8], mode: u32, as_found: AsFound },
    /// → `Ok`: `new` is replaced, in one step where the end can.
    Rename { old: &'a [u8], new: &'a [u8] },
    /// → `Ok`: fails where `new` exists.
    RenameNew { old: &'a [u8], new: &'a [u8] },
    /// → `Ok`.
    Remove(&'a [u8]),
    /// → `Ok`: of an empty directory.
    RemoveDir(&'a [u8]),
    /// → `Digests` or `Extended`: SHA-256 of each [`DIGEST_BLOCK`] of an open file. The end must be able to.
    Digests { handle: &'a Handle, offset: u64, len: u64 },
    /// → `Data`: bytes of an open file, not counted as copied.
    Peek { handle: &'a Handle, offset: u64, len: u32 },
    /// → `Ok`: sums up from now on what goes through the handle, and reads back that part of what is written.
    /// Remote only.
    BeginSum(&'a Handle, ReadBack),
    /// → `Extended`. Remote only.
    EndSum(&'a Handle),
    /// → `Ok`. A directory that exists is an error.
    Mkdir { path: &'a [u8], mode: u32 },
    /// → `Opened`, or `Listing` where opening says more. Only what matches `pattern` is wanted (empty:
    /// everything), but an end may tell of everything.
    List { path: &'a [u8], pattern: &'a [u8] },
    /// → `Opened`: the directory itself, not one that a link leads to. For the local end; a server looks as
    /// it does otherwise.
    ListPlain(&'a [u8]),
    /// → `Listed`: some entries; `None`, or [`FaultKind::Eof`], at the end.
    ListMore(&'a Handle),
    /// → `Ok`.
    SetPath { path: &'a [u8], change: Change },
    /// → `Ok`.
    SetHandle { handle: &'a Handle, change: Change },
    /// → `Ok`: of a symbolic link itself, or nothing where the end cannot.
    SetLink { path: &'a [u8], change: Change },
    /// → `Listed` with one path: where a symbolic link leads, as it says.
    ReadLink(&'a [u8]),
    /// → `Ok`: fails where there is something. `order` is the one that the server reads.
    Symlink { to: &'a [u8], link: &'a [u8], order: LinkOrder },
    /// → `Ok`: one more name of a file. Fails where there is something.
    Link { old: &'a [u8], new: &'a [u8] },
    /// → `Ranges`: where the data of an open file are, from `offset` on.
    Ranges { handle: &'a Handle, offset: u64 },
    /// → `Xattrs`: extended attributes, links followed; `wanted` as in [`lh_sftp::extended_attrs`].
    Xattrs { path: &'a [u8], wanted: u32 },
    /// → `Ok`: these and no others.
    SetXattrs { path: &'a [u8], wanted: u32, xattrs: &'a Xattrs },
    /// → `Ok`: the attributes that are wanted. Remote only.
    FullAttrs { wanted: u32 },
    /// → `Ok`: what was written is on the disk, or the end has no way to see to it.
    Sync(&'a Handle),
    /// → `Ok`.
    Close(Handle),
    /// → `Put`: `count` whole files, encoded. Remote only, and only where the extension is offered.
    PutFiles { flags: u32, count: u32, files: &'a [u8] },
    /// → `Got`, with extended attributes of the `kinds`. As `PutFiles`.
    GetFiles { kinds: u32, count: u32, files: &'a [u8] },
    /// → `Listed` with one path: absolute, without symlinks.
    RealPath(&'a [u8]),
    /// → `Listed` with one path: `~user` resolved. Remote only.
    ExpandPath(&'a [u8]),
}

impl Op<'_> {
    /// The handle that it is about, if any.
    pub(crate) const fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Fstat(handle)
            | Self::Digests { handle, .. }
            | Self::Peek { handle, .. }
            | Self::BeginSum(handle, _)
            | Self::EndSum(handle)
            | Self::ListMore(handle)
            | Self::SetHandle { handle, .. }
            | Self::Ranges { handle, .. }
            | Self::Sync(handle) => Some(handle),
            Self::Close(handle) => Some(handle),
            _ => None,
        }
    }
}

/// Treatment of a file that has a part name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsFound {
    /// It must not exist yet.
    Fresh,
    /// The file that is there is emptied or removed.
    Empty,
    /// The file that is there keeps its content. This end makes sure that it is ours; a server is asked about
    /// that before.
    Kept,
    /// The file that is there keeps its content and its owner: it has the final name.
    Adopted,
}

/// Bytes that [`Op::Digests`] makes one digest of.
pub(crate) const DIGEST_BLOCK: u32 = 1 << 20;

/// One entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: Box<[u8]>,
    pub(crate) info: Info,
}

/// Result of an operation that succeeded.
#[derive(Debug)]
pub(crate) enum Done {
    Ok,
    Info(Info),
    /// The local end says at once what it has opened.
    Opened(Handle, Option<Info>),
    Listed(Option<Vec<Entry>>),
    /// A listing that has begun; without a handle it has also ended.
    Listing(Option<Handle>, Vec<Entry>),
    Data(lh_sftp::Data),
    Ranges(Ranges),
    Xattrs(Xattrs),
    /// 32 bytes for each block.
    Digests(Vec<u8>),
    /// The reply's fields, which the caller reads.
    Extended(bytes::Bytes),
    /// The files that failed, by their place.
    Put(Vec<(usize, PutStep, Fault)>),
    /// One result for each file.
    Got(Vec<Result<Got, Fault>>),
}

/// A file that came whole, or its beginning.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) info: Info,
    /// The file ends behind `data`.
    pub(crate) whole: bool,
    pub(crate) data: Bytes,
    /// Attributes of the requested kinds; `None`: not requested, or to be requested separately.
    pub(crate) xattrs: Option<Xattrs>,
}

/// Kind of a failure, as far as anything depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// READ or READDIR at the end.
    Eof,
    NotFound,
    /// The connection is gone.
    Lost,
    /// Another copy writes it.
    Busy,
    /// The server has answered later requests, and this one not.
    Unanswered,
    Other,
}

/// See [`FaultKind`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The text of strerror(3), or one like it.
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self { kind: FaultKind::Other, text: text.into() }
    }

    /// The server did not answer in `seconds` seconds, and has answered later requests.
    pub(crate) fn unanswered(seconds: u64) -> Self {
        let text = format!("the server did not answer in {seconds} s");
        Self { kind: FaultKind::Unanswered, text }
    }

    /// Returns true where the server refused, or did not answer, for a reason that another way of writing the
    /// file may not have.
    pub(crate) fn may_be_the_way(&self) -> bool {
        matches!(self.kind, FaultKind::Other | FaultKind::Unanswered) && !self.is_full()
    }

    /// Returns true where the disk is full, so that another name on it would not help.
    pub(crate) fn is_full(&self) -> bool {
        ["No space left on device", "Disk quota exceeded"].contains(&self.text.as_str())
    }

    /// Returns true where the end does not let us do such things.
    pub(crate) fn is_forbidden(&self) -> bool {
        ["Permission denied", "Operation not permitted", "Operation unsupported"]
            .contains(&self.text.as_str())
    }

    /// Returns true where the end denies access, in the words of OpenSSH or of Go.
    pub(crate) fn is_denied(&self) -> bool {
        self.text.eq_ignore_ascii_case("permission denied")
    }

    /// Returns true where the server says that something has the new name already: `File exists`, or Go's
    /// `file already exists`.
    pub(crate) fn is_taken(&self) -> bool {
        self.kind == FaultKind::Other && self.text.to_ascii_lowercase().ends_with(" exists")
    }

    /// Another user or program has put something else under the name of a file that is copied.
    pub(crate) fn replaced() -> Self {
        // Treated like a name that is gone: no other way is left to try.
        Self { kind: FaultKind::NotFound, text: lh_sftp::REPLACED.to_owned() }
    }

    /// Another copy writes to this part file.
    pub(crate) fn busy() -> Self {
        Self { kind: FaultKind::Busy, text: "another copy writes it".to_owned() }
    }
}

impl From<rustix::io::Errno> for Fault {
    fn from(errno: rustix::io::Errno) -> Self {
        let text = lh_sys::errno_text(&errno.into());
        let kind = if errno == rustix::io::Errno::NOENT { FaultKind::NotFound } else { FaultKind::Other };
        Self { kind, text }
    }
}

/// The answer to an operation.
pub(crate) type Outcome = Result<Done, Fault>;

/// The reason of a failure; an answer of the wrong type is one too.
pub(crate) fn fault_of(outcome: Outcome) -> Fault {
    match outcome {
        Err(fault) => fault,
        Ok(_) => Fault::other("Bad message"),
    }
}

/// The path of a one-name reply.
pub(crate) fn path_of(outcome: Outcome) -> Result<Vec<u8>, Fault> {
    match outcome {
        Ok(Done::Listed(Some(mut names))) if names.len() == 1 => {
            Ok(names.pop().map(|entry| entry.name.into_vec()).unwrap_or_default())
        }
        outcome => Err(fault_of(outcome)),
    }
}
