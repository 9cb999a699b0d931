//! Decides about an item by the entries that both ends have under its name.

use crate::Options;
use crate::end::{Info, Kind};
use crate::sync::same::{has_exact_time, is_newer, is_unchanged};

/// Options of comparisons.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompareRules {
    pub(crate) keeps_links: bool,
    pub(crate) keeps_hard_links: bool,
    /// Copies are made beside the existing file, and replace it by a rename.
    atomic: bool,
    pub(crate) dry_run: bool,
    keeps_newer: bool,
    /// Files of one size are read.
    contents: bool,
    /// Directories that are in the way are deleted with all that is in them.
    pub(crate) deletes: bool,
    /// Reports of copies say where links lead.
    reports_links: bool,
    /// Replaced files are moved to the backups.
    pub(crate) backs_up: bool,
}

impl CompareRules {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            keeps_links: options.keep.links,
            keeps_hard_links: options.keep.hard_links,
            atomic: options.placing.atomic,
            dry_run: options.dry_run,
            keeps_newer: options.keeps_newer(),
            contents: options.compares_contents(),
            deletes: options.deletes(),
            reports_links: options.reporting.sums.is_some(),
            backs_up: options.tree_sync.as_ref().is_some_and(|sync| sync.backup_dir.is_some()),
        }
    }

    /// Compares the entries of both ends. `full`: both have times in full resolution.
    pub(crate) fn verdict(self, ours: &Info, theirs: &Info, full: bool) -> Verdict {
        match (ours.kind, theirs.kind) {
            (Kind::Special, _) | (Kind::Dir, Kind::Dir) => Verdict::Copy,
            (Kind::Dir, _) => Verdict::ClearWay,
            // It may be a directory itself: nothing is deleted for it, and the copy says that something is in
            // its way.
            (Kind::Unknown, Kind::Dir) => Verdict::Copy,
            (_, Kind::Dir) => Verdict::ClearDirectory,
            // Within a second a link may have been made anew, and as long as it was.
            (Kind::Symlink, Kind::Symlink)
                if full
                    && has_exact_time(ours)
                    && is_unchanged(ours, theirs, full)
                    && !self.reports_links =>
            {
                Verdict::Unchanged
            }
            (Kind::Symlink, Kind::Symlink) => Verdict::CompareLinks,
            (Kind::Symlink, _) | (_, Kind::Symlink) if self.backs_up => Verdict::ClearWay,
            // A link is made beside the existing file, and replaces it by a rename.
            (Kind::Symlink, _) => Verdict::Copy,
            (_, Kind::Symlink) if self.atomic => Verdict::Copy,
            (_, Kind::Symlink | Kind::Special) => Verdict::ClearWay,
            (_, Kind::File) if self.keeps_newer && is_newer(theirs, ours) => Verdict::KeepNewer,
            (_, Kind::File) if self.contents => match (ours.size, theirs.size) {
                // There is nothing to read, and their times do not count: some servers keep none.
                (Some(0), Some(0)) => Verdict::SameFile,
                (Some(ours), Some(theirs)) if ours == theirs => Verdict::CompareContents,
                _ => Verdict::Copy,
            },
            (_, Kind::File) if is_unchanged(ours, theirs, full) => Verdict::SameFile,
            (_, Kind::File | Kind::Unknown) => Verdict::Copy,
        }
    }
}

/// Verdict on an item whose entries at both ends are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Copy,
    /// The existing entry, which is no directory, is removed first.
    ClearWay,
    ClearDirectory,
    Unchanged,
    /// Unchanged, but its names may be names of several files.
    SameFile,
    KeepNewer,
    CompareLinks,
    CompareContents,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::Times;

    const BARE: CompareRules = CompareRules {
        keeps_links: true,
        keeps_hard_links: false,
        atomic: true,
        dry_run: false,
        keeps_newer: false,
        contents: false,
        deletes: false,
        reports_links: false,
        backs_up: false,
    };

    fn info(kind: Kind, size: u64, seconds: i64) -> Info {
        let times = Some(Times { access: (0, 0), modification: (seconds, 5) });
        Info { kind, size: Some(size), times, ..Info::UNKNOWN }
    }

    #[test]
    fn kinds_decide_first() {
        let of = |kind| info(kind, 1, 100);
        let in_place = CompareRules { atomic: false, ..BARE };
        let backing_up = CompareRules { backs_up: true, ..BARE };
        for (rules, ours, theirs, expected) in [
            (BARE, Kind::Special, Kind::File, Verdict::Copy),
            (BARE, Kind::Dir, Kind::Dir, Verdict::Copy),
            (BARE, Kind::Dir, Kind::File, Verdict::ClearWay),
            (BARE, Kind::Dir, Kind::Symlink, Verdict::ClearWay),
            (BARE, Kind::File, Kind::Dir, Verdict::ClearDirectory),
            (BARE, Kind::Symlink, Kind::Dir, Verdict::ClearDirectory),
            (BARE, Kind::Unknown, Kind::Dir, Verdict::Copy),
            (BARE, Kind::Symlink, Kind::File, Verdict::Copy),
            (BARE, Kind::File, Kind::Symlink, Verdict::Copy),
            (in_place, Kind::File, Kind::Symlink, Verdict::ClearWay),
            (backing_up, Kind::File, Kind::Symlink, Verdict::ClearWay),
            (backing_up, Kind::Symlink, Kind::File, Verdict::ClearWay),
            (BARE, Kind::File, Kind::Special, Verdict::ClearWay),
            (BARE, Kind::File, Kind::File, Verdict::SameFile),
            (BARE, Kind::File, Kind::Unknown, Verdict::Copy),
        ] {
            assert_eq!(rules.verdict(&of(ours), &of(theirs), true), expected, "{ours:?}, {theirs:?}");
        }
    }

    #[test]
    fn links_are_read_unless_their_times_say_enough() {
        let link = info(Kind::Symlink, 3, 100);
        let reporting = CompareRules { reports_links: true, ..BARE };
        let bare = Info { times: None, ..link };
        for (rules, theirs, full, expected) in [
            (BARE, link, true, Verdict::Unchanged),
            (BARE, link, false, Verdict::CompareLinks),
            (BARE, info(Kind::Symlink, 3, 101), true, Verdict::CompareLinks),
            (BARE, bare, true, Verdict::CompareLinks),
            (reporting, link, true, Verdict::CompareLinks),
        ] {
            assert_eq!(rules.verdict(&link, &theirs, full), expected, "{rules:?}, {theirs:?}");
        }
    }

    #[test]
    fn files_are_copied_by_size_time_and_contents() {
        let newer = CompareRules { keeps_newer: true, ..BARE };
        let contents = CompareRules { contents: true, ..BARE };
        let file = |size, seconds| info(Kind::File, size, seconds);
        let unsized_file = Info { size: None, ..file(0, 100) };
        for (rules, ours, theirs, expected) in [
            (BARE, file(1, 100), file(2, 100), Verdict::Copy),
            (BARE, file(1, 100), file(1, 101), Verdict::Copy),
            (newer, file(1, 100), file(1, 101), Verdict::KeepNewer),
            (newer, file(1, 100), file(1, 99), Verdict::Copy),
            (contents, file(1, 100), file(1, 100), Verdict::CompareContents),
            (contents, file(1, 100), file(1, 101), Verdict::CompareContents),
            (contents, file(1, 100), file(2, 100), Verdict::Copy),
            (contents, unsized_file, unsized_file, Verdict::Copy),
            (contents, file(0, 100), file(0, 100), Verdict::SameFile),
            (contents, file(0, 100), file(0, 101), Verdict::SameFile),
            (contents, file(0, 100), file(1, 100), Verdict::Copy),
            (contents, file(1, 100), file(0, 100), Verdict::Copy),
        ] {
            assert_eq!(rules.verdict(&ours, &theirs, true), expected, "{rules:?}, {ours:?}, {theirs:?}");
        }
    }
}
