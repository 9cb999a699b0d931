//! WRITEs: laid out where they are sealed and sent, and finished later when the window ends in the middle.
//!
//! A window that opens in drops must not cut the file into crumbs: every WRITE costs the server a reply and us its
//! opening. So a WRITE says at once how long it is, sends what the window allows, and goes on when it opens.
//! Nothing else can be sent on the channel meanwhile. Should the file turn out shorter than its WRITE has promised,
//! zeros complete the message, and the file is cut to what was real.

use std::io::IoSliceMut;

use bytes::Bytes;
use lh_sftp::{PieceSum, WriteHeader};
use lh_wire::Output;

use crate::channels::unfinished::{Rest, Unfinished};
use crate::end::Fault;
use crate::engine::Engine;
use crate::file_work::SendWork;
use crate::local;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};
use crate::wording::{Deed, shrank};

/// WRITEs up to this size are put together in one packet with the requests around them.
pub(super) const SMALL_WRITE: u64 = 16 * 1024;

/// With a window smaller than this the header goes alone.
const LEAST_ROOM: usize = 1024;

/// What a channel does next with a WRITE.
#[allow(clippy::large_enum_variant, reason = "it is returned once and taken apart at once")]
#[derive(Debug)]
pub(super) enum Step {
    /// It is complete, or begun as far as it can be now: the next one may follow.
    Done,
    /// The channel takes nothing more now.
    Blocked,
    /// Bytes of a file are to be read for it.
    Read(SendWork),
}

impl Engine {
    /// Goes on with a WRITE that was begun.
    pub(super) fn finish_write(&mut self, channel: usize, out: &mut dyn Output) -> Step {
        while let Some(mut write) = self.ends.channels.unfinished(channel).and_then(Option::take) {
            let budget = out.budget();
            if budget == 0 {
                self.put_back(channel, write);
                return Step::Blocked;
            }
            if write.head.is_empty() && write.left > 0 && matches!(write.rest, Rest::File) {
                let key = write.key;
                let failed = self
                    .tasks
                    .files
                    .get(key)
                    .is_none_or(|file| file.faults.failed || file.handles.source.is_none());
                if !failed {
                    return self.hand_out(channel, write, None).map_or(Step::Blocked, Step::Read);
                }
                // Another part has failed: what this one still promises is worth nothing.
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.taken.real_end = file.taken.real_end.min(write.offset);
                }
                write.rest = Rest::Zeros;
            }
            let moved = continue_write(&mut write, budget, out);
            let (key, complete) = (write.key, write.head.is_empty() && write.left == 0);
            self.step_done(channel, write);
            if complete {
                self.move_on(key);
            } else if !moved {
                return Step::Blocked;
            }
        }
        Step::Done
    }

    /// Begins a WRITE of `want` bytes of the source from `offset` on, which are handed out with that.
    pub(super) fn write_from_file(
        &mut self,
        key: Key,
        channel: usize,
        offset: u64,
        want: usize,
        out: &mut dyn Output,
    ) -> Step {
        let budget = out.budget();
        let Some(file) = self.tasks.files.get(key).filter(|_| budget > 0) else { return Step::Blocked };
        if budget < LEAST_ROOM && file.requests.to_eof {
            // How much there is shows only when it is read.
            let sent = self.queue_small_write(key, offset, SMALL_WRITE);
            self.sent_file_data(key, offset, sent);
            return Step::Done;
        }
        let Some(remote) = self.ends.on_channel(Side::Target, channel) else { return Step::Blocked };
        let (Some(_), Some(target)) = (&file.handles.source, file.handles.on_channel(Side::Target, channel))
        else {
            return Step::Blocked;
        };
        let Some(mut header) = remote.write_header(target, offset) else { return Step::Blocked };
        let sum = file.sums.ours.is_some().then(|| PieceSum::new(offset));
        let mut write = Unfinished { key, head: Vec::new(), offset, left: want, rest: Rest::File, sum };
        remote.expect(header.id(), Token::File(key, FileStep::Write { offset, len: want as u32 }));
        self.sent_file_data(key, offset, Ok(want));
        self.set_mid_write(channel, key, true);
        if budget < LEAST_ROOM {
            write.head = header.bytes(want).to_vec();
            self.put_back(channel, write);
            return Step::Done;
        }
        self.hand_out(channel, write, Some(header)).map_or(Step::Blocked, Step::Read)
    }

    /// Begins a WRITE of all of `pieces`; gives them back when the channel takes nothing now.
    pub(super) fn write_from_memory(
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
    pub(super) fn step_done(&mut self, channel: usize, write: Unfinished) {
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

    pub(super) fn queue_small_write(&mut self, key: Key, offset: u64, want: u64) -> Result<usize, Fault> {
        let (Some(file), Some(remote)) = (self.tasks.files.get(key), &mut self.ends.target) else {
            return Ok(0);
        };
        let (Some(source), Some(target)) = (&file.handles.source, &file.handles.target) else { return Ok(0) };
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

    /// Looks at what reading the source at `offset` gave, or will give.
    pub(super) fn sent_file_data(&mut self, key: Key, offset: u64, sent: Result<usize, Fault>) {
        match sent {
            Ok(0) => self.source_ended(key, offset),
            Ok(n) => {
                let Some(file) = self.tasks.files.get_mut(key) else { return };
                file.requests.writes += 1;
                if file.requests.sent_again(offset, n as u32) {
                    self.flow.request(n as u64);
                } else {
                    self.requested(key, n as u64);
                }
            }
            Err(fault) => self.file_failed(key, Deed::ReadSource, &fault),
        }
    }

    /// The source has no bytes at `offset`.
    pub(super) fn source_ended(&mut self, key: Key, offset: u64) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.requests.complete = true;
        if !file.requests.to_eof {
            let fault = shrank(offset, file.requests.size);
            self.file_failed(key, Deed::ReadSource, &fault);
        }
    }

    /// The next `want` bytes of a file go into a WRITE on channel number `channel`, with this `header` where nothing of it is sent yet.
    pub(super) fn hand_out(
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
}

/// Sends more of a WRITE of which nothing is to be read; false when nothing could be sent.
fn continue_write(write: &mut Unfinished, budget: usize, out: &mut dyn Output) -> bool {
    if !write.head.is_empty() {
        let taken = out.send(&write.head[..budget.min(write.head.len())]);
        write.head.drain(..taken);
        return taken > 0;
    }
    let Some(mut reservation) = out.reserve(write.left.min(budget)) else { return false };
    let mut slices = reservation.slices();
    let filled = match &write.rest {
        Rest::Memory(pieces) => gather(pieces, &mut slices),
        Rest::File | Rest::Zeros => {
            slices.iter_mut().for_each(|slice| slice.fill(0));
            slices.total()
        }
    };
    let sent = reservation.commit(filled);
    if let Rest::Memory(pieces) = &mut write.rest {
        take_front(pieces, sent);
    }
    write.offset += sent as u64;
    write.left -= sent;
    sent > 0
}

/// Copies as much of `pieces` into `slices` as fits; the one copy that a relay needs.
fn gather(pieces: &[Bytes], slices: &mut [IoSliceMut<'_>]) -> usize {
    let (mut done, mut at, mut used) = (0, 0, 0);
    for piece in pieces {
        let mut piece = &piece[..];
        while let (Some(slice), false) = (slices.get_mut(at), piece.is_empty()) {
            let (_, free) = slice.split_at_mut(used);
            let n = free.len().min(piece.len());
            free[..n].copy_from_slice(&piece[..n]);
            piece = &piece[n..];
            done += n;
            used += n;
            if used == slice.len() {
                (at, used) = (at + 1, 0);
            }
        }
    }
    done
}

/// Takes the first `n` bytes off `pieces`.
pub(super) fn take_front(pieces: &mut Vec<Bytes>, mut n: usize) -> Vec<Bytes> {
    let mut taken = Vec::new();
    let mut whole = 0;
    for piece in pieces.iter_mut() {
        if piece.len() > n {
            if n > 0 {
                taken.push(piece.split_to(n));
            }
            break;
        }
        n -= piece.len();
        taken.push(piece.clone());
        whole += 1;
    }
    pieces.drain(..whole);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_taken_and_gathered_to_the_byte() {
        let all: Vec<u8> = (0..100).collect();
        for size in [1, 7, 33, 100] {
            for n in 0..=100 {
                let mut pieces: Vec<Bytes> = all.chunks(size).map(Bytes::copy_from_slice).collect();
                let front = take_front(&mut pieces, n);
                assert_eq!(front.concat(), &all[..n]);
                assert_eq!(pieces.concat(), &all[n..]);
                let mut room = [[0_u8; 9]; 4];
                let mut slices: Vec<_> = room.iter_mut().map(|slice| IoSliceMut::new(slice)).collect();
                let done = gather(&front, &mut slices);
                assert_eq!(done, n.min(36));
                assert_eq!(&room.concat()[..done], &all[..done]);
            }
        }
    }
}
