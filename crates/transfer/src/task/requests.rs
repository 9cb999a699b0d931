//! The bytes of a file that were requested or sent, and those to be repeated.

/// READs and WRITEs of one file.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Bytes to copy: the source's size when it was opened.
    pub(crate) size: u64,
    /// The size says nothing (0, as files in /proc have it, or unknown): the file is read to its end.
    pub(crate) to_eof: bool,
    /// Offset of the next new request.
    pub(crate) next: u64,
    /// Ranges that short answers left out, or that have no answer: offset and length.
    pub(crate) again: Vec<(u64, u32)>,
    /// No new requests are to come.
    pub(crate) complete: bool,
    /// READs that came back full; allows more of them in flight when reading to the end.
    pub(crate) full_reads: u32,
    /// The source has bytes behind its size.
    pub(crate) longer: bool,
    /// READs and WRITEs without answer.
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    /// WRITEs that are half sent: the source must stay open.
    pub(crate) half_sent: u32,
    /// Ranges that threads are reading or writing now: both ends must stay open.
    pub(crate) lent: u32,
    /// How often ranges were asked for again because the server had dropped them, and the last round that
    /// counts.
    pub(crate) tries: u8,
    pub(crate) tried_in: u32,
}

impl Requests {
    /// `len` bytes at `offset` have been sent. True when that was not for the first time.
    pub(crate) fn sent_again(&mut self, offset: u64, len: u32) -> bool {
        let again = self.again.last().is_some_and(|&(at, _)| at == offset && offset < self.next);
        if again
            && let Some((at, whole)) = self.again.pop()
            && let Some(rest @ 1..) = whole.checked_sub(len)
        {
            self.again.push((at + u64::from(len), rest));
        }
        again
    }

    /// Nothing new is left to be asked for.
    pub(crate) const fn exhausted(&self) -> bool {
        !self.to_eof && self.next >= self.size
    }

    /// READs and WRITEs without answer.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.reads + self.writes
    }

    /// All requested data have arrived, or have been sent.
    pub(crate) const fn all_moved(&self) -> bool {
        self.complete && self.half_sent == 0 && self.lent == 0 && self.again.is_empty() && self.reads == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_sent_again_shrink_from_the_front() {
        let mut requests = Requests { next: 100, again: vec![(20, 30)], ..Requests::default() };
        assert!(!requests.sent_again(100, 10), "new");
        assert!(requests.sent_again(20, 10));
        assert_eq!(requests.again, [(30, 20)]);
        assert!(requests.sent_again(30, 20));
        assert!(requests.again.is_empty());
        assert!(!requests.sent_again(50, 1));
    }

    #[test]
    fn nothing_half_done_counts_as_moved() {
        let complete = || Requests { complete: true, ..Requests::default() };
        assert!(complete().all_moved());
        assert!(Requests { writes: 3, ..complete() }.all_moved(), "only answers are missing");
        for requests in [
            Requests { half_sent: 1, ..complete() },
            Requests { lent: 1, ..complete() },
            Requests { reads: 1, ..complete() },
            Requests { again: vec![(0, 1)], ..complete() },
            Requests::default(),
        ] {
            assert!(!requests.all_moved(), "{requests:?}");
        }
    }
}
