//! Reading back what was written, where that is asked for and the two ends have not summed it up.
//!
//! Not through the handles that wrote and read: a server that mixes handles up, or answers from what it
//! remembers of one, would show what it was given. So both ends are opened anew, by their paths, when the
//! copy is closed: first all of it, under the name that it was written under, and once more in samples when
//! it has its final name.

use crate::Direction;
use crate::checks::{CheckNext, Checks};
use crate::end::{Done, Fault, FaultKind, Kind, Op, Outcome};
use crate::options::Verify;
use crate::table::Key;
use crate::task::ending::Proofs;
use crate::task::proof::ProofStage;
use crate::task::state::{State, Verifying};
use crate::token::{FileStep, Side, Token};
use crate::wording::FailedStep;

impl Checks<'_> {
    /// A server other than ours could have put it elsewhere.
    fn proves_names(&self) -> bool {
        self.options.verify == Verify::Always && self.ends.is_foreign(Side::Target)
    }

    /// The copy is closed: compares it with its source, where that is to be done. True while it is.
    pub(crate) fn prove(&mut self, key: Key, stage: ProofStage) -> bool {
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

    pub(super) fn close_proof(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let handles =
            [(Side::Source, file.handles.source.take()), (Side::Target, file.handles.target.take())];
        for (side, handle) in handles {
            if let Some(handle) = handle {
                self.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
    }

    /// The comparison has ended.
    pub(super) fn proved(&mut self, key: Key, stage: ProofStage, right: bool) -> CheckNext {
        self.close_proof(key);
        let names = self.proves_names();
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        let last = stage == ProofStage::Named || !names || file.place.growing().is_none();
        file.place.compared = right && (file.place.compared || last);
        if right { CheckNext::Wait } else { CheckNext::Wrong }
    }

    /// After CLOSE: the server has this much, or says so. A longer tail, which may have been there before, is
    /// not cut off: servers that use Paramiko's `set_file_attr` would lose all that was written. The copy is
    /// made again over an empty file.
    pub(crate) fn size_after(&mut self, key: Key, outcome: Outcome) -> CheckNext {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return CheckNext::Wait;
        };
        let info = match outcome {
            Ok(Done::Info(info)) => info,
            // The file was written and closed, and is gone. Of a new part file the rename says so, which also
            // works at servers that do not show what was uploaded.
            Err(fault)
                if fault.kind == FaultKind::NotFound
                    && (file.place.growing().is_none() || file.place.continued) =>
            {
                return CheckNext::Failed(FailedStep::WriteTarget, fault);
            }
            _ => return CheckNext::Wait,
        };
        if !matches!(info.kind, Kind::File | Kind::Unknown) {
            if let Some(closed) = file.state.closed_mut() {
                closed.special = true;
            }
            return CheckNext::Wait;
        }
        let wanted =
            if self.direction == Direction::Relay { file.relay.write_at } else { file.requests.next };
        match info.size {
            Some(size) if size > wanted && !file.item.retry.emptied => {
                // A file that is too long is worthless under either name.
                file.faults.failed = true;
                file.faults.too_long = true;
                file.place.corrupt = true;
            }
            Some(size) if size != wanted => {
                let text = format!("the server says that it has {size} bytes of {wanted}");
                return CheckNext::Failed(FailedStep::WriteTarget, Fault::other(text));
            }
            _ => {}
        }
        CheckNext::Wait
    }
}
