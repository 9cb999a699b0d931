//! Small files that came whole: onto this host, under another name first.

use crate::end::{AsFound, Change, Done, Fault, FaultKind, Got, Handle, Kind, Op};
use crate::local;
use crate::options::Verify;
use crate::wording::Deed;

use super::super::Engine;
use super::super::dirs::Item;
use super::{is_full, part_name, tag_of};

impl Engine {
    /// An attempt before this one has put this very file in its place; whether it is still there has to be looked at.
    pub(in crate::engine) fn may_be_done(&self, item: &Item) -> bool {
        self.journal.as_ref().zip(tag_of(item)).is_some_and(|(journal, tag)| journal.is_done(&tag))
    }

    /// A small file is in its place.
    pub(in crate::engine) fn note_done(&mut self, item: &Item, size: u64) {
        let mut item = item.clone();
        item.info.size = Some(size);
        if let (Some(journal), Some(tag)) = (&mut self.journal, tag_of(&item)) {
            journal.finish(&tag, b"");
        }
    }

    /// Writes a whole file onto this host, under another name first. `None` where it has to be written in place.
    pub(in crate::engine) fn place_small(&self, item: &Item, got: &Got) -> Option<Result<(), (Deed, Fault)>> {
        let old = match local::perform(Op::Lstat(&item.target)) {
            Ok(Done::Info(old)) if old.kind == Kind::File && old.links.unwrap_or(1) < 2 => Some(old),
            Err(fault) if fault.kind == FaultKind::NotFound => None,
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
        let done = self.fill_small(&part, &handle, item, got, old.and_then(|old| old.mode));
        if done.is_err() {
            let _ = local::perform(Op::Remove(&part));
        }
        Some(done)
    }

    pub(super) fn fill_small(
        &self,
        part: &[u8],
        handle: &Handle,
        item: &Item,
        got: &Got,
        old_mode: Option<u32>,
    ) -> Result<(), (Deed, Fault)> {
        let data = std::slice::from_ref(&got.data);
        local::write_all_at(handle, 0, data).map_err(|fault| (Deed::WriteTarget, fault))?;
        if self.options.verify != Verify::Off {
            match local::perform(Op::Peek { handle, offset: 0, len: got.data.len() as u32 }) {
                Ok(Done::Data(back)) if back.chunks().concat() == got.data => {}
                Err(fault) => return Err((Deed::VerifyTarget, fault)),
                Ok(_) => {
                    let fault = Fault::other("what was written is not what was sent");
                    return Err((Deed::VerifyTarget, fault));
                }
            }
        }
        let mode = if self.options.preserve { got.info.mode.map(|mode| mode & 0o777) } else { old_mode };
        let times = got.info.times.filter(|_| self.options.preserve);
        let change = Change { mode, times, ..Change::default() };
        if change != Change::default() {
            local::perform(Op::SetHandle { handle, change }).map_err(|fault| (Deed::FinishTarget, fault))?;
        }
        let rename = Op::Rename { old: part, new: &item.target };
        local::perform(rename).map(drop).map_err(|fault| (Deed::PlaceTarget, fault))
    }
}
