//! WRITEs: laid out where they are sealed and sent, and finished later when the window ends in the middle.
//!
//! A window that opens in drops must not cut the file into crumbs: every WRITE costs the server a reply and us its
//! opening. So a WRITE says at once how long it is, sends what there is room for, and goes on when there is more.
//! Nothing else can be sent on the channel meanwhile. Should the file turn out shorter than its WRITE has promised,
//! zeros complete the message, and the file is cut to what was real.

use std::io::IoSliceMut;

use bytes::Bytes;
use lh_sftp::PieceSum;
use lh_wire::Output;

use crate::channels::unfinished::{Rest, Unfinished};
use crate::end::Fault;
use crate::engine::Engine;
use crate::local;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};
use crate::wording::{Deed, shrank};

/// WRITEs up to this size are put together in one packet with the requests around them.
pub(super) const SMALL_WRITE: u64 = 16 * 1024;

/// With less room than this the header goes alone.
const LEAST_ROOM: usize = 1024;

impl Engine {
    /// Goes on with a WRITE that was begun. False while it is not complete.
    pub(super) fn finish_write(&mut self, lane: usize, out: &mut dyn Output) -> bool {
        while let Some(mut write) =
            self.channels.unfinished(&mut self.tasks.unfinished, lane).and_then(Option::take)
        {
            let budget = out.budget();
            let moved = budget > 0 && self.continue_write(&mut write, budget, out);
            if !write.head.is_empty() || write.left > 0 {
                self.put_back(lane, write);
                if !moved {
                    return false;
                }
            } else {
                self.set_mid_write(lane, write.key, false);
                self.sum_piece(write.key, write.sum);
                self.move_on(write.key);
            }
        }
        true
    }

    /// One step; false when nothing could be sent.
    fn continue_write(&mut self, write: &mut Unfinished, budget: usize, out: &mut dyn Output) -> bool {
        if !write.head.is_empty() {
            let taken = out.send(&write.head[..budget.min(write.head.len())]);
            write.head.drain(..taken);
            return taken > 0;
        }
        let want = write.left.min(budget);
        if matches!(write.rest, Rest::File)
            && let Some(file) = self.tasks.files.get_mut(write.key)
            && file.failed
        {
            // Another part has failed: what this one still promises is worth nothing.
            file.real_end = file.real_end.min(write.offset);
            write.rest = Rest::Zeros;
        }
        let file = self.tasks.files.get(write.key);
        let source = file.and_then(|file| Some((file.source.as_ref()?, &file.content)));
        let Some(mut reservation) = out.reserve(want) else { return false };
        let mut slices = reservation.slices();
        let (from_file, read) = match (&write.rest, source) {
            (Rest::File, Some((source, content))) => {
                let result = local::read_at(source, write.offset, &mut slices);
                let len = *result.as_ref().unwrap_or(&0);
                content.add(write.offset, &slices, len);
                if let Some(sum) = &mut write.sum {
                    sum.update_slices(&slices, len);
                }
                (true, result)
            }
            (Rest::Memory(pieces), _) => (false, Ok(gather(pieces, &mut slices))),
            (Rest::File | Rest::Zeros, _) => {
                slices.iter_mut().for_each(|slice| slice.fill(0));
                (false, Ok(slices.total()))
            }
        };
        let sent = reservation.commit(*read.as_ref().unwrap_or(&0));
        if let Rest::Memory(pieces) = &mut write.rest {
            take_front(pieces, sent);
        }
        let fault = match read {
            Ok(0) if from_file => {
                let size = self.tasks.files.get(write.key).map_or(0, |file| file.size);
                Some(shrank(write.offset, size))
            }
            Err(fault) => Some(fault),
            Ok(_) => None,
        };
        if let Some(fault) = fault {
            write.rest = Rest::Zeros;
            if let Some(file) = self.tasks.files.get_mut(write.key) {
                file.real_end = file.real_end.min(write.offset);
            }
            self.file_failed(write.key, Deed::ReadSource, &fault);
            return true;
        }
        write.offset += sent as u64;
        write.left -= sent;
        sent > 0
    }

    /// Begins a WRITE of `want` bytes of the source from `offset` on. Returns how many it will have (0: the file ended),
    /// or `None` when there is no room now.
    pub(super) fn write_from_file(
        &mut self,
        key: Key,
        lane: usize,
        offset: u64,
        want: usize,
        out: &mut dyn Output,
    ) -> Option<Result<usize, Fault>> {
        let room = out.budget();
        let file = self.tasks.files.get(key)?;
        if room == 0 {
            return None;
        }
        if room < LEAST_ROOM && file.to_eof {
            // How much there is shows only when it is read.
            return Some(self.queue_small_write(key, offset, SMALL_WRITE));
        }
        let remote = self.channels.remote(&mut self.ends.target, lane)?;
        let (source, target) = (file.source.as_ref()?, file.handle_on(Side::Target, lane)?);
        let content = &file.content;
        let promised = !file.to_eof;
        let mut header = remote.write_header(target, offset)?;
        let header_len = header.size();
        let id = header.id();
        let sum = file.sum.is_some().then(|| PieceSum::new(offset));
        let mut write = Unfinished { key, head: Vec::new(), offset, left: want, rest: Rest::File, sum };
        let sum = &mut write.sum;
        let mut len = want;
        let disk = &mut self.progress.waits.disk;
        if room < LEAST_ROOM {
            write.head = header.bytes(want).to_vec();
        } else {
            let mut reservation = out.reserve((header_len + want).min(room))?;
            let room = reservation.total();
            let mut slices = reservation.slices();
            let mut data = slices.behind(header_len);
            if data.is_empty() {
                return None;
            }
            let begun = std::time::Instant::now();
            let result = local::read_at(source, offset, &mut data);
            *disk += begun.elapsed();
            let got = *result.as_ref().unwrap_or(&0);
            content.add(offset, &data, got);
            if let Some(sum) = sum.as_mut() {
                sum.update_slices(&data, got);
            }
            match result {
                Ok(0) => return Some(Ok(0)),
                Ok(_) => {}
                Err(fault) => return Some(Err(fault)),
            }
            // Less than there was room for: the file ends here, or will not say more now.
            let whole = promised && header_len + got == room;
            len = if whole { want } else { got };
            slices.put(header.bytes(len));
            let sent = reservation.commit(header_len + got).saturating_sub(header_len);
            write.offset += sent as u64;
            write.left = len - sent;
        }
        remote.expect(id, Token::File(key, FileStep::Write { offset, len: len as u32 }));
        self.keep_unfinished(lane, write);
        Some(Ok(len))
    }

    /// Begins a WRITE of all of `pieces`; gives them back when there is no room now.
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
        let Some(target) = &file.target else { return Err(pieces) };
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
        self.keep_unfinished(0, write);
        Ok(())
    }

    fn keep_unfinished(&mut self, lane: usize, write: Unfinished) {
        if write.left > 0 || !write.head.is_empty() {
            self.set_mid_write(lane, write.key, true);
            self.put_back(lane, write);
        } else {
            self.sum_piece(write.key, write.sum);
        }
    }

    /// All of a WRITE has been read from the source.
    fn sum_piece(&mut self, key: Key, piece: Option<PieceSum>) {
        if let Some(piece) = piece
            && let Some(sum) = self.tasks.files.get_mut(key).and_then(|file| file.sum.as_mut())
        {
            sum.finish_piece(piece);
        }
    }

    fn put_back(&mut self, lane: usize, write: Unfinished) {
        if let Some(unfinished) = self.channels.unfinished(&mut self.tasks.unfinished, lane) {
            *unfinished = Some(write);
        }
    }

    fn set_mid_write(&mut self, lane: usize, key: Key, on: bool) {
        if let Some(remote) = self.channels.remote(&mut self.ends.target, lane) {
            remote.set_mid_message(on);
        }
        if let Some(file) = self.tasks.files.get_mut(key) {
            file.mid_write = if on { file.mid_write + 1 } else { file.mid_write.saturating_sub(1) };
        }
    }
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
