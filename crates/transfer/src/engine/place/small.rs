//! Small files that came whole: onto this host, without a name until they are complete, or under another one.

use std::io::ErrorKind;

use crate::end::{AsFound, Change, Done, Fault, FaultKind, Got, Handle, Kind, Op};
use crate::local;
use crate::options::Verify;
use crate::wording::Deed;

use super::super::Engine;
use super::super::dirs::Item;
use super::super::extras::Extras;
use super::{is_full, part_name, tag_of, tag_with};

/// What has been learnt of the place where small files are written to.
#[derive(Debug, Default)]
pub(in crate::engine) struct Habits {
    /// Files cannot be without a name there.
    named: bool,
    /// The last file replaced another: so will the next, perhaps.
    replacing: bool,
}

impl Engine {
    /// An attempt before this one has put this very file in its place; whether it is still there has to be looked at.
    pub(in crate::engine) fn may_be_done(&self, item: &Item) -> bool {
        let journal = self.journal.as_ref().filter(|journal| journal.goes_on());
        journal.is_some_and(|journal| tag_of(item).is_some_and(|tag| journal.is_done(&tag)))
    }

    /// A small file is in its place.
    pub(in crate::engine) fn note_done(&mut self, item: &Item, size: u64) {
        if let Some(journal) = &mut self.journal
            && let Some(tag) = tag_with(item, Some(size))
        {
            journal.finish(&tag, b"");
        }
    }

    /// Writes a whole file onto this host, where nobody sees it before it is complete. `None` where it has to be written in place.
    pub(in crate::engine) fn place_small(
        &mut self,
        item: &Item,
        got: &Got,
    ) -> Option<Result<(), (Deed, Fault)>> {
        if let Some(done) = self.place_unnamed(item, got) {
            return Some(done);
        }
        let old = match local::perform(Op::Lstat(&item.target)) {
            Ok(Done::Info(old)) if old.kind == Kind::File && old.links.unwrap_or(1) < 2 => Some(old),
            Err(fault) if fault.kind == FaultKind::NotFound => {
                self.habits.replacing = false;
                None
            }
            Ok(Done::Info(old)) if old.kind == Kind::Symlink && self.follows_no_links(item) => None,
            _ => return None,
        };
        let part = part_name(&item.target, &tag_of(item).unwrap_or_default());
        let mode = old.and_then(|old| old.mode).or(got.info.mode).unwrap_or(0o666) & 0o777;
        let opened = local::perform(Op::OpenPart { path: &part, mode, as_found: AsFound::Empty });
        let (handle, ids) = match opened {
            Ok(Done::Opened(handle, info)) => (handle, info.and_then(|info| info.ids)),
            Err(fault) if is_full(&fault) => return Some(Err((Deed::OpenTarget, fault))),
            _ => return None,
        };
        let ids = old.and_then(|old| old.ids).filter(|wanted| Some(*wanted) != ids);
        let give = Change { ids, ..Change::default() };
        if ids.is_some() && local::perform(Op::SetHandle { handle: &handle, change: give }).is_err() {
            let _ = local::perform(Op::Remove(&part));
            return None;
        }
        let rename = Op::Rename { old: &part, new: &item.target };
        let done = self.fill_small(&handle, item, got, old.and_then(|old| old.mode)).and_then(|()| {
            local::perform(rename).map(drop).map_err(|fault| (Deed::PlaceTarget, fault))
        });
        if done.is_err() {
            let _ = local::perform(Op::Remove(&part));
        }
        Some(done)
    }

    /// Without a name until it is complete. `None` where that is not the way: something is there, or there are no such files.
    fn place_unnamed(&mut self, item: &Item, got: &Got) -> Option<Result<(), (Deed, Fault)>> {
        if self.habits.named || self.habits.replacing {
            return None;
        }
        let handle = match local::open_unnamed(&item.target, got.info.mode.unwrap_or(0o666)) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.habits.named = true;
                return None;
            }
            handle => handle.ok()?,
        };
        let filled = self.fill_small(&handle, item, got, None);
        if filled.is_ok()
            && let Err(error) = local::give_name(&handle, &item.target)
        {
            match error.kind() {
                ErrorKind::AlreadyExists => self.habits.replacing = true,
                _ => self.habits.named = true,
            }
            return None;
        }
        Some(filled)
    }

    fn fill_small(
        &mut self,
        handle: &Handle,
        item: &Item,
        got: &Got,
        old_mode: Option<u32>,
    ) -> Result<(), (Deed, Fault)> {
        let data = std::slice::from_ref(&got.data);
        local::write_all_at(handle, 0, data).map_err(|fault| (Deed::WriteTarget, fault))?;
        if self.options.verify != Verify::Off {
            match local::holds(handle, &got.data) {
                Ok(true) => {}
                Err(fault) => return Err((Deed::VerifyTarget, fault)),
                Ok(false) => {
                    let fault = Fault::other("what was written is not what was sent");
                    return Err((Deed::VerifyTarget, fault));
                }
            }
        }
        let change = self.finish_small(handle, item, got, old_mode);
        if change != Change::default() {
            local::perform(Op::SetHandle { handle, change }).map_err(|fault| (Deed::FinishTarget, fault))?;
        }
        Ok(())
    }

    /// Keeps what goes before mode and times; says what these are to be.
    pub(in crate::engine) fn finish_small(
        &mut self,
        handle: &Handle,
        item: &Item,
        got: &Got,
        old_mode: Option<u32>,
    ) -> Change {
        let owned = self.keep_extras_of_small(handle, item, got);
        let mask = Extras::Done { owned }.mode_mask(0o777);
        let mode = if self.options.preserve { got.info.mode.map(|mode| mode & mask) } else { old_mode };
        let times = got.info.times.filter(|_| self.options.preserve);
        Change { mode, times, ..Change::default() }
    }
}
