//! Sessions of the server: how they start, which are refused, and what becomes of those that stay.

use super::super::sftp_file::SftpRates;
use crate::connects::TurnedAway;
use crate::flow::Direction;

/// Time of a login shell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shell {
    /// Seconds from the request for a shell with a terminal to its end, of several runs.
    pub(crate) interactive: Vec<f64>,
    /// Seconds for a command that does nothing.
    pub(crate) command: Vec<f64>,
    /// The line of the start-up files that took longest, where it is, and its seconds.
    pub(crate) slowest: Option<(String, Option<String>, f64)>,
    /// The start-up file whose lines together took longest, and their seconds.
    pub(crate) slowest_file: Option<(String, f64)>,
}

/// The server's SFTP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sftp {
    /// Seconds until it answers, of several sessions.
    pub(crate) starts: Vec<f64>,
    /// Rates of a file over it.
    pub(crate) file: Option<SftpRates>,
    /// Why the server has none, in its words.
    pub(crate) refusal: Option<String>,
}

/// Connections and sessions that the server, or a firewall, did not accept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    /// Connections, one at a time, that the server refused before its greeting.
    pub(crate) connections: usize,
    /// All logins of the run.
    pub(crate) logins_made: usize,
    /// Connections that were not accepted although others were.
    pub(crate) turned_away: Option<TurnedAway>,
    /// The first connection answered after no other one had been made.
    pub(crate) first_answers: bool,
    /// Why the server opened no session beside those that had just ended, in its words.
    pub(crate) session: Option<String>,
    /// Why the server runs no commands for the user.
    pub(crate) commands: Option<String>,
}

/// Rates through a shared connection (`ControlMaster`), and over one of this process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Master {
    /// Its control socket.
    pub(crate) socket: String,
    /// It did not answer.
    pub(crate) is_silent: bool,
    pub(crate) rates: Vec<SharedRate>,
}

/// Rates of a direction, bytes/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SharedRate {
    pub(crate) direction: Direction,
    /// Through the shared connection: the faster of two where they differ.
    pub(crate) through: f64,
    /// Over a new one: the slower of two where they differ.
    pub(crate) alone: f64,
}

/// Result of a session over which nothing was sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Idle {
    /// Time without traffic, seconds.
    pub(crate) seconds: f64,
    pub(crate) end: IdleEnd,
}

/// How an idle session ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IdleEnd {
    /// It answered after that time.
    Answered,
    /// The connection was closed, in these words.
    Closed(String),
    /// Nothing came back, and a new connection works.
    Forgotten,
}
