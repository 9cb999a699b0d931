//! The handles of one SFTP session that are open.
//!
//! Servers exist that give one handle to two open files (Erlang/OTP's): what is written to the first file then ends up in the second. A
//! handle that is given while it is open is noticed here. Handles are compared by the order of requests, which the protocol
//! keeps: a handle is free for an OPEN that was sent behind its CLOSE.

use std::collections::{HashMap, VecDeque};

use lh_sftp::Handle;

use crate::token::Token;

/// What a handle was given for.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Of the request that opened it.
    pub(crate) token: Token,
    /// Its path; empty for directories.
    pub(crate) path: Vec<u8>,
    /// Its data were read, and only the answer to the CLOSE is missing, for which the engine does not wait.
    pub(crate) gone: bool,
    close: Option<u32>,
}

/// A request to open something whose answer is missing.
#[derive(Debug)]
struct Opening {
    id: u32,
    path: Vec<u8>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    held: HashMap<Handle, Vec<Holder>>,
    opening: VecDeque<Opening>,
    closing: HashMap<u32, Handle>,
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

    /// Request `id` is to open something.
    pub(crate) fn opening(&mut self, id: u32, path: Vec<u8>) {
        self.opening.push_back(Opening { id, path });
    }

    /// Request `id`, which was to open something, is answered; returns its path.
    pub(crate) fn answered(&mut self, id: u32) -> Vec<u8> {
        let at = self.opening.iter().position(|opening| opening.id == id);
        at.and_then(|at| self.opening.remove(at)).map(|opening| opening.path).unwrap_or_default()
    }

    /// Something that was to be opened before request `id` was sent may still be: a handle that `id` closes may be given for it.
    pub(crate) fn opening_before(&self, id: u32) -> bool {
        self.opening.iter().any(|opening| is_before(opening.id, id))
    }

    /// Request `id` has been given `handle`. Returns who else has it, if anything has.
    pub(crate) fn given(&mut self, handle: &Handle, id: u32, token: Token, path: Vec<u8>) -> Vec<Holder> {
        let holders = self.held.entry(handle.clone()).or_default();
        let is_open = |holder: &Holder| holder.close.is_none_or(|close| is_before(id, close));
        let others = holders
            .iter()
            .filter(|holder| is_open(holder))
            .map(|holder| Holder { path: holder.path.clone(), ..*holder })
            .collect();
        holders.push(Holder { token, path, gone: false, close: None });
        others
    }

    /// Request `id` closes what `handle` was given for, by the same owner as `token` where several have it.
    pub(crate) fn closing(&mut self, handle: &Handle, id: u32, token: &Token) {
        let Some(holders) = self.held.get_mut(handle) else { return };
        let open = |holder: &&mut Holder| holder.close.is_none();
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

    /// The CLOSE with this id is answered, with success or not.
    pub(crate) fn closed(&mut self, id: u32) {
        let Some(handle) = self.closing.remove(&id) else { return };
        if let Some(holders) = self.held.get_mut(&handle) {
            holders.retain(|holder| holder.close != Some(id));
            if holders.is_empty() {
                self.held.remove(&handle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(handles: &mut Handles, handle: &[u8], id: u32) -> usize {
        let path = handles.answered(id);
        handles.given(&Handle::new(handle), id, Token::Nothing, path).len()
    }

    #[test]
    fn a_handle_is_free_behind_its_close_only() {
        let mut handles = Handles::default();
        // Across the end of the ids.
        let base = u32::MAX - 1;
        let id = |n: u32| base.wrapping_add(n);
        for n in [0, 1] {
            handles.opening(id(n), Vec::new());
        }
        assert_eq!(given(&mut handles, b"a", id(0)), 0);
        handles.closing(&Handle::new(b"a"), id(2), &Token::Nothing);
        assert!(handles.opening_before(id(2)));
        handles.opening(id(3), Vec::new());
        // Sent before the CLOSE: still open then.
        assert_eq!(given(&mut handles, b"a", id(1)), 1);
        // Sent behind the CLOSE of the first, but the second has it.
        assert_eq!(given(&mut handles, b"a", id(3)), 1);
        handles.closing(&Handle::new(b"a"), id(4), &Token::Nothing);
        handles.closing(&Handle::new(b"a"), id(5), &Token::Nothing);
        handles.opening(id(6), Vec::new());
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
            handles.opening(n, vec![b'x']);
            assert_eq!(given(&mut handles, &n.to_be_bytes(), n), 0);
        }
        handles.closed(7);
        assert!(!handles.is_empty());
    }
}
