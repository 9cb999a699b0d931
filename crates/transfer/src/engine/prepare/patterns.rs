//! Patterns of the sources, matched part by part: directories are listed here, or by a server that does it itself.

use lh_sftp::glob::{has_magic, matches, unescape};

use crate::end::{Done, Entry, Fault, FaultKind, Op, Outcome};
use crate::engine::Engine;
use crate::names::{is_safe_name, join};
use crate::plan::{GlobTask, SourceState};
use crate::seen::Seen;
use crate::table::Key;
use crate::token::{PrepareStep, Side, Token};
use crate::tree::MAX_LISTS;

impl Engine {
    /// Goes on with part `part` of the pattern of source `at`, below `path`.
    pub(super) fn match_part(&mut self, at: usize, mut path: Vec<u8>, mut part: usize) {
        let parts = &self.prepare.sources[at].parts;
        while let Some(literal) = parts.get(part).filter(|literal| !has_magic(literal)) {
            path = join(&path, &unescape(literal));
            part += 1;
        }
        let ended = part >= parts.len();
        self.prepare.sources[at].open_tasks += 1;
        let task = GlobTask {
            source: at,
            path: path.clone(),
            part,
            handle: None,
            lists_in_flight: 0,
            lists_allowed: 2,
            listed: false,
            seen: Seen::default(),
            matched_there: false,
        };
        let key = self.prepare.globs.insert(task);
        if ended {
            self.ends.start(Side::Source, Op::Stat(&path), Token::Prepare(PrepareStep::GlobStat(key)));
        } else {
            self.glob_open(key);
        }
    }

    /// Opens the directory that is matched.
    pub(in crate::engine) fn glob_open(&mut self, key: Key) {
        let Some(task) = self.prepare.globs.get(key) else { return };
        let path = if task.path.is_empty() { b".".to_vec() } else { task.path.clone() };
        let pattern = self.prepare.sources[task.source].parts[task.part].clone();
        let list = Op::List { path: &path, pattern: &pattern };
        self.ends.start(Side::Source, list, Token::Prepare(PrepareStep::GlobOpen(key)));
    }

    /// Its handle is another file's, too: its listing is begun again.
    pub(in crate::engine) fn glob_again(&mut self, key: Key) {
        let Some(task) = self.prepare.globs.get_mut(key) else { return };
        let Some(handle) = task.handle.take() else { return };
        task.lists_in_flight = 0;
        task.seen.begin_again();
        let listed = task.listed;
        self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        if listed {
            self.glob_list_more(key);
        } else {
            self.glob_open(key);
        }
    }

    pub(super) fn glob_opened(&mut self, key: Key, outcome: Outcome) {
        let Some(task) = self.prepare.globs.get_mut(key) else { return };
        match outcome {
            Ok(Done::Opened(handle, _)) => task.handle = Some(handle),
            Ok(Done::Listing(handle, entries)) => {
                task.listed = handle.is_none();
                task.matched_there = true;
                task.handle = handle;
                self.glob_entries(key, entries);
            }
            // Not a directory, or not for us: nothing matches there, as glob(3) has it.
            _ => task.listed = true,
        }
        self.glob_list_more(key);
    }

    /// Keeps the listing going, or ends it.
    fn glob_list_more(&mut self, key: Key) {
        let Some(task) = self.prepare.globs.get_mut(key) else { return };
        let (at, handle) = (task.source, task.handle.clone());
        if task.listed && task.lists_in_flight == 0 {
            if let Some(handle) = handle {
                self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
            }
            self.prepare.globs.remove(key);
            return self.glob_task_done(at);
        }
        let Some(handle) = handle else { return };
        let more = if task.listed { 0 } else { task.lists_allowed.saturating_sub(task.lists_in_flight) };
        task.lists_in_flight += more;
        let round = task.seen.round();
        for _ in 0..more {
            let token = Token::Prepare(PrepareStep::GlobList(key, round));
            self.ends.start(Side::Source, Op::ListMore(&handle), token);
        }
    }

    pub(super) fn glob_listed(&mut self, key: Key, round: u8, outcome: Outcome) {
        let Some(task) = self.prepare.globs.get_mut(key).filter(|task| task.seen.round() == round) else {
            return;
        };
        task.lists_in_flight -= 1;
        task.lists_allowed = (task.lists_allowed + 1).min(MAX_LISTS);
        match outcome {
            // A server that matches by itself may have found nothing yet.
            Ok(Done::Listed(Some(entries))) if !entries.is_empty() || task.matched_there => {
                self.glob_entries(key, entries);
            }
            _ => task.listed = true,
        }
        self.glob_list_more(key);
    }

    fn glob_entries(&mut self, key: Key, entries: Vec<Entry>) {
        let Some(task) = self.prepare.globs.get_mut(key) else { return };
        let (at, part, path) = (task.source, task.part, task.path.clone());
        let mut entries = entries;
        entries.retain(|entry| task.seen.is_new(&entry.name));
        let source = &self.prepare.sources[at];
        let pattern = source.parts[part].clone();
        let last = part + 1 == source.parts.len();
        for entry in entries {
            if !is_safe_name(&entry.name) || !matches(&pattern, &entry.name) {
                continue;
            }
            let found = join(&path, &entry.name);
            if last {
                self.prepare.glob_found(at, found, entry.info);
            } else {
                self.match_part(at, found, part + 1);
            }
        }
    }

    pub(super) fn glob_task_done(&mut self, at: usize) {
        let source = &mut self.prepare.sources[at];
        source.open_tasks -= 1;
        let SourceState::Waiting(found) = &mut source.state else { return };
        if source.open_tasks > 0 {
            return;
        }
        if found.is_empty() {
            let text = "No such file or directory".to_owned();
            return self.stat_typed(at, Fault { kind: FaultKind::NotFound, text });
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        source.state = SourceState::Found(std::mem::take(found));
    }
}
