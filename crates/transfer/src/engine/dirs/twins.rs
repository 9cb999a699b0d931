//! Names that differ by case only, on servers that may take them for one.
//!
//! Of two such names the second one waits until everything else in its directory is in its place. If there is something under it then,
//! though the directory is new, the server takes it for the other one: it is not copied over that, and is reported.

use crate::end::{FaultKind, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::item::There;
use crate::names::{display_name, join};
use crate::table::Key;
use crate::token::{DirStep, Side, Token};

impl Engine {
    /// The target's server may take names for one that differ by case. (A server of ours is asked for files in other ways.)
    pub(super) fn may_fold_names(&self) -> bool {
        !self.options.dry_run && self.ends.target.as_ref().is_some_and(|target| !target.is_ours())
    }

    /// Everything else in the directory is done: what about the next of these? False when there is none.
    pub(super) fn look_at_twin(&mut self, key: Key) -> bool {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return false };
        let Some(entry) = dir.listing.twins.waiting.pop_front() else { return false };
        let path = join(&dir.item.target, &entry.name);
        dir.listing.twins.asked = Some(entry);
        dir.asked();
        self.ends.start(Side::Target, Op::Lstat(&path), Token::Dir(key, DirStep::Twin));
        true
    }

    pub(super) fn twin_answer(&mut self, key: Key, outcome: &Outcome) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let Some(entry) = dir.listing.twins.asked.take().filter(|_| !dir.failed) else { return };
        if matches!(outcome, Err(fault) if fault.kind == FaultKind::Lost) {
            return;
        }
        // A name that was not listed and is there is another one's.
        let unlisted = dir.created() || dir.at_target.there_else == There::Nothing;
        if outcome.is_ok() && unlisted {
            let path = display_name(&join(&dir.item.target, &entry.name));
            let text = "the server takes its name for that of another file, which differs by case only";
            let relative = join(&dir.relative, &entry.name);
            self.report.fail(format!("\"{path}\" is not copied: {text}"));
            return self.report.missed(Some(relative));
        }
        let (list, waiting) = match entry.info.kind {
            Kind::Dir => (&mut dir.subdirs, &mut self.tree.waiting.subdirs),
            _ => (&mut dir.files, &mut self.tree.waiting.files),
        };
        list.push_back(entry);
        *waiting += 1;
        if !self.tree.walk.contains(&key) {
            self.tree.walk.push(key);
        }
        self.tree.walk_changed = true;
    }
}
