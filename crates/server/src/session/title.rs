//! Titles of session processes, in which administrators see with `ps` whose session a process serves. They
//! have the form of OpenSSH's: `lhsshd-session: bob [priv]`, `lhsshd-session: bob@pts/0`.

use std::cell::RefCell;
use std::rc::Rc;

use crate::listener::SESSION_NAME;

/// Prefix of an argument of blanks, which makes room for titles in the memory of the arguments.
pub(crate) const ROOM_FLAG: &str = "--title=";
/// Longest user name and terminals that a title shows whole, bytes together.
const ROOM: usize = 96;

/// Returns the argument that makes room for titles.
pub(crate) fn room() -> String {
    format!("{ROOM_FLAG}{:ROOM$}", "")
}

/// Names a session process that has just been started.
pub(super) fn begin() {
    lh_sys::title::prepare(SESSION_NAME);
    set("[accepted]");
}

/// The pre-auth process.
pub(super) fn preauth() {
    set("[net]");
}

/// The monitor after the login.
pub(super) fn monitor(user: &str) {
    set(&format!("{user} [priv]"));
}

/// The process that keeps PAM's session open.
pub(super) fn modules(user: &str) {
    set(&format!("{user} [pam]"));
}

fn set(text: &str) {
    lh_sys::title::set(&format!("{SESSION_NAME}: {text}"));
}

/// The title of a user session process: the user, and the terminals of its programs.
pub(super) struct UserTitle {
    user: String,
    terminals: RefCell<Vec<String>>,
}

impl UserTitle {
    /// Sets the title of a session without programs.
    pub(super) fn new(user: &str) -> Rc<Self> {
        set(user);
        Rc::new(Self { user: user.to_owned(), terminals: RefCell::default() })
    }

    /// Sets the title of a session that starts a program without a terminal.
    pub(super) fn show(&self) {
        set(&self.text());
    }

    /// Adds a terminal (`pts/0`) to the title, until the returned value is dropped.
    pub(super) fn with_terminal(self: &Rc<Self>, line: String) -> ShownTerminal {
        self.terminals.borrow_mut().push(line.clone());
        self.show();
        ShownTerminal { title: Rc::clone(self), line }
    }

    fn text(&self) -> String {
        let terminals = self.terminals.borrow().join(",");
        format!("{}@{}", self.user, if terminals.is_empty() { "notty" } else { &terminals })
    }
}

/// A terminal that the title shows.
pub(super) struct ShownTerminal {
    title: Rc<UserTitle>,
    line: String,
}

impl Drop for ShownTerminal {
    fn drop(&mut self) {
        self.title.terminals.borrow_mut().retain(|line| *line != self.line);
        self.title.show();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_list_the_terminals_in_use() {
        let title = UserTitle::new("bob");
        assert_eq!(title.text(), "bob@notty");
        let first = title.with_terminal("pts/0".to_owned());
        let second = title.with_terminal("pts/3".to_owned());
        assert_eq!(title.text(), "bob@pts/0,pts/3");
        drop(first);
        assert_eq!(title.text(), "bob@pts/3");
        drop(second);
        assert_eq!(title.text(), "bob@notty");
    }
}
