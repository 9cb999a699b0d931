//! Decides by attributes whether a file is unchanged, and which of its attributes must be corrected.

use crate::Options;
use crate::end::{Change, Info, Kind};
use crate::ends::Ends;
use crate::options::Keep;
use crate::sync::same::{is_unchanged, same_time};
use crate::target_facts::NotKept;

/// Attributes that count in a comparison of two files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    keep: Keep,
    preserve: bool,
    /// Contents are compared, too.
    contents: bool,
    /// Extended attributes and ACLs of files that are otherwise unchanged are compared.
    pub(crate) xattrs: bool,
    /// Both ends have times in full.
    pub(crate) times_are_full: bool,
    /// The target has refused to change the owner of a file.
    owner_refused: bool,
}

impl Terms {
    pub(crate) fn new(options: &Options, ends: &Ends) -> Self {
        Self {
            keep: options.keep,
            preserve: options.preserve,
            contents: options.compares_contents(),
            xattrs: options.keep.xattr_kinds() != 0 && !options.dry_run && ends.have_xattrs(),
            times_are_full: ends.times_are_full(),
            owner_refused: ends.facts.has_not_kept(NotKept::Owner),
        }
    }

    /// Returns true for a file of which nothing needs to be asked, and nothing done.
    pub(crate) fn is_plainly_unchanged(&self, info: &Info, there: &Info) -> bool {
        let shared = self.keep.hard_links && info.links.is_some_and(|links| links > 1);
        info.kind == Kind::File
            && there.kind == Kind::File
            && !shared
            && (!self.contents || info.size == Some(0))
            && is_unchanged(info, there, self.times_are_full)
            && self.attributes_to_mend(info, there) == (None, Change::default())
            && !self.xattrs
    }

    /// Owner, and mode and times, that an unchanged file should have and has not.
    pub(crate) fn attributes_to_mend(&self, info: &Info, there: &Info) -> (Option<(u32, u32)>, Change) {
        let keep = self.keep;
        let wanted = keep.ids_to_keep(info.ids);
        let differs = |(user, group): (u32, u32)| {
            there.ids.is_some_and(|(their_user, their_group)| {
                (user != u32::MAX && user != their_user) || (group != u32::MAX && group != their_group)
            })
        };
        // If the server refused one change of owner, it will refuse others.
        let owner = wanted.filter(|ids| differs(*ids) && !self.owner_refused);
        let mask =
            if keep.owner && (owner.is_some() || !wanted.is_some_and(differs)) { 0o7777 } else { 0o777 };
        let mut change = Change::default();
        if self.preserve
            && let (Some(ours), Some(theirs)) = (info.mode, there.mode)
            && (ours & mask != theirs & mask || (owner.is_some() && ours & 0o7000 != 0))
        {
            change.mode = Some(ours & mask);
        }
        // A file that was compared by its content may have another time.
        if self.preserve
            && let (Some(ours), Some(theirs)) = (info.times, there.times)
            && !same_time(ours, theirs, self.times_are_full)
        {
            change.times = Some(ours);
        }
        (owner, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::Times;

    const BARE: Terms = Terms {
        keep: Keep {
            links: false,
            sparse: false,
            hard_links: false,
            owner: true,
            group: true,
            acls: false,
            xattrs: false,
        },
        preserve: true,
        contents: false,
        xattrs: false,
        times_are_full: true,
        owner_refused: false,
    };

    #[test]
    fn owner_mode_and_times_that_differ_are_mended() {
        let times = |seconds| Some(Times { access: (0, 0), modification: (seconds, 0) });
        let file = Info { kind: Kind::File, size: Some(1), links: Some(1), ..Info::UNKNOWN };
        let ours = Info { ids: Some((1, 2)), mode: Some(0o4755), times: times(7), ..file };
        assert!(BARE.is_plainly_unchanged(&ours, &ours));
        assert!(!Terms { contents: true, ..BARE }.is_plainly_unchanged(&ours, &ours));
        assert!(!Terms { xattrs: true, ..BARE }.is_plainly_unchanged(&ours, &ours));
        let foreign = Info { ids: Some((3, 2)), ..ours };
        // Changing the owner takes the set-user-ID bit away.
        let (owner, change) = BARE.attributes_to_mend(&ours, &foreign);
        assert_eq!((owner, change.mode), (Some((1, 2)), Some(0o4755)));
        // Where that is refused, the file is not run as another user.
        let refused = Terms { owner_refused: true, ..BARE };
        assert_eq!(refused.attributes_to_mend(&ours, &foreign), (None, Change::default()));
        let older = Info { times: times(6), mode: Some(0o644), ..ours };
        let (owner, change) = BARE.attributes_to_mend(&ours, &older);
        assert_eq!((owner, change.mode, change.times), (None, Some(0o4755), times(7)));
        let nothing = Terms { preserve: false, ..BARE }.attributes_to_mend(&ours, &older);
        assert_eq!(nothing, (None, Change::default()));
    }
}
