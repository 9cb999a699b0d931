//! Makes the first symbolic link on a server whose order of SYMLINK's strings is not known.
//!
//! A server that reads the strings in the other order makes a link with the name of the target, and reports
//! success. So the client looks for the link afterwards. It removes a reversed link only if this request
//! certainly made it, and then makes the link again with the strings in the other order.
//!
//! The caller carries out each [`Trial::step`] and passes the result to [`Trial::answer`], until that returns
//! a [`Verdict`].

use crate::link_order::LinkOrder;

/// The request that the caller sends next. Paths are as the server reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// LSTAT.
    Look(&'a [u8]),
    /// SYMLINK, with the strings in this order.
    Make(LinkOrder),
    /// READLINK.
    Read(&'a [u8]),
    /// REMOVE.
    Remove(&'a [u8]),
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// SYMLINK or REMOVE succeeded.
    Ok,
    /// LSTAT: the path is a link, or the server does not report its type.
    Link,
    /// LSTAT: the path is a file of another type.
    NoLink,
    /// READLINK: target of the link.
    LeadsTo(Vec<u8>),
    /// The path does not exist.
    Missing,
    /// The request failed for another reason.
    Refused,
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The link exists. The server reads this order.
    Made(LinkOrder),
    /// The link does not exist, or has another target.
    Failed(Failure),
}

/// Reason why there is no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A file with the link's name exists.
    #[error("File exists")]
    Exists,
    /// The server refuses to make the link. The caller knows the reason: that of the first SYMLINK that
    /// failed.
    #[error("Failure")]
    Refused,
    /// SYMLINK succeeded, but the link does not exist.
    #[error("the server reports success, but there is no link")]
    NotThere,
    /// The link exists, but has another target.
    #[error("the server made a link that leads to \"{}\"", .0.escape_ascii())]
    LeadsElsewhere(Vec<u8>),
    /// There is a link with the name of the target. Another program may have made it, or it cannot be
    /// removed.
    #[error("the server reads link and target in reverse, and \"{}\" is a link now", .0.escape_ascii())]
    Reversed(Vec<u8>),
}

/// Position in the sequence of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    LinkBefore,
    TargetBefore,
    Make,
    ReadLink,
    LookAtLink,
    ReadTarget,
    RemoveTarget,
}

/// Creation of one link.
#[derive(Debug)]
pub struct Trial {
    target: Vec<u8>,
    link: Vec<u8>,
    order: LinkOrder,
    /// The second order is being tried, or was tried.
    is_second: bool,
    was_refused: bool,
    /// No file with the name of the target existed.
    target_was_missing: bool,
    at: Position,
}

impl Trial {
    /// Starts to make `link` with the target `target`. Tries `order` first.
    pub const fn new(target: Vec<u8>, link: Vec<u8>, order: LinkOrder) -> Self {
        let at = Position::LinkBefore;
        Self { target, link, order, is_second: false, was_refused: false, target_was_missing: false, at }
    }

    /// Returns the target of the link.
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Returns the path of the link.
    pub fn link(&self) -> &[u8] {
        &self.link
    }

    /// Returns the next step.
    pub fn step(&self) -> Step<'_> {
        match self.at {
            Position::LinkBefore | Position::LookAtLink => Step::Look(&self.link),
            Position::TargetBefore => Step::Look(&self.target),
            Position::Make => Step::Make(self.order),
            Position::ReadLink => Step::Read(&self.link),
            Position::ReadTarget => Step::Read(&self.target),
            Position::RemoveTarget => Step::Remove(&self.target),
        }
    }

    /// Takes the result of [`Trial::step`]. Returns `None` if another step follows.
    pub fn answer(&mut self, answer: Answer) -> Option<Verdict> {
        let failed = |failure| Some(Verdict::Failed(failure));
        self.at = match (self.at, answer) {
            // An existing link with the right target would prove nothing later.
            (Position::LinkBefore, Answer::Link | Answer::NoLink) => return failed(Failure::Exists),
            (Position::LinkBefore, _) => Position::TargetBefore,
            (Position::TargetBefore, answer) => {
                self.target_was_missing = answer == Answer::Missing;
                Position::Make
            }
            (Position::Make, Answer::Ok) => Position::ReadLink,
            (Position::Make, _) => {
                self.was_refused = true;
                if self.is_second || !self.may_try_other() {
                    return failed(Failure::Refused);
                }
                self.use_other()
            }
            (Position::ReadLink, Answer::LeadsTo(found)) => {
                return Some(match found == self.target {
                    true => Verdict::Made(self.order),
                    false => Verdict::Failed(Failure::LeadsElsewhere(found)),
                });
            }
            (Position::ReadLink, _) => Position::LookAtLink,
            // The server cannot read links.
            (Position::LookAtLink, Answer::Link) => return Some(Verdict::Made(self.order)),
            (Position::LookAtLink, Answer::NoLink) => return failed(Failure::NotThere),
            (Position::LookAtLink, _) => Position::ReadTarget,
            (Position::ReadTarget, Answer::LeadsTo(found)) if self.target_was_missing => {
                if found != self.link {
                    return failed(Failure::Reversed(std::mem::take(&mut self.target)));
                }
                Position::RemoveTarget
            }
            (Position::ReadTarget, _) => return failed(Failure::NotThere),
            (Position::RemoveTarget, Answer::Ok) if !self.is_second => self.use_other(),
            (Position::RemoveTarget, Answer::Ok) if self.was_refused => return failed(Failure::Refused),
            (Position::RemoveTarget, Answer::Ok) => return failed(Failure::NotThere),
            (Position::RemoveTarget, _) => {
                return failed(Failure::Reversed(std::mem::take(&mut self.target)));
            }
        };
        None
    }

    fn use_other(&mut self) -> Position {
        self.order = self.order.reversed();
        self.is_second = true;
        Position::Make
    }

    /// Returns true if the order may be the reason of a refusal, and trying the other order does no harm. An
    /// existing file with the name of the target is not changed. A link made at a relative path, below the
    /// session's directory, is removed again.
    fn may_try_other(&self) -> bool {
        !self.target_was_missing || !self.target.starts_with(b"/")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A server and its links.
    struct Server {
        links: BTreeMap<Vec<u8>, Vec<u8>>,
        reads: LinkOrder,
        has_readlink: bool,
        has_remove: bool,
        /// Names under which no link can be made.
        barred: Vec<Vec<u8>>,
        /// The server reports success and makes no link.
        idle: bool,
    }

    impl Server {
        fn reading(reads: LinkOrder) -> Self {
            let (links, barred) = (BTreeMap::new(), Vec::new());
            Self { links, reads, has_readlink: true, has_remove: true, barred, idle: false }
        }

        fn answer(&mut self, step: Step<'_>, target: &[u8], link: &[u8]) -> Answer {
            match step {
                Step::Look(path) if self.links.contains_key(path) => Answer::Link,
                Step::Look(_) => Answer::Missing,
                Step::Make(sent) => {
                    let (target, link) = if sent == self.reads { (target, link) } else { (link, target) };
                    if self.links.contains_key(link) || self.barred.iter().any(|each| each == link) {
                        return Answer::Refused;
                    }
                    if !self.idle {
                        self.links.insert(link.to_vec(), target.to_vec());
                    }
                    Answer::Ok
                }
                Step::Read(_) if !self.has_readlink => Answer::Refused,
                Step::Read(path) => {
                    self.links.get(path).map_or(Answer::Missing, |to| Answer::LeadsTo(to.clone()))
                }
                Step::Remove(_) if !self.has_remove => Answer::Refused,
                Step::Remove(path) => self.links.remove(path).map_or(Answer::Missing, |_| Answer::Ok),
            }
        }

        fn make(&mut self, target: &[u8], link: &[u8]) -> Verdict {
            let mut trial = Trial::new(target.to_vec(), link.to_vec(), LinkOrder::TargetFirst);
            for _ in 0..20 {
                let answer = self.answer(trial.step(), target, link);
                if let Some(verdict) = trial.answer(answer) {
                    return verdict;
                }
            }
            panic!("no end: {trial:?}")
        }

        /// Asserts that the server has exactly these links.
        #[track_caller]
        fn has(&self, links: &[(&[u8], &[u8])]) {
            let links: BTreeMap<_, _> = links.iter().map(|(name, to)| (name.to_vec(), to.to_vec())).collect();
            assert_eq!(self.links, links);
        }
    }

    const ORDERS: [LinkOrder; 2] = [LinkOrder::TargetFirst, LinkOrder::LinkFirst];

    #[test]
    fn link_is_right_whatever_the_server_reads() {
        for reads in ORDERS {
            for target in [&b"to"[..], b"../to", b"/abs/to", b""] {
                let mut server = Server::reading(reads);
                assert_eq!(server.make(target, b"/d/link"), Verdict::Made(reads));
                server.has(&[(b"/d/link", target)]);
            }
        }
    }

    #[test]
    fn link_is_right_where_the_target_exists_or_cannot_be_made() {
        for reads in ORDERS {
            let mut server = Server::reading(reads);
            server.links.insert(b"/to".to_vec(), b"x".to_vec());
            assert_eq!(server.make(b"/to", b"/d/link"), Verdict::Made(reads));
            server.has(&[(b"/to", b"x"), (b"/d/link", b"/to")]);
            let mut server = Server::reading(reads);
            server.barred.push(b"../to".to_vec());
            assert_eq!(server.make(b"../to", b"/d/link"), Verdict::Made(reads));
            server.has(&[(b"/d/link", b"../to")]);
        }
    }

    #[test]
    fn refused_link_leaves_nothing_behind() {
        for reads in ORDERS {
            for target in [&b"to"[..], b"/to"] {
                let mut server = Server::reading(reads);
                server.barred.push(b"/d/link".to_vec());
                assert_eq!(server.make(target, b"/d/link"), Verdict::Failed(Failure::Refused));
                server.has(&[]);
            }
        }
    }

    #[test]
    fn existing_name_is_no_proof() {
        for reads in ORDERS {
            let mut server = Server::reading(reads);
            server.links.insert(b"/d/link".to_vec(), b"to".to_vec());
            assert_eq!(server.make(b"to", b"/d/link"), Verdict::Failed(Failure::Exists));
            server.has(&[(b"/d/link", b"to")]);
        }
    }

    #[test]
    fn links_of_others_are_not_removed() {
        // A server that reports success without making a link, and already has a link that looks reversed.
        let mut server = Server { idle: true, ..Server::reading(LinkOrder::LinkFirst) };
        let mut trial = Trial::new(b"to".to_vec(), b"/d/link".to_vec(), LinkOrder::TargetFirst);
        server.links.insert(b"to".to_vec(), b"/d/link".to_vec());
        let answers = [Answer::Missing, Answer::Link, Answer::Ok, Answer::Missing, Answer::Missing];
        assert!(answers.into_iter().all(|answer| trial.answer(answer).is_none()));
        let answer = server.answer(trial.step(), b"to", b"/d/link");
        assert_eq!(trial.answer(answer), Some(Verdict::Failed(Failure::NotThere)));
        server.has(&[(b"to", b"/d/link")]);
    }

    #[test]
    fn success_without_a_link_is_a_failure() {
        let mut server = Server { idle: true, ..Server::reading(LinkOrder::TargetFirst) };
        assert_eq!(server.make(b"to", b"link"), Verdict::Failed(Failure::NotThere));
        let mut server = Server { has_remove: false, ..Server::reading(LinkOrder::LinkFirst) };
        assert_eq!(server.make(b"to", b"link"), Verdict::Failed(Failure::Reversed(b"to".to_vec())));
        let mut trial = Trial::new(b"to".to_vec(), b"link".to_vec(), LinkOrder::TargetFirst);
        for answer in [Answer::Missing, Answer::Missing, Answer::Ok] {
            assert_eq!(trial.answer(answer), None);
        }
        let elsewhere = trial.answer(Answer::LeadsTo(b"too".to_vec()));
        assert_eq!(elsewhere, Some(Verdict::Failed(Failure::LeadsElsewhere(b"too".to_vec()))));
    }

    #[test]
    fn server_without_readlink_is_judged_by_lstat() {
        let mut server = Server { has_readlink: false, ..Server::reading(LinkOrder::TargetFirst) };
        assert_eq!(server.make(b"to", b"link"), Verdict::Made(LinkOrder::TargetFirst));
        let mut server = Server { has_readlink: false, ..Server::reading(LinkOrder::LinkFirst) };
        assert_eq!(server.make(b"to", b"link"), Verdict::Failed(Failure::NotThere));
    }
}
