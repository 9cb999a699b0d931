//! The two ends of a copy: where operations are started, and where their answers wait.

use std::collections::VecDeque;

use lh_sftp::extension;
use lh_sftp::link_order::{Known, LinkOrder};

use crate::changed::Precision;
use crate::end::{Op, Outcome};
use crate::file_work::{FileWork, Job, SlowOp};
use crate::remote::Remote;
use crate::target_facts::TargetFacts;
use crate::token::{Side, Token};
use crate::{Direction, local};

/// Both ends; one without a [`Remote`] is this host.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) source: Option<Remote>,
    pub(crate) target: Option<Remote>,
    pub(crate) facts: TargetFacts,
    opened: [bool; 2],
    /// Answers not yet acted upon.
    done: VecDeque<(Token, Outcome)>,
    /// Work on this host's files, to be carried out without the engine.
    pub(crate) file_work: VecDeque<FileWork>,
}

impl Ends {
    pub(crate) fn new(direction: Direction) -> Self {
        let remote = |wanted: bool| wanted.then(Remote::new);
        Self {
            source: remote(direction != Direction::Upload),
            target: remote(direction != Direction::Download),
            facts: TargetFacts::default(),
            opened: [false; 2],
            done: VecDeque::new(),
            file_work: VecDeque::new(),
        }
    }

    pub(crate) const fn get(&self, side: Side) -> Option<&Remote> {
        match side {
            Side::Source => self.source.as_ref(),
            Side::Target => self.target.as_ref(),
        }
    }

    pub(crate) const fn remote(&mut self, side: Side) -> Option<&mut Remote> {
        match side {
            Side::Source => self.source.as_mut(),
            Side::Target => self.target.as_mut(),
        }
    }

    /// The ends that are not this host.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = &Remote> {
        [&self.source, &self.target].into_iter().flatten()
    }

    /// The channel of `side` is open. `first_flight`: its server takes requests before it has sent its version.
    pub(crate) fn open(&mut self, side: Side, first_flight: bool) {
        let at = side as usize;
        if let (false, Some(remote)) = (self.opened[at], self.remote(side)) {
            remote.start(first_flight);
            self.opened[at] = true;
        }
    }

    /// Uses a session that is open already.
    pub(crate) fn adopt(&mut self, side: Side, session: lh_sftp::Session) {
        self.opened[side as usize] = true;
        if let Some(remote) = self.remote(side) {
            *remote = Remote::with_session(session);
        }
    }

    /// Starts an operation on an end. Its answer comes from [`Ends::next_answer`]: of this host at once, but for what
    /// reads much or waits for the disk.
    pub(crate) fn start(&mut self, side: Side, op: Op<'_>, token: Token) {
        let outcome = match self.remote(side) {
            Some(remote) => remote.perform(op, token),
            None => match SlowOp::of(op, &self.file_work) {
                Ok(slow) => {
                    self.file_work.push_back(FileWork(Job::Operation(token, slow)));
                    None
                }
                Err(op) => Some(local::perform(op)),
            },
        };
        self.answer_if_known(token, outcome);
    }

    /// Like [`Ends::answer`]. `None`: the answer is still to come.
    pub(crate) fn answer_if_known(&mut self, token: Token, outcome: Option<Outcome>) {
        self.done.extend(outcome.map(|outcome| (token, outcome)));
    }

    /// Adds an answer that has come, or is known without asking.
    pub(crate) fn answer(&mut self, answer: (Token, Outcome)) {
        self.done.push_back(answer);
    }

    /// Returns the next answer to act upon.
    pub(crate) fn next_answer(&mut self) -> Option<(Token, Outcome)> {
        self.done.pop_front()
    }

    /// Returns true when no answer waits to be acted upon.
    pub(crate) fn all_answered(&self) -> bool {
        self.done.is_empty() && self.file_work.is_empty()
    }

    /// Returns true when each server has sent its version and extensions.
    pub(crate) fn are_ready(&self) -> bool {
        self.remotes().all(Remote::ready)
    }

    /// Returns true where the extended attributes of files can be read and set at both ends.
    pub(crate) fn have_xattrs(&self) -> bool {
        self.remotes().all(|remote| {
            remote.session().supports(extension::GET_XATTRS)
                && remote.session().supports(extension::SET_XATTRS)
        })
    }

    /// Returns true where both ends have digests of open files.
    pub(crate) fn can_digest(&self) -> bool {
        let ends = [&self.source, &self.target];
        ends.into_iter().flatten().all(|remote| remote.session().supports(extension::CHECK_FILE_HANDLE))
    }

    /// Returns true where the target's server might close a file, or set its times, before it has written what came
    /// before: Go's `pkg/sftp` writes with several workers, and servers on Node's ssh2 carry requests out side by side.
    /// Servers that tell their limits take one request after the other.
    pub(crate) fn waits_for_writes(&self) -> bool {
        self.target.as_ref().is_some_and(|remote| !remote.session().has_told_limits())
    }

    /// Returns true where the server's only rename is the protocol's own, which must not replace anything.
    pub(crate) fn rename_is_simple(&self) -> bool {
        let posix = extension::POSIX_RENAME;
        self.target.as_ref().is_some_and(|remote| !remote.session().supports(posix))
    }

    /// Returns true where the target's server may take names for one that differ by case. A server of ours is asked for
    /// files in other ways.
    pub(crate) fn may_fold_names(&self) -> bool {
        self.target.as_ref().is_some_and(|target| !target.is_ours())
    }

    /// Returns true where the target's server answers requests in order: those that know [`extension::PUT_FILES`] do.
    pub(crate) fn target_keeps_order(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.session().supports(extension::PUT_FILES))
    }

    /// Returns the order in which the target reads the strings of SYMLINK, as far as known.
    pub(crate) fn link_order(&self) -> Known {
        let here = Known::Always(LinkOrder::TargetFirst);
        self.target.as_ref().map_or(here, |target| target.session().link_order())
    }

    /// How exactly the source's end tells that a file has changed.
    pub(crate) fn source_precision(&self) -> Precision {
        match &self.source {
            Some(source) if !source.is_ours() => Precision::Later,
            _ => Precision::Exact,
        }
    }

    /// Returns true where both ends have times in full.
    pub(crate) fn times_are_full(&self) -> bool {
        self.remotes().all(|remote| remote.full())
    }
}

#[cfg(test)]
mod tests {
    use crate::end::{Done, FaultKind, Kind};

    use super::*;

    #[test]
    fn this_host_answers_at_once_and_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_string_lossy().into_owned().into_bytes();
        let mut ends = Ends::new(Direction::Upload);
        assert!(ends.get(Side::Source).is_none() && ends.get(Side::Target).is_some());
        ends.start(Side::Source, Op::Stat(&path), Token::Nothing);
        ends.start(Side::Source, Op::Stat(&[&path[..], b"/none"].concat()), Token::Renames);
        assert!(!ends.all_answered());
        let (token, outcome) = ends.next_answer().expect("an answer");
        assert!(matches!(token, Token::Nothing));
        assert!(matches!(outcome, Ok(Done::Info(info)) if info.kind == Kind::Dir));
        let (token, outcome) = ends.next_answer().expect("an answer");
        assert!(matches!(token, Token::Renames));
        assert!(outcome.is_err_and(|fault| fault.kind == FaultKind::NotFound));
        assert!(ends.next_answer().is_none() && ends.all_answered());
    }

    #[test]
    fn an_end_is_opened_once() {
        let mut ends = Ends::new(Direction::Download);
        ends.open(Side::Source, false);
        let queued = ends.get(Side::Source).map(Remote::queued);
        assert!(queued.is_some_and(|queued| queued > 0), "its version");
        ends.open(Side::Source, false);
        assert_eq!(ends.get(Side::Source).map(Remote::queued), queued);
        assert!(!ends.are_ready());
    }
}
