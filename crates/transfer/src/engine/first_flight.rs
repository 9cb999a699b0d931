//! What is asked before it is known to be needed, and done before it is known to be possible: each saves a round trip.
//!
//! A server that has promised to take what stands behind the first words (`first-flight@longhaul`) is asked about the paths of the command
//! line before it has said its version. A server of ours answers in order, so what goes into a directory that it is asked to make
//! can follow at once, where nothing was there before: if the directory cannot be made nothing in it can, and that is reported once.

use lh_sftp::extension;
use lh_sftp::glob::{has_magic, unescape};

use crate::end::{FaultKind, Op, Outcome};
use crate::engine::Engine;
use crate::item::Item;
use crate::names::{RemotePath, base_name, join, remote_path};
use crate::plan::{Beforehand, List};
use crate::table::Key;
use crate::token::{DirStep, PrepareStep, Side, Token};
use crate::{Direction, Plan};

/// Sources that are looked up beforehand below a target that may be a directory.
const MOST_LOOKED_UP: usize = 16;

impl Engine {
    /// The paths of the command line can be asked about before the server's version is known.
    pub(super) fn sends_first_flight(&self) -> bool {
        let plain = |path: &Vec<u8>| matches!(remote_path(path), RemotePath::Plain(_)) && !has_magic(path);
        let Plan { direction, sources, target, .. } = &self.plan;
        match direction {
            Direction::Upload => plain(target),
            Direction::Download => sources.iter().all(plain),
            Direction::Relay => false,
        }
    }

    /// Before anything else is asked: attributes are wanted in full.
    pub(super) fn ask_for_full_attrs_first(&mut self) {
        if self.ends.source.as_ref().is_some_and(|source| !source.ready()) {
            let wanted = self.options.attrs_wanted();
            self.ends.start(Side::Source, Op::FullAttrs { wanted }, Token::Nothing);
        }
    }

    /// Download: source `at` is being looked at; if it is a directory, more will be wanted of it.
    pub(super) fn look_into_source(&mut self, at: usize) {
        if !self.options.recursive || self.options.dry_run {
            return;
        }
        let Some(source) = self.ends.source.as_ref() else { return };
        let ahead = !source.ready();
        let path = unescape(self.prepare.source_path(at));
        self.ends.start(Side::Source, Op::RealPath(&path), Token::Prepare(PrepareStep::SourceReal(at)));
        if ahead {
            let list = Op::List { path: &path, pattern: b"" };
            self.ends.start(Side::Source, list, Token::Prepare(PrepareStep::SourceList(at)));
        }
        let list = if ahead { List::Asked } else { List::Not };
        let sources = &mut self.prepare.first_flight.sources;
        sources.resize_with(sources.len().max(at + 1), || None);
        sources[at] = Some(Beforehand { path, real: None, list });
    }

    pub(super) fn source_list(&mut self, at: usize, outcome: Outcome) {
        let Some(Some(source)) = self.prepare.first_flight.sources.get_mut(at) else { return };
        match std::mem::replace(&mut source.list, List::Not) {
            List::Awaited(key) => self.list_came(key, outcome),
            _ => source.list = List::Came(outcome),
        }
    }

    /// Takes the listing of `path` for the directory `key`, if it has been asked for.
    pub(super) fn take_list(&mut self, key: Key, path: &[u8]) -> bool {
        let Some(source) =
            self.prepare.first_flight.sources.iter_mut().flatten().find(|source| source.path == path)
        else {
            return false;
        };
        match std::mem::replace(&mut source.list, List::Not) {
            List::Asked => source.list = List::Awaited(key),
            List::Came(outcome) => self.list_came(key, outcome),
            other => {
                source.list = other;
                return false;
            }
        }
        true
    }

    fn list_came(&mut self, key: Key, outcome: Outcome) {
        let token = Token::Dir(key, DirStep::List);
        match outcome {
            // It was asked for as only some servers understand.
            Err(fault) if fault.kind != FaultKind::Lost => {
                if let Some(dir) = self.tree.dirs.get(key) {
                    let path = dir.item.source.clone();
                    self.ends.start(Side::Source, Op::List { path: &path, pattern: b"" }, token);
                }
            }
            outcome => self.ends.answer((token, outcome)),
        }
    }

    /// Upload: what will be made below the target if that is a directory.
    pub(super) fn look_below_target(&mut self) {
        let Self { plan, options, .. } = self;
        let unused = plan.direction != Direction::Upload || !options.recursive || options.tree_sync.is_some();
        if unused || plan.sources.len() > MOST_LOOKED_UP {
            return;
        }
        for at in 0..self.plan.sources.len() {
            let name = base_name(&self.plan.sources[at]);
            if name == b".." || name.is_empty() {
                continue;
            }
            let path = join(&self.plan.target, name);
            self.ends.start(Side::Target, Op::Lstat(&path), Token::Prepare(PrepareStep::BelowTarget(at)));
        }
    }

    pub(super) fn below_target(&mut self, at: usize, outcome: &Outcome) {
        if let Some(source) = self.plan.sources.get(at) {
            let path = join(&self.plan.target, base_name(source));
            self.prepare.note_absent(path, outcome);
        }
    }

    /// Returns true when the directory that is to be made for `item` was not there, so that what goes into it need not wait.
    pub(super) fn presumes(&self, item: &Item) -> bool {
        // One that has them answers in order.
        let ordered = |target: &crate::remote::Remote| target.session().supports(extension::PUT_FILES);
        self.plan.direction == Direction::Upload
            && !self.options.dry_run
            && !self.options.follows_no_links(item)
            && self.ends.target.as_ref().is_some_and(ordered)
            && match item.parent {
                None => self.prepare.first_flight.absent.contains(&item.target),
                Some(key) => self.tree.dirs.get(key).is_some_and(|dir| dir.created() || dir.presumed()),
            }
    }
}
