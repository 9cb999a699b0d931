//! Rate limits of a link, and the pauses that they cause.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use crate::input_limit::InputLimit;
use crate::shared_rate::SharedRate;

/// Time of a limited rate that our output queue holds. A keystroke waits behind it.
const QUEUE: Duration = Duration::from_millis(100);

/// Lower limit of that queue, bytes, and so of the packets at a low rate.
const LEAST_QUEUE: u64 = 8 << 10;

/// Time without output after which a peer that waits for this end to read gets a sign of life. What it asks
/// waits behind its data, and our clients take half a second of silence for a broken path. They would go on
/// over another connection, again and again.
const SIGN: Duration = Duration::from_millis(250);

/// The limits and pauses of one link. Without a limit, nothing here costs more than a comparison.
#[derive(Default)]
pub(crate) struct Limits {
    input: Option<InputLimit>,
    shared_input: Option<SharedRate>,
    shared_output: Option<SharedRate>,
    /// The connection is ahead of a limit of what it reads until this time.
    reads_from: Option<Instant>,
    /// The same for what it writes.
    writes_from: Option<Instant>,
    /// Time at which a sign of life is due, while a shared rate makes the peer wait.
    sign_due: Option<Instant>,
}

impl Limits {
    pub(crate) const fn new() -> Self {
        Self {
            input: None,
            shared_input: None,
            shared_output: None,
            reads_from: None,
            writes_from: None,
            sign_due: None,
        }
    }

    /// Sets the limit of what is read.
    pub(crate) const fn set_input(&mut self, limit: InputLimit) {
        self.input = Some(limit);
    }

    /// Sets the rates that this link shares with others.
    pub(crate) fn set_shared(&mut self, input: Option<SharedRate>, output: Option<SharedRate>) {
        (self.shared_input, self.shared_output) = (input, output);
    }

    /// Bytes that the limits of what is read let through in this time; `None` without a limit.
    pub(crate) fn readable_in(&self, time: Duration) -> Option<u64> {
        let own = self.input.as_ref().map(|limit| limit.bytes_in(time));
        let shared = self.shared_input.as_ref().map(|shared| shared.bytes_in(time));
        own.into_iter().chain(shared).min()
    }

    /// Bytes to read in one system call.
    pub(crate) fn read_at_once(&self) -> usize {
        let shared = self.shared_input.as_ref().map_or(usize::MAX, SharedRate::most_at_once);
        self.input.as_ref().map_or(usize::MAX, InputLimit::most_at_once).min(shared)
    }

    /// Counts received bytes.
    pub(crate) fn received(&mut self, bytes: usize) {
        if let Some(limit) = &mut self.input {
            self.reads_from = limit.received(bytes, Instant::now());
        }
        if let Some(shared) = &self.shared_input {
            self.reads_from = self.reads_from.max(shared.moved(bytes));
            let due = self.sign_due.or_else(|| Some(Instant::now() + SIGN));
            self.sign_due = due.filter(|_| self.reads_from.is_some());
        }
    }

    /// Counts written bytes.
    pub(crate) fn written(&mut self, bytes: usize) {
        if let Some(due) = &mut self.sign_due {
            *due = Instant::now() + SIGN;
        }
        if let Some(shared) = &self.shared_output {
            self.writes_from = shared.moved(bytes);
        }
    }

    /// Returns the beginning of `slices` that may be written in one system call; `None` for all of them.
    pub(crate) fn shortened<'a>(&self, slices: &'a [IoSlice<'_>]) -> Option<Vec<IoSlice<'a>>> {
        let mut left = self.shared_output.as_ref()?.most_at_once();
        let mut short = Vec::with_capacity(slices.len());
        for slice in slices {
            let part = &slice[..slice.len().min(left)];
            short.push(IoSlice::new(part));
            left -= part.len();
            if left == 0 {
                break;
            }
        }
        Some(short)
    }

    /// High-water mark of the output queue by the limit, bytes.
    pub(crate) fn queue(&self) -> usize {
        let bytes = self.shared_output.as_ref().map(|shared| shared.bytes_in(QUEUE).max(LEAST_QUEUE));
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
    }

    pub(crate) const fn pauses_reading(&self) -> bool {
        self.reads_from.is_some()
    }

    /// Returns the end of a pause of writing.
    pub(crate) const fn writes_from(&self) -> Option<Instant> {
        self.writes_from
    }

    /// Returns the time at which the next pause is over.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        [self.reads_from, self.writes_from, self.sign_due].into_iter().flatten().min()
    }

    /// Returns true when a sign of life is to be sent. Call it before a pause of reading is ended.
    pub(crate) fn take_sign(&mut self, now: Instant) -> bool {
        if self.reads_from.is_none() {
            // All that had come was read.
            self.sign_due = None;
        }
        let Some(due) = self.sign_due.as_mut().filter(|due| **due <= now) else { return false };
        *due = now + SIGN;
        // What is queued already shows the peer that this end lives.
        self.writes_from.is_none()
    }

    /// Ends the pause of reading that is over.
    pub(crate) fn end_pause_of_reading(&mut self, now: Instant) {
        self.reads_from.take_if(|until| *until <= now);
    }

    /// Ends the pause of writing that is over. True if the link may write.
    pub(crate) fn end_pause_of_writing(&mut self, now: Instant) -> bool {
        self.writes_from.take_if(|until| *until <= now);
        self.writes_from.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lh_sys::shared_words::SharedWords;

    use super::*;

    #[test]
    fn signs_of_life_end_with_the_pauses() {
        let words = Arc::new(SharedWords::private(1).unwrap());
        let ahead = lh_sys::time::monotonic() + Duration::from_secs(20);
        words.get(0).unwrap().store(ahead.as_nanos() as u64, std::sync::atomic::Ordering::Relaxed);
        let mut limits = Limits { shared_input: SharedRate::new(words, 0, 1000), ..Limits::new() };
        limits.received(1);
        let now = Instant::now();
        let signs = [0, 300, 301, 600].map(|millis| limits.take_sign(now + Duration::from_millis(millis)));
        assert_eq!(signs, [false, true, false, true]);
        let later = now + Duration::from_secs(30);
        limits.end_pause_of_reading(later);
        assert!(!limits.take_sign(later) && limits.next_deadline().is_none());
    }

    #[test]
    fn one_write_is_no_longer_than_a_piece() {
        let shared =
            |per_second| SharedRate::new(Arc::new(SharedWords::private(1).unwrap()), 0, per_second).unwrap();
        let shortened = |shared_output, lengths: &[usize]| {
            let bytes = vec![0; 100_000];
            let slices: Vec<_> = lengths.iter().map(|length| IoSlice::new(&bytes[..*length])).collect();
            let short = Limits { shared_output, ..Limits::new() }.shortened(&slices)?;
            Some(short.iter().map(|slice| slice.len()).collect::<Vec<_>>())
        };
        assert_eq!(shortened(None, &[100_000, 100_000]), None);
        // 25 ms of the rate.
        let limit = || Some(shared(1_000_000));
        assert_eq!(shortened(limit(), &[24_999]), Some(vec![24_999]));
        assert_eq!(shortened(limit(), &[10_000, 10_000, 10_000, 7]), Some(vec![10_000, 10_000, 5000]));
        assert_eq!(shortened(limit(), &[25_000, 7]), Some(vec![25_000]));
        let queue = |per_second| Limits { shared_output: Some(shared(per_second)), ..Limits::new() }.queue();
        assert_eq!((queue(1_000_000), queue(1)), (100_000, LEAST_QUEUE as usize));
        assert_eq!(Limits::new().queue(), usize::MAX);
    }
}
