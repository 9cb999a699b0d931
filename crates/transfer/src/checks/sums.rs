//! Running sums: both ends sum up what goes by, and the sums must agree.

use lh_sftp::{RunningSum, extension};

use crate::Direction;
use crate::checks::{CheckNext, Checks};
use crate::end::{Op, Outcome, fault_of};
use crate::options::Verify;
use crate::table::Key;
use crate::task::check::read_sum;
use crate::token::{CheckStep, FileStep, Side, Token};
use crate::wording::FailedStep;

impl Checks<'_> {
    /// From here on both ends sum up what goes by.
    pub(crate) fn begin_sum(&mut self, key: Key) {
        let side = match self.direction {
            Direction::Upload => Side::Target,
            Direction::Download => Side::Source,
            Direction::Relay => return,
        };
        let able =
            self.ends.remote(side).is_some_and(|remote| remote.session().supports(extension::RUNNING_SUM));
        if self.options.verify == Verify::Off || !able {
            return;
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        // A file that is written in place may not be readable, and then it has no digest.
        if file.place.growing().is_none() {
            return;
        }
        let Some(handle) = file.handles.at(side) else { return };
        file.sums.ours = Some(RunningSum::default());
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Check(CheckStep::SumBegun));
        self.ends.start(side, Op::BeginSum(handle, self.options.verify.read_back()), token);
    }

    /// All data are on their way: asks the server for its sum, before the handles are closed.
    pub(crate) fn end_sum(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed || file.sums.ours.is_none() {
            return;
        }
        let side = if self.direction == Direction::Upload { Side::Target } else { Side::Source };
        let Some(handle) = file.handles.at(side) else { return };
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Check(CheckStep::Sum));
        self.ends.start(side, Op::EndSum(handle), token);
    }

    pub(super) fn on_sum(&mut self, key: Key, outcome: Outcome) -> CheckNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        let Some(ours) = file.sums.ours.filter(|_| !file.faults.failed) else { return CheckNext::Wait };
        let mut parts = file.sums.theirs;
        let theirs = read_sum(&outcome).map(|last| {
            parts.merge(last);
            parts
        });
        match theirs {
            Some(theirs) if theirs == ours => {
                file.place.compared = true;
                CheckNext::Wait
            }
            Some(_) => CheckNext::Wrong,
            None => CheckNext::Failed(FailedStep::VerifyTarget, fault_of(outcome)),
        }
    }
}
