//! Both files are open to be compared: for what is to be copied at all, or for what was written.

use crate::Direction;
use crate::checks::{CheckNext, Checks, Extent};
use crate::end::{Done, FaultKind, Handle, Kind, Outcome, fault_of};
use crate::table::Key;
use crate::task::check::Mode;
use crate::task::proof::ProofStage;
use crate::task::state::State;
use crate::token::Side;
use crate::wording::FailedStep;

impl Checks<'_> {
    /// One end is open to be compared before anything is copied, or not.
    pub(crate) fn contents_opened(&mut self, key: Key, side: Side, outcome: Outcome) -> CheckNext {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        match (side, outcome) {
            (Side::Source, Ok(Done::Opened(handle, _))) => file.handles.source = Some(handle),
            (Side::Target, Ok(Done::Opened(handle, _))) => file.handles.target = Some(handle),
            (Side::Target, Err(fault)) if fault.kind != FaultKind::Lost => {}
            (_, outcome) => return CheckNext::Failed(FailedStep::OpenSource, fault_of(outcome)),
        }
        if file.outstanding > 0 || file.faults.failed {
            return CheckNext::Wait;
        }
        if file.handles.target.is_none() {
            // A file that cannot be read is replaced.
            return CheckNext::Compared { same: false };
        }
        let end = file.requests.size;
        self.compare(key, end, Extent::Whole, if digests { Mode::Digests } else { Mode::Samples })
    }

    /// One end is open to be read back, or not.
    pub(crate) fn proof_opened(&mut self, key: Key, side: Side, outcome: Outcome) -> CheckNext {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        let handle: Handle = match outcome {
            Ok(Done::Opened(handle, info)) => {
                let special = info.is_some_and(|info| !matches!(info.kind, Kind::File | Kind::Unknown));
                if let Some(closed) = file.state.closed_mut() {
                    closed.special |= special && side == Side::Target;
                }
                handle
            }
            outcome => {
                let step =
                    if side == Side::Source { FailedStep::OpenSource } else { FailedStep::VerifyTarget };
                return CheckNext::Failed(step, fault_of(outcome));
            }
        };
        match side {
            Side::Source => file.handles.source = Some(handle),
            Side::Target => file.handles.target = Some(handle),
        }
        let State::Verifying(verifying) = &mut file.state else { return CheckNext::Wait };
        verifying.opening -= 1;
        if file.faults.failed || verifying.opening > 0 {
            return CheckNext::Wait;
        }
        if verifying.closed.special {
            self.close_proof(key);
            return CheckNext::Wait;
        }
        let end = match self.direction {
            Direction::Upload => file.requests.next,
            Direction::Download => file.taken.prefix,
            Direction::Relay => file.relay.write_at,
        };
        let whole = verifying.stage == ProofStage::Written;
        let extent = if whole { Extent::Whole } else { Extent::Samples };
        let mode = if whole && file.sums.lost && digests { Mode::Digests } else { Mode::Samples };
        self.compare(key, end, extent, mode)
    }
}
