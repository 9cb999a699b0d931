//! Compares what both ends have in one directory, so that what is unchanged costs no request.

use std::collections::HashSet;

use crate::end::{Entry, Info, Kind};
use crate::select::Selection;
use crate::sync::extraneous::is_deletable;
use crate::sync::terms::Terms;

/// The entries of both ends, in the order of their names, each name once.
#[derive(Debug)]
pub(crate) struct Listings {
    source: Vec<Entry>,
    target: Vec<Entry>,
}

/// Verdict on an entry of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryVerdict {
    /// It is no file, directory or link that is copied.
    Skip,
    /// The target has it, and nothing about it needs to be asked.
    Unchanged,
    /// It is copied, or looked at by itself.
    Begin,
}

/// An entry of the source, and what the target has under its name.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) entry: Entry,
    pub(crate) there: Option<Info>,
    pub(crate) verdict: EntryVerdict,
}

/// Entries of the target that the source does not have.
#[derive(Debug, Default)]
pub(crate) struct NotAtSource {
    pub(crate) to_delete: Vec<Entry>,
    /// Names that differ from one of the source by case only: to the server they may be the copy.
    pub(crate) twins: Vec<Entry>,
}

impl Listings {
    pub(crate) fn new(source: Vec<Entry>, target: Vec<Entry>) -> Self {
        Self { source: sorted(source), target: sorted(target) }
    }

    /// What is to be deleted: not what the copy leaves out on purpose (`select`), and no unfinished file of a
    /// copy. `relative` is the path of the directory from the top of the tree. `may_fold`: the target may
    /// take two names for one that differ by case only.
    pub(crate) fn not_at_source(&self, select: &Selection, relative: &[u8], may_fold: bool) -> NotAtSource {
        let missing = |entry: &&Entry| self.source.binary_search_by(|one| one.name.cmp(&entry.name)).is_err();
        let mut to_delete: Vec<Entry> = self.target.iter().filter(missing).cloned().collect();
        to_delete.retain(|entry| is_deletable(select, relative, entry));
        if !may_fold || to_delete.is_empty() {
            return NotAtSource { to_delete, twins: Vec::new() };
        }
        let folded = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
        let names: HashSet<String> = self.source.iter().map(|entry| folded(&entry.name)).collect();
        let twins = to_delete.extract_if(.., |entry| names.contains(&folded(&entry.name))).collect();
        NotAtSource { to_delete, twins }
    }

    /// Compares each entry of the source with what the target has, in the order of names. `leaves_links`:
    /// symbolic links are not copied.
    pub(crate) fn compare(self, terms: &Terms, leaves_links: bool) -> impl Iterator<Item = Compared> {
        let mut target = self.target.into_iter().peekable();
        self.source.into_iter().map(move |entry| {
            while target.next_if(|there| there.name < entry.name).is_some() {}
            let there = target.next_if(|there| there.name == entry.name).map(|there| there.info);
            let left_out = match entry.info.kind {
                Kind::Special => true,
                Kind::Symlink => leaves_links,
                _ => false,
            };
            let verdict = match there {
                _ if left_out => EntryVerdict::Skip,
                Some(there) if terms.is_plainly_unchanged(&entry.info, &there) => EntryVerdict::Unchanged,
                _ => EntryVerdict::Begin,
            };
            Compared { entry, there, verdict }
        })
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    entries.dedup_by(|one, other| one.name == other.name);
    entries
}

#[cfg(test)]
mod tests {
    use crate::end::Times;
    use crate::ends::Ends;
    use crate::{Direction, Options, Rule};

    use super::*;

    fn entry(name: &str, kind: Kind, seconds: i64) -> Entry {
        let times = Some(Times { access: (0, 0), modification: (seconds, 0) });
        let info = Info { kind, size: Some(1), times, ..Info::UNKNOWN };
        Entry { name: name.as_bytes().into(), info }
    }

    fn names(entries: &[Entry]) -> Vec<String> {
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
    }

    #[test]
    fn entries_are_compared_by_name_in_any_order() {
        let file = |name| entry(name, Kind::File, 7);
        let source = vec![
            file("same"),
            entry("link", Kind::Symlink, 7),
            file("new"),
            file("same"),
            entry("pipe", Kind::Special, 7),
            file("older"),
        ];
        let target = vec![file("zzz"), entry("older", Kind::File, 6), file("same"), file("aaa")];
        let terms = Terms::new(&Options::default(), &Ends::new(Direction::Download));
        let listings = Listings::new(source, target);
        let compared: Vec<_> = listings
            .compare(&terms, true)
            .map(|Compared { entry, there, verdict }| (names(&[entry]).remove(0), there.is_some(), verdict))
            .collect();
        let expected = [
            ("link", false, EntryVerdict::Skip),
            ("new", false, EntryVerdict::Begin),
            ("older", true, EntryVerdict::Begin),
            ("pipe", false, EntryVerdict::Skip),
            ("same", true, EntryVerdict::Unchanged),
        ];
        assert_eq!(compared, expected.map(|(name, there, verdict)| (name.to_owned(), there, verdict)));
    }

    #[test]
    fn links_are_begun_where_they_are_copied() {
        let terms = Terms::new(&Options::default(), &Ends::new(Direction::Download));
        let link = || vec![entry("link", Kind::Symlink, 7)];
        let mut compared = Listings::new(link(), link()).compare(&terms, false);
        assert_eq!(compared.next().map(|compared| compared.verdict), Some(EntryVerdict::Begin));
    }

    #[test]
    fn entries_missing_at_the_source_and_not_excluded_are_deleted() {
        let file = |name| entry(name, Kind::File, 7);
        let source = || vec![file("kept"), file("README")];
        let target = || vec![file("gone"), file("kept"), file("readme"), file("old.o")];
        let select = Selection { rules: vec![Rule::new(false, b"*.o")], ..Selection::default() };
        let found = Listings::new(source(), target()).not_at_source(&select, b"", false);
        assert_eq!(
            (names(&found.to_delete), names(&found.twins)),
            (vec!["gone".into(), "readme".into()], vec![])
        );
        let found = Listings::new(source(), target()).not_at_source(&select, b"", true);
        assert_eq!(names(&found.to_delete), ["gone"]);
        assert_eq!(names(&found.twins), ["readme"]);
    }
}
