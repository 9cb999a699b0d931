//! Options of a copy: the part of a tree that is copied, and how.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lh_sftp::ReadBack;

use crate::end::Info;
use crate::item::Item;
use crate::token::Side;
use crate::{Selection, SumAlgorithm};

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Local sources, remote target.
    Upload,
    /// Remote sources, local target.
    Download,
    /// Both remote, on two connections, the bytes passing through this host.
    Relay,
}

impl Direction {
    /// The end that there may be several channels to.
    pub(crate) const fn side_with_channels(self) -> Side {
        match self {
            Self::Download => Side::Source,
            Self::Upload | Self::Relay => Side::Target,
        }
    }
}

/// Follows the reason in the message about shards of one source to a target that is not a directory.
pub const SHARDS_NEED_THE_TARGET: &str =
    "; with --shard the target must exist, unless the source is DIRECTORY/.";

/// One copy: some sources of one end into a target of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which end is remote.
    pub direction: Direction,
    /// Paths as the user gave them, the host part removed. Remote ones may hold glob patterns and `~`.
    pub sources: Vec<Vec<u8>>,
    /// Target: a directory to put the sources into, or the name of the copy.
    pub target: Vec<u8>,
    /// The target must be a directory. For several sources a remote one is made when it is missing, as `scp`
    /// does; for one source (a shard of it) it has to exist.
    pub target_must_be_dir: bool,
}

/// When the target's bytes are compared with the source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// No.
    #[default]
    Off,
    /// Only where the server sums up the data that it reads or writes (a Longhaul server), which costs no
    /// further transfer; samples of the written data are read back.
    WhenCheap,
    /// Always, and all that was written is read back.
    Always,
}

impl Verify {
    /// Returns how much of the pieces that both ends sum up is read back.
    pub(crate) const fn read_back(self) -> ReadBack {
        match self {
            Self::Always => ReadBack::Whole,
            Self::Off | Self::WhenCheap => ReadBack::Spots,
        }
    }
}

/// Attributes of files that are kept besides their data, mode and times. One that an end cannot keep is
/// reported once and left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Symbolic links found in trees are copied as links.
    pub links: bool,
    /// Several names of one file in a tree become several names of its copy.
    pub hard_links: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Access control lists.
    pub acls: bool,
    /// The user, by number.
    pub owner: bool,
    /// The group, by number.
    pub group: bool,
    /// Blocks of zeros become holes where the server cannot say where its file has holes. (Known holes are
    /// always kept.)
    pub sparse: bool,
}

impl Keep {
    /// Returns true if anything is kept that needs requests of its own for each file.
    pub(crate) const fn asks_for_each(self) -> bool {
        self.xattrs || self.acls || self.owner || self.group
    }

    /// The ids that the copy of a file shall have; `u32::MAX` leaves what there is.
    pub(crate) fn ids_to_keep(self, ids: Option<(u32, u32)>) -> Option<(u32, u32)> {
        let (user, group) = ids.filter(|_| self.owner || self.group)?;
        Some((if self.owner { user } else { u32::MAX }, if self.group { group } else { u32::MAX }))
    }

    /// Bits of [`lh_sftp::extended_attrs`].
    pub(crate) const fn xattr_kinds(self) -> u32 {
        (if self.xattrs { lh_sftp::extended_attrs::XATTRS } else { 0 })
            | (if self.acls { lh_sftp::extended_attrs::ACLS } else { 0 })
    }
}

/// Copying only what differs (`--sync`). What the target has is compared with the source directory by
/// directory; entries of a directory are copied in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeSync {
    /// Delete at the target what the source does not have, when everything is copied and nothing has failed.
    pub delete: bool,
    /// Most files, links and directories that are deleted.
    pub max_delete: Option<u64>,
    /// Compare the contents of files of one size instead of their times.
    pub checksum: bool,
    /// Leave files alone that are newer at the target.
    pub keep_newer: bool,
    /// Move what is replaced or deleted to this directory of the target's end, by renaming. A relative path
    /// begins at the target.
    pub backup_dir: Option<Vec<u8>>,
}

/// How much a copy may use of the path, the servers and this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// At most this many bits per second of file data (`-l`, which counts Kbit).
    pub bits_per_second: Option<u64>,
    /// Bytes per READ or WRITE (`-X buffer=`); by default what the server's `limits@openssh.com` allows, or
    /// 32 KiB. Never more than the server allows.
    pub request_bytes: Option<u32>,
    /// READs or WRITEs in flight (`-X nrequests=`); by default bounded by bytes alone.
    pub requests: Option<usize>,
    /// The most bytes in flight, or held back between two remote ends. What is really in flight starts at 4
    /// MiB and grows while answers keep coming.
    pub bytes_in_flight: u64,
    /// Files being opened, copied or closed at a time, at most; fewer where an end can hold less. Bounds the
    /// handles held on both ends.
    pub open_files: usize,
    /// Channels for the data of large files; by default as many as the path and the server's limits call for.
    pub channels: Option<usize>,
    /// With [`Keep::hard_links`]: files whose further names are waited for at a time; by default 262,144,
    /// which takes less than 100 MB.
    pub shared_files: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bits_per_second: None,
            request_bytes: None,
            requests: None,
            bytes_in_flight: 64 << 20,
            open_files: 768,
            channels: None,
            shared_files: None,
        }
    }
}

impl Limits {
    /// The user has not said how many channels there are to be.
    pub(crate) const fn chooses_channels(&self) -> bool {
        self.channels.is_none()
    }
}

/// How long a server may take to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time without an answer after which requests are taken for dropped once the server answers a later one.
    /// Also the least time that a server gets for the answer to INIT.
    pub answer: Duration,
    /// Time that a server may take to answer the first message, instead of what the program takes.
    pub first_answer: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { answer: Duration::from_secs(60), first_answer: None }
    }
}

impl Timeouts {
    /// Returns the time for the answer to INIT, where the program takes `within`.
    pub(crate) fn for_first_answer(self, within: Duration) -> Duration {
        self.first_answer.unwrap_or(within.max(self.answer))
    }
}

/// How files are written at the target: under which name they grow, what of an earlier copy they continue,
/// and what is left of a copy that is interrupted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placing {
    /// Let files grow under another name beside the final one (`.NAME.TAG.lhpart`) and rename them when they
    /// are complete. What is no plain file, or where that cannot be done without changing what is there
    /// (owner, hard links, a directory that may not be written to), is written in place. Unfinished files of
    /// an earlier attempt are continued when they are known to be right: by digests, or by the journal and
    /// samples. With [`Placing::resume`] only where nothing is there under the final name.
    pub atomic: bool,
    /// Path of the journal of this copy (see [`crate::journal`]). Only with [`Placing::atomic`].
    pub journal: Option<PathBuf>,
    /// How the copy was started, for the journal: the directory, the program, its arguments. Nothing where it
    /// is not one command.
    pub journal_command: Vec<Vec<u8>>,
    /// Go on where a shorter target ends (`-a` of `sftp`): what is there is taken to be right. A target that
    /// is missing is copied whole. Not between two remote ends.
    pub resume: bool,
    /// Go on with shorter targets that something else has left (`-Z`), as far as they are what the source
    /// begins with: compared by digests, or byte by byte. Only with [`Placing::atomic`].
    pub adopt_partial: bool,
    /// Have the target written to its disk before it is closed (`-f` of `sftp`), where the end can.
    pub sync: bool,
}

impl Placing {
    /// Returns the path of the journal, if the copy keeps one.
    pub(crate) fn journal_in_use(&self) -> Option<&Path> {
        self.journal.as_deref().filter(|_| self.atomic)
    }

    /// Returns true where files are written as PUT_FILES and GET_FILES have them written: from their start,
    /// without a request to the disk.
    pub(crate) const fn permits_batches(&self) -> bool {
        !self.adopt_partial && !self.resume && !self.sync
    }
}

/// What is reported of a copy besides failures and what it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reporting {
    /// Report each file that has its final name, with the sum of its content ([`crate::Event::Copied`]).
    pub sums: Option<SumAlgorithm>,
    /// Report which parts of trees were not copied ([`crate::Event::Missed`]).
    pub missed: bool,
    /// Say what is begun ([`crate::Event::Started`], [`crate::Event::Entered`]).
    pub begun: bool,
}

impl Reporting {
    /// A copy begins anew rather than behind what is there: between two servers only data that pass have a
    /// sum.
    pub(crate) fn needs_all_data(self, direction: Direction) -> bool {
        self.sums.is_some() && direction == Direction::Relay
    }
}

/// Options of a copy. [`Options::default`] does what `scp` without flags does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Copy directories with all that is in them (`-r`). Symbolic links are followed.
    pub recursive: bool,
    /// Follow symbolic links found in trees, as `scp` does; `sftp` leaves them out. What is named by the user
    /// is always followed.
    pub follow_links: bool,
    /// Selects the items of a tree to copy. Shards of one source need [`Plan::target_must_be_dir`].
    pub select: Selection,
    /// Copy only what differs. Sources go into the target, which is a directory and made when it is missing;
    /// the contents of a source whose path ends with a slash or a dot do.
    pub tree_sync: Option<TreeSync>,
    /// Say what would be copied ([`crate::Event::Planned`]) and change nothing.
    pub dry_run: bool,
    /// Keep modification and access times and mode bits (`-p`).
    pub preserve: bool,
    /// Attributes that are kept besides.
    pub keep: Keep,
    /// How files are written at the target.
    pub placing: Placing,
    /// Compare what was written with what was sent.
    pub verify: Verify,
    /// Send small files by the hundred in one message, where the server offers that.
    pub batches: bool,
    /// How much the copy may use.
    pub limits: Limits,
    /// How long servers may take to answer.
    pub timeouts: Timeouts,
    /// What is reported.
    pub reporting: Reporting,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recursive: false,
            follow_links: true,
            select: Selection::default(),
            tree_sync: None,
            dry_run: false,
            preserve: false,
            keep: Keep::default(),
            placing: Placing::default(),
            verify: Verify::Off,
            batches: true,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            reporting: Reporting::default(),
        }
    }
}

impl Options {
    /// Attributes beyond version 3 that are asked of servers that have them: bits of
    /// [`lh_sftp::extended_attrs`]. Times to the nanosecond are worth their bytes where they are kept, or
    /// show whether a source changed while it was read.
    pub(crate) fn attrs_wanted(&self) -> u32 {
        use lh_sftp::extended_attrs::{WANT_INODE, WANT_STORAGE, WANT_TIMES};
        let exact_times = self.preserve || self.verify == Verify::Always || self.reporting.sums.is_some();
        (if exact_times { WANT_TIMES } else { 0 }) | WANT_INODE | WANT_STORAGE
    }

    /// Where everything is kept, holes are, in small files as well: at least a block of this one takes no
    /// place on its disk.
    pub(crate) fn has_holes_to_keep(&self, item: &Item) -> bool {
        let Info { size: Some(size), storage: Some(storage), .. } = item.info else { return false };
        self.keep.asks_for_each() && size >= storage.saturating_add(4096)
    }

    /// Where links are made, or only differences are copied, none is written through below the top: a tree
    /// from an untrusted source must not lead out of the target.
    pub(crate) const fn follows_no_links(&self, item: &Item) -> bool {
        self.tree_sync.is_some() || (self.keep.links && item.parent.is_some())
    }

    /// Links are treated otherwise than what they lead to.
    pub(crate) const fn tells_links(&self) -> bool {
        self.keep.links || !self.follow_links || self.tree_sync.is_some()
    }

    /// Times say nothing: files of one size are read.
    pub(crate) fn compares_contents(&self) -> bool {
        self.tree_sync.as_ref().is_some_and(|options| options.checksum)
    }

    pub(crate) fn keeps_newer(&self) -> bool {
        self.tree_sync.as_ref().is_some_and(|options| options.keep_newer)
    }

    /// Something may have to be deleted.
    pub(crate) fn deletes(&self) -> bool {
        self.tree_sync.as_ref().is_some_and(|options| options.delete)
    }
}
