//! Large files, and when their data wait until it is known what a second OPEN does (`reopening.rs`).

use crate::channels::{LEAST_LEFT, Reopening};
use crate::engine::Engine;
use crate::task::File;
use crate::task::state::State;

impl Engine {
    /// True where so much is left of the file that it is worth several channels.
    pub(in crate::engine) fn is_big(file: &File) -> bool {
        let left = file.requests.size.saturating_sub(file.requests.next);
        matches!(file.state, State::Copying(_))
            && !file.faults.failed
            && !file.requests.to_eof
            && left >= LEAST_LEFT
    }

    /// Everything that was sent is confirmed, and what another OPEN does to the file is the next question.
    pub(super) fn reopens_now(&self) -> bool {
        let Reopening::Asking(key) = self.channels.reopening else { return false };
        self.stops_to_reopen()
            && self.tasks.files.get(key).is_some_and(|file| {
                let requests = &file.requests;
                requests.in_flight() == 0
                    && requests.half_sent == 0
                    && requests.lent == 0
                    && !file.handles.reopens
            })
    }

    /// No file bytes are to go until it is known.
    pub(in crate::engine) fn stops_to_reopen(&self) -> bool {
        let Reopening::Asking(key) = self.channels.reopening else { return false };
        self.tasks.sending.front() == Some(&key)
            && self.channels.channels_up() > 1
            && self.tasks.files.get(key).is_some_and(Self::is_big)
    }
}
