//! What is to be opened later: on a server that gives one handle twice when nothing else is open, and behind
//! a refusal when fewer files are open.
//!
//! Servers limit how many files are open and refuse the next OPEN with a status that may mean anything:
//! Maverick Synergy answers `permission denied` with fifty. So an OPEN that is refused while as much is open
//! as ever was is sent once more when half of that is closed. If it succeeds then, fewer are to be open from
//! then on; if not, the refusal was meant. What is to be opened meanwhile waits behind it, so that it does
//! not take the place that has become free.
//!
//! Pure: what is open and what was answered goes in, what is to be opened now comes out.

use std::collections::VecDeque;

use lh_sftp::{Attrs, OpenFlags, Request, StatusCode};

use crate::answers::Shape;
use crate::end::{Fault, FaultKind};
use crate::token::{FileStep, Token};

/// The fewest handles that a server is taken to have. One that has fewer gets what it refuses once more each
/// time, and one that has refused a file for another reason is not slowed down for good.
const FEWEST_HANDLES: usize = 8;

/// Something that is to be opened, or is being opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Path of a file; empty for directories.
    pub(crate) path: Vec<u8>,
    pub(crate) how: OpenRequest,
    /// Number of open files when the server refused it.
    pub(crate) refused_at: Option<usize>,
}

/// By which request it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenRequest {
    File(OpenFlags, Attrs),
    Dir,
    /// A listing for the entries that match the pattern.
    Listing(Vec<u8>),
}

impl Opening {
    /// Returns the object that `request` opens; `None` if it opens nothing.
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        let (path, how) = match *request {
            Request::Open { path, flags, attrs } => (path, OpenRequest::File(flags, attrs)),
            Request::Opendir { path } => (path, OpenRequest::Dir),
            Request::ListDir { path, pattern, .. } => (path, OpenRequest::Listing(pattern.to_vec())),
            _ => return None,
        };
        Some(Self { path: path.to_vec(), how, refused_at: None })
    }

    /// The request that opens it.
    pub(crate) fn request(&self) -> Request<'_> {
        let path = &self.path;
        match &self.how {
            OpenRequest::File(flags, attrs) => Request::Open { path, flags: *flags, attrs: *attrs },
            OpenRequest::Dir => Request::Opendir { path },
            OpenRequest::Listing(pattern) => Request::ListDir { path, pattern, flags: 0 },
        }
    }

    /// It is a file.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self.how, OpenRequest::File(..))
    }
}

/// Requests that wait to be sent.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) token: Token,
    pub(crate) shape: Shape,
    pub(crate) opening: Opening,
}

/// Number of files and directories that are open or being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpenCount {
    /// Files and directories.
    pub(crate) all: usize,
    pub(crate) files: usize,
}

/// What a server lets be opened now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// One at a time.
    Alone,
    /// Several, and no answer of the server is awaited.
    Idle,
    /// Several, and answers of the server are awaited.
    Awaiting,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct ToOpen {
    waiting: VecDeque<Waiting>,
    /// Largest number open at once.
    most_open: OpenCount,
}

/// Returns true where a limit of open files may be why the server has answered an OPEN with `code`, which is
/// `fault`.
pub(crate) fn may_be_limit(code: StatusCode, fault: &Fault) -> bool {
    matches!(code, StatusCode::FAILURE | StatusCode::PERMISSION_DENIED)
        && fault.kind == FaultKind::Other
        && !fault.is_full()
        && !fault.is_taken()
}

/// Returns true for what may wait for other files to be closed. A file that is opened once more on another
/// channel keeps others from being closed on that channel's neighbours, and goes without that channel
/// instead. Where both ends are `remote`, so does one that is being compared: each end might wait for what
/// the other one has open.
pub(crate) const fn may_wait(token: &Token, both_remote: bool) -> bool {
    match token {
        Token::File(_, FileStep::OpenOnChannel { .. }) => false,
        Token::File(_, FileStep::Contents(_) | FileStep::Proof(_)) => !both_remote,
        _ => true,
    }
}

impl ToOpen {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Something is open now beside what was, so that `open` are.
    pub(crate) fn opened(&mut self, open: OpenCount) {
        self.most_open.all = self.most_open.all.max(open.all);
        self.most_open.files = self.most_open.files.max(open.files);
    }

    /// Returns true where an OPEN that was refused while `open` were open is worth another attempt.
    /// `in_order`: the server answers in the order of the requests, so that `open` is what it had open
    /// itself.
    pub(crate) const fn is_doubtful(&self, opening: &Opening, open: OpenCount, in_order: bool) -> bool {
        // Directories may count for the server or not.
        let as_ever = open.all >= self.most_open.all
            || (open.files > 0 && open.files >= self.most_open.files && opening.is_file());
        opening.refused_at.is_none() && open.all > 0 && (as_ever || !in_order)
    }

    /// Adds what is to be opened when it is its turn.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Takes out what is to be opened now.
    pub(crate) fn next(&mut self, open: OpenCount, turn: Turn) -> Option<Waiting> {
        let now = match self.waiting.front()?.opening.refused_at {
            _ if turn == Turn::Alone => open.all == 0,
            None => true,
            // Directories may stay open until what is in them is copied.
            Some(at) => open.all <= at / 2 || (open.files == 0 && turn == Turn::Idle),
        };
        if now { self.waiting.pop_front() } else { None }
    }

    /// Takes out all.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waiting> {
        self.waiting.drain(..)
    }
}

/// Returns the handle limit of a server that refused an OPEN with `open` files open, and granted it later.
pub(crate) fn most_handles(open: usize) -> usize {
    (open - open / 8).max(FEWEST_HANDLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(refused_at: Option<usize>) -> Opening {
        Opening { path: b"f".to_vec(), how: OpenRequest::File(OpenFlags::READ, Attrs::NONE), refused_at }
    }

    fn waiting(refused_at: Option<usize>) -> Waiting {
        Waiting { token: Token::Nothing, shape: Shape::Plain, opening: file(refused_at) }
    }

    const fn open(all: usize, files: usize) -> OpenCount {
        OpenCount { all, files }
    }

    #[test]
    fn a_refusal_is_doubted_once_and_only_with_as_much_open_as_ever() {
        let mut later = ToOpen::default();
        assert!(!later.is_doubtful(&file(None), open(0, 0), true), "nothing is open");
        later.opened(open(1, 0));
        assert!(later.is_doubtful(&file(None), open(1, 0), true));
        later.opened(open(50, 40));
        later.opened(open(7, 7));
        assert!(later.is_doubtful(&file(None), open(50, 30), true));
        assert!(!later.is_doubtful(&file(None), open(49, 39), true), "one more was open before");
        assert!(later.is_doubtful(&file(None), open(40, 40), true), "of files as many as ever");
        let dir = Opening { how: OpenRequest::Dir, ..file(None) };
        assert!(!later.is_doubtful(&dir, open(40, 40), true));
        assert!(later.is_doubtful(&file(None), open(49, 39), false), "answers overtake each other");
        assert!(!later.is_doubtful(&file(Some(50)), open(50, 50), true), "it was sent again");
    }

    #[test]
    fn refused_opens_are_repeated_when_half_is_closed() {
        let mut later = ToOpen::default();
        later.push(waiting(Some(50)));
        later.push(waiting(None));
        assert!(later.next(open(26, 20), Turn::Idle).is_none());
        assert!(later.next(open(25, 20), Turn::Awaiting).is_some());
        assert!(later.next(open(26, 21), Turn::Awaiting).is_some(), "what waited behind it goes at once");
        assert!(later.next(open(0, 0), Turn::Idle).is_none() && later.is_empty());
    }

    #[test]
    fn directories_alone_hold_nothing_up_for_ever() {
        let mut later = ToOpen::default();
        later.push(waiting(Some(3)));
        assert!(later.next(open(3, 0), Turn::Awaiting).is_none(), "a listing may end yet");
        assert!(later.next(open(3, 1), Turn::Idle).is_none(), "a file will be closed");
        assert!(later.next(open(3, 0), Turn::Idle).is_some());
    }

    #[test]
    fn one_at_a_time_is_one_at_a_time() {
        let mut later = ToOpen::default();
        later.push(waiting(None));
        assert!(later.next(open(1, 0), Turn::Alone).is_none());
        assert!(later.next(open(0, 0), Turn::Alone).is_some());
    }

    #[test]
    fn a_limit_is_lowered_a_little_and_never_to_nothing() {
        assert_eq!([50, 20, 8, 3, 1].map(most_handles), [44, 18, 8, 8, 8]);
    }

    #[test]
    fn only_what_a_limit_could_be_answered_with_is_doubted() {
        let doubted = |code, text: &str| may_be_limit(code, &Fault::other(text));
        assert!(doubted(StatusCode::FAILURE, "Failure"));
        assert!(doubted(StatusCode::PERMISSION_DENIED, "Permission denied"));
        assert!(!doubted(StatusCode::OP_UNSUPPORTED, "Operation unsupported"));
        assert!(!doubted(StatusCode::FAILURE, "File exists"));
        assert!(!doubted(StatusCode::FAILURE, "No space left on device"));
        let missing = Fault { kind: FaultKind::NotFound, text: String::new() };
        assert!(!may_be_limit(StatusCode::NO_SUCH_FILE, &missing));
    }

    #[test]
    fn opens_on_a_second_channel_do_not_wait() {
        let step = |step| Token::File(1, step);
        assert!(!may_wait(&step(FileStep::OpenOnChannel { channel: 1 }), false));
        let proof = step(FileStep::Proof(crate::Side::Source));
        assert!(may_wait(&proof, false) && !may_wait(&proof, true));
        assert!(may_wait(&step(FileStep::OpenSource), true));
    }
}
