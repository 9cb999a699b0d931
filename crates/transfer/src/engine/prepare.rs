//! What the command line's paths mean: `~`, patterns, and whether the target is a directory.

use lh_sftp::glob::{has_magic, unescape};

use crate::end::{Done, Fault, FaultKind, Info, Kind, Op, Outcome, fault_of, path_of};
use crate::engine::Engine;
use crate::item::Item;
use crate::names::{RemotePath, base_name, display_name, join, remote_path};
use crate::plan::patterns::PatternStep;
use crate::plan::{SourceState, Target, first_flight};
use crate::remote::Remote;
use crate::sync::deletions::same_top;
use crate::token::{PrepareStep, Side, Token};
use crate::wording::Deed;
use crate::{Direction, SHARDS_NEED_THE_TARGET, wording};

impl Engine {
    /// Called whenever something may have become possible.
    pub(super) fn prepare_more(&mut self) {
        if !self.prepare.begun {
            let ends = [&self.ends.source, &self.ends.target];
            let first_flight = first_flight::can_ask_early(&self.plan);
            let can_ask = |remote: &Remote| {
                remote.ready() || remote.lost() || (first_flight && remote.takes_first_flight())
            };
            if !ends.into_iter().flatten().all(can_ask) {
                return;
            }
            self.prepare.begun = true;
            self.ask_for_full_attrs_first();
            self.prepare_target();
            for at in 0..self.prepare.sources.len() {
                self.prepare_source(at);
            }
        }
        self.hand_on_sources();
    }

    /// Before anything else is asked: attributes are wanted in full.
    fn ask_for_full_attrs_first(&mut self) {
        if self.ends.source.as_ref().is_some_and(|source| !source.ready()) {
            let wanted = self.options.attrs_wanted();
            self.ends.start(Side::Source, Op::FullAttrs { wanted }, Token::Nothing);
        }
    }

    fn prepare_target(&mut self) {
        let path = self.plan.target.clone();
        if self.plan.direction == Direction::Download {
            return self.stat_target(path);
        }
        match remote_path(&path) {
            RemotePath::Plain(path) => self.stat_target(path),
            RemotePath::Expand(path) => {
                self.ends.start(Side::Target, Op::ExpandPath(&path), Token::Prepare(PrepareStep::TargetPath));
            }
        }
    }

    fn stat_target(&mut self, path: Vec<u8>) {
        self.plan.target = path.clone();
        self.ends.start(Side::Target, Op::Stat(&path), Token::Prepare(PrepareStep::TargetStat));
        first_flight::look_below_target(&self.plan, &self.options, &mut self.ends);
    }

    fn make_target(&mut self) {
        if self.options.dry_run {
            let path = self.plan.target.clone();
            return self.prepare.target = Target::Known { path, exists: true, dir: true };
        }
        self.prepare.target = Target::Waiting;
        let path = self.plan.target.clone();
        let op = Op::Mkdir { path: &path, mode: 0o777 };
        self.ends.start(Side::Target, op, Token::Prepare(PrepareStep::TargetMkdir));
    }

    fn prepare_source(&mut self, at: usize) {
        let path = self.prepare.sources[at].path.clone();
        if self.plan.direction == Direction::Upload {
            // The local shell has expanded the patterns already.
            self.prepare.sources[at].state = SourceState::Found(vec![(path, Info::UNKNOWN)]);
            return;
        }
        match remote_path(&path) {
            RemotePath::Plain(path) => self.find_source(at, path),
            RemotePath::Expand(path) => {
                let token = Token::Prepare(PrepareStep::SourcePath(at));
                self.ends.start(Side::Source, Op::ExpandPath(&path), token);
            }
        }
    }

    fn find_source(&mut self, at: usize, path: Vec<u8>) {
        let source = &mut self.prepare.sources[at];
        source.path.clone_from(&path);
        if has_magic(&path) {
            self.prepare.patterns.begin(at, &path);
            self.match_patterns();
        } else {
            let token = Token::Prepare(PrepareStep::SourceStat(at));
            self.ends.start(Side::Source, Op::Stat(&unescape(&path)), token);
            self.prepare.first_flight.look_into_source(at, &path, &self.options, &mut self.ends);
        }
    }

    pub(super) fn prepared(&mut self, step: PrepareStep, outcome: Outcome) {
        match step {
            PrepareStep::TargetPath => match path_of(outcome) {
                Ok(path) => self.stat_target(path),
                Err(fault) if fault.kind == FaultKind::Lost => self.prepare.target = Target::Failed,
                Err(fault) => {
                    let text = format!("expand {}: {}", display_name(&self.plan.target), fault.text);
                    self.target_failed(&text);
                }
            },
            PrepareStep::TargetStat => self.target_known(outcome),
            PrepareStep::TargetMkdir => match outcome {
                Ok(_) => {
                    let path = self.plan.target.clone();
                    self.prepare.target = Target::Known { path, exists: true, dir: true };
                }
                // Another shard was faster, perhaps.
                Err(_) if !std::mem::replace(&mut self.prepare.looked_again, true) => {
                    let path = self.plan.target.clone();
                    self.stat_target(path);
                }
                Err(fault) => {
                    let place = if self.plan.direction == Direction::Download { "local" } else { "remote" };
                    let text =
                        format!("{place} mkdir \"{}\": {}", display_name(&self.plan.target), fault.text);
                    self.target_failed(&text);
                }
            },
            PrepareStep::SourcePath(at) => match path_of(outcome) {
                // What the server expands is literal, though the rest may hold a pattern: as OpenSSH has it.
                Ok(path) => self.find_source(at, path),
                Err(mut fault) => {
                    fault.text = format!("expand: {}", fault.text);
                    self.source_failed(at, fault);
                }
            },
            PrepareStep::SourceStat(at) => match outcome {
                Ok(Done::Info(info)) => {
                    let path = unescape(&self.prepare.sources[at].path);
                    self.prepare.sources[at].state = SourceState::Found(vec![(path, info)]);
                }
                Err(fault) if fault.kind == FaultKind::NotFound => self.stat_typed(at, fault),
                outcome => self.source_failed(at, fault_of(outcome)),
            },
            PrepareStep::SourceStatTyped(at) => match outcome {
                Ok(Done::Info(info)) => {
                    let path = self.prepare.sources[at].path.clone();
                    self.prepare.sources[at].state = SourceState::Found(vec![(path, info)]);
                }
                outcome => self.source_failed(at, fault_of(outcome)),
            },
            PrepareStep::SourceReal(at) => self.prepare.source_real(at, outcome),
            PrepareStep::SourceList(at) => self.prepare.first_flight.source_list(at, outcome, &mut self.ends),
            PrepareStep::BelowTarget(at) => {
                if let Some(source) = self.plan.sources.get(at) {
                    let path = join(&self.plan.target, base_name(source));
                    self.prepare.note_absent(path, &outcome);
                }
            }
            PrepareStep::GlobOpen(key) => self.prepare.patterns.on_open(key, outcome),
            PrepareStep::GlobList(key, round) => self.prepare.patterns.on_list(key, round, outcome),
            PrepareStep::GlobStat(key) => self.prepare.patterns.on_stat(key, outcome),
        }
        self.match_patterns();
        self.hand_on_sources();
    }

    fn target_known(&mut self, outcome: Outcome) {
        if let Ok(Done::Info(info)) = &outcome
            && let Some(fault) = info.refused_there()
        {
            let text = wording::failed(self.plan.direction, Deed::OpenTarget, &self.plan.target, &fault);
            return self.target_failed(&text);
        }
        let (exists, dir) = match &outcome {
            Ok(Done::Info(info)) => (true, info.kind == Kind::Dir),
            Ok(_) => (true, false),
            Err(fault) if fault.kind == FaultKind::Lost => return self.prepare.target = Target::Failed,
            // What cannot be seen may still be written to: OPEN shows it.
            Err(_) => (false, false),
        };
        self.prepare.note_absent(self.plan.target.clone(), &outcome);
        // What an attempt that was cut off has made does not change what the command means.
        let (exists, dir) = match &mut self.leftovers.journal {
            // A directory to put things into means the same before and after.
            _ if self.plan.target_must_be_dir => (exists, dir),
            Some(journal) if journal.was_new(&self.plan.target) => (false, false),
            Some(journal) if !exists => {
                journal.note_new(&self.plan.target);
                (exists, dir)
            }
            _ => (exists, dir),
        };
        self.prepare.target = Target::Known { path: self.plan.target.clone(), exists, dir };
        if self.plan.target_must_be_dir && !dir {
            // Of a copy that is repeated the first run and the others have the same target.
            let made = self.options.tree_sync.is_some() && !exists;
            // Of one source in shards, each has to find the same target.
            let shard = self.plan.sources.len() == 1 && self.options.select.shard.is_some();
            if !made && (self.plan.direction == Direction::Download || shard) {
                let reason = match outcome {
                    Err(fault) => fault.text,
                    Ok(_) => "Not a directory".to_owned(),
                };
                let mut text = format!("{}: {reason}", display_name(&self.plan.target));
                if shard {
                    text.push_str(SHARDS_NEED_THE_TARGET);
                }
                self.target_failed(&text);
            } else {
                self.make_target();
            }
        }
    }

    fn target_failed(&mut self, text: &str) {
        self.report.fail(text.to_owned());
        self.report.missed(Some(Vec::new()));
        self.prepare.target = Target::Failed;
    }

    fn source_failed(&mut self, at: usize, fault: Fault) {
        if fault.kind != FaultKind::Lost {
            let path = display_name(&self.prepare.sources[at].path);
            self.report.fail(format!("{path}: {}", fault.text));
            self.report.missed(None);
        }
        self.prepare.sources[at].state = SourceState::Failed;
    }

    /// Carries out the steps of the patterns.
    pub(super) fn match_patterns(&mut self) {
        while let Some(step) = self.prepare.patterns.next_step() {
            let mut start = |op: Op<'_>, token| self.ends.start(Side::Source, op, token);
            match step {
                PatternStep::List { key, path, pattern } => {
                    let list = Op::List { path: &path, pattern: &pattern };
                    start(list, Token::Prepare(PrepareStep::GlobOpen(key)));
                }
                PatternStep::ListMore(key, round, handle) => {
                    start(Op::ListMore(&handle), Token::Prepare(PrepareStep::GlobList(key, round)));
                }
                PatternStep::Close(handle) => start(Op::Close(handle), Token::Nothing),
                PatternStep::Stat(key, path) => {
                    start(Op::Stat(&path), Token::Prepare(PrepareStep::GlobStat(key)));
                }
                PatternStep::Matched(at, found) if found.is_empty() => {
                    let text = "No such file or directory".to_owned();
                    self.stat_typed(at, Fault { kind: FaultKind::NotFound, text });
                }
                PatternStep::Matched(at, found) => {
                    self.prepare.sources[at].state = SourceState::Found(found);
                }
            }
        }
    }

    /// Nothing matched: perhaps the file is really called that.
    fn stat_typed(&mut self, at: usize, fault: Fault) {
        let path = self.prepare.sources[at].path.clone();
        if has_magic(&path) || path.contains(&b'\\') {
            let token = Token::Prepare(PrepareStep::SourceStatTyped(at));
            self.ends.start(Side::Source, Op::Stat(&path), token);
        } else {
            self.source_failed(at, fault);
        }
    }

    /// Makes top-level items of the sources that are found, in the order of the command line.
    fn hand_on_sources(&mut self) {
        loop {
            let (path, exists, dir) = match &self.prepare.target {
                Target::Known { path, exists, dir } => (path.clone(), *exists, *dir),
                Target::Failed => {
                    self.prepare.abandon();
                    return;
                }
                Target::Waiting => return,
            };
            let at = self.prepare.next;
            let Some(source) = self.prepare.sources.get_mut(at) else { return };
            let found = match &mut source.state {
                SourceState::Waiting => return,
                SourceState::Failed => Vec::new(),
                SourceState::Found(found) if found.len() > 1 && !dir => {
                    if exists {
                        source.state = SourceState::Failed;
                        self.report.fail(format!(
                            "Multiple files match pattern, but destination \"{}\" is not a directory",
                            display_name(&path)
                        ));
                        self.report.missed(Some(Vec::new()));
                    } else {
                        self.make_target();
                    }
                    continue;
                }
                SourceState::Found(found) => std::mem::take(found),
            };
            self.prepare.next += 1;
            let typed = self.plan.sources.get(at).cloned().unwrap_or_default();
            for (source, info) in found {
                let name = match base_name(&source) {
                    // Into the target, not beside it.
                    b".." => b".",
                    name => name,
                };
                let contents = self.options.tree_sync.is_some() && names_contents(&typed, name);
                let target = if dir && !contents { join(&path, name) } else { path.clone() };
                if self.options.deletes() && !self.sync.deletions.add_top(&target) {
                    self.report.fail(same_top(&target));
                }
                self.tree.top.push_back(Item::top(source, target, info));
            }
        }
    }
}

/// Returns true for a source whose contents go into the target of [`crate::TreeSync`], not the source itself: its path ends with a slash, or
/// it has no name of its own.
fn names_contents(typed: &[u8], name: &[u8]) -> bool {
    typed.ends_with(b"/") || matches!(name, b"." | b"/")
}
