//! Listing what the target has in a directory, until it is compared with the source.

use crate::end::{Done, Entry, Fault, FaultKind, Handle, Outcome, fault_of};

/// READDIRs in flight for one directory at most: begins with 2, one more with each answer. OpenSSH's server
/// sends 100 entries in each answer.
pub const MAX_LISTS: u32 = 64;

/// Entries of both ends.
#[derive(Debug, Default)]
pub(crate) struct Comparing {
    pub(crate) source: Vec<Entry>,
    pub(crate) target: Vec<Entry>,
}

impl Comparing {
    pub(crate) fn len(&self) -> usize {
        self.source.len() + self.target.len()
    }
}

/// State of the target's listing. Answers in, requests out.
#[derive(Debug, Default)]
pub(crate) struct TargetList {
    state: ListState,
    handle: Option<Handle>,
    in_flight: u32,
    allowed: u32,
    /// Number of restarts.
    round: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ListState {
    #[default]
    NotBegun,
    Open,
    /// Everything is known.
    Whole,
    /// It cannot be listed: each name has to be looked at.
    Failed,
}

/// Result of an answer.
#[derive(Debug)]
pub(crate) enum Listed {
    Entries(Vec<Entry>),
    /// It cannot be listed; only the first failure says so.
    Failed(Fault),
    Nothing,
}

/// What is wanted of the rest of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing: it will not be compared.
    Nothing,
    /// One request at a time, whose answer is there at once.
    OneByOne,
    /// Several requests before the first answer.
    Ahead,
}

/// Next request.
#[derive(Debug)]
pub(crate) enum ListRequest {
    /// This many more parts, of the listing's `round`.
    More {
        handle: Handle,
        count: u32,
        round: u8,
    },
    Close(Handle),
}

impl TargetList {
    /// The directory is new: there is nothing in it.
    pub(crate) const fn set_empty(&mut self) {
        self.state = ListState::Whole;
    }

    /// The directory is being opened.
    pub(crate) const fn begin(&mut self) {
        self.state = ListState::Open;
        self.allowed = 2;
    }

    /// Its handle is another file's, too: forgets what was listed. Returns the handle, which is to be closed.
    pub(crate) fn reset(&mut self) -> Option<Handle> {
        let handle = self.handle.take()?;
        *self = Self { round: self.round.wrapping_add(1), ..Self::default() };
        Some(handle)
    }

    /// The open directory.
    pub(crate) const fn handle(&self) -> Option<&Handle> {
        self.handle.as_ref()
    }

    /// Returns true when everything in the directory is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.state == ListState::Whole
    }

    /// Returns true when nothing more will be known.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, ListState::Whole | ListState::Failed) && self.in_flight == 0
    }

    /// The answer to opening it.
    pub(crate) fn on_begun(&mut self, outcome: Outcome) -> Listed {
        match outcome {
            Ok(Done::Opened(handle, _)) => {
                self.handle = Some(handle);
                Listed::Nothing
            }
            Ok(Done::Listing(handle, entries)) => {
                if handle.is_none() {
                    self.state = ListState::Whole;
                }
                self.handle = handle;
                Listed::Entries(entries)
            }
            outcome => {
                self.state = ListState::Failed;
                Listed::Failed(fault_of(outcome))
            }
        }
    }

    /// The answer to a request for more, of the listing's `round`; `None` if that one was given up.
    pub(crate) fn on_more(&mut self, round: u8, outcome: Outcome) -> Option<Listed> {
        if round != self.round {
            return None;
        }
        self.in_flight -= 1;
        self.allowed = (self.allowed + 1).min(MAX_LISTS);
        let ended = match outcome {
            Ok(Done::Listed(Some(entries))) if !entries.is_empty() => return Some(Listed::Entries(entries)),
            Ok(Done::Listed(_)) => self.state == ListState::Open,
            Err(fault) if fault.kind == FaultKind::Eof => self.state == ListState::Open,
            outcome => {
                let first = std::mem::replace(&mut self.state, ListState::Failed) != ListState::Failed;
                return Some(if first { Listed::Failed(fault_of(outcome)) } else { Listed::Nothing });
            }
        };
        // Several requests are in flight: one of the others may have failed before.
        if ended {
            self.state = ListState::Whole;
        }
        Some(Listed::Nothing)
    }

    /// What is to be asked for now.
    pub(crate) fn next_request(&mut self, wanted: Wanted) -> Option<ListRequest> {
        let handle = self.handle.clone()?;
        if self.state != ListState::Open || wanted == Wanted::Nothing {
            if self.in_flight > 0 {
                return None;
            }
            self.handle = None;
            return Some(ListRequest::Close(handle));
        }
        let allowed = if wanted == Wanted::OneByOne { 1 } else { self.allowed };
        let count = allowed.saturating_sub(self.in_flight);
        self.in_flight += count;
        Some(ListRequest::More { handle, count, round: self.round })
    }
}

#[cfg(test)]
mod tests {
    use lh_sftp::Handle as RemoteHandle;

    use crate::end::Info;

    use super::*;

    fn handle() -> Handle {
        Handle::Remote(RemoteHandle::new(b"h"), 0)
    }

    fn entries() -> Outcome {
        Ok(Done::Listed(Some(vec![Entry { name: b"a"[..].into(), info: Info::UNKNOWN }])))
    }

    fn eof() -> Outcome {
        Err(Fault { kind: FaultKind::Eof, text: "End of file".to_owned() })
    }

    fn open() -> TargetList {
        let mut list = TargetList::default();
        list.begin();
        assert!(matches!(list.on_begun(Ok(Done::Opened(handle(), None))), Listed::Nothing));
        list
    }

    /// How many parts are asked for.
    fn asked(list: &mut TargetList) -> u32 {
        match list.next_request(Wanted::Ahead) {
            Some(ListRequest::More { count, round: 0, .. }) => count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_answer_allows_one_more_request_until_the_end() {
        let mut list = open();
        assert_eq!(asked(&mut list), 2);
        assert!(matches!(list.on_more(0, entries()), Some(Listed::Entries(_))));
        assert_eq!(asked(&mut list), 2, "one for the answer, one more");
        for _ in 0..2 {
            assert!(matches!(list.on_more(0, eof()), Some(Listed::Nothing)));
            assert!(list.next_request(Wanted::Ahead).is_none(), "answers are awaited");
            assert!(list.is_whole() && !list.is_over());
        }
        // Entries behind the end count.
        assert!(matches!(list.on_more(0, entries()), Some(Listed::Entries(_))));
        assert!(list.is_over());
        assert!(matches!(list.next_request(Wanted::Ahead), Some(ListRequest::Close(_))));
        assert!(list.next_request(Wanted::Ahead).is_none());
    }

    #[test]
    fn a_failure_is_told_once_and_is_not_undone() {
        let mut list = open();
        assert_eq!(asked(&mut list), 2);
        let failed = || Err(Fault::other("no"));
        assert!(matches!(list.on_more(0, failed()), Some(Listed::Failed(fault)) if fault.text == "no"));
        assert!(matches!(list.on_more(0, eof()), Some(Listed::Nothing)));
        assert!(list.is_over() && !list.is_whole());
        assert!(matches!(list.next_request(Wanted::Ahead), Some(ListRequest::Close(_))));
        let mut list = TargetList::default();
        list.begin();
        assert!(matches!(list.on_begun(failed()), Listed::Failed(_)));
        assert!(list.is_over() && list.handle().is_none());
    }

    #[test]
    fn first_answer_may_hold_the_whole_listing() {
        let mut list = TargetList::default();
        list.begin();
        assert!(matches!(list.on_begun(Ok(Done::Listing(None, Vec::new()))), Listed::Entries(_)));
        assert!(list.is_whole() && list.is_over() && list.next_request(Wanted::Ahead).is_none());
    }

    #[test]
    fn this_host_is_asked_for_one_part_at_a_time() {
        let mut list = open();
        assert!(matches!(list.next_request(Wanted::OneByOne), Some(ListRequest::More { count: 1, .. })));
        assert!(matches!(list.on_more(0, Ok(Done::Listed(None))), Some(Listed::Nothing)));
        assert!(list.is_whole() && list.is_over());
    }

    #[test]
    fn a_listing_that_is_not_wanted_any_more_is_closed() {
        let mut list = open();
        assert!(matches!(list.next_request(Wanted::Nothing), Some(ListRequest::Close(_))));
    }

    #[test]
    fn answers_of_a_round_that_was_given_up_do_not_count() {
        let mut list = open();
        assert_eq!(asked(&mut list), 2);
        assert!(list.reset().is_some() && list.reset().is_none());
        list.begin();
        assert!(matches!(list.on_begun(Ok(Done::Opened(handle(), None))), Listed::Nothing));
        assert!(list.on_more(0, entries()).is_none());
        assert!(matches!(
            list.next_request(Wanted::Ahead),
            Some(ListRequest::More { count: 2, round: 1, .. })
        ));
    }
}
