//! Small files by the hundred: whole files in one message, where the server offers that.
//!
//! A file that goes this way is never open on the server between two messages, so it takes no handle and no round trip of its
//! own, and only a few words of memory here. All other files go the ordinary way.

use std::io::IoSliceMut;

use lh_sftp::batch::{
    GET_BUDGET, GET_OVERHEAD, GET_OVERHEAD_FULL, GetFile, MAX_FILES, PUT_COMPARED, PUT_OVER_LINKS,
    PUT_PERMISSIONS, PUT_PLACED, PutFile,
};
use lh_sftp::{batched_extended_attrs, extension};

use crate::batch::{Batch, Small};
use crate::changed::{Changed, Precision};
use crate::end::{Change, Done, Fault, Handle, Info, Kind, Op};
use crate::ends::QUEUE_LIMIT;
use crate::engine::Engine;
use crate::flow::FIRST_REQUESTS;
use crate::item::Item;
use crate::options::Verify;
use crate::table::Key;
use crate::token::{Side, Token};
use crate::wording::{Deed, shrank};
use crate::{Direction, local};

/// Files up to this size go in batches: of larger ones few fit into a message, so little is saved.
const SMALL_FILE: u64 = 64 * 1024;

/// Bytes from which on a message is sent: what every server takes, less one small file.
const FULL: usize = GET_BUDGET - SMALL_FILE as usize - 4096;

/// What is asked for of a file whose size says nothing (0, as files in /proc have it).
const UNSIZED: u32 = 4096;

impl Engine {
    /// Returns true when small files can go in batches.
    fn batches_offered(&mut self) -> bool {
        if let Some(offered) = self.batches.offered {
            return offered;
        }
        if !self.ends.are_ready() {
            return false;
        }
        // What is asked for byte by byte or file by file is done so.
        let plain = !self.options.dry_run
            && !self.options.adopt_partial
            && !self.options.resume
            && !self.options.sync
            // What is written in place is not compared by the other end.
            && (self.options.atomic || self.options.verify != Verify::Always)
            && self.options.bits_per_second.is_none();
        let (name, kept) = match self.plan.direction {
            Direction::Upload => (extension::PUT_FILES, extension::PUT_KEPT),
            Direction::Download => (extension::GET_FILES, extension::GET_KEPT),
            Direction::Relay => ("", ""),
        };
        let more = self.options.keep.asks_for_each();
        let mut ends = self.ends.remotes().map(crate::remote::Remote::session);
        let offers = |end: &lh_sftp::Session| end.supports(name) && (!more || end.supports(kept));
        let offered = plain && self.options.batches && ends.any(offers);
        *self.batches.offered.insert(offered)
    }

    /// Returns true when more may be put into batches now.
    pub(super) fn batch_room(&mut self) -> bool {
        !self.batches_offered()
            || (self.flow.has_room_for_batch(self.batches.bytes, self.worth_in_flight())
                && self.batches.under_way.len() < FIRST_REQUESTS
                && self.ends.queue_of(self.ends.idlest_channel()) <= QUEUE_LIMIT)
    }

    /// Upload: takes the file that was opened, if it is one for a batch. False when it goes the ordinary way.
    pub(super) fn put_in_batch(&mut self, key: Key) -> bool {
        if self.plan.direction != Direction::Upload || !self.batches_offered() {
            return false;
        }
        let Some(file) = self.tasks.files.get(key) else { return false };
        if file.requests.size > SMALL_FILE
            || !matches!(file.item.info.kind, Kind::File)
            || file.item.alone
            // Its other names wait for its copy.
            || file.item.leads
            || self.options.has_holes_to_keep(&file.item)
            || self.leftovers.may_be_done(&file.item)
            || self.leftovers.may_have_part(&file.item)
        {
            return false;
        }
        let longest = self.batches.message.len()
            + file.item.target.len()
            + SMALL_FILE as usize
            + batched_extended_attrs::MOST
            + 128;
        if longest > GET_BUDGET {
            self.send_batch();
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let Some(source) = &file.handles.source else { return false };
        let kinds = self.options.keep.xattr_kinds();
        let xattrs = match kinds {
            0 => None,
            kinds => match local::xattrs_of_open(source, kinds) {
                Ok(xattrs) => Some(xattrs),
                // What there is to say of it is said there.
                Err(_) => return false,
            },
        };
        let ids = self.options.keep.ids_to_keep(file.item.info.ids);
        // The server sets those that lend rights when the owner could be kept.
        let bits = if ids.is_some() { 0o7777 } else { 0o777 };
        let change = Change {
            mode: Some(file.item.info.mode.unwrap_or(0o666) & bits),
            times: file.item.info.times.filter(|_| self.options.preserve),
            ids,
            ..Change::default()
        };
        // One byte more than a file of unknown size may have shows that it has too many.
        let most = if file.requests.to_eof { SMALL_FILE + 1 } else { file.requests.size };
        let full = self.ends.target.as_ref().is_some_and(crate::remote::Remote::full);
        let message = &mut self.batches.message;
        let before = message.len();
        let (algorithm, mut sum) = (self.options.sums, None);
        let put =
            PutFile::write_from(&file.item.target, &change.to_attrs(full), most as usize, message, |room| {
                let n = read_whole(source, room).map_err(Some)?;
                sum = algorithm.map(|algorithm| algorithm.sum(room.get(..n).unwrap_or_default()));
                match n as u64 {
                    n if file.requests.to_eof && n == most => Err(None),
                    n if !file.requests.to_eof && n < most => Err(Some(shrank(n, most))),
                    n => Ok(n as usize),
                }
            });
        let put = match (put, &xattrs) {
            (Ok(_), Some(xattrs)) if !batched_extended_attrs::write(xattrs, message) => {
                message.truncate(before);
                return false;
            }
            (put, _) => put,
        };
        match put {
            Ok(n) => {
                // One that is being written to is copied by itself, which shows what changed.
                if let Ok(Done::Info(now)) = local::perform(Op::Fstat(source))
                    && Changed::between(&file.item.info, &now, n as u64, Precision::Exact).is_some()
                {
                    message.truncate(before);
                    file.item.info = now;
                    file.requests.to_eof = now.size.unwrap_or(0) == 0;
                    self.expect_size(key, now.size.unwrap_or(0));
                    return false;
                }
                file.requests.size = n as u64;
                self.join_batch(key, sum);
            }
            Err(Some(fault)) => self.file_failed(key, Deed::ReadSource, &fault),
            Err(None) => return false,
        }
        true
    }

    /// The file is in the message: nothing of it needs to be open any more.
    fn join_batch(&mut self, key: Key, sum: Option<Vec<u8>>) {
        let Some(mut file) = self.tasks.files.remove(key) else { return };
        self.flow.expect(&mut file.queued.ahead, 0);
        self.add_to_batch(Small { id: file.id, item: file.item, size: file.requests.size, sum });
    }

    fn add_to_batch(&mut self, small: Small) {
        self.batches.bytes += small.size;
        self.batches.files.push(small);
        // Half of what may be in flight: so one is on its way while the other one is worked on.
        let full = FULL.min(usize::try_from(self.worth_in_flight() / 2).unwrap_or(usize::MAX));
        let len = self.batches.message.len().max(self.batches.asked);
        if len >= full || self.batches.files.len() >= MAX_FILES {
            self.send_batch();
        }
    }

    /// Download: takes a file whose attributes were listed, if it is one for a batch; gives it back otherwise.
    pub(super) fn get_in_batch(&mut self, item: Item) -> Option<Item> {
        let Info { kind: Kind::File, size: Some(size @ 0..=SMALL_FILE), mode: Some(_), .. } = item.info
        else {
            return Some(item);
        };
        let several = self.options.keep.hard_links && item.info.links.is_some_and(|links| links > 1);
        if self.plan.direction != Direction::Download
            || several
            || item.alone
            || self.options.has_holes_to_keep(&item)
            || !self.batches_offered()
            || self.leftovers.may_be_done(&item)
            || self.leftovers.may_have_part(&item)
        {
            return Some(item);
        }
        self.progress.bytes_found += size;
        let len = if size == 0 { UNSIZED } else { size as u32 };
        let full = self.ends.source.as_ref().is_some_and(crate::remote::Remote::full);
        let told = if self.options.keep.xattr_kinds() == 0 { 0 } else { batched_extended_attrs::MOST };
        let cost = len as usize + told + if full { GET_OVERHEAD_FULL } else { GET_OVERHEAD };
        if self.batches.asked + cost > GET_BUDGET {
            self.send_batch();
        }
        self.batches.asked += cost;
        GetFile { path: &item.source, len }.write(&mut self.batches.message);
        let id = self.progress.new_file_id();
        self.add_to_batch(Small { id, item, size, sum: None });
        None
    }

    /// Sends what was put together.
    pub(super) fn send_batch(&mut self) {
        if self.batches.files.is_empty() {
            return;
        }
        let files = std::mem::take(&mut self.batches.files);
        let bytes = std::mem::take(&mut self.batches.bytes);
        self.batches.asked = 0;
        self.batches.sent = true;
        let count = files.len() as u32;
        self.flow.request(bytes);
        let key = self.batches.under_way.insert(Batch { files, bytes, started: self.progress.now });
        let message = std::mem::take(&mut self.batches.message);
        let keep = self.options.keep;
        let kinds = keep.xattr_kinds();
        let flags = if self.options.preserve { PUT_PERMISSIONS } else { 0 }
            | if self.options.atomic { PUT_PLACED } else { 0 }
            | if keep.links || self.options.tree_sync.is_some() { PUT_OVER_LINKS } else { 0 }
            | if keep.owner || keep.group { batched_extended_attrs::PUT_OWNER } else { 0 }
            | batched_extended_attrs::put_flags(kinds)
            | if self.options.verify == Verify::Off { 0 } else { PUT_COMPARED };
        let (side, op) = match self.plan.direction {
            Direction::Upload => (Side::Target, Op::PutFiles { flags, count, files: &message }),
            _ => (Side::Source, Op::GetFiles { kinds, count, files: &message }),
        };
        // What goes into a directory that is being made goes behind the order to make it.
        let alone = side != self.ends.channels.side() || self.tree.waiting.presumed > 0;
        let channel = if alone { 0 } else { self.ends.idlest_channel() };
        self.ends.start_on(channel, op, Token::Batch(key));
        self.batches.message = message;
        self.batches.message.clear();
    }

    /// Drops what has not been sent; returns how many files that were.
    pub(super) fn drop_batch(&mut self) -> usize {
        self.batches.message.clear();
        self.batches.bytes = 0;
        self.batches.asked = 0;
        let files = std::mem::take(&mut self.batches.files);
        let dropped = files.len();
        for small in files {
            self.child_finished(small.item.parent);
        }
        dropped
    }

    /// A batch has been sent, and there will be more: several channels could share them.
    pub(super) fn batches_to_share(&self) -> bool {
        self.batches.sent && !(self.tree.walk.is_empty() && self.tree.top.is_empty())
    }
}

/// Reads from the start until `room` is full or the file ends.
fn read_whole(source: &Handle, room: &mut [u8]) -> Result<usize, Fault> {
    let mut done = 0;
    while done < room.len() {
        match local::read_at(source, done as u64, &mut [IoSliceMut::new(&mut room[done..])])? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}
