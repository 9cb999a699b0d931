//! What is asked before it is known to be needed, and done before it is known to be possible: each saves a
//! round trip.
//!
//! A server that has promised to take what stands behind the first words (`first-flight@longhaul`) is asked
//! about the paths of the command line before it has said its version. A server of ours answers in order, so
//! what goes into a directory that it is asked to make can follow at once, where nothing was there before: if
//! the directory cannot be made nothing in it can, and that is reported once.

use lh_sftp::glob::{has_magic, unescape};

use crate::end::{FaultKind, Op, Outcome};
use crate::ends::Ends;
use crate::names::{RemotePath, base_name, join, remote_path};
use crate::table::Key;
use crate::token::{DirStep, PrepareStep, Side, Token};
use crate::{Direction, Options, Plan};

/// Sources that are looked up beforehand below a target that may be a directory.
const MOST_LOOKED_UP: usize = 16;

/// Returns true where the paths of the command line can be asked about before the server's version is known.
pub(crate) fn can_ask_early(plan: &Plan) -> bool {
    let plain = |path: &Vec<u8>| matches!(remote_path(path), RemotePath::Plain(_)) && !has_magic(path);
    match plan.direction {
        Direction::Upload => plain(&plan.target),
        Direction::Download => plan.sources.iter().all(plain),
        Direction::Relay => false,
    }
}

/// Upload: asks whether the target is a link. If it leads nowhere, STAT finds nothing there, and yet MKDIR
/// fails. To be called before STAT: where the target is presumed, answers come in order.
pub(crate) fn look_at_target_link(plan: &Plan, options: &Options, ends: &mut Ends) {
    if plan.direction == Direction::Upload && options.recursive && options.tree_sync.is_none() {
        // With a slash behind it, a link is followed.
        let end = plan.target.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1);
        let path = plan.target.get(..end).unwrap_or_default();
        ends.start(Side::Target, Op::Lstat(path), Token::Prepare(PrepareStep::TargetLink));
    }
}

/// Upload: asks about what will be made below the target if that is a directory.
pub(crate) fn look_below_target(plan: &Plan, options: &Options, ends: &mut Ends) {
    let unused = plan.direction != Direction::Upload || !options.recursive || options.tree_sync.is_some();
    if unused || plan.sources.len() > MOST_LOOKED_UP {
        return;
    }
    for (at, source) in plan.sources.iter().enumerate() {
        let name = base_name(source);
        if name == b".." || name.is_empty() {
            continue;
        }
        let path = join(&plan.target, name);
        ends.start(Side::Target, Op::Lstat(&path), Token::Prepare(PrepareStep::BelowTarget(at)));
    }
}

/// Requests sent before it was known that they are needed.
#[derive(Debug, Default)]
pub(crate) struct FirstFlight {
    /// Paths of the target at which there is nothing.
    pub(super) absent: Vec<Vec<u8>>,
    /// By number of the source.
    pub(super) sources: Vec<Option<EarlyAnswers>>,
}

/// Answers that came early about a source that may be a directory.
#[derive(Debug)]
pub(super) struct EarlyAnswers {
    pub(super) path: Vec<u8>,
    pub(super) real: Option<Vec<u8>>,
    list: List,
}

#[derive(Debug)]
enum List {
    /// Asked for, unless it has been used.
    Not,
    Asked,
    /// The directory that waits for it.
    Awaited(Key),
    Received(Outcome),
}

impl FirstFlight {
    /// Returns true where the target was seen to have nothing at `path`.
    pub(crate) fn is_absent(&self, path: &[u8]) -> bool {
        self.absent.iter().any(|absent| absent == path)
    }

    /// Download: asks about source `at`, of `path`, what will be wanted of it if it is a directory.
    pub(crate) fn look_into_source(&mut self, at: usize, path: &[u8], options: &Options, ends: &mut Ends) {
        if !options.recursive || options.dry_run {
            return;
        }
        let Some(source) = ends.source.as_ref() else { return };
        let ahead = !source.ready();
        let path = unescape(path);
        ends.start(Side::Source, Op::RealPath(&path), Token::Prepare(PrepareStep::SourceReal(at)));
        if ahead {
            let list = Op::List { path: &path, pattern: b"" };
            ends.start(Side::Source, list, Token::Prepare(PrepareStep::SourceList(at)));
        }
        let list = if ahead { List::Asked } else { List::Not };
        let sources = &mut self.sources;
        sources.resize_with(sources.len().max(at + 1), || None);
        sources[at] = Some(EarlyAnswers { path, real: None, list });
    }

    /// Takes the listing of source `at`.
    pub(crate) fn source_list(&mut self, at: usize, outcome: Outcome, ends: &mut Ends) {
        let Some(Some(source)) = self.sources.get_mut(at) else { return };
        match std::mem::replace(&mut source.list, List::Not) {
            List::Awaited(key) => list_came(key, &source.path, outcome, ends),
            _ => source.list = List::Received(outcome),
        }
    }

    /// Hands the listing of `path` to the directory `key`, now or when it comes. False where it was not asked
    /// for.
    pub(crate) fn take_list(&mut self, key: Key, path: &[u8], ends: &mut Ends) -> bool {
        let Some(source) = self.sources.iter_mut().flatten().find(|source| source.path == path) else {
            return false;
        };
        match std::mem::replace(&mut source.list, List::Not) {
            List::Asked => source.list = List::Awaited(key),
            List::Received(outcome) => list_came(key, path, outcome, ends),
            other => {
                source.list = other;
                return false;
            }
        }
        true
    }
}

fn list_came(key: Key, path: &[u8], outcome: Outcome, ends: &mut Ends) {
    let token = Token::Dir(key, DirStep::List);
    match outcome {
        // It was asked for as only some servers understand.
        Err(fault) if fault.kind != FaultKind::Lost => {
            ends.start(Side::Source, Op::List { path, pattern: b"" }, token);
        }
        outcome => ends.answer((token, outcome)),
    }
}

#[cfg(test)]
mod tests {
    use crate::end::{Done, Fault};

    use super::*;

    #[test]
    fn early_listing_reaches_its_directory_in_either_order() {
        let options = Options { recursive: true, ..Options::default() };
        for comes_first in [false, true] {
            let mut ends = Ends::new(Direction::Download);
            ends.open(Side::Source, true);
            let mut flight = FirstFlight::default();
            flight.look_into_source(1, b"d", &options, &mut ends);
            assert!(!flight.take_list(7, b"other", &mut ends));
            let answer = || Ok(Done::Listing(None, Vec::new()));
            if comes_first {
                flight.source_list(1, answer(), &mut ends);
            }
            assert!(flight.take_list(7, b"d", &mut ends));
            if !comes_first {
                assert!(ends.next_answer().is_none());
                flight.source_list(1, answer(), &mut ends);
            }
            let answer = ends.next_answer();
            assert!(
                matches!(answer, Some((Token::Dir(7, DirStep::List), Ok(Done::Listing(..))))),
                "{answer:?}"
            );
            assert!(!flight.take_list(8, b"d", &mut ends), "it is used once");
        }
    }

    #[test]
    fn early_listing_that_is_refused_is_asked_for_again() {
        let mut ends = Ends::new(Direction::Upload);
        list_came(7, b"/", Err(Fault::other("unsupported")), &mut ends);
        let answer = ends.next_answer();
        assert!(matches!(answer, Some((Token::Dir(7, DirStep::List), Ok(_)))), "{answer:?}");
    }

    #[test]
    fn only_plain_paths_are_asked_about_early() {
        let plan = |direction, source: &str, target: &str| Plan {
            direction,
            sources: vec![source.into()],
            target: target.into(),
            target_must_be_dir: false,
        };
        assert!(can_ask_early(&plan(Direction::Download, "a", "~x")));
        assert!(!can_ask_early(&plan(Direction::Download, "a*", "b")));
        assert!(can_ask_early(&plan(Direction::Upload, "a*", "b")));
        assert!(!can_ask_early(&plan(Direction::Upload, "a", "~x/b")));
        assert!(!can_ask_early(&plan(Direction::Relay, "a", "b")));
    }
}
