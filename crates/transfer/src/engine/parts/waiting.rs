//! Detects the end of the copy, and says what it waits for until then.

use std::time::Instant;

use lh_wire::Output;

use crate::Direction;
use crate::engine::parts::Parts;
use crate::names::display_name;
use crate::progress::Wait;
use crate::tree::Dir;

impl Parts {
    /// Returns true when nothing is left to do: every file is closed or has failed. The answers to CLOSEs of
    /// source files may still be missing; they say nothing.
    pub(in crate::engine) fn is_finished(&self) -> bool {
        self.prepare.finished()
            && self.tree.is_empty()
            && self.tasks.files.len() == 0
            && self.batches.is_empty()
            && self.links.names.is_empty()
            && self.sync.is_finished()
            && self.leftovers.removing.len() == 0
            && self.ends.all_answered()
    }

    /// Nothing is left to be copied but what waits for a deletion.
    pub(in crate::engine) fn all_is_copied(&self) -> bool {
        self.prepare.finished()
            && self.tree.top.is_empty()
            && self.tasks.files.len() == 0
            && self.batches.is_empty()
            && self.links.names.is_empty()
            && self.sync.comparisons.is_empty()
            && self.leftovers.removing.len() == 0
            && self.ends.all_answered()
            && self.tree.dirs.values().all(Dir::only_waits)
    }

    /// Writes the journal, or removes it when the copy has come to its end and nothing failed.
    pub(in crate::engine) fn keep_journal(&mut self) {
        if self.leftovers.journal.is_none() {
            return;
        }
        let ended = self.is_finished() && !self.report.is_over();
        if let Some(mut journal) = self.leftovers.journal.take() {
            if ended && self.report.summary.failures > 0 {
                journal.keep_failed(self.report.summary.files + self.report.summary.directories > 0);
            } else if ended {
                journal.remove();
            } else {
                journal.flush();
                self.leftovers.journal = Some(journal);
            }
        }
    }

    /// Reports what is decided and has no undecided item before it.
    pub(in crate::engine) fn report_in_order(&mut self) {
        if self.report.waits_for_order() {
            let front = self.tree.front();
            self.report.release(front.as_deref());
        }
    }

    /// Says which paths of the manifest are not in any tree. Of a copy that did not see all of them nothing
    /// is known.
    pub(in crate::engine) fn report_expected(&mut self) {
        let mut missing: Vec<Vec<u8>> = std::mem::take(&mut self.tree.expected).into_iter().collect();
        if self.report.is_over() {
            return;
        }
        missing.sort_unstable();
        for path in missing {
            self.report.fail(format!("{}: named in the manifest, not found", display_name(&path)));
            self.report.missed(Some(path));
        }
    }

    /// Notes why nothing more can be done now.
    pub(in crate::engine) fn begin_wait(&mut self, no_room: bool, now: Instant) {
        let upload = self.plan.direction == Direction::Upload;
        let to_send = self.ends.channels.is_first_unfinished() || !self.tasks.sending.is_empty();
        if upload && no_room && to_send {
            self.progress.begin_wait(Wait::Window, now);
        } else if self.flow.in_flight.requests() > 0 && (!upload || !self.room_in_flight()) {
            self.progress.begin_wait(Wait::Answers, now);
        }
    }

    /// Marks channel number `channel` as full if a limit of the server is what stops it: an upload has used
    /// up the window, or a download has as many unanswered requests as the server accepts. Channels that are
    /// full are the reason to open additional ones.
    pub(in crate::engine) fn look_at_window(&mut self, channel: usize, out: &mut dyn Output) {
        let full = match self.plan.direction {
            Direction::Download => {
                let requests =
                    self.ends.requests_on(channel).filter(|_| self.options.limits.requests.is_none());
                requests.is_some_and(|(awaited, most)| awaited >= most)
            }
            Direction::Upload | Direction::Relay => out.peer_is_full() && self.room_in_flight(),
        };
        if full {
            self.channels.note_full(channel);
        }
    }
}
