//! Decides whether a file is complete, continued or replaced, by the target's entries under its two names.

use crate::end::{AsFound, Info};
use crate::ends::Ends;
use crate::leftovers::Leftovers;
use crate::task::File;
use crate::task::probe::Probe;
use crate::{Direction, Options};

/// Rules of the decision that do not depend on the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundRules {
    /// The target is on a server.
    pub(crate) remote: bool,
    /// The target permits no rename.
    renames_barred: bool,
    /// The contents of what has the final name were found to be others.
    differs: bool,
    /// Times are kept.
    preserve: bool,
    /// A complete copy counts only with a digest of it.
    needs_sum: bool,
    /// A partial file of another program is continued.
    adopts_partial: bool,
}

/// Next step once both names are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterProbe {
    /// Writes under the final name.
    InPlace,
    /// The existing file is the complete copy.
    KeepComplete,
    /// Looks up the part name as well.
    LookAtPart,
    /// Compares what has the final name.
    Adopt,
    /// Opens the part file.
    Open(AsFound),
    /// Opens the part file; continues an existing one only if it belongs to this user. Its owner and group.
    OpenIfOurs(Option<(u32, u32)>),
}

impl FoundRules {
    pub(crate) fn new(options: &Options, ends: &Ends, direction: Direction) -> Self {
        Self {
            remote: ends.target.is_some(),
            renames_barred: ends.facts.renames_barred,
            differs: options.compares_contents(),
            preserve: options.preserve,
            needs_sum: options.reporting.needs_all_data(direction),
            adopts_partial: options.placing.adopt_partial,
        }
    }

    /// Returns the next step for `file`, which was probed. `can_digest`: both ends support digests, which are
    /// requested for few files.
    pub(crate) fn after_probe(
        self,
        file: &File,
        probe: &Probe,
        leftovers: &Leftovers,
        can_digest: impl Fn() -> bool,
    ) -> AfterProbe {
        if probe.in_place || self.renames_barred {
            return AfterProbe::InPlace;
        }
        if self.is_complete(file, leftovers) {
            return AfterProbe::KeepComplete;
        }
        if probe.part_unasked {
            return AfterProbe::LookAtPart;
        }
        if self.adopts(file, probe, leftovers, &can_digest) {
            return AfterProbe::Adopt;
        }
        let Some(found) = probe.found else { return AfterProbe::Open(AsFound::Fresh) };
        let known = file.place.part.as_deref().map_or(0, |part| leftovers.noted(part));
        let worth = found.size > 0 && may_continue(file) && (known > 0 || can_digest());
        match (worth, self.remote) {
            (true, true) => AfterProbe::OpenIfOurs(found.ids),
            (true, false) => AfterProbe::Open(AsFound::Kept),
            (false, true) => AfterProbe::Open(AsFound::Fresh),
            (false, false) => AfterProbe::Open(AsFound::Empty),
        }
    }

    /// An earlier attempt has put this very source in its place, and what is there has its size, and its time
    /// where that was kept.
    fn is_complete(self, file: &File, leftovers: &Leftovers) -> bool {
        let (Some(tag), Some(old), Some(journal)) = (&file.place.tag, &file.place.old, &leftovers.journal)
        else {
            return false;
        };
        let modified = |info: &Info| info.times.map(|times| times.modification.0);
        !self.differs
            && journal.is_done(tag)
            && (!self.needs_sum || journal.sum(tag).is_some())
            && old.size == Some(file.requests.size)
            && (!self.preserve || modified(old) == modified(&file.item.info))
    }

    /// What is under the final name may be right: because the answer to our rename was lost, or because
    /// something else has left a part of it there (`-Z`). False when it is not worth a comparison.
    fn adopts(
        self,
        file: &File,
        probe: &Probe,
        leftovers: &Leftovers,
        can_digest: impl Fn() -> bool,
    ) -> bool {
        let (Some(part), Some(old)) = (&file.place.part, &file.place.old) else { return false };
        let there = old.size.unwrap_or(0);
        if !may_continue(file) || probe.rejected || there == 0 {
            return false;
        }
        let whole = there == file.requests.size;
        let renamed = probe.found.is_none()
            && whole
            && leftovers.journal.as_ref().is_some_and(|journal| journal.knows(part))
            && (leftovers.noted(part) > 0 || can_digest());
        let partial = self.adopts_partial && there <= file.requests.size;
        renamed || partial
    }
}

/// Returns true if existing data of this very source may become part of the copy.
fn may_continue(file: &File) -> bool {
    file.place.tag.is_some() && !file.item.retry.fresh
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::end::{Kind, Times};
    use crate::item::Item;
    use crate::journal::Journal;
    use crate::task::place::{part_name, tag_of};
    use crate::task::probe::FoundPart;

    use super::*;

    const RULES: FoundRules = FoundRules {
        remote: true,
        renames_barred: false,
        differs: false,
        preserve: false,
        needs_sum: false,
        adopts_partial: false,
    };

    /// A file of 7 bytes; the target has this many under the final name.
    fn file(there: Option<u64>) -> File {
        let times = Some(Times { access: (0, 0), modification: (5, 0) });
        let info = Info { kind: Kind::File, size: Some(7), times, ..Info::UNKNOWN };
        let mut file = File::new(1, Item::top(b"s".to_vec(), b"t".to_vec(), info), Instant::now());
        file.place.tag = tag_of(&file.item);
        file.place.part = file.place.tag.map(|tag| part_name(b"t", &tag));
        file.place.old = there.map(|size| Info { size: Some(size), ..info });
        file.requests.size = 7;
        file
    }

    /// Data of an earlier attempt that has recorded this much of the part file.
    fn noted(file: &File, dir: &tempfile::TempDir, bytes: u64) -> Leftovers {
        let mut journal = Journal::open(&dir.path().join("journal"), true, None).expect("a journal");
        let part = file.place.part.as_deref().expect("a name");
        journal.begin(b"t", part);
        journal.advance(part, bytes);
        Leftovers::new(Some(journal))
    }

    fn found(size: u64) -> Probe {
        Probe { found: Some(FoundPart { size, ids: Some((1, 2)) }), left_over: true, ..Probe::default() }
    }

    #[test]
    fn part_files_are_continued_where_they_can_be_checked() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = file(None);
        let nothing = Leftovers::new(None);
        let local = FoundRules { remote: false, ..RULES };
        for (rules, digests, probe, expected) in [
            (RULES, true, Probe::default(), AfterProbe::Open(AsFound::Fresh)),
            (RULES, false, found(3), AfterProbe::Open(AsFound::Fresh)),
            (RULES, true, found(3), AfterProbe::OpenIfOurs(Some((1, 2)))),
            (RULES, true, found(0), AfterProbe::Open(AsFound::Fresh)),
            (local, false, found(3), AfterProbe::Open(AsFound::Empty)),
            (local, true, found(3), AfterProbe::Open(AsFound::Kept)),
        ] {
            let after = rules.after_probe(&file, &probe, &nothing, || digests);
            assert_eq!(after, expected, "{rules:?}, {digests}, {probe:?}");
        }
        let noted = noted(&file, &dir, 3);
        assert_eq!(
            RULES.after_probe(&file, &found(3), &noted, || false),
            AfterProbe::OpenIfOurs(Some((1, 2)))
        );
        assert_eq!(local.after_probe(&file, &found(3), &noted, || false), AfterProbe::Open(AsFound::Kept));
        // What is to be copied anew is not, also where the journal has noted a part of it.
        let mut again = file;
        again.item.retry.fresh = true;
        let fresh = AfterProbe::Open(AsFound::Fresh);
        assert_eq!(RULES.after_probe(&again, &found(3), &noted, || true), fresh);
        again.place.old = Some(Info { size: Some(7), ..again.item.info });
        assert_eq!(RULES.after_probe(&again, &Probe::default(), &noted, || true), fresh);
    }

    #[test]
    fn targets_without_rename_are_written_in_place() {
        let barred = FoundRules { renames_barred: true, ..RULES };
        let in_place = Probe { in_place: true, ..found(3) };
        let nothing = Leftovers::new(None);
        assert_eq!(barred.after_probe(&file(None), &found(3), &nothing, || false), AfterProbe::InPlace);
        assert_eq!(RULES.after_probe(&file(None), &in_place, &nothing, || false), AfterProbe::InPlace);
    }

    #[test]
    fn a_lost_answer_to_the_rename_is_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let renamed = file(Some(7));
        let leftovers = noted(&renamed, &dir, 7);
        let whole = AfterProbe::Adopt;
        assert_eq!(RULES.after_probe(&renamed, &Probe::default(), &leftovers, || false), whole);
        // Our name is still there, what is there has another length, or was compared already.
        let again = RULES.after_probe(&renamed, &found(7), &leftovers, || false);
        assert_eq!(again, AfterProbe::OpenIfOurs(Some((1, 2))));
        let fresh = AfterProbe::Open(AsFound::Fresh);
        assert_eq!(RULES.after_probe(&file(Some(6)), &Probe::default(), &leftovers, || false), fresh);
        let rejected = Probe { rejected: true, ..Probe::default() };
        assert_eq!(RULES.after_probe(&renamed, &rejected, &leftovers, || false), fresh);
        let unknown = Leftovers::new(None);
        assert_eq!(RULES.after_probe(&renamed, &Probe::default(), &unknown, || false), fresh);
    }

    #[test]
    fn part_files_of_other_programs_are_adopted_on_request() {
        let adopting = FoundRules { adopts_partial: true, ..RULES };
        let nothing = Leftovers::new(None);
        for (there, expected) in [
            (Some(3), AfterProbe::Adopt),
            (Some(7), AfterProbe::Adopt),
            (Some(8), AfterProbe::Open(AsFound::Fresh)),
            (Some(0), AfterProbe::Open(AsFound::Fresh)),
            (None, AfterProbe::Open(AsFound::Fresh)),
        ] {
            let after = adopting.after_probe(&file(there), &Probe::default(), &nothing, || false);
            assert_eq!(after, expected, "{there:?}");
        }
    }

    #[test]
    fn a_finished_copy_is_kept_while_it_is_still_the_copy() {
        let dir = tempfile::tempdir().expect("a directory");
        let copied = file(Some(7));
        let mut leftovers = noted(&copied, &dir, 7);
        if let (Some(journal), Some(tag)) = (&mut leftovers.journal, &copied.place.tag) {
            journal.finish(tag, copied.place.part.as_deref().expect("a name"));
            journal.flush();
        }
        // The next attempt.
        drop(leftovers);
        let leftovers = Leftovers::new(Journal::open(&dir.path().join("journal"), true, None));
        let likely = || Probe { part_unasked: true, ..Probe::default() };
        let keeping = FoundRules { preserve: true, ..RULES };
        assert_eq!(keeping.after_probe(&copied, &likely(), &leftovers, || false), AfterProbe::KeepComplete);
        let mut touched = file(Some(7));
        if let Some(old) = &mut touched.place.old {
            old.times = Some(Times { access: (0, 0), modification: (6, 0) });
        }
        assert_eq!(RULES.after_probe(&touched, &likely(), &leftovers, || false), AfterProbe::KeepComplete);
        for (rules, file) in [
            (keeping, &touched),
            (RULES, &file(Some(6))),
            (FoundRules { differs: true, ..RULES }, &copied),
            (FoundRules { needs_sum: true, ..RULES }, &copied),
        ] {
            assert_eq!(
                rules.after_probe(file, &likely(), &leftovers, || false),
                AfterProbe::LookAtPart,
                "{rules:?}"
            );
        }
    }
}
