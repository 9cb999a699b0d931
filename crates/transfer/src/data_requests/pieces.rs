//! Pieces of data that have come and go on, and the rest of a WRITE that needs no file.

use std::io::IoSliceMut;

use bytes::Bytes;
use lh_wire::Output;

use crate::channels::unfinished::{Rest, Unfinished};

/// Sends more of a WRITE of which nothing is to be read; false when nothing could be sent.
pub(super) fn continue_write(write: &mut Unfinished, budget: usize, out: &mut dyn Output) -> bool {
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
pub(super) fn gather(pieces: &[Bytes], slices: &mut [IoSliceMut<'_>]) -> usize {
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
pub(crate) fn take_front(pieces: &mut Vec<Bytes>, mut n: usize) -> Vec<Bytes> {
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
