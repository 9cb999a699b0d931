//! Under which name a file grows, and its way to the final one.
//!
//! A file appears under its final name when it is complete: until then it has a name of ours beside it, which says of
//! which source in which state it is a copy. So what an attempt that was cut off has left is found again, is gone on with
//! when it is right ([`super::check`]), and never taken for the copy of something else.
//!
//! Nothing may be different afterwards from what `scp` leaves: what is no plain file, has several names, another owner
//! that cannot be kept, or stands in a folder that takes no new names, is written in place. The mode of a file that
//! is replaced is kept, and a symbolic link leads to where the file is replaced.

use std::time::Instant;

use crate::end::{AsFound, Change, Done, Fault, FaultKind, Got, Handle, Info, Kind, Op, Outcome};
use crate::journal::{self, Tag};
use crate::local;
use crate::options::Verify;
use crate::table::Key;
use crate::wording::Deed;

use super::dirs::{Dir, Item};
use super::file::{FileStep, Phase};
use super::prepare::{fault_of, path_of};
use super::{Engine, Side, Token};

/// The end of our names.
const SUFFIX: &str = ".lhpart";

/// The longest name that file systems take.
const LONGEST_NAME: usize = 255;

/// Progress is noted in the journal each time so large a part of the file has come, within bounds.
const NOTE_PART: u64 = 128;
const NOTE_BYTES: std::ops::RangeInclusive<u64> = 256 * 1024..=32 << 20;

/// Which question about the place of a file an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlaceStep {
    /// What is under the final name?
    Target,
    /// Where does the link there lead?
    Link,
    /// What is under our name?
    Part,
    Open,
    /// Opening what is under the final name, to compare it.
    Adopt,
    /// Whose is it?
    Owner,
    /// Giving it to the owner of what it replaces.
    Give,
    /// The rename; with what it replaces out of the way.
    Rename,
    RemoveOld,
    RenameNew,
    /// What has failed for good.
    Discard,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Our name, and whether it is there (it is gone once the file is in its place).
    part: Option<Vec<u8>>,
    there: bool,
    tag: Option<Tag>,
    /// The plain file that is to be replaced.
    old: Option<Info>,
    /// Questions without answer before the place is known.
    asked: u8,
    /// What is under our name: how long.
    found: Option<u64>,
    /// There was something under our name.
    left_over: bool,
    /// What is under the final name is being compared, or gone on with: it may be our copy already.
    adopted: bool,
    /// It was not.
    rejected: bool,
    /// Only in place.
    unfit: bool,
    followed: bool,
    /// Up to where the journal knows.
    noted: u64,
    /// When the first question was asked, until it is answered.
    asked_at: Option<Instant>,
    /// It has been read back.
    pub(super) compared: bool,
    /// What was written is not what was sent.
    pub(super) corrupt: bool,
    /// What was there already has been compared, or there was nothing.
    pub(super) settled: bool,
}

impl Place {
    /// The name under which bytes are now, while that is not the final one.
    pub(super) fn growing(&self) -> Option<&[u8]> {
        self.part.as_deref().filter(|_| self.there)
    }

    /// The mode that a replaced file had.
    pub(super) fn mode_of_old(&self) -> Option<u32> {
        self.growing().and(self.old.as_ref()).and_then(|old| old.mode)
    }
}

/// The tag of a file's copy; none where there is no telling one state of the source from another.
fn tag_of(item: &Item) -> Option<Tag> {
    let size = item.info.size.filter(|&size| size > 0)?;
    Some(journal::tag(&item.source, &item.target, size, item.info.times?.modification))
}

/// The name under which the copy with this tag grows: beside the target.
pub(super) fn part_name(target: &[u8], tag: &Tag) -> Vec<u8> {
    let (folder, name) = match target.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (Some(&target[..=slash]), &target[slash + 1..]),
        None => (None, target),
    };
    let behind = format!(".{}{SUFFIX}", journal::hex(&tag[..6]));
    let name = &name[..name.len().min(LONGEST_NAME - 1 - behind.len())];
    [folder.unwrap_or_default(), b".", name, behind.as_bytes()].concat()
}

impl Engine {
    /// The source is open: where does the copy go?
    pub(super) fn find_place(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        if !self.options.atomic || self.options.resume || file.item.target.ends_with(b"/") {
            return self.open_target(key);
        }
        let target = file.item.target.clone();
        let tag = tag_of(&file.item);
        file.place.tag = tag;
        file.place.part = Some(part_name(&target, &tag.unwrap_or_default()));
        if file.item.parent.and_then(|key| self.dirs.get(key)).is_some_and(Dir::created) {
            return self.open_part(key, AsFound::Fresh);
        }
        self.look(key, &target);
    }

    /// An attempt before this one has put this very file in its place; whether it is still there has to be looked at.
    pub(super) fn may_be_done(&self, item: &Item) -> bool {
        self.journal.as_ref().zip(tag_of(item)).is_some_and(|(journal, tag)| journal.is_done(&tag))
    }

    /// A small file is in its place.
    pub(super) fn note_done(&mut self, item: &Item, size: u64) {
        let mut item = item.clone();
        item.info.size = Some(size);
        if let (Some(journal), Some(tag)) = (&mut self.journal, tag_of(&item)) {
            journal.finish(&tag, b"");
        }
    }

    /// Writes a whole file onto this host, under another name first. `None` where it has to be written in place.
    pub(super) fn place_small(&self, item: &Item, got: &Got) -> Option<Result<(), (Deed, Fault)>> {
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

    fn fill_small(
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

    /// Asks what is under the final name, and what under ours beside it.
    fn look(&mut self, key: Key, target: &[u8]) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(part) = file.place.part.clone() else { return };
        file.place.asked = 2;
        file.place.asked_at = Some(self.now);
        file.outstanding += 2;
        self.start(Side::Target, Op::Lstat(target), Token::File(key, FileStep::Place(PlaceStep::Target)));
        self.start(Side::Target, Op::Lstat(&part), Token::File(key, FileStep::Place(PlaceStep::Part)));
    }

    pub(super) fn place_answer(&mut self, key: Key, step: PlaceStep, outcome: Outcome) {
        let simple_rename = self.rename_is_simple();
        if let Some(asked) = self.files.get_mut(key).and_then(|file| file.place.asked_at.take()) {
            self.note_round_trip(Side::Target, asked);
        }
        let over_links = self.files.get(key).is_some_and(|file| self.follows_no_links(&file.item));
        let Some(file) = self.files.get_mut(key) else { return };
        let lost = matches!(&outcome, Err(fault) if fault.kind == FaultKind::Lost);
        if lost && file.phase == Phase::Opening {
            return self.file_failed(key, Deed::OpenTarget, &fault_of(outcome));
        }
        match step {
            PlaceStep::Target | PlaceStep::Part => {
                file.place.asked -= 1;
                match (step, outcome) {
                    (PlaceStep::Target, Ok(Done::Info(info))) => match info.kind {
                        Kind::File if info.links.unwrap_or(1) < 2 => file.place.old = Some(info),
                        // What is moved over it takes its place.
                        Kind::Symlink if over_links => {}
                        Kind::Symlink if !file.place.followed => return self.follow_target(key),
                        _ => file.place.unfit = true,
                    },
                    (PlaceStep::Target, Err(fault)) if fault.kind == FaultKind::NotFound => {}
                    (PlaceStep::Target, _) => file.place.unfit = true,
                    (_, Ok(Done::Info(info))) => match info.kind {
                        Kind::File => {
                            file.place.found = Some(info.size.unwrap_or(0));
                            file.place.left_over = true;
                        }
                        // Somebody wants us to write elsewhere.
                        _ => file.place.unfit = true,
                    },
                    (_, _) => {}
                }
                if file.place.asked == 0 {
                    self.place_known(key);
                }
            }
            PlaceStep::Link => match path_of(outcome) {
                Ok(target) if !file.failed => {
                    let tag = file.place.tag.unwrap_or_default();
                    file.place.part = Some(part_name(&target, &tag));
                    file.item.target = target.clone();
                    self.look(key, &target);
                }
                // It leads nowhere yet: writing through it makes the file there.
                _ => self.open_target(key),
            },
            PlaceStep::Open => self.part_opened(key, outcome),
            PlaceStep::Adopt => self.adopted(key, outcome),
            PlaceStep::Owner => match outcome {
                Ok(Done::Info(info)) => self.owner_known(key, info.ids),
                _ => self.owner_known(key, None),
            },
            PlaceStep::Give => match outcome {
                Ok(_) => self.look_at_found(key),
                Err(_) => self.give_up_part(key),
            },
            PlaceStep::Rename => match outcome {
                Ok(_) => self.placed(key),
                Err(fault) if fault.kind != FaultKind::Lost && simple_rename => {
                    // A server that cannot replace: there is a moment without either.
                    file.outstanding += 1;
                    let target = file.item.target.clone();
                    let token = Token::File(key, FileStep::Place(PlaceStep::RemoveOld));
                    self.start(Side::Target, Op::Remove(&target), token);
                }
                Err(fault) => self.file_failed(key, Deed::PlaceTarget, &fault),
            },
            PlaceStep::RemoveOld => {
                file.outstanding += 1;
                let (part, target) = (file.written_path().to_vec(), file.item.target.clone());
                let token = Token::File(key, FileStep::Place(PlaceStep::RenameNew));
                self.start(Side::Target, Op::RenameNew { old: &part, new: &target }, token);
            }
            PlaceStep::RenameNew => match outcome {
                Ok(_) => self.placed(key),
                Err(fault) => self.file_failed(key, Deed::PlaceTarget, &fault),
            },
            // That it is still there says nothing new.
            PlaceStep::Discard => {}
        }
    }

    /// The target is a symbolic link: the file it leads to is what is replaced.
    fn follow_target(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        file.place.followed = true;
        // The answer about our name beside the link does not matter any more; it is still to come.
        file.place.asked = u8::MAX;
        file.outstanding += 1;
        let target = file.item.target.clone();
        self.start(Side::Target, Op::RealPath(&target), Token::File(key, FileStep::Place(PlaceStep::Link)));
    }

    /// All is known that there was to ask.
    fn place_known(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        if file.failed {
            return;
        }
        if file.place.unfit {
            return self.open_target(key);
        }
        if self.is_complete(key) {
            return self.keep_complete(key);
        }
        if self.adopt_target(key) {
            return;
        }
        let Some(file) = self.files.get(key) else { return };
        let worth = file.place.found.is_some_and(|found| found > 0) && file.place.tag.is_some();
        let known = file.place.part.as_deref().map_or(0, |part| self.noted(part));
        let as_found = match file.place.found {
            None => AsFound::Fresh,
            Some(_) if worth && (self.can_digest() || known > 0) => AsFound::Kept,
            Some(_) => AsFound::Empty,
        };
        if as_found != AsFound::Kept
            && let Some(file) = self.files.get_mut(key)
        {
            file.place.found = None;
        }
        self.discard_outdated(key);
        self.open_part(key, as_found);
    }

    fn noted(&self, part: &[u8]) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.upto(part))
    }

    /// An earlier attempt has put this very source in its place, and what is there has its size, and its time where that was
    /// kept.
    fn is_complete(&self, key: Key) -> bool {
        let Some(file) = self.files.get(key) else { return false };
        let (Some(tag), Some(old), Some(journal)) = (&file.place.tag, &file.place.old, &self.journal) else {
            return false;
        };
        let modified = |info: &Info| info.times.map(|times| times.modification.0);
        journal.is_done(tag)
            && old.size == Some(file.size)
            && (!self.options.preserve || modified(old) == modified(&file.item.info))
    }

    /// What is under the final name may be right: because the answer to our rename was lost, or because something else has
    /// left a part of it there (`-Z`). Opens it for comparison; false when it is not worth it.
    fn adopt_target(&mut self, key: Key) -> bool {
        let Some(file) = self.files.get(key) else { return false };
        let (Some(part), Some(old)) = (&file.place.part, &file.place.old) else { return false };
        let there = old.size.unwrap_or(0);
        let renamed = file.place.found.is_none()
            && there == file.size
            && self.journal.as_ref().is_some_and(|journal| journal.knows(part))
            && (self.can_digest() || self.noted(part) > 0);
        let partial = self.options.adopt_partial && (1..=file.size).contains(&there);
        if !(renamed || partial) || file.place.tag.is_none() || file.place.rejected || there == 0 {
            return false;
        }
        let Some(file) = self.files.get_mut(key) else { return false };
        file.outstanding += 1;
        let (target, mode) = (file.item.target.clone(), 0o600);
        let op = if there == file.size {
            Op::OpenRead(&target)
        } else {
            Op::OpenPart { path: &target, mode, as_found: AsFound::Kept }
        };
        self.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Adopt)));
        true
    }

    fn adopted(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Ok(Done::Opened(handle, _)) = outcome else {
            file.place.rejected = true;
            return self.place_known(key);
        };
        file.target = Some(handle);
        file.place.adopted = true;
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        file.old_size = Some(there);
        file.holes.blank_from = there;
        let partial = self.options.adopt_partial;
        self.begin_check(key, there, there, partial);
    }

    /// The comparison says that the first `kept` bytes are right. True when the data may follow.
    pub(super) fn accept_found(&mut self, key: Key, kept: u64) -> bool {
        let Some(file) = self.files.get_mut(key) else { return false };
        if !file.place.adopted {
            return true;
        }
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        if kept < there {
            // Something else, and it stays until the copy is complete.
            file.place.adopted = false;
            file.place.rejected = true;
            file.resume_at(0);
            if let Some(handle) = file.target.take() {
                self.start(Side::Target, Op::Close(handle), Token::Nothing);
            }
            self.place_known(key);
            return false;
        }
        if kept < file.size {
            return true;
        }
        if let Some(handle) = file.target.take() {
            self.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(file) = self.files.get_mut(key)
            && let (Some(journal), Some(tag), Some(part)) =
                (&mut self.journal, &file.place.tag, &file.place.part)
        {
            journal.finish(tag, part);
        }
        self.keep_complete(key);
        false
    }

    fn keep_complete(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        let size = file.size;
        file.resume_at(size);
        file.all_requested = true;
        self.close_file(key);
    }

    /// What grew here of an earlier state of the source is nobody's any more.
    fn discard_outdated(&mut self, key: Key) {
        let Some(file) = self.files.get(key) else { return };
        let (Some(part), Some(journal)) = (&file.place.part, &mut self.journal) else { return };
        let outdated = journal.outdated(&file.item.target, part);
        outdated.iter().for_each(|outdated| journal.forget(outdated));
        for outdated in outdated {
            self.start(Side::Target, Op::Remove(&outdated), Token::Nothing);
        }
    }

    fn open_part(&mut self, key: Key, as_found: AsFound) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(part) = file.place.part.clone() else { return self.open_target(key) };
        file.place.asked_at = Some(self.now);
        file.outstanding += 1;
        let mode = file.place.old.as_ref().and_then(|old| old.mode).or(file.item.info.mode).unwrap_or(0o666);
        let op = Op::OpenPart { path: &part, mode, as_found };
        self.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Open)));
    }

    fn part_opened(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        let (handle, info) = match outcome {
            Ok(Done::Opened(handle, info)) => (handle, info),
            outcome => {
                let fault = fault_of(outcome);
                if is_full(&fault) {
                    // In place it would cost what is there.
                    return self.file_failed(key, Deed::OpenTarget, &fault);
                }
                if std::mem::take(&mut file.place.left_over)
                    && let Some(part) = file.place.part.clone()
                {
                    // Not to be written to by us any more: out of the way.
                    file.place.found = None;
                    self.start(Side::Target, Op::Remove(&part), Token::Nothing);
                    return self.open_part(key, AsFound::Fresh);
                }
                return self.open_target(key);
            }
        };
        file.target = Some(handle.clone());
        file.place.there = true;
        file.old_size = info.and_then(|info| info.size);
        // A file that is new, or was cut to nothing, holds nothing.
        file.holes.blank_from = file.old_size.or(file.place.found).unwrap_or(0);
        if let (Some(journal), Some(part), true) =
            (&mut self.journal, &file.place.part, file.place.tag.is_some())
        {
            journal.begin(&file.item.target, part);
        }
        match (file.place.old.as_ref().and_then(|old| old.ids), info) {
            (None, _) => self.look_at_found(key),
            (Some(_), Some(info)) => self.owner_known(key, info.ids),
            (Some(_), None) => {
                file.outstanding += 1;
                let token = Token::File(key, FileStep::Place(PlaceStep::Owner));
                self.start(Side::Target, Op::Fstat(&handle), token);
            }
        }
    }

    fn owner_known(&mut self, key: Key, ids: Option<(u32, u32)>) {
        let Some(file) = self.files.get_mut(key) else { return };
        let wanted = file.place.old.as_ref().and_then(|old| old.ids);
        if ids == wanted || file.failed {
            return self.look_at_found(key);
        }
        let Some(handle) = file.target.clone() else { return };
        file.outstanding += 1;
        let change = Change { ids: wanted, ..Change::default() };
        let token = Token::File(key, FileStep::Place(PlaceStep::Give));
        self.start(Side::Target, Op::SetHandle { handle: &handle, change }, token);
    }

    /// The owner cannot be kept: in place, then.
    fn give_up_part(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        file.place.there = false;
        file.place.tag = None;
        let (handle, part) = (file.target.take(), file.place.part.take());
        if let Some(handle) = handle {
            self.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(part) = part {
            if let Some(journal) = &mut self.journal {
                journal.forget(&part);
            }
            self.start(Side::Target, Op::Remove(&part), Token::Nothing);
        }
        self.open_target(key);
    }

    fn look_at_found(&mut self, key: Key) {
        let Some(file) = self.files.get(key).filter(|file| !file.failed) else { return };
        match file.place.found {
            Some(found) => {
                let known = file.place.part.as_deref().map_or(0, |part| self.noted(part));
                self.begin_check(key, found, known, false);
            }
            None => self.begin_data(key),
        }
    }

    /// So much of a file has come: from time to time the journal hears of it.
    pub(super) fn note_progress(&mut self, key: Key) {
        let (Some(journal), Some(file)) = (&mut self.journal, self.files.get_mut(key)) else { return };
        let step = (file.size / NOTE_PART).clamp(*NOTE_BYTES.start(), *NOTE_BYTES.end());
        if file.place.there && file.good_end() >= file.place.noted + step {
            file.place.noted = file.good_end();
            if let Some(part) = &file.place.part {
                journal.advance(part, file.place.noted);
                // Seldom enough, and worth more than what waits for the end of a turn.
                journal.flush();
            }
        }
    }

    /// Everything is written and closed: gives the file its name, or clears up behind a failure. False when there is
    /// nothing (more) to do.
    pub(super) fn settle_place(&mut self, key: Key) -> bool {
        let Some(file) = self.files.get_mut(key) else { return false };
        let Some(part) = file.place.growing().map(<[u8]>::to_vec) else { return false };
        let step = if !file.failed {
            PlaceStep::Rename
        } else if !file.place.settled {
            // Nothing is known about what is there, which is no reason to throw it away.
            return false;
        } else if file.place.corrupt || file.good_end() == 0 || file.place.tag.is_none() {
            // Nothing to go on with.
            file.place.there = false;
            if let Some(journal) = &mut self.journal {
                journal.forget(&part);
            }
            PlaceStep::Discard
        } else {
            let good = file.good_end();
            if let Some(journal) = &mut self.journal {
                journal.advance(&part, good);
            }
            return false;
        };
        if self.target.as_ref().is_some_and(|remote| remote.lost()) {
            return false;
        }
        file.outstanding += 1;
        let target = file.item.target.clone();
        let op = match step {
            PlaceStep::Rename => Op::Rename { old: &part, new: &target },
            _ => Op::Remove(&part),
        };
        self.start(Side::Target, op, Token::File(key, FileStep::Place(step)));
        true
    }

    /// The server's only rename is the protocol's own, which must not replace anything.
    fn rename_is_simple(&self) -> bool {
        let posix = lh_sftp::extension::POSIX_RENAME;
        self.target.as_ref().is_some_and(|remote| !remote.session().supports(posix))
    }

    fn placed(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        file.place.there = false;
        if let (Some(journal), Some(tag), Some(part)) = (&mut self.journal, &file.place.tag, &file.place.part)
        {
            journal.finish(tag, part);
        }
    }

    /// A copy that turned out wrong is made once more; true when it is.
    pub(super) fn try_again(&mut self, key: Key) -> bool {
        let again = |file: &mut super::File| file.place.corrupt && !file.item.again;
        if !self.files.get_mut(key).is_some_and(again) || self.cancelled || self.summary.lost {
            return false;
        }
        let Some(file) = self.files.get(key) else { return false };
        let mut item = file.item.clone();
        item.again = true;
        let parent = item.parent.and_then(|parent| self.dirs.get_mut(parent));
        if let Some(parent) = parent {
            // The one that ends now is counted out.
            parent.count_in();
        }
        self.forget_file(key);
        self.begin_item(item);
        true
    }

    /// This process ends here: the journal learns how far each file has come.
    pub(crate) fn leave(&mut self) {
        for key in self.files.keys() {
            if let (Some(journal), Some(file)) = (&mut self.journal, self.files.get_mut(key))
                && let Some(part) = file.place.growing().filter(|_| file.place.settled)
            {
                journal.advance(part, file.good_end());
            }
        }
        self.keep_journal();
    }

    /// Writes the journal, or removes it when the copy has come to its end.
    pub(super) fn keep_journal(&mut self) {
        if self.journal.is_none() {
            return;
        }
        let ended = self.is_finished() && !self.cancelled && !self.summary.lost;
        if let Some(mut journal) = self.journal.take() {
            if ended {
                journal.remove();
            } else {
                journal.flush();
                self.journal = Some(journal);
            }
        }
    }
}

/// Trying elsewhere on the same disk would not help.
fn is_full(fault: &Fault) -> bool {
    ["No space left on device", "Disk quota exceeded"].contains(&fault.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_stand_beside_the_target_and_fit() {
        let tag = [0xab; 16];
        assert_eq!(part_name(b"dir/file", &tag), b"dir/.file.abababababab.lhpart");
        assert_eq!(part_name(b"/f", &tag), b"/.f.abababababab.lhpart");
        let long = [b'x'; 255];
        let name = part_name(&[b"d/", &long[..]].concat(), &tag);
        assert_eq!(name.len(), 2 + 255);
        assert!(name.ends_with(b".abababababab.lhpart"));
    }
}
