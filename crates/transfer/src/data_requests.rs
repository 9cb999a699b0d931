//! READs and WRITEs of file data: laid out where they are sealed and sent, counted, and finished later when
//! the window ends in the middle.
//!
//! A window that opens in drops must not cut the file into crumbs: every WRITE costs the server a reply and
//! us its opening. So a WRITE says at once how long it is, sends what the window allows, and goes on when it
//! opens. Nothing else can be sent on the channel meanwhile. Should the file turn out shorter than its WRITE
//! has promised, zeros complete the message, and the file is cut to what was real.
//!
//! [`Step`] tells the caller, which decides the next step of the file.
//!
//! | module | what |
//! |---|---|
//! | [`next`] | which READ or WRITE goes next on a channel |
//! | [`answers`] | their answers |

mod answers;
mod next;
mod pieces;

use std::io::IoSliceMut;
use std::ops::ControlFlow::{self, Break, Continue};

use bytes::Bytes;
use lh_sftp::{PieceSum, WriteHeader, write_size};
use lh_wire::Output;

use crate::channels::reopening::Reopening;
use crate::channels::spread::stops_to_reopen;
use crate::channels::unfinished::{Rest, Unfinished};
use crate::end::{Fault, Handle};
use crate::ends::Ends;
use crate::file_work::{NewWrite, SendWork};
use crate::flow::Flow;
use crate::leftovers::Leftovers;
use crate::local;
use crate::progress::Progress;
use crate::table::Key;
use crate::task::queues::Tasks;
use crate::token::{FileStep, Side, Token};
use crate::{Direction, Options};

use pieces::{continue_write, gather, take_front};

/// WRITEs up to this size are put together in one packet with the requests around them.
const SMALL_WRITE: u64 = 16 * 1024;

/// With a window smaller than this, or than a WRITE with one byte of data, the header goes alone.
const LEAST_ROOM: usize = 1024;

/// Bytes of the first request to a file whose size is unknown.
const FIRST_OF_UNSIZED: u64 = 4096;

/// Result of one step with the data of files.
#[allow(clippy::large_enum_variant, reason = "it is returned once and taken apart at once")]
#[derive(Debug)]
pub(crate) enum Step {
    /// Another one may follow.
    Done,
    /// Another one may follow, and this file may have come to its end.
    Moved(Key),
    /// Another one may follow; the source of this file cannot be read.
    Failed(Key, Fault),
    /// No file that has begun has anything to be asked for or sent.
    Idle,
    /// The channel takes nothing more now, or nothing more may be asked for.
    Blocked,
    /// Bytes of a file are to be read for it.
    Read(SendWork),
}

/// Files on their way, and what is counted of their data.
#[derive(Debug)]
pub(crate) struct DataRequests<'a> {
    pub(crate) direction: Direction,
    pub(crate) options: &'a Options,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) flow: &'a mut Flow,
    pub(crate) progress: &'a mut Progress,
    pub(crate) leftovers: &'a mut Leftovers,
    pub(crate) reopening: Reopening,
}

/// Returns true while more bytes of files may be asked for or sent.
pub(crate) fn has_room(flow: &Flow, reopening: Reopening, tasks: &Tasks, ends: &Ends) -> bool {
    flow.has_room(ends.servers()) && !stops_to_reopen(reopening, tasks, ends)
}

impl DataRequests<'_> {
    /// Goes on with a WRITE that was begun. `Continue`: the last of it is sent, of this file; the channel may
    /// take more.
    fn finish_write(&mut self, channel: usize, out: &mut dyn Output) -> ControlFlow<Step, Key> {
        while let Some(mut write) = self.ends.channels.unfinished(channel).and_then(Option::take) {
            let budget = out.budget();
            if budget == 0 {
                self.put_back(channel, write);
                return Break(Step::Blocked);
            }
            if write.head.is_empty() && write.left > 0 && matches!(write.rest, Rest::File) {
                let key = write.key;
                let failed = self
                    .tasks
                    .files
                    .get(key)
                    .is_none_or(|file| file.faults.failed || file.handles.source.is_none());
                if !failed {
                    return Break(self.hand_out(channel, write, None).map_or(Step::Blocked, Step::Read));
                }
                // Another part of the file has failed, so this part is worthless.
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.taken.real_end = file.taken.real_end.min(write.offset);
                }
                write.rest = Rest::Zeros;
            }
            let moved = continue_write(&mut write, budget, out);
            let (key, complete) = (write.key, write.head.is_empty() && write.left == 0);
            self.step_done(channel, write);
            if complete {
                return Continue(key);
            }
            if !moved {
                return Break(Step::Blocked);
            }
        }
        Break(Step::Done)
    }

    /// Begins a WRITE of `want` bytes of the source from `offset` on, which are handed out with that.
    /// `Continue`: the source was read at once, with this result, and what it gave is queued and not counted
    /// yet.
    fn write_from_file(
        &mut self,
        key: Key,
        channel: usize,
        offset: u64,
        want: usize,
        out: &mut dyn Output,
    ) -> ControlFlow<Step, Result<usize, Fault>> {
        let budget = out.budget();
        let Some(file) = self.tasks.files.get(key).filter(|_| budget > 0) else {
            return Break(Step::Blocked);
        };
        let Some(target) = file.handles.on_channel(Side::Target, channel) else {
            return Break(Step::Blocked);
        };
        let handle_len = if let Handle::Remote(handle, _) = target { handle.len() } else { 0 };
        // The header goes into the same reservation as the first of the data.
        let least_room = LEAST_ROOM.max(write_size(handle_len, 1));
        if budget < least_room && file.requests.to_eof {
            // The amount of data is known only after reading them.
            return Continue(self.queue_small_write(key, channel, offset, SMALL_WRITE));
        }
        let Some(remote) = self.ends.on_channel(Side::Target, channel) else { return Break(Step::Blocked) };
        if file.handles.source.is_none() {
            return Break(Step::Blocked);
        }
        let Some(mut header) = remote.write_header(target, offset) else { return Break(Step::Blocked) };
        let sum = file.sums.ours.is_some().then(|| PieceSum::new(offset));
        let mut write = Unfinished { key, head: Vec::new(), offset, left: want, rest: Rest::File, sum };
        remote.expect(header.id(), Token::File(key, FileStep::Write { offset, len: want as u32 }));
        self.count_write(key, offset, want);
        self.set_mid_write(channel, key, true);
        if budget < least_room {
            write.head = header.bytes(want).to_vec();
            self.put_back(channel, write);
            return Break(Step::Done);
        }
        Break(self.hand_out(channel, write, Some(header)).map_or(Step::Blocked, Step::Read))
    }

    /// Begins a WRITE of all of `pieces`; gives them back when the channel takes nothing now.
    fn write_from_memory(
        &mut self,
        key: Key,
        offset: u64,
        pieces: Vec<Bytes>,
        out: &mut dyn Output,
    ) -> Result<(), Vec<Bytes>> {
        let len: usize = pieces.iter().map(Bytes::len).sum();
        let (Some(remote), Some(file)) = (&mut self.ends.target, self.tasks.files.get(key)) else {
            return Err(pieces);
        };
        let Some(target) = &file.handles.target else { return Err(pieces) };
        if !remote.flush(out) || out.budget() == 0 {
            return Err(pieces);
        }
        let Some(mut header) = remote.write_header(target, offset) else { return Err(pieces) };
        remote.expect(header.id(), Token::File(key, FileStep::Write { offset, len: len as u32 }));
        let mut write = Unfinished {
            key,
            head: header.bytes(len).to_vec(),
            offset,
            left: len,
            rest: Rest::Zeros,
            sum: None,
        };
        let now = (write.head.len() + len).min(out.budget());
        let mut pieces = pieces;
        if now >= LEAST_ROOM.min(write.head.len() + len) && now > write.head.len() {
            let sent = out.reserve(now).map_or(0, |mut reservation| {
                let mut slices = reservation.slices();
                let head = slices.put(&write.head);
                let data = gather(&pieces, &mut slices.behind(head));
                reservation.commit(if data > 0 { head + data } else { 0 })
            });
            if let Some(data) = sent.checked_sub(write.head.len()) {
                take_front(&mut pieces, data);
                write.offset += data as u64;
                write.left -= data;
                write.head.clear();
            }
        }
        write.rest = Rest::Memory(pieces);
        self.set_mid_write(0, key, true);
        self.step_done(0, write);
        Ok(())
    }

    /// Part of a WRITE has been sent, or all of it.
    fn step_done(&mut self, channel: usize, write: Unfinished) {
        if write.left > 0 || !write.head.is_empty() {
            self.put_back(channel, write);
        } else {
            self.set_mid_write(channel, write.key, false);
            self.sum_piece(write.key, write.sum);
        }
    }

    /// All of a WRITE has been read from the source.
    fn sum_piece(&mut self, key: Key, piece: Option<PieceSum>) {
        if let Some(piece) = piece
            && let Some(sum) = self.tasks.files.get_mut(key).and_then(|file| file.sums.ours.as_mut())
        {
            sum.finish_piece(piece);
        }
    }

    /// Reads up to `want` bytes of the source and queues them on a channel, not counted yet. Returns how many
    /// there were.
    fn queue_small_write(
        &mut self,
        key: Key,
        channel: usize,
        offset: u64,
        want: u64,
    ) -> Result<usize, Fault> {
        let remote = self.ends.on_channel(Side::Target, channel);
        let (Some(file), Some(remote)) = (self.tasks.files.get(key), remote) else { return Ok(0) };
        let target = file.handles.on_channel(Side::Target, channel);
        let (Some(source), Some(target)) = (&file.handles.source, target) else { return Ok(0) };
        let mut buffer = [0_u8; SMALL_WRITE as usize];
        let room = &mut buffer[..want as usize];
        let n = local::read_at(source, offset, &mut [IoSliceMut::new(room)])?;
        if n > 0
            && let Some(mut header) = remote.write_header(target, offset)
        {
            let step = FileStep::Write { offset, len: n as u32 };
            remote.queue_write(&mut header, &buffer[..n], Token::File(key, step));
        }
        if let Some(file) = self.tasks.files.get_mut(key).filter(|_| n > 0) {
            file.sums.content.add(offset, &[&buffer[..n]], n);
            if let Some(sum) = &mut file.sums.ours {
                sum.add(offset, &buffer[..n]);
            }
        }
        Ok(n)
    }

    /// Counts a WRITE of `len` bytes of the file at `offset`.
    fn count_write(&mut self, key: Key, offset: u64, len: usize) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.requests.writes += 1;
        if file.requests.sent_again(offset, len as u32) {
            self.flow.request(len as u64);
        } else {
            self.count_new(key, len as u64);
        }
    }

    /// Counts a request for `len` bytes of the file at its cursor.
    fn count_new(&mut self, key: Key, len: u64) {
        self.flow.request(len);
        if let Some(file) = self.tasks.files.get_mut(key) {
            if file.requests.next == 0 {
                file.started = self.progress.now;
            }
            file.requests.next += len;
            self.flow.ahead.no_longer(&mut file.queued.ahead, len);
        }
    }

    /// The next `want` bytes of a file go into a WRITE on channel number `channel`, with this `header` where
    /// nothing of it is sent yet.
    fn hand_out(
        &mut self,
        channel: usize,
        write: Unfinished,
        header: Option<WriteHeader>,
    ) -> Option<SendWork> {
        let file = self.tasks.files.get_mut(write.key)?;
        let source = file.handles.source.clone()?;
        let content = file.sums.content.lend(write.offset, write.left as u64);
        file.requests.lent += 1;
        self.progress.begin_file_work();
        Some(SendWork { channel, promised: !file.requests.to_eof, write, header, source, content })
    }

    fn put_back(&mut self, channel: usize, write: Unfinished) {
        if let Some(unfinished) = self.ends.channels.unfinished(channel) {
            *unfinished = Some(write);
        }
    }

    fn set_mid_write(&mut self, channel: usize, key: Key, on: bool) {
        if let Some(remote) = self.ends.on_channel(Side::Target, channel) {
            remote.set_mid_message(on);
        }
        if let Some(file) = self.tasks.files.get_mut(key) {
            file.requests.half_sent =
                if on { file.requests.half_sent + 1 } else { file.requests.half_sent.saturating_sub(1) };
        }
    }

    /// Passes over a hole that the next request would be about.
    fn pass_hole(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        let passed = file.skip_hole();
        if passed > 0 {
            self.flow.ahead.no_longer(&mut file.queued.ahead, passed);
            self.leftovers.note_progress(file);
        }
    }

    /// The next READ of a file that has something left to be asked for, on channel number `channel`.
    fn request_next(&mut self, key: Key, channel: usize, chunk: u64) {
        let foreign = self.ends.is_foreign(Side::Source);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (offset, len, new) = match file.requests.again.pop() {
            Some((offset, len)) => (offset, len, 0),
            None => {
                let left = match file.requests.to_eof {
                    // Most files that are said to be empty are.
                    true if file.requests.full_reads == 0 => FIRST_OF_UNSIZED,
                    true => chunk,
                    false => file.requestable(chunk),
                };
                let len = left.min(chunk);
                let last =
                    file.requests.next + len == file.requests.size && file.handles.on_channels.is_empty();
                match foreign && last && !file.requests.to_eof {
                    // lsh's server answers READs of less than 32 KiB with more than they ask for, so the last
                    // one stays whole, and the byte behind the end is asked for by one of its own.
                    true if len == chunk => {
                        file.requests.again.push((file.requests.size, 1));
                        (file.requests.next, len as u32, len)
                    }
                    // One byte more than there should be: a source that has it is longer than its server
                    // says.
                    true => (file.requests.next, len as u32 + 1, len),
                    false => (file.requests.next, len as u32, len),
                }
            }
        };
        file.requests.reads += 1;
        let remote = self.ends.on_channel(Side::Source, channel);
        if let (Some(handle), Some(remote)) = (file.handles.on_channel(Side::Source, channel), remote) {
            let step = FileStep::Read { offset, len };
            remote.read(handle, offset, len, Token::File(key, step));
        }
        if new > 0 {
            self.count_new(key, new);
            self.flow.in_flight.lengthen(u64::from(len) - new);
        } else {
            self.flow.in_flight.request(len.into());
        }
    }

    /// Nothing was sent of a WRITE: no answer will come.
    fn not_begun(&mut self, write: &mut Unfinished, channel: usize, new: NewWrite) {
        (write.left, write.sum) = (0, None);
        if let Some(remote) = self.ends.on_channel(Side::Target, channel) {
            remote.forget(new.id);
        }
        if let Some(file) = self.tasks.files.get_mut(write.key) {
            file.requests.writes -= 1;
            if file.requests.to_eof {
                file.requests.next = new.offset;
            }
        }
        self.flow.in_flight.answered(new.want as u64);
    }

    /// Bytes that were handed out and not read are handed out again. A file of unknown length goes over one
    /// channel, from its start to its end: its cursor goes back.
    fn take_range_back(&mut self, key: Key, offset: u64, len: usize) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.requests.to_eof {
            file.requests.next = offset;
        } else {
            self.tasks.ask_again(key, offset, len as u32);
        }
    }
}

#[cfg(test)]
mod tests;
