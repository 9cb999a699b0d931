//! Looks up the target's entries under the two names of a copy, the final one and its part file's, before
//! one of them is opened.

use crate::end::{AsFound, Done, FaultKind, Info, Kind, Outcome};

/// A part file that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundPart {
    pub(crate) size: u64,
    /// Its owner and group, where the end says so.
    pub(crate) ids: Option<(u32, u32)>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// Questions about the two names without answer.
    pub(crate) unanswered: u8,
    /// The part file is asked about only if the final name does not settle it: it is likely to be right.
    pub(crate) part_unasked: bool,
    /// The final name was a symbolic link: these are the names where it leads.
    pub(crate) followed: bool,
    /// The entry with the final name can only be written in place.
    pub(crate) in_place: bool,
    /// The entry with the final name is neither our copy nor its beginning.
    pub(crate) rejected: bool,
    pub(crate) found: Option<FoundPart>,
    /// Something has the part file's name, and may be nothing to continue.
    pub(crate) left_over: bool,
}

/// Result of the answer about the final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtTarget {
    /// A plain file, which will be replaced.
    Replaced(Info),
    /// A symbolic link: the file that it leads to is replaced.
    Link,
    /// Nothing exists there, or it is replaced without a look at it.
    Free,
    /// It is written in place.
    InPlace,
}

/// Entries that a copy may replace under its final name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replacing {
    /// Also what has several names: the others keep what they have.
    pub(crate) names: bool,
    /// Also a symbolic link.
    pub(crate) links: bool,
}

impl Probe {
    /// The names where a symbolic link leads.
    pub(crate) fn behind_link() -> Self {
        Self { followed: true, ..Self::default() }
    }

    /// Takes in what the end says of the final name.
    pub(crate) fn on_target(&mut self, outcome: &Outcome, replacing: Replacing) -> AtTarget {
        let there = match outcome {
            Ok(Done::Info(info)) => match info.kind {
                Kind::File if replacing.names || info.links.unwrap_or(1) < 2 => AtTarget::Replaced(*info),
                Kind::Symlink if replacing.links => AtTarget::Free,
                Kind::Symlink if !self.followed => AtTarget::Link,
                _ => AtTarget::InPlace,
            },
            Err(fault) if fault.kind == FaultKind::NotFound => AtTarget::Free,
            _ => AtTarget::InPlace,
        };
        self.in_place |= there == AtTarget::InPlace;
        there
    }

    /// Returns how the part file is opened. `remote`: the target is on a server.
    pub(crate) fn opening(&self, as_found: AsFound, remote: bool) -> OpeningPart {
        let found = self.found.filter(|_| as_found == AsFound::Kept).map(|found| found.size);
        let removed = as_found == AsFound::Fresh && self.left_over;
        // A server does not say whether another copy writes it, which would rename what has its name then.
        let random = removed && remote;
        OpeningPart { found, left_over: self.left_over, removed, random, emptied: false }
    }

    /// Takes in what the end says of the part file's name.
    pub(crate) fn on_part(&mut self, outcome: &Outcome) {
        if let Ok(Done::Info(info)) = outcome {
            self.left_over = true;
            // Anything else was not made by us.
            if info.kind == Kind::File && info.links.unwrap_or(1) < 2 {
                self.found = Some(FoundPart { size: info.size.unwrap_or(0), ids: info.ids });
            }
        }
    }
}

/// Opening a part file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OpeningPart {
    /// Length of existing data that may be continued.
    pub(crate) found: Option<u64>,
    /// An entry has the part file's name.
    pub(crate) left_over: bool,
    /// That entry was to be removed.
    pub(crate) removed: bool,
    /// The part file's name is random, and so not known to others.
    pub(crate) random: bool,
    /// As scp opens files: the server answers nothing else.
    pub(crate) emptied: bool,
}

#[cfg(test)]
mod tests {
    use crate::end::Fault;

    use super::*;

    const FILE: Info = Info { kind: Kind::File, links: Some(1), size: Some(7), ..Info::UNKNOWN };
    const NONE: Replacing = Replacing { names: false, links: false };

    fn at_target(info: Info, replacing: Replacing) -> AtTarget {
        Probe::default().on_target(&Ok(Done::Info(info)), replacing)
    }

    #[test]
    fn plain_files_are_replaced_and_others_kept() {
        assert_eq!(at_target(FILE, NONE), AtTarget::Replaced(FILE));
        let two_names = Info { links: Some(2), ..FILE };
        assert_eq!(at_target(two_names, NONE), AtTarget::InPlace);
        let names = Replacing { names: true, ..NONE };
        assert_eq!(at_target(two_names, names), AtTarget::Replaced(two_names));
        assert_eq!(at_target(Info { kind: Kind::Special, ..FILE }, names), AtTarget::InPlace);
        let missing = Err(Fault { kind: FaultKind::NotFound, text: String::new() });
        assert_eq!(Probe::default().on_target(&missing, NONE), AtTarget::Free);
        assert_eq!(Probe::default().on_target(&Err(Fault::other("Failure")), NONE), AtTarget::InPlace);
    }

    #[test]
    fn a_link_is_followed_once() {
        let link = Info { kind: Kind::Symlink, ..FILE };
        assert_eq!(at_target(link, NONE), AtTarget::Link);
        assert_eq!(Probe::behind_link().on_target(&Ok(Done::Info(link)), NONE), AtTarget::InPlace);
        assert_eq!(at_target(link, Replacing { links: true, ..NONE }), AtTarget::Free);
    }

    #[test]
    fn leftover_parts_that_are_not_continued_are_removed() {
        let found = Some(FoundPart { size: 5, ids: None });
        let probe = Probe { found, left_over: true, ..Probe::default() };
        let left = OpeningPart { left_over: true, ..OpeningPart::default() };
        assert_eq!(probe.opening(AsFound::Kept, true), OpeningPart { found: Some(5), ..left });
        assert_eq!(probe.opening(AsFound::Empty, false), left);
        assert_eq!(probe.opening(AsFound::Fresh, false), OpeningPart { removed: true, ..left });
        assert_eq!(probe.opening(AsFound::Fresh, true), OpeningPart { removed: true, random: true, ..left });
        assert_eq!(Probe::default().opening(AsFound::Fresh, true), OpeningPart::default());
    }

    #[test]
    fn only_plain_part_files_are_continued() {
        for (kind, links, continued) in
            [(Kind::File, 1, true), (Kind::File, 2, false), (Kind::Symlink, 1, false), (Kind::Dir, 1, false)]
        {
            let mut probe = Probe::default();
            probe.on_part(&Ok(Done::Info(Info { kind, links: Some(links), ..FILE })));
            assert!(probe.left_over);
            assert_eq!(probe.found.is_some(), continued, "{kind:?}");
        }
        let mut probe = Probe::default();
        probe.on_part(&Err(Fault::other("Failure")));
        assert!(!probe.left_over && probe.found.is_none());
    }
}
