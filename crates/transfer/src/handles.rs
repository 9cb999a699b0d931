//! The handles of one SFTP session that are open.
//!
//! Servers exist that give one handle to two open files (Erlang/OTP's): what is written to the first file
//! then ends up in the second. A handle that is given while it is open is noticed here. Handles are compared
//! by the order of requests, which the protocol keeps: a handle is free for an OPEN that was sent behind its
//! CLOSE.

use std::collections::{HashMap, VecDeque};

use lh_sftp::Handle;

use crate::to_open::{OpenCount, Opening};
use crate::token::Token;

/// An open handle: its request and path.
#[derive(Debug)]
pub(crate) struct HandlePurpose {
    /// Token of the request that opened it.
    pub(crate) token: Token,
    /// Its path; empty for directories.
    pub(crate) path: Vec<u8>,
    /// Its data were read, and only the answer to the CLOSE is missing, for which the engine does not wait.
    pub(crate) gone: bool,
    is_file: bool,
    close: Option<u32>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    held: HashMap<Handle, Vec<HandlePurpose>>,
    /// By the id of the request.
    opening: VecDeque<(u32, Opening)>,
    closing: HashMap<u32, Handle>,
    /// Number of handles held.
    open: OpenCount,
}

/// Request ids count up and wrap.
const fn is_before(id: u32, other: u32) -> bool {
    (id.wrapping_sub(other) as i32) < 0
}

impl Handles {
    /// Returns true when nothing is open or being opened.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.opening.is_empty()
    }

    /// Number of open files and directories, by the server's replies.
    pub(crate) const fn open(&self) -> OpenCount {
        self.open
    }

    /// Number of files and directories that are open or being opened.
    pub(crate) fn open_or_opening(&self) -> OpenCount {
        let files = self.opening.iter().filter(|(_, opening)| opening.is_file()).count();
        OpenCount { all: self.open.all + self.opening.len(), files: self.open.files + files }
    }

    /// Records that request `id` (OPEN or OPENDIR) was sent to open a file or directory.
    pub(crate) fn opening(&mut self, id: u32, opening: Opening) {
        self.opening.push_back((id, opening));
    }

    /// Records that request `id` is answered. Returns the file or directory that it was to open, or `None` if
    /// it is not one of the requests recorded by [`Handles::opening`].
    pub(crate) fn answered(&mut self, id: u32) -> Option<Opening> {
        let at = self.opening.iter().position(|&(opening, _)| opening == id)?;
        self.opening.remove(at).map(|(_, opening)| opening)
    }

    /// Returns true if an OPEN or OPENDIR that was sent before request `id` is unanswered: its answer may
    /// bring the very handle that `id` closes.
    pub(crate) fn opening_before(&self, id: u32) -> bool {
        self.opening.iter().any(|&(opening, _)| is_before(opening, id))
    }

    /// Records that the server has answered request `id` with `handle`. Returns the other files and
    /// directories that have the same handle open; none with a server that works correctly.
    pub(crate) fn given(
        &mut self,
        handle: &Handle,
        id: u32,
        token: Token,
        opening: Opening,
    ) -> Vec<HandlePurpose> {
        let is_file = opening.is_file();
        let path = if is_file { opening.path } else { Vec::new() };
        let holders = self.held.entry(handle.clone()).or_default();
        let is_open = |holder: &HandlePurpose| holder.close.is_none_or(|close| is_before(id, close));
        let others = holders
            .iter()
            .filter(|holder| is_open(holder))
            .map(|holder| HandlePurpose { path: holder.path.clone(), ..*holder })
            .collect();
        holders.push(HandlePurpose { token, path, is_file, gone: false, close: None });
        self.open.all += 1;
        self.open.files += usize::from(is_file);
        others
    }

    /// Records that request `id` (CLOSE) was sent for `handle`. If several files have the handle, the one
    /// with the owner of `token` counts as closed.
    pub(crate) fn closing(&mut self, handle: &Handle, id: u32, token: &Token) {
        let Some(holders) = self.held.get_mut(handle) else { return };
        let open = |holder: &&mut HandlePurpose| holder.close.is_none();
        let owned =
            holders.iter().position(|holder| holder.close.is_none() && holder.token.same_owner(token));
        let holder = match owned {
            Some(at) => holders.get_mut(at),
            None => holders.iter_mut().find(open),
        };
        if let Some(holder) = holder {
            holder.close = Some(id);
            holder.gone = matches!(token, Token::Nothing);
            self.closing.insert(id, handle.clone());
        }
    }

    /// Records that the CLOSE with this id is answered, with success or not.
    pub(crate) fn closed(&mut self, id: u32) {
        let Some(handle) = self.closing.remove(&id) else { return };
        if let Some(holders) = self.held.get_mut(&handle) {
            for holder in holders.extract_if(.., |holder| holder.close == Some(id)) {
                self.open.all -= 1;
                self.open.files -= usize::from(holder.is_file);
            }
            if holders.is_empty() {
                self.held.remove(&handle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lh_sftp::{Attrs, OpenFlags};

    use crate::to_open::OpenRequest;

    use super::*;

    fn file() -> Opening {
        Opening { path: vec![b'x'], how: OpenRequest::File(OpenFlags::READ, Attrs::NONE), refused_at: None }
    }

    fn given(handles: &mut Handles, handle: &[u8], id: u32) -> usize {
        let opening = handles.answered(id).expect("it was asked");
        handles.given(&Handle::new(handle), id, Token::Nothing, opening).len()
    }

    #[test]
    fn handles_count_until_their_close_is_answered() {
        let mut handles = Handles::default();
        handles.opening(1, file());
        handles.opening(2, Opening { how: OpenRequest::Dir, ..file() });
        assert_eq!(handles.open(), OpenCount { all: 0, files: 0 });
        assert_eq!(handles.open_or_opening(), OpenCount { all: 2, files: 1 });
        given(&mut handles, b"a", 1);
        given(&mut handles, b"b", 2);
        assert_eq!(handles.open(), OpenCount { all: 2, files: 1 });
        handles.closing(&Handle::new(b"a"), 3, &Token::Nothing);
        assert_eq!(handles.open(), OpenCount { all: 2, files: 1 });
        handles.closed(3);
        assert_eq!(handles.open_or_opening(), OpenCount { all: 1, files: 0 });
    }

    #[test]
    fn a_handle_is_free_behind_its_close_only() {
        let mut handles = Handles::default();
        // Across the end of the ids.
        let base = u32::MAX - 1;
        let id = |n: u32| base.wrapping_add(n);
        for n in [0, 1] {
            handles.opening(id(n), file());
        }
        assert_eq!(given(&mut handles, b"a", id(0)), 0);
        handles.closing(&Handle::new(b"a"), id(2), &Token::Nothing);
        assert!(handles.opening_before(id(2)));
        handles.opening(id(3), file());
        // Sent before the CLOSE: still open then.
        assert_eq!(given(&mut handles, b"a", id(1)), 1);
        // Sent behind the CLOSE of the first, but the second has it.
        assert_eq!(given(&mut handles, b"a", id(3)), 1);
        handles.closing(&Handle::new(b"a"), id(4), &Token::Nothing);
        handles.closing(&Handle::new(b"a"), id(5), &Token::Nothing);
        handles.opening(id(6), file());
        assert_eq!(given(&mut handles, b"a", id(6)), 0);
        handles.closing(&Handle::new(b"a"), id(7), &Token::Nothing);
        for n in [2, 4, 5, 7] {
            assert!(!handles.is_empty());
            handles.closed(id(n));
        }
        assert!(handles.is_empty());
    }

    #[test]
    fn different_handles_have_nothing_to_do_with_each_other() {
        let mut handles = Handles::default();
        for n in 0..100_u32 {
            handles.opening(n, file());
            assert_eq!(given(&mut handles, &n.to_be_bytes(), n), 0);
        }
        handles.closed(7);
        assert!(!handles.is_empty());
    }
}
