//! Small files by the hundred ([`crate::batch`]): reports how they have ended.

use std::time::Instant;

use crate::batch::placing::SmallEnd;
use crate::batch::small_files::Ended;
use crate::end::FaultKind;
use crate::engine::schedule::Scheduler;
use crate::event::CopiedKind;
use crate::options::Verify;
use crate::wording::FailedStep;
use crate::{Event, wording};

impl Scheduler<'_> {
    /// Drops what has not been sent; returns how many files that were.
    pub(super) fn drop_batch(&mut self) -> usize {
        let files = self.parts.batches.drop_unsent();
        let dropped = files.len();
        for small in files {
            self.child_finished(small.item.parent);
        }
        dropped
    }

    /// Does what follows for the files of a batch.
    pub(in crate::engine) fn batch_ended(&mut self, ended: Option<Ended>) {
        let Some(Ended { files, started }) = ended else { return };
        for end in files {
            self.small_ended(end, started);
        }
    }

    /// Reports how a file of a batch has ended, or begins it by itself.
    fn small_ended(&mut self, end: SmallEnd, started: Instant) {
        let parent = match end {
            SmallEnd::Alone(small) => return self.begin_ordinary_file(small.id, small.item),
            SmallEnd::Done(small) => {
                self.parts.leftovers.note_done(&small.item, small.size, small.sum.as_deref());
                if self.parts.options.placing.atomic && self.parts.options.verify != Verify::Off {
                    self.parts.report.summary.verified += 1;
                }
                self.parts.report.summary.bytes += small.size;
                self.parts.report.summary.files += 1;
                let name = crate::base_name(&small.item.source).to_vec();
                self.parts.report.event(Event::FileDone {
                    id: small.id,
                    name,
                    size: small.size,
                    kept: 0,
                    started,
                });
                self.parts.report.copied(
                    &self.parts.plan.target,
                    &small.item,
                    small.size,
                    CopiedKind::File(small.sum),
                );
                small.item.parent
            }
            SmallEnd::Failed(small, step, fault) => {
                // A lost connection is reported once.
                if fault.kind != FaultKind::Lost {
                    let of_source = matches!(step, FailedStep::OpenSource | FailedStep::ReadSource);
                    let path = if of_source { &small.item.source } else { &small.item.target };
                    let text = wording::failed(self.parts.plan.direction, step, path, &fault);
                    if !self.parts.tree.reported_by_dir(small.item.parent, &text) {
                        self.parts.report.fail(text);
                    }
                    self.parts.report.blame(&small.item.source);
                    self.parts.report.missed(self.parts.tree.path_of(&small.item));
                }
                small.item.parent
            }
        };
        self.child_finished(parent);
    }
}
