//! A byte stream held as the slices in which it arrived.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Size in bytes below which pieces are copied together. A slice keeps the whole receive buffer allocated
/// that it points into. A peer that sends one byte in each packet could otherwise occupy megabytes with a
/// kilobyte.
const SMALL: usize = 1024;

/// A first-in, first-out stream of bytes. Reading copies no bytes, except small pieces (see `SMALL`).
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    queue: VecDeque<Bytes>,
    /// Small pieces that arrived last, not yet in `queue`.
    small: BytesMut,
    len: usize,
}

impl Chunks {
    /// Returns the number of bytes that are not taken yet.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.len += piece.len();
        if piece.is_empty() {
        } else if piece.len() < SMALL && (self.len > piece.len()) {
            self.small.extend_from_slice(&piece);
        } else {
            self.flush_small();
            self.queue.push_back(piece);
        }
    }

    /// Copies the first bytes into `out`. Returns false, and copies nothing, if there are fewer.
    pub(crate) fn peek(&self, out: &mut [u8]) -> bool {
        self.peek_at(0, out)
    }

    /// Copies the bytes from `skip` on into `out`. Returns false if there are fewer; `out` is then undefined.
    pub(crate) fn peek_at(&self, mut skip: usize, out: &mut [u8]) -> bool {
        if self.len < skip.saturating_add(out.len()) {
            return false;
        }
        let mut at = 0;
        for piece in self.queue.iter().map(|b| &b[..]).chain([&self.small[..]]) {
            let Some(piece) = piece.get(skip..) else {
                skip -= piece.len();
                continue;
            };
            skip = 0;
            let room = out.get_mut(at..).unwrap_or_default();
            let take = room.len().min(piece.len());
            let (Some(to), Some(from)) = (room.get_mut(..take), piece.get(..take)) else { return false };
            to.copy_from_slice(from);
            at += take;
            if at == out.len() {
                break;
            }
        }
        true
    }

    /// Drops the first `n` bytes, or all if there are fewer.
    pub(crate) fn skip(&mut self, n: usize) {
        self.take_with(n, |_| {});
    }

    /// Takes the first `n` bytes, or all if there are fewer, in pieces.
    pub(crate) fn take(&mut self, n: usize) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(4);
        self.take_with(n, |piece| pieces.push(piece));
        pieces
    }

    /// Takes the first `n` bytes as one slice. Copies them only if they arrived in several pieces.
    pub(crate) fn take_contiguous(&mut self, n: usize) -> Bytes {
        if self.queue.is_empty() {
            self.flush_small();
        }
        match self.queue.front() {
            Some(front) if front.len() >= n => {
                let mut whole = Bytes::new();
                self.take_with(n, |piece| whole = piece);
                whole
            }
            _ => {
                let mut whole = BytesMut::with_capacity(n.min(self.len));
                self.take_with(n, |piece| whole.extend_from_slice(&piece));
                whole.freeze()
            }
        }
    }

    fn take_with(&mut self, n: usize, mut each: impl FnMut(Bytes)) {
        let mut left = n.min(self.len);
        self.len -= left;
        while left > 0 {
            if self.queue.is_empty() {
                self.flush_small();
            }
            let Some(front) = self.queue.front_mut() else { return };
            if front.len() > left {
                each(front.split_to(left));
                return;
            }
            left -= front.len();
            if let Some(piece) = self.queue.pop_front() {
                each(piece);
            }
        }
    }

    fn flush_small(&mut self) {
        if !self.small.is_empty() {
            self.queue.push_back(self.small.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_keep_their_order(
            pieces in proptest::collection::vec((0_usize..3000, any::<u8>()), 0..20),
            takes in proptest::collection::vec((0_usize..4000, 0_u8..3), 0..40),
        ) {
            let mut model: VecDeque<u8> = VecDeque::new();
            let mut chunks = Chunks::default();
            let mut pieces = pieces.into_iter();
            for (n, how) in takes {
                if let Some((len, fill)) = pieces.next() {
                    let piece: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
                    model.extend(&piece);
                    chunks.push(Bytes::from(piece));
                }
                let mut peeked = vec![0; n];
                if chunks.peek_at(3, &mut peeked) {
                    let expected: Vec<u8> = model.iter().skip(3).take(n).copied().collect();
                    prop_assert_eq!(peeked, expected);
                } else {
                    prop_assert!(model.len() < n + 3);
                }
                let expected: Vec<u8> = model.drain(..n.min(model.len())).collect();
                let got = match how {
                    0 => chunks.take(n).concat(),
                    1 => chunks.take_contiguous(n).to_vec(),
                    _ => { chunks.skip(n); expected.clone() }
                };
                prop_assert_eq!(got, expected);
                prop_assert_eq!(chunks.len(), model.len());
            }
        }
    }
}
