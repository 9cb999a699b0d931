//! Small files by the hundred: whole files in one message, where the server offers that.
//!
//! A file that goes this way is never open on the server between two messages, so it takes no handle and no
//! round trip of its own, and only a few words of memory here. All other files go the ordinary way.
//!
//! | module | what |
//! |---|---|
//! | [`putting`] | upload: the content of a file into the message |
//! | [`placing`] | what became of each file; download: onto this host |
//! | [`small_files`] | which files go in batches, when a batch goes, and how its files have ended |

pub(crate) mod placing;
mod putting;
pub(crate) mod small_files;

use std::time::Instant;

use lh_sftp::batch::{
    GET_BUDGET, GET_OVERHEAD, GET_OVERHEAD_FULL, GetFile, MAX_FILES, PUT_COMPARED, PUT_OVER_LINKS,
    PUT_PERMISSIONS, PUT_PLACED,
};
use lh_sftp::{batched_extended_attrs, extension};

use crate::batch::putting::{Put, SMALL_FILE};
use crate::end::{Info, Kind, Op};
use crate::ends::Ends;
use crate::item::Item;
use crate::options::Verify;
use crate::table::{Key, Table};
use crate::task::File;
use crate::token::{Side, Token};
use crate::{Direction, Options};

/// Bytes from which on a message is sent: what every server takes, less one small file.
const FULL: usize = GET_BUDGET - SMALL_FILE as usize - 4096;

/// Bytes to request of a file whose size is unknown (0, as for files in /proc).
const UNSIZED: u32 = 4096;

/// One file of a batch.
#[derive(Debug)]
pub(crate) struct Small {
    pub(crate) id: u64,
    pub(crate) item: Item,
    pub(crate) size: u64,
    /// Digest of the content, for [`crate::Reporting::sums`].
    pub(crate) sum: Option<Vec<u8>>,
}

/// Files that share a message.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) files: Vec<Small>,
    pub(crate) bytes: u64,
    pub(crate) started: Instant,
}

/// The batch that is being put together, and those under way.
#[derive(Debug)]
pub(crate) struct Batches {
    /// Whether the server supports batches; `None`: not looked up yet.
    offered: Option<bool>,
    message: Vec<u8>,
    files: Vec<Small>,
    bytes: u64,
    /// Download: what the answer may take.
    asked: usize,
    /// One or more have been.
    sent: bool,
    under_way: Table<Batch>,
}

impl Batches {
    pub(crate) const fn new() -> Self {
        Self {
            offered: None,
            message: Vec::new(),
            files: Vec::new(),
            bytes: 0,
            asked: 0,
            sent: false,
            under_way: Table::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.under_way.len() == 0
    }

    /// Bytes of the files that are put together.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true where files are put together that are not sent.
    pub(crate) const fn has_unsent(&self) -> bool {
        !self.files.is_empty()
    }

    /// Batches without an answer.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns true once one has been sent.
    pub(crate) const fn has_sent(&self) -> bool {
        self.sent
    }

    /// Returns true when small files can go in batches.
    pub(crate) fn are_offered(&mut self, direction: Direction, options: &Options, ends: &Ends) -> bool {
        if let Some(offered) = self.offered {
            return offered;
        }
        if !ends.are_ready() {
            return false;
        }
        let (name, kept) = match direction {
            Direction::Upload => (extension::PUT_FILES, extension::PUT_KEPT),
            Direction::Download => (extension::GET_FILES, extension::GET_KEPT),
            Direction::Relay => ("", ""),
        };
        let more = options.keep.asks_for_each();
        let mut sessions = ends.remotes().map(crate::remote::Remote::session);
        let offers = |end: &lh_sftp::Session| end.supports(name) && (!more || end.supports(kept));
        *self.offered.insert(permits(options) && sessions.any(offers))
    }

    /// Upload: returns true when the message has space for one more file at `target`.
    pub(crate) fn has_space(&self, target: &[u8]) -> bool {
        let longest = SMALL_FILE as usize + batched_extended_attrs::MOST + 128;
        self.message.len() + target.len() + longest <= GET_BUDGET
    }

    /// Upload: reads an open file into the message, if it stays as it is meanwhile. `full`: the server takes
    /// times in full.
    pub(crate) fn put(&mut self, file: &File, options: &Options, full: bool) -> Put {
        putting::put(file, options, full, &mut self.message)
    }

    /// Download: what the answer takes for a file of `size` bytes. `full`: the server sends times in full.
    pub(crate) fn answer_len(size: u64, options: &Options, full: bool) -> usize {
        let attributes = if options.keep.xattr_kinds() == 0 { 0 } else { batched_extended_attrs::MOST };
        asked_len(size) as usize + attributes + if full { GET_OVERHEAD_FULL } else { GET_OVERHEAD }
    }

    /// Download: returns true when the answer has space for `len` bytes more.
    pub(crate) const fn has_answer_space(&self, len: usize) -> bool {
        self.asked + len <= GET_BUDGET
    }

    /// Download: asks for a file, which takes `len` bytes of the answer.
    pub(crate) fn get(&mut self, small: &Small, len: usize) {
        self.asked += len;
        GetFile { path: &small.item.source, len: asked_len(small.size) }.write(&mut self.message);
    }

    /// Counts a file that is in the message. `worth`: bytes that are worth having in flight. Returns true
    /// where it is time to send.
    pub(crate) fn add(&mut self, small: Small, worth: u64) -> bool {
        self.bytes += small.size;
        self.files.push(small);
        // Half of what may be in flight: so one is on its way while the other one is worked on.
        let full = FULL.min(usize::try_from(worth / 2).unwrap_or(usize::MAX));
        let len = self.message.len().max(self.asked);
        len >= full || self.files.len() >= MAX_FILES
    }

    /// Sends what was put together, on the first channel where the server is to see it in order with other
    /// requests (`ordered`). Returns the bytes of its files; `None` where there is nothing.
    pub(crate) fn send(
        &mut self,
        ends: &mut Ends,
        options: &Options,
        ordered: bool,
        now: Instant,
    ) -> Option<u64> {
        if self.files.is_empty() {
            return None;
        }
        let files = std::mem::take(&mut self.files);
        let bytes = std::mem::take(&mut self.bytes);
        self.asked = 0;
        self.sent = true;
        let count = files.len() as u32;
        let key = self.under_way.insert(Batch { files, bytes, started: now });
        let op = match ends.channels.side() {
            Side::Target => Op::PutFiles { flags: put_flags(options), count, files: &self.message },
            Side::Source => Op::GetFiles { kinds: options.keep.xattr_kinds(), count, files: &self.message },
        };
        let channel = if ordered { 0 } else { ends.idlest_channel() };
        ends.start_on(channel, op, Token::Batch(key));
        self.message.clear();
        Some(bytes)
    }

    /// Ends a batch that was under way.
    pub(crate) fn ended(&mut self, key: Key) -> Option<Batch> {
        self.under_way.remove(key)
    }

    /// One whose server is known to take them.
    #[cfg(test)]
    fn offered() -> Self {
        Self { offered: Some(true), ..Self::new() }
    }

    /// Those under way.
    #[cfg(test)]
    fn keys(&self) -> impl Iterator<Item = Key> {
        self.under_way.keys().into_iter()
    }

    /// Drops what has not been sent; returns its files.
    pub(crate) fn drop_unsent(&mut self) -> Vec<Small> {
        self.message.clear();
        self.bytes = 0;
        self.asked = 0;
        std::mem::take(&mut self.files)
    }
}

/// Returns true where files go in batches if the server offers it. What is asked for byte by byte or file by
/// file is done so.
fn permits(options: &Options) -> bool {
    options.batches
        && !options.dry_run
        && options.placing.permits_batches()
        // The server does not compare files that it writes in place.
        && (options.placing.atomic || options.verify != Verify::Always)
        && options.limits.bits_per_second.is_none()
}

/// Upload: returns true for an open file that may go in a batch.
fn may_put(file: &File, options: &Options) -> bool {
    file.requests.size <= SMALL_FILE
        && matches!(file.item.info.kind, Kind::File)
        && !file.item.alone
        // Its other names wait for its copy.
        && !file.item.leads
        && !options.has_holes_to_keep(&file.item)
}

/// Download: returns the size of a file that may go in a batch.
fn may_get(item: &Item, options: &Options) -> Option<u64> {
    let Info { kind: Kind::File, size: Some(size @ 0..=SMALL_FILE), mode: Some(_), .. } = item.info else {
        return None;
    };
    let several = options.keep.hard_links && item.info.links.is_some_and(|links| links > 1);
    (!several && !item.alone && !options.has_holes_to_keep(item)).then_some(size)
}

/// Returns the number of bytes to request of a file of `size` bytes.
const fn asked_len(size: u64) -> u32 {
    if size == 0 { UNSIZED } else { size as u32 }
}

/// Returns the flags of PUT_FILES: how the server treats the files.
fn put_flags(options: &Options) -> u32 {
    let keep = options.keep;
    let set = |on: bool, flag: u32| if on { flag } else { 0 };
    set(options.preserve, PUT_PERMISSIONS)
        | set(options.placing.atomic, PUT_PLACED)
        | set(keep.links || options.tree_sync.is_some(), PUT_OVER_LINKS)
        | set(keep.owner || keep.group, batched_extended_attrs::PUT_OWNER)
        | batched_extended_attrs::put_flags(keep.xattr_kinds())
        | set(options.verify != Verify::Off, PUT_COMPARED)
}

#[cfg(test)]
mod tests;
