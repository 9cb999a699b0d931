//! The status line on the terminal while a session has no connection.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows the remaining time in the line below the cursor.
pub(super) struct Status {
    enabled: bool,
    /// The shown text, and when it next changes.
    shown: Option<(Shown, Instant)>,
}

/// Content of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    seconds: u64,
    /// Another host answers in place of the server.
    is_elsewhere: bool,
}

impl Status {
    /// `wanted`: the session has a terminal, and messages are shown.
    pub(super) fn new(wanted: bool) -> Self {
        Self { enabled: wanted && std::io::stderr().is_terminal(), shown: None }
    }

    /// Shows the line, or updates it after a second. `is_elsewhere`: another host answers in place of the
    /// server.
    pub(super) fn show(&mut self, left: Duration, is_elsewhere: bool) {
        let new = Shown { seconds: left.as_secs(), is_elsewhere };
        if !self.enabled || self.shown.is_some_and(|(shown, _)| shown == new) {
            return;
        }
        if self.shown.is_none() {
            // If the cursor is in the last line, this scrolls the screen up by a line, with the cursor.
            write("\n\x1b[A");
        }
        write(&line(new));
        self.shown = Some((new, Instant::now() + Duration::from_secs(1)));
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            write("\x1b7\x1b[B\r\x1b[2K\x1b8");
        }
    }

    /// Returns when the line changes next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.shown.map(|(_, until)| until)
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the escape sequences that write the line below the cursor and restore the cursor's position.
fn line(shown: Shown) -> String {
    let (minutes, seconds) = (shown.seconds / 60, shown.seconds % 60);
    let lost = if shown.is_elsewhere { "connection lost, another host answers" } else { "connection lost" };
    format!("\x1b7\x1b[B\r\x1b[2K{lost}; reconnecting for {minutes}:{seconds:02}, ~. ends it\x1b8")
}

fn write(text: &str) {
    // Ignored: the terminal may be gone.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_shown_in_minutes() {
        let shown = |seconds, is_elsewhere| line(Shown { seconds, is_elsewhere });
        assert!(shown(581, false).contains("connection lost; reconnecting for 9:41, ~. ends it"));
        assert!(shown(7, false).contains(" 0:07,"));
        let elsewhere = "connection lost, another host answers; reconnecting for 9:41, ~. ends it";
        assert!(shown(581, true).contains(elsewhere) && elsewhere.len() < 80);
    }
}
