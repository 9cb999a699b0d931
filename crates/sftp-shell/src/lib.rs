//! `sftp` as a library: the command language, the commands, and the conversation with the server.
//!
//! Two decisions shaped it.
//!
//! **One thread owns the connection.** Lines are read on a thread of their own ([`Console`]), so that the
//! connection is served while the prompt waits: keepalives are answered, keys are exchanged, and a lost
//! connection is noticed. Commands run on the connection's thread, one after the other.
//!
//! **A conversation without I/O.** [`Conversation`] knows SFTP, the [`Carrier`] knows how bytes travel: over
//! a channel of an SSH connection, or over pipes to a program (`-D`, `-S`). Between copies the session is
//! used for single requests; for a copy it is lent to the engine of `lh_transfer` and comes back afterwards,
//! so that everything of one `sftp` goes over one channel.
//!
//! | module | what |
//! |---|---|
//! | [`words`], [`command`] | a line becomes words, words become a command |
//! | [`conversation`], [`remote`] | requests and copies, and waiting for them |
//! | `watch` | the console and the signals, which end a wait |
//! | [`glob`], `braces` | patterns of either side |
//! | [`shell`], `run` | what the commands do |
//! | [`listing`] | what `ls` and `df` print |
//! | [`console`], [`complete`] | lines from a terminal, a file or a pipe |

mod braces;
pub mod command;
pub mod complete;
pub mod console;
pub mod conversation;
mod detail;
pub mod glob;
pub mod listing;
mod paths;
mod prompt;
pub mod remote;
mod run;
mod settings;
pub mod shell;
mod show;
mod watch;
pub mod words;

pub use console::Console;
pub use conversation::{Carrier, Conversation};
pub use detail::Detail;
pub use remote::{Fault, Remote, SessionEnd};
pub use settings::{Journals, Settings};
pub use shell::Shell;
pub use watch::Watch;

/// Exit status when a command of a batch failed.
pub const FAILURE: u8 = 1;

/// Exit status when there is no connection, or it was lost.
pub const NO_CONNECTION: u8 = 255;

/// Prints a line on standard error. A terminal in raw mode (the line editor is at work) needs both line ends.
pub fn say(text: &str) {
    use std::io::Write as _;
    // A failure to print a message cannot be reported.
    let text = lh_wire::printable_lines(text);
    let _ = std::io::stderr().write_all(format!("{text}\r\n").as_bytes());
}

/// Prints why the connection was lost. Unless `quiet`, the message of OpenSSH's `sftp` at the end of its
/// `ssh` comes first.
pub fn say_lost(reason: &str, quiet: bool) {
    use std::io::Write as _;
    if !quiet && reason == "Connection closed" {
        let _ = std::io::stderr().write_all(b"\rConnection closed.  \n");
    }
    say(reason);
}

/// Prints a line on standard output. A closed pipe is ignored.
pub(crate) fn print(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
}
