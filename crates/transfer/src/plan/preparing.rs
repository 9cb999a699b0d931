//! The preparation: asks what the command line's paths mean, and hands on the sources that are found.

use lh_sftp::glob::{has_magic, unescape};

use crate::end::{Done, Fault, FaultKind, Info, Kind, Op, Outcome, fault_of, path_of};
use crate::ends::Ends;
use crate::item::Item;
use crate::journal::Journal;
use crate::names::{RemotePath, base_name, display_name, join, remote_path};
use crate::plan::patterns::PatternStep;
use crate::plan::{Prepare, SourceState, Target, first_flight};
use crate::remote::Remote;
use crate::report::Reporter;
use crate::token::{PrepareStep, Side, Token};
use crate::wording::FailedStep;
use crate::{Direction, Options, Plan, SHARDS_NEED_THE_TARGET, wording};

/// The parts of the engine that the preparation uses.
#[derive(Debug)]
pub(crate) struct PrepareContext<'a> {
    /// Its target becomes the path that is copied to.
    pub(crate) plan: &'a mut Plan,
    pub(crate) options: &'a Options,
    pub(crate) ends: &'a mut Ends,
    pub(crate) report: &'a mut Reporter,
    pub(crate) journal: Option<&'a mut Journal>,
}

impl Prepare {
    /// Called whenever something may have become possible. Returns the sources that are found, in the order
    /// of the command line.
    pub(crate) fn advance(&mut self, with: &mut PrepareContext<'_>) -> Vec<Item> {
        if !self.begun {
            let ends = [&with.ends.source, &with.ends.target];
            let first_flight = first_flight::can_ask_early(with.plan);
            let can_ask = |remote: &Remote| {
                remote.ready() || remote.lost() || (first_flight && remote.takes_first_flight())
            };
            if !ends.into_iter().flatten().all(can_ask) {
                return Vec::new();
            }
            self.begun = true;
            self.ask_for_full_attrs_first(with);
            self.prepare_target(with);
            for at in 0..self.sources.len() {
                self.prepare_source(with, at);
            }
        }
        self.hand_on_sources(with)
    }

    /// Before anything else is asked: attributes are wanted in full.
    fn ask_for_full_attrs_first(&mut self, with: &mut PrepareContext<'_>) {
        if with.ends.source.as_ref().is_some_and(|source| !source.ready()) {
            let wanted = with.options.attrs_wanted();
            with.ends.start(Side::Source, Op::FullAttrs { wanted }, Token::Nothing);
        }
    }

    fn prepare_target(&mut self, with: &mut PrepareContext<'_>) {
        let path = with.plan.target.clone();
        if with.plan.direction == Direction::Download {
            return self.stat_target(with, path);
        }
        match remote_path(&path) {
            RemotePath::Plain(path) => self.stat_target(with, path),
            RemotePath::Expand(path) => {
                with.ends.start(Side::Target, Op::ExpandPath(&path), Token::Prepare(PrepareStep::TargetPath));
            }
        }
    }

    fn stat_target(&mut self, with: &mut PrepareContext<'_>, path: Vec<u8>) {
        with.plan.target = path.clone();
        first_flight::look_at_target_link(with.plan, with.options, with.ends);
        with.ends.start(Side::Target, Op::Stat(&path), Token::Prepare(PrepareStep::TargetStat));
        first_flight::look_below_target(with.plan, with.options, with.ends);
    }

    fn make_target(&mut self, with: &mut PrepareContext<'_>) {
        if with.options.dry_run {
            let path = with.plan.target.clone();
            return self.target = Target::Known { path, exists: true, dir: true };
        }
        self.target = Target::Waiting;
        let path = with.plan.target.clone();
        let op = Op::Mkdir { path: &path, mode: 0o777 };
        with.ends.start(Side::Target, op, Token::Prepare(PrepareStep::TargetMkdir));
    }

    fn prepare_source(&mut self, with: &mut PrepareContext<'_>, at: usize) {
        let path = self.sources[at].path.clone();
        if with.plan.direction == Direction::Upload {
            // The local shell has expanded the patterns already.
            self.sources[at].state = SourceState::Found(vec![(path, Info::UNKNOWN)]);
            return;
        }
        match remote_path(&path) {
            RemotePath::Plain(path) => self.find_source(with, at, path),
            RemotePath::Expand(path) => {
                let token = Token::Prepare(PrepareStep::SourcePath(at));
                with.ends.start(Side::Source, Op::ExpandPath(&path), token);
            }
        }
    }

    fn find_source(&mut self, with: &mut PrepareContext<'_>, at: usize, path: Vec<u8>) {
        let source = &mut self.sources[at];
        source.path.clone_from(&path);
        if has_magic(&path) {
            self.patterns.begin(at, &path);
            self.match_patterns(with);
        } else {
            let token = Token::Prepare(PrepareStep::SourceStat(at));
            with.ends.start(Side::Source, Op::Stat(&unescape(&path)), token);
            self.first_flight.look_into_source(at, &path, with.options, with.ends);
        }
    }

    /// Takes the answer to a request of the preparation. Returns as [`Prepare::advance`] does.
    pub(crate) fn answered(
        &mut self,
        with: &mut PrepareContext<'_>,
        step: PrepareStep,
        outcome: Outcome,
    ) -> Vec<Item> {
        match step {
            PrepareStep::TargetPath => match path_of(outcome) {
                Ok(path) => self.stat_target(with, path),
                Err(fault) if fault.kind == FaultKind::Lost => self.target = Target::Failed,
                Err(fault) => {
                    let text = format!("expand {}: {}", display_name(&with.plan.target), fault.text);
                    self.target_failed(with, &text);
                }
            },
            PrepareStep::TargetLink => {
                self.target_is_link = matches!(outcome, Ok(Done::Info(info)) if info.kind == Kind::Symlink);
            }
            PrepareStep::TargetStat => self.target_known(with, outcome),
            PrepareStep::TargetMkdir => match outcome {
                Ok(_) => {
                    let path = with.plan.target.clone();
                    self.target = Target::Known { path, exists: true, dir: true };
                }
                // Another shard was faster, perhaps.
                Err(_) if !std::mem::replace(&mut self.looked_again, true) => {
                    let path = with.plan.target.clone();
                    self.stat_target(with, path);
                }
                Err(fault) => {
                    let place = if with.plan.direction == Direction::Download { "local" } else { "remote" };
                    let text =
                        format!("{place} mkdir \"{}\": {}", display_name(&with.plan.target), fault.text);
                    self.target_failed(with, &text);
                }
            },
            PrepareStep::SourcePath(at) => match path_of(outcome) {
                // Like in OpenSSH, the part that the server expands is literal; the rest may be a pattern.
                Ok(path) => self.find_source(with, at, path),
                Err(mut fault) => {
                    fault.text = format!("expand: {}", fault.text);
                    self.source_failed(with, at, fault);
                }
            },
            PrepareStep::SourceStat(at) => match outcome {
                Ok(Done::Info(info)) => {
                    let path = unescape(&self.sources[at].path);
                    self.sources[at].state = SourceState::Found(vec![(path, info)]);
                }
                Err(fault) if fault.kind == FaultKind::NotFound => self.stat_typed(with, at, fault),
                outcome => self.source_failed(with, at, fault_of(outcome)),
            },
            PrepareStep::SourceStatTyped(at) => match outcome {
                Ok(Done::Info(info)) => {
                    let path = self.sources[at].path.clone();
                    self.sources[at].state = SourceState::Found(vec![(path, info)]);
                }
                outcome => self.source_failed(with, at, fault_of(outcome)),
            },
            PrepareStep::SourceReal(at) => self.source_real(at, outcome),
            PrepareStep::SourceList(at) => self.first_flight.source_list(at, outcome, with.ends),
            PrepareStep::BelowTarget(at) => {
                if let Some(source) = with.plan.sources.get(at) {
                    let path = join(&with.plan.target, base_name(source));
                    self.note_absent(path, &outcome);
                }
            }
            PrepareStep::GlobOpen(key) => self.patterns.on_open(key, outcome),
            PrepareStep::GlobList(key, round) => self.patterns.on_list(key, round, outcome),
            PrepareStep::GlobStat(key) => self.patterns.on_stat(key, outcome),
        }
        self.match_patterns(with);
        self.hand_on_sources(with)
    }

    fn target_known(&mut self, with: &mut PrepareContext<'_>, outcome: Outcome) {
        if let Ok(Done::Info(info)) = &outcome
            && let Some(fault) = info.refused_there()
        {
            let text =
                wording::failed(with.plan.direction, FailedStep::OpenTarget, &with.plan.target, &fault);
            return self.target_failed(with, &text);
        }
        let (exists, dir) = match &outcome {
            Ok(Done::Info(info)) => (true, info.kind == Kind::Dir),
            Ok(_) => (true, false),
            Err(fault) if fault.kind == FaultKind::Lost => return self.target = Target::Failed,
            // A path that cannot be looked at may still be writable: OPEN decides.
            Err(_) => (false, false),
        };
        if !self.target_is_link {
            self.note_absent(with.plan.target.clone(), &outcome);
        }
        // A directory that an interrupted attempt created must not change the meaning of the command.
        let (exists, dir) = match &mut with.journal {
            // A directory to put things into means the same before and after.
            _ if with.plan.target_must_be_dir => (exists, dir),
            Some(journal) if journal.was_new(&with.plan.target) => (false, false),
            Some(journal) if !exists => {
                journal.note_new(&with.plan.target);
                (exists, dir)
            }
            _ => (exists, dir),
        };
        self.target = Target::Known { path: with.plan.target.clone(), exists, dir };
        if with.plan.target_must_be_dir && !dir {
            // When a copy is repeated, the first run and later ones must find the same target.
            let made = with.options.tree_sync.is_some() && !exists;
            // All shards of one source must find the same target.
            let shard = with.plan.sources.len() == 1 && with.options.select.shard.is_some();
            if !made && (with.plan.direction == Direction::Download || shard) {
                let reason = match outcome {
                    Err(fault) => fault.text,
                    Ok(_) => "Not a directory".to_owned(),
                };
                let mut text = format!("{}: {reason}", display_name(&with.plan.target));
                if shard {
                    text.push_str(SHARDS_NEED_THE_TARGET);
                }
                self.target_failed(with, &text);
            } else {
                self.make_target(with);
            }
        }
    }

    fn target_failed(&mut self, with: &mut PrepareContext<'_>, text: &str) {
        with.report.fail(text.to_owned());
        with.report.missed(Some(Vec::new()));
        self.target = Target::Failed;
    }

    fn source_failed(&mut self, with: &mut PrepareContext<'_>, at: usize, fault: Fault) {
        if fault.kind != FaultKind::Lost {
            let path = display_name(&self.sources[at].path);
            with.report.fail(format!("{path}: {}", fault.text));
            with.report.missed(None);
        }
        self.sources[at].state = SourceState::Failed;
    }

    /// Carries out the steps of the patterns.
    pub(crate) fn match_patterns(&mut self, with: &mut PrepareContext<'_>) {
        while let Some(step) = self.patterns.next_step() {
            let mut start = |op: Op<'_>, token| with.ends.start(Side::Source, op, token);
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
                PatternStep::Unread(path, fault) => {
                    let path = if path.is_empty() { b"." } else { &path[..] };
                    with.report.fail(wording::failed(
                        with.plan.direction,
                        FailedStep::ListSource,
                        path,
                        &fault,
                    ));
                    with.report.missed(None);
                }
                PatternStep::Matched(at, found) if found.is_empty() => {
                    let text = "No such file or directory".to_owned();
                    self.stat_typed(with, at, Fault { kind: FaultKind::NotFound, text });
                }
                PatternStep::Matched(at, found) => {
                    self.sources[at].state = SourceState::Found(found);
                }
            }
        }
    }

    /// Nothing matched: perhaps the file is really called that.
    fn stat_typed(&mut self, with: &mut PrepareContext<'_>, at: usize, fault: Fault) {
        let path = self.sources[at].path.clone();
        if has_magic(&path) || path.contains(&b'\\') {
            let token = Token::Prepare(PrepareStep::SourceStatTyped(at));
            with.ends.start(Side::Source, Op::Stat(&path), token);
        } else {
            self.source_failed(with, at, fault);
        }
    }

    /// Makes top-level items of the sources that are found, in the order of the command line.
    fn hand_on_sources(&mut self, with: &mut PrepareContext<'_>) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            let (path, exists, dir) = match &self.target {
                Target::Known { path, exists, dir } => (path.clone(), *exists, *dir),
                Target::Failed => {
                    self.abandon();
                    return items;
                }
                Target::Waiting => return items,
            };
            let at = self.next;
            let Some(source) = self.sources.get_mut(at) else { return items };
            let found = match &mut source.state {
                SourceState::Waiting => return items,
                SourceState::Failed => Vec::new(),
                SourceState::Found(found) if found.len() > 1 && !dir => {
                    if exists {
                        source.state = SourceState::Failed;
                        with.report.fail(format!(
                            "Multiple files match pattern, but destination \"{}\" is not a directory",
                            display_name(&path)
                        ));
                        with.report.missed(Some(Vec::new()));
                    } else {
                        self.make_target(with);
                    }
                    continue;
                }
                SourceState::Found(found) => std::mem::take(found),
            };
            self.next += 1;
            let typed = with.plan.sources.get(at).cloned().unwrap_or_default();
            for (source, info) in found {
                let name = match base_name(&source) {
                    // Into the target, not beside it.
                    b".." => b".",
                    name => name,
                };
                let contents = with.options.tree_sync.is_some() && names_contents(&typed, name);
                let target = if dir && !contents { join(&path, name) } else { path.clone() };
                items.push(Item::top(source, target, info));
            }
        }
    }
}

/// Returns true for a source whose contents go into the target of [`crate::TreeSync`], not the source itself:
/// its path ends with a slash, or it has no name of its own.
fn names_contents(typed: &[u8], name: &[u8]) -> bool {
    typed.ends_with(b"/") || matches!(name, b"." | b"/")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    /// Prepares an upload whose both ends are this host; returns the targets of what was found, and what was
    /// reported.
    fn prepared(options: &Options, sources: &[&[u8]], target: &[u8]) -> (Vec<Vec<u8>>, Vec<String>) {
        let mut plan = Plan {
            direction: Direction::Upload,
            target_must_be_dir: sources.len() > 1,
            sources: sources.iter().map(|source| source.to_vec()).collect(),
            target: target.to_vec(),
        };
        let (mut ends, mut report) = (Ends::new(Direction::Upload), Reporter::new(options));
        ends.target = None;
        let mut prepare = Prepare::new(&plan);
        let mut with =
            PrepareContext { plan: &mut plan, options, ends: &mut ends, report: &mut report, journal: None };
        let mut found = prepare.advance(&mut with);
        while let Some((token, outcome)) = with.ends.next_answer() {
            match token {
                Token::Prepare(step) => found.extend(prepare.answered(&mut with, step, outcome)),
                other => panic!("{other:?} is not of the preparation"),
            }
        }
        assert!(prepare.finished());
        let failed = std::iter::from_fn(|| report.poll()).map(|event| format!("{event:?}")).collect();
        (found.into_iter().map(|item| item.target).collect(), failed)
    }

    #[test]
    fn sources_go_into_a_directory_or_become_the_target() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().as_os_str().as_bytes();
        let options = Options::default();
        let below = |name: &[u8]| [dir, b"/", name].concat();
        assert_eq!(prepared(&options, &[b"a/x", b".."], dir), (vec![below(b"x"), below(b".")], vec![]));
        assert_eq!(prepared(&options, &[b"a/x"], &below(b"new")), (vec![below(b"new")], vec![]));
        assert_eq!(prepared(&options, &[], dir), (vec![], vec![]));
    }

    #[test]
    fn a_target_that_has_to_be_a_directory_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().as_os_str().as_bytes();
        let new = [dir, b"/new"].concat();
        let dry = Options { dry_run: true, ..Options::default() };
        for options in [&dry, &Options::default()] {
            let (targets, failed) = prepared(options, &[b"x", b"y"], &new);
            assert_eq!(targets.len(), 2, "{failed:?}");
            assert!(targets[0] == [&new[..], b"/x"].concat() && failed.is_empty());
            let made = std::path::Path::new(std::ffi::OsStr::from_bytes(&new)).is_dir();
            assert_eq!(made, !options.dry_run);
        }
        // Where it cannot be made, nothing is copied.
        std::fs::write(std::path::Path::new(std::ffi::OsStr::from_bytes(dir)).join("file"), "").unwrap();
        let (targets, failed) = prepared(&Options::default(), &[b"x", b"y"], &[dir, b"/file/new"].concat());
        assert!(targets.is_empty());
        assert!(failed.len() == 1 && failed[0].contains("mkdir"), "{failed:?}");
    }
}
