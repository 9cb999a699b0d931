//! Does what follows for a file from its names ([`crate::place`]) and from comparing it with its source
//! ([`crate::checks`]).

use crate::checks::CheckNext;
use crate::end::Outcome;
use crate::engine::schedule::Scheduler;
use crate::in_place::{TargetNext, UNREADABLE};
use crate::place::PlaceNext;
use crate::table::Key;
use crate::task::owner;
use crate::task::state::Found;
use crate::token::{CheckStep, OwnerStep, PlaceStep, Side};

/// Why a file is copied anew that was to be continued.
const DIFFERS: &str = "it does not begin as its source does";

impl Scheduler<'_> {
    /// Does what follows from an answer about the names of a file.
    pub(super) fn place_next(&mut self, key: Key, next: PlaceNext) {
        match next {
            PlaceNext::Wait => {}
            PlaceNext::InPlace => {
                let next = self.parts.targets().open(key);
                self.target_next(key, next);
            }
            PlaceNext::Check { of, found, known, whole } => {
                let next = self.parts.checks().begin(key, of, found, known, whole);
                self.check_next(key, next);
            }
            PlaceNext::Data => self.parts.begin_data(key),
            PlaceNext::Continue => {
                self.parts.checks().report_kept(key);
                self.parts.begin_data(key);
            }
            PlaceNext::Complete(sum) => self.close_file(key, sum),
            PlaceNext::Failed(step, fault) => self.parts.file_failed(key, step, &fault),
        }
    }

    /// Does what follows from opening a target under its final name.
    pub(super) fn target_next(&mut self, key: Key, next: TargetNext) {
        match next {
            TargetNext::Wait => {}
            TargetNext::Opened { asked, check } => {
                if let Some(asked) = asked {
                    self.parts.note_round_trip(Side::Target, asked);
                }
                match check {
                    Some(kept) => {
                        let next = self.parts.checks().begin(key, Found::InPlace, kept, kept, false);
                        self.check_next(key, next);
                    }
                    None => self.parts.begin_data(key),
                }
            }
            TargetNext::Compare(kept) => {
                let next = self.parts.checks().begin(key, Found::ToContinue, kept, kept, false);
                self.check_next(key, next);
            }
            TargetNext::Anew => self.parts.copy_again(key, DIFFERS),
            TargetNext::Emptied(why) => self.parts.begin_emptied(key, why),
            TargetNext::Failed(step, fault) => self.parts.file_failed(key, step, &fault),
            TargetNext::FailedWith(text) => self.parts.file_failed_with(key, text),
        }
    }

    /// Does what follows from a comparison.
    pub(super) fn check_next(&mut self, key: Key, next: CheckNext) {
        match next {
            CheckNext::Wait => {}
            CheckNext::Data => self.parts.begin_data(key),
            CheckNext::Adopted { probe, kept } => {
                let next = self.parts.part_files().adopted_compared(key, probe, kept);
                self.place_next(key, next);
            }
            CheckNext::Reopen => {
                let next = self.parts.targets().open_compared(key);
                self.target_next(key, next);
            }
            CheckNext::Anew => self.parts.copy_again(key, DIFFERS),
            CheckNext::Emptied => self.parts.begin_emptied(key, UNREADABLE),
            CheckNext::Compared { same } => self.contents_compared(key, same),
            CheckNext::Wrong => self.parts.found_wrong(key),
            CheckNext::Failed(step, fault) => self.parts.file_failed(key, step, &fault),
        }
    }

    pub(super) fn place_answer(&mut self, key: Key, step: PlaceStep, outcome: Outcome) {
        if let Some(asked) = self.parts.tasks.files.get_mut(key).and_then(|file| file.place.asked_at.take()) {
            self.parts.note_round_trip(Side::Target, asked);
        }
        let next = self.parts.part_files().on_answer(key, step, outcome);
        self.place_next(key, next);
    }

    pub(super) fn check_answer(&mut self, key: Key, step: CheckStep, outcome: Outcome) {
        let next = self.parts.checks().on_answer(key, step, outcome);
        self.check_next(key, next);
    }

    /// Takes an answer about the user that the target's server runs as.
    pub(super) fn user_answer(&mut self, step: OwnerStep, outcome: Outcome) {
        for key in owner::user_answer(step, outcome, &mut self.parts.leftovers, &mut self.parts.ends) {
            if let Some(file) = self.parts.tasks.files.get_mut(key) {
                file.outstanding -= 1;
            }
            let next = self.parts.part_files().all_known(key);
            self.place_next(key, next);
            self.move_on(key);
        }
    }
}
