//! Both files are open to be compared: for what is to be copied at all, or for what was written.

use crate::Direction;
use crate::end::{Done, FaultKind, Handle, Kind, Outcome, fault_of};
use crate::engine::Engine;
use crate::table::Key;
use crate::task::proof::ProofStage;
use crate::task::state::State;
use crate::token::Side;
use crate::wording::Deed;

impl Engine {
    /// One end is open, or not.
    pub(in crate::engine) fn contents_opened(&mut self, key: Key, side: Side, outcome: Outcome) {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        match (side, outcome) {
            (Side::Source, Ok(Done::Opened(handle, _))) => file.handles.source = Some(handle),
            (Side::Target, Ok(Done::Opened(handle, _))) => file.handles.target = Some(handle),
            (Side::Target, Err(fault)) if fault.kind != FaultKind::Lost => {}
            (_, outcome) => self.file_failed(key, Deed::OpenSource, &fault_of(outcome)),
        }
        let Some(file) =
            self.tasks.files.get(key).filter(|file| file.outstanding == 0 && !file.faults.failed)
        else {
            return;
        };
        if file.handles.target.is_none() {
            // What cannot be read is replaced.
            return self.contents_compared(key, false);
        }
        let end = file.requests.size;
        self.compare(key, end, true, digests);
    }

    /// One end is open, or not.
    pub(in crate::engine) fn proof_opened(&mut self, key: Key, side: Side, outcome: Outcome) {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let handle: Handle = match outcome {
            Ok(Done::Opened(handle, info)) => {
                let special = info.is_some_and(|info| !matches!(info.kind, Kind::File | Kind::Unknown));
                if let Some(closed) = file.state.closed_mut() {
                    closed.special |= special && side == Side::Target;
                }
                handle
            }
            outcome => {
                let fault = fault_of(outcome);
                let deed = if side == Side::Source { Deed::OpenSource } else { Deed::VerifyTarget };
                return self.file_failed(key, deed, &fault);
            }
        };
        match side {
            Side::Source => file.handles.source = Some(handle),
            Side::Target => file.handles.target = Some(handle),
        }
        let State::Verifying(verifying) = &mut file.state else { return };
        verifying.opening -= 1;
        if file.faults.failed || verifying.opening > 0 {
            return;
        }
        if verifying.closed.special {
            return self.close_proof(key);
        }
        let end = match self.plan.direction {
            Direction::Upload => file.requests.next,
            Direction::Download => file.taken.prefix,
            Direction::Relay => file.relay.write_at,
        };
        let whole = verifying.stage == ProofStage::Written;
        let by_digests = whole && file.sums.lost && digests;
        self.compare(key, end, whole, by_digests);
    }
}
