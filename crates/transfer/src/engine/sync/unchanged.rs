//! Whether a file is unchanged, and which of its attributes are to be mended.

use crate::end::{Change, Info, Kind};
use crate::engine::Engine;
use crate::sync::same::{is_unchanged, same_time};
use crate::target_facts::NotKept;

impl Engine {
    /// Returns true for a file of which nothing needs to be asked, and nothing done.
    pub(in crate::engine) fn is_plainly_unchanged(&self, info: &Info, there: &Info) -> bool {
        let shared = self.options.keep.hard_links && info.links.is_some_and(|links| links > 1);
        info.kind == Kind::File
            && there.kind == Kind::File
            && !shared
            && (!self.options.compares_contents() || info.size == Some(0))
            && is_unchanged(info, there, self.ends.times_are_full())
            && self.attributes_to_mend(info, there) == (None, Change::default())
            && !self.compares_xattrs()
    }

    /// Returns true where the extended attributes and ACLs of files that are otherwise unchanged are compared.
    pub(in crate::engine) fn compares_xattrs(&self) -> bool {
        self.options.keep.xattr_kinds() != 0 && !self.options.dry_run && self.ends.have_xattrs()
    }

    /// Owner, and mode and times, that an unchanged file should have and has not.
    pub(in crate::engine) fn attributes_to_mend(
        &self,
        info: &Info,
        there: &Info,
    ) -> (Option<(u32, u32)>, Change) {
        let keep = self.options.keep;
        let wanted = keep.ids_to_keep(info.ids);
        let differs = |(user, group): (u32, u32)| {
            there.ids.is_some_and(|(their_user, their_group)| {
                (user != u32::MAX && user != their_user) || (group != u32::MAX && group != their_group)
            })
        };
        // Where giving it away has failed once, it will fail again.
        let owner = wanted.filter(|ids| differs(*ids) && !self.ends.facts.has_not_kept(NotKept::Owner));
        let mask =
            if keep.owner && (owner.is_some() || !wanted.is_some_and(differs)) { 0o7777 } else { 0o777 };
        let mut change = Change::default();
        if self.options.preserve
            && let (Some(ours), Some(theirs)) = (info.mode, there.mode)
            && (ours & mask != theirs & mask || (owner.is_some() && ours & 0o7000 != 0))
        {
            change.mode = Some(ours & mask);
        }
        // What was compared by its contents may have another time.
        if self.options.preserve
            && let (Some(ours), Some(theirs)) = (info.times, there.times)
            && !same_time(ours, theirs, self.ends.times_are_full())
        {
            change.times = Some(ours);
        }
        (owner, change)
    }
}
