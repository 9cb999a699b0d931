//! The name under which a file grows, and its way to the final name.
//!
//! A file appears under its final name when it is complete: until then it has a name of ours beside it, which
//! says of which source in which state it is a copy. So what an attempt that was cut off has left is found
//! again, is continued when it is right, and never taken for the copy of something else.
//!
//! Nothing may be different afterwards from what `scp` leaves: what is no plain file, has several names,
//! another owner that cannot be kept, or stands in a directory that takes no new names, is written in place.
//! The mode of a file that is replaced is kept, and a symbolic link leads to where the file is replaced. So
//! is everything where the server permits no rename, or make files under names of ours.
//!
//! What is to be asked is started here; what follows for the file beyond its names is returned as
//! [`PlaceNext`].
//!
//! | module | what |
//! |---|---|
//! | [`answers`] | what the target's end says |
//! | [`found`] | whether an existing file is continued |
//! | [`finish`] | the final name, and the notes in the journal |

mod answers;
mod finish;
mod found;
#[cfg(test)]
mod tests;

use std::time::Instant;

use crate::end::{AsFound, Fault, Op};
use crate::ends::Ends;
use crate::leftovers::Leftovers;
use crate::names::display_name;
use crate::report::Reporter;
use crate::sync::backup::Backups;
use crate::table::{Key, Table};
use crate::target_facts::Overwriting;
use crate::task::File;
use crate::task::place::{part_name, random_tag, tag_of};
use crate::task::probe::{OpeningPart, Probe};
use crate::task::queues::Tasks;
use crate::task::state::{Found, Opening, State};
use crate::token::{FileStep, PlaceStep, Side, Token};
use crate::tree::Dir;
use crate::wording::FailedStep;
use crate::{Event, Options, Plan, local};

/// The names of the files on their way.
#[derive(Debug)]
pub(crate) struct PartFiles<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) options: &'a Options,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) dirs: &'a Table<Dir>,
    pub(crate) leftovers: &'a mut Leftovers,
    pub(crate) backups: &'a mut Backups,
    pub(crate) report: &'a mut Reporter,
    pub(crate) now: Instant,
}

/// What follows for a file.
#[derive(Debug)]
pub(crate) enum PlaceNext {
    /// Nothing before another answer has come.
    Wait,
    /// It is written under its final name.
    InPlace,
    /// The first `found` bytes of the existing file are compared; the journal vouches for `known` of them.
    /// `whole`: all of them, where there are no digests.
    Check {
        of: Found,
        found: u64,
        known: u64,
        whole: bool,
    },
    /// It is open and empty: the data follow.
    Data,
    /// What is under the final name is open and right: the data follow behind it.
    Continue,
    /// What is there is the copy, whose sum this is.
    Complete(Option<Vec<u8>>),
    Failed(FailedStep, Fault),
}

impl PartFiles<'_> {
    /// The source is open: where does the copy go?
    pub(crate) fn find(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        if !self.options.placing.atomic || file.item.target.ends_with(b"/") {
            return PlaceNext::InPlace;
        }
        // What has the final name is to be continued; for an upload the server was asked before.
        let goes_on = self.options.placing.resume && !file.item.retry.fresh;
        if goes_on && local::perform(Op::Lstat(&file.item.target)).is_ok() {
            return PlaceNext::InPlace;
        }
        self.find_new(key)
    }

    /// Like [`Self::find`], where nothing under the final name is to be continued.
    pub(crate) fn find_new(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return PlaceNext::Wait;
        };
        if !self.options.placing.atomic || file.item.retry.in_place || self.ends.facts.renames_barred {
            return PlaceNext::InPlace;
        }
        let target = file.item.target.clone();
        if file.item.retry.own_name {
            file.place.tag = None;
            return self.open_under_own_name(key);
        }
        let tag = tag_of(&file.item);
        file.place.tag = tag;
        file.place.part = Some(part_name(&target, &tag.unwrap_or_default()));
        if self.is_name_free(key) {
            return self.open_part(key, AsFound::Fresh, OpeningPart::default());
        }
        self.probe_names(key, &target, Probe::default());
        PlaceNext::Wait
    }

    /// Nothing can be there under either name: the directory is new. Servers exist that report the creation
    /// of a directory, and then of a part file, that were there.
    fn is_name_free(&self, key: Key) -> bool {
        let Some(File { item, .. }) = self.tasks.files.get(key) else { return false };
        let new = item.parent.and_then(|key| self.dirs.get(key)).is_some_and(Dir::created);
        let known = self.leftovers.may_be_done(item) || self.leftovers.may_have_part(item);
        new && !known && item.retry.redone == 0 && self.ends.facts.overwriting != Overwriting::Never
    }

    /// Asks what is under the final name, and what under ours beside it.
    fn probe_names(&mut self, key: Key, target: &[u8], probe: Probe) {
        let likely = self.tasks.files.get(key).is_some_and(|file| self.leftovers.may_be_done(&file.item));
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let followed = probe.followed;
        file.state = State::Probing(Probe { part_unasked: likely, ..probe });
        file.place.asked_at = Some(self.now);
        self.ask(key, target, PlaceStep::Target { followed });
        if !likely {
            self.look_at_part(key);
        }
    }

    fn look_at_part(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(probe) = file.state.probe_mut() else { return };
        probe.part_unasked = false;
        let followed = probe.followed;
        if let Some(part) = file.place.part.clone() {
            self.ask(key, &part, PlaceStep::Part { followed });
        }
    }

    fn ask(&mut self, key: Key, path: &[u8], step: PlaceStep) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(probe) = file.state.probe_mut() else { return };
        probe.unanswered += 1;
        file.outstanding += 1;
        self.ends.start(Side::Target, Op::Lstat(path), Token::File(key, FileStep::Place(step)));
    }

    /// The target is a symbolic link: the file it leads to is what is replaced. The end may refuse to follow
    /// the link for this user (Linux with `fs.protected_symlinks`), and would still say where it leads. So it
    /// is followed first, by STAT.
    fn follow_target(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        // The answer about the part name beside the link is still to come, and no longer matters.
        file.state = State::Probing(Probe::behind_link());
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Place(PlaceStep::BehindLink));
        self.ends.start(Side::Target, Op::Stat(&file.item.target), token);
    }

    /// The link may be followed: where does it lead?
    fn resolve_target(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Place(PlaceStep::Link));
        self.ends.start(Side::Target, Op::RealPath(&file.item.target), token);
    }

    /// Opens a part file with a random name, which nothing can go on with later.
    fn open_under_own_name(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        file.place.part = Some(part_name(&file.item.target, &random_tag()));
        self.open_part(key, AsFound::Fresh, OpeningPart { random: true, ..OpeningPart::default() })
    }

    fn open_part(&mut self, key: Key, as_found: AsFound, mut opening: OpeningPart) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        if file.place.part.is_some() && self.ends.facts.opens_like_scp() {
            // Whatever has the name would be emptied: it is one that nothing else can know.
            file.place.part = Some(part_name(&file.item.target, &random_tag()));
            opening = OpeningPart { random: true, emptied: true, ..OpeningPart::default() };
        }
        let Some(part) = &file.place.part else { return PlaceNext::InPlace };
        file.state = State::Opening(Opening::Part(opening));
        match &mut self.leftovers.journal {
            Some(journal) if opening.random => {
                // The next attempt finds this name nowhere else.
                journal.begin(&file.item.target, part);
                journal.flush();
            }
            Some(journal) if file.place.tag.is_some() => journal.note_opening(&file.item.target),
            _ => {}
        }
        file.place.asked_at = Some(self.now);
        file.outstanding += 1;
        let mode = file.place.old.as_ref().and_then(|old| old.mode).or(file.item.info.mode).unwrap_or(0o666);
        let op = match opening.emptied {
            true => Op::OpenEmptied { path: part, mode },
            false => Op::OpenPart { path: part, mode, as_found },
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Open)));
        PlaceNext::Wait
    }

    fn report_in_place(&mut self, key: Key, why: &Fault) {
        if let Some(file) = self.tasks.files.get(key) {
            let text = format!("\"{}\" is written in place: {}", display_name(&file.item.target), why.text);
            self.report.event(Event::Notice { text });
        }
    }
}
