//! Places the small files of a batch on this host, unnamed or under a temporary name until they are complete.

use std::io::ErrorKind;

use lh_sftp::Attrs;
use lh_sftp::batch::PutStep;
use lh_sftp::fs::FileSystem as _;
use lh_sftp::whole::{Made, Whole};

use crate::batch::Small;
use crate::end::{AsFound, Change, Done, Fault, FaultKind, Got, Handle, Kind, Op, fault_of};
use crate::item::Item;
use crate::options::Verify;
use crate::report::Reporter;
use crate::target_facts::{NotKept, TargetFacts};
use crate::task::place::{part_name, random_tag, tag_of};
use crate::task::preserve::Preserved;
use crate::wording::{FailedStep, shrank};
use crate::{Options, local};

/// How the copy of a small file ended.
#[derive(Debug)]
pub(crate) enum SmallEnd {
    Done(Small),
    Failed(Small, FailedStep, Fault),
    /// It goes the ordinary way after all.
    Alone(Small),
}

/// The parts of the engine that placing small files uses.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    pub(crate) options: &'a Options,
    pub(crate) facts: &'a mut TargetFacts,
    pub(crate) report: &'a mut Reporter,
}

impl Placer<'_> {
    /// Upload: takes what the server has said of a file that it was sent.
    pub(crate) fn on_put_answer(
        &mut self,
        small: Small,
        failures: impl IntoIterator<Item = (PutStep, Fault)>,
    ) -> SmallEnd {
        let mut failed = None;
        for (step, fault) in failures {
            let mut not_kept =
                |what| self.facts.report_not_kept_at(what, &small.item.target, &fault, self.report);
            let step = match step {
                PutStep::Open => FailedStep::OpenTarget,
                PutStep::Write => FailedStep::WriteTarget,
                PutStep::Attributes => FailedStep::FinishTarget,
                PutStep::Owner => {
                    not_kept(NotKept::Owner);
                    continue;
                }
                PutStep::Xattrs => {
                    not_kept(NotKept::Xattrs);
                    continue;
                }
            };
            failed = Some((step, fault));
        }
        match failed {
            None => SmallEnd::Done(small),
            Some((step, fault)) => SmallEnd::Failed(small, step, fault),
        }
    }

    /// Download: takes what the server has sent of a file. Returns one that came whole, to be
    /// [placed](Placer::place).
    pub(crate) fn on_read_answer(
        &self,
        mut small: Small,
        got: Result<Got, Fault>,
    ) -> Result<(Small, Got), Box<SmallEnd>> {
        let got = match got {
            Ok(got) => got,
            Err(fault) => return Err(Box::new(SmallEnd::Failed(small, FailedStep::OpenSource, fault))),
        };
        let len = got.data.len() as u64;
        if !got.whole {
            // Longer than it was when it was listed, or written to while it was read: copied by itself, its
            // changes are reported.
            if small.size > 0 {
                small.item.info = got.info;
            }
            return Err(Box::new(SmallEnd::Alone(small)));
        }
        if self.options.keep.xattr_kinds() != 0 && got.xattrs.is_none() {
            // More than fits here.
            return Err(Box::new(SmallEnd::Alone(small)));
        }
        // One that is shorter than it was when it was listed is whole all the same.
        if small.size > 0 && len < small.size && got.info.size != Some(len) {
            let fault = shrank(len, small.size);
            return Err(Box::new(SmallEnd::Failed(small, FailedStep::ReadSource, fault)));
        }
        small.item.info = got.info;
        small.size = len;
        small.sum = self.options.reporting.sums.map(|algorithm| algorithm.sum(&got.data));
        Ok((small, got))
    }

    /// Download: ends a file that came whole. `made`: what came of making it without a name.
    pub(crate) fn place(&mut self, small: Small, got: &Got, made: Option<Made>) -> SmallEnd {
        let done = self.made_unnamed(&small.item, made);
        match done.unwrap_or_else(|| self.write(&small, got)) {
            Ok(()) => SmallEnd::Done(small),
            Err((step, fault)) => SmallEnd::Failed(small, step, fault),
        }
    }

    /// A whole file onto this host, overwritten in place as any other.
    fn write(&mut self, small: &Small, got: &Got) -> Result<(), (FailedStep, Fault)> {
        if self.options.placing.atomic
            && let Some(done) = self.place_small(&small.item, got)
        {
            return done;
        }
        if self.options.follows_no_links(&small.item) {
            local::remove_symlink(&small.item.target);
        }
        let mode = got.info.mode.unwrap_or(0o666) & 0o777;
        let opened = local::perform(Op::OpenWrite { path: &small.item.target, mode });
        let (handle, old) = match opened {
            Ok(Done::Opened(handle, info)) => (handle, info),
            outcome => return Err((FailedStep::OpenTarget, fault_of(outcome))),
        };
        let data = std::slice::from_ref(&got.data);
        local::write_all_at(&handle, 0, data).map_err(|fault| (FailedStep::WriteTarget, fault))?;
        let old_size = old.filter(|old| old.kind == Kind::File).and_then(|old| old.size);
        let change = Change {
            size: old_size.filter(|&old| old > small.size).map(|_| small.size),
            ..self.finish_small(&handle, &small.item, got, None)
        };
        if change != Change::default() {
            local::perform(Op::SetHandle { handle: &handle, change })
                .map_err(|fault| (FailedStep::FinishTarget, fault))?;
        }
        local::perform(Op::Close(handle)).map_err(|fault| (FailedStep::CloseTarget, fault))?;
        Ok(())
    }

    /// Makes all of these on this host, none of which is seen before it is complete; nothing where that is
    /// not the way.
    pub(crate) fn make_unnamed<'a>(&mut self, files: impl Iterator<Item = (&'a Item, &'a Got)>) -> Vec<Made> {
        if !self.options.placing.atomic || self.facts.small_files.named || self.facts.small_files.replacing {
            return Vec::new();
        }
        let (options, kinds) = (self.options, self.options.keep.xattr_kinds());
        let whole = |(item, got): (&'a Item, &'a Got)| {
            let ids = options.keep.ids_to_keep(got.info.ids);
            let change = Change {
                mode: got.info.mode.map(|mode| mode & if ids.is_some() { 0o7777 } else { 0o777 }),
                times: got.info.times,
                ..Change::default()
            };
            Whole {
                path: &item.target,
                data: &got.data,
                // Writable while it is being written, as scp has it.
                made_with: got.info.mode.unwrap_or(0o666) & 0o777 | 0o200,
                compared: options.verify != Verify::Off,
                ids,
                xattrs: got.xattrs.as_ref().map(|xattrs| (kinds, xattrs)),
                attrs: if options.preserve { change.to_attrs(true) } else { Attrs::NONE },
            }
        };
        let files: Vec<_> = files.map(whole).collect();
        self.facts.small_files.fs.make_whole(&files)
    }

    /// Takes what came of one of these files; `None` where the file has to be written in another way.
    fn made_unnamed(&mut self, item: &Item, made: Option<Made>) -> Option<Result<(), (FailedStep, Fault)>> {
        let filled = match made? {
            Made::Filled(filled) => filled,
            Made::Exists => {
                self.facts.small_files.replacing = true;
                return None;
            }
            Made::Unsupported => {
                self.facts.small_files.named = true;
                return None;
            }
            Made::Refused => return None,
        };
        for (step, error) in filled.not_kept {
            let what = if step == PutStep::Owner { NotKept::Owner } else { NotKept::Xattrs };
            self.facts.report_not_kept_at(what, &item.target, &local::fault(error), self.report);
        }
        Some(filled.outcome.map_err(|(step, error)| {
            let step = match step {
                PutStep::Write if error.kind() == ErrorKind::InvalidData => FailedStep::VerifyTarget,
                PutStep::Write => FailedStep::WriteTarget,
                _ => FailedStep::FinishTarget,
            };
            (step, local::fault(error))
        }))
    }

    /// Writes a whole file onto this host, where it cannot be seen before it is complete. `None` where it has
    /// to be written in place.
    fn place_small(&mut self, item: &Item, got: &Got) -> Option<Result<(), (FailedStep, Fault)>> {
        let old = match local::perform(Op::Lstat(&item.target)) {
            Ok(Done::Info(old)) if old.kind == Kind::File && old.links.unwrap_or(1) < 2 => Some(old),
            Err(fault) if fault.kind == FaultKind::NotFound => {
                self.facts.small_files.replacing = false;
                None
            }
            Ok(Done::Info(old)) if old.kind == Kind::Symlink && self.options.follows_no_links(item) => None,
            _ => return None,
        };
        let mode = old.and_then(|old| old.mode).or(got.info.mode).unwrap_or(0o666) & 0o777;
        let open = |part: &[u8]| local::perform(Op::OpenPart { path: part, mode, as_found: AsFound::Empty });
        let mut part = part_name(&item.target, &tag_of(item).unwrap_or_default());
        let mut opened = open(&part);
        if matches!(&opened, Err(fault) if fault.kind == FaultKind::Busy) {
            part = part_name(&item.target, &random_tag());
            opened = open(&part);
        }
        let (handle, ids) = match opened {
            Ok(Done::Opened(handle, info)) => (handle, info.and_then(|info| info.ids)),
            Err(fault) if fault.is_full() => return Some(Err((FailedStep::OpenTarget, fault))),
            _ => return None,
        };
        let ids = old.and_then(|old| old.ids).filter(|wanted| Some(*wanted) != ids);
        let give = Change { ids, ..Change::default() };
        if ids.is_some() && local::perform(Op::SetHandle { handle: &handle, change: give }).is_err() {
            let _ = local::perform(Op::Remove(&part));
            return None;
        }
        let done = self.fill_small(&handle, item, got, old.and_then(|old| old.mode)).and_then(|()| {
            local::place_open(&handle, &part, &item.target).map_err(|fault| (FailedStep::PlaceTarget, fault))
        });
        if done.is_err() {
            let _ = local::perform(Op::Remove(&part));
        }
        // Another copy may take the name from here on.
        drop(handle);
        Some(done)
    }

    fn fill_small(
        &mut self,
        handle: &Handle,
        item: &Item,
        got: &Got,
        old_mode: Option<u32>,
    ) -> Result<(), (FailedStep, Fault)> {
        let data = std::slice::from_ref(&got.data);
        local::write_all_at(handle, 0, data).map_err(|fault| (FailedStep::WriteTarget, fault))?;
        if self.options.verify != Verify::Off {
            match local::holds(handle, &got.data) {
                Ok(true) => {}
                Err(fault) => return Err((FailedStep::VerifyTarget, fault)),
                Ok(false) => {
                    let fault = Fault::other("what was written is not what was sent");
                    return Err((FailedStep::VerifyTarget, fault));
                }
            }
        }
        let change = self.finish_small(handle, item, got, old_mode);
        if change != Change::default() {
            local::perform(Op::SetHandle { handle, change })
                .map_err(|fault| (FailedStep::FinishTarget, fault))?;
        }
        Ok(())
    }

    /// Keeps what goes before mode and times. Returns what these are to be.
    fn finish_small(&mut self, handle: &Handle, item: &Item, got: &Got, old_mode: Option<u32>) -> Change {
        let owned = self.preserve_small(handle, item, got);
        let mask = Preserved::Done { owned }.mode_mask(0o777);
        let mode = if self.options.preserve { got.info.mode.map(|mode| mode & mask) } else { old_mode };
        let times = got.info.times.filter(|_| self.options.preserve);
        Change { mode, times, ..Change::default() }
    }

    /// Owner and attributes of a small file that came whole; returns whether it has the owner of the source.
    fn preserve_small(&mut self, handle: &Handle, item: &Item, got: &Got) -> bool {
        let mut owned = false;
        if let Some(ids) = self.options.keep.ids_to_keep(got.info.ids) {
            let give = |ids| {
                let change = Change { ids: Some(ids), ..Change::default() };
                local::perform(Op::SetHandle { handle, change })
            };
            owned = self.options.keep.owner;
            if let Err(fault) = give(ids) {
                owned = false;
                self.facts.report_not_kept_at(NotKept::Owner, &item.target, &fault, self.report);
                if ids.0 != u32::MAX && ids.1 != u32::MAX {
                    let _ = give((u32::MAX, ids.1));
                }
            }
        }
        if let Some(xattrs) = &got.xattrs
            && let Err(fault) = local::set_xattrs_of_open(handle, self.options.keep.xattr_kinds(), xattrs)
        {
            self.facts.report_not_kept_at(NotKept::Xattrs, &item.target, &fault, self.report);
        }
        owned
    }
}

#[cfg(test)]
mod tests;
