//! Asks both ends for what shows whether a copy is right: running sums, or a fresh open of both files.

use lh_sftp::{RunningSum, extension};

use crate::Direction;
use crate::end::Op;
use crate::engine::Engine;
use crate::options::Verify;
use crate::table::Key;
use crate::task::ending::Proofs;
use crate::task::proof::ProofStage;
use crate::task::state::{State, Verifying};
use crate::token::{CheckStep, FileStep, Side, Token};

impl Engine {
    /// From here on both ends sum up what goes by.
    pub(in crate::engine) fn begin_sum(&mut self, key: Key) {
        let side = match self.plan.direction {
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
        // What is written in place may not be readable; then nothing could be said about it.
        if file.place.growing().is_none() {
            return;
        }
        let Some(handle) = file.handles.at(side).cloned() else { return };
        file.sums.ours = Some(RunningSum::default());
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Check(CheckStep::SumBegun));
        self.ends.start(side, Op::BeginSum(&handle, self.options.verify.read_back()), token);
    }

    /// All data are on their way: asks the server for its sum, before the handles are closed.
    pub(in crate::engine) fn end_sum(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed || file.sums.ours.is_none() {
            return;
        }
        let (side, handle) = match self.plan.direction {
            Direction::Upload => (Side::Target, file.handles.target.clone()),
            _ => (Side::Source, file.handles.source.clone()),
        };
        let Some(handle) = handle else { return };
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Check(CheckStep::Sum));
        self.ends.start(side, Op::EndSum(&handle), token);
    }

    /// A server other than ours could have put it elsewhere.
    pub(in crate::engine) fn proves_names(&self) -> bool {
        self.options.verify == Verify::Always
            && self.ends.target.as_ref().is_some_and(|target| !target.is_ours())
    }

    /// The copy is closed: compares it with its source, where that is to be done. True while it is.
    pub(in crate::engine) fn prove(&mut self, key: Key, stage: ProofStage) -> bool {
        let proofs = Proofs {
            always: self.options.verify == Verify::Always,
            digests: self.ends.can_digest(),
            names: self.proves_names(),
        };
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let verifying = |closed| State::Verifying(Verifying { closed, stage, opening: 2, check: None });
        if !file.wants_proof(stage, proofs) || !file.state.advance(verifying) {
            return false;
        }
        file.outstanding += 2;
        let (source, target) = (file.item.source.clone(), file.written_path().to_vec());
        for (side, path) in [(Side::Source, source), (Side::Target, target)] {
            self.ends.start(side, Op::OpenRead(&path), Token::File(key, FileStep::Proof(side)));
        }
        true
    }
}
