//! The line on the terminal while a session has no connection.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows the time that is left, in the line below the cursor.
pub(super) struct Status {
    enabled: bool,
    /// The text that is shown, and when the seconds change.
    shown: Option<(Shown, Instant)>,
}

/// Contents of the line.
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

    /// Shows the line, or changes it when a second has passed. `is_elsewhere`: another host answers in place
    /// of the server.
    pub(super) fn show(&mut self, left: Duration, is_elsewhere: bool) {
        let new = Shown { seconds: left.as_secs(), is_elsewhere };
        if !self.enabled || self.shown.is_some_and(|(shown, _)| shown == new) {
            return;
        }
        if self.shown.is_none() {
            // Where the cursor is at the bottom, the screen moves up by a line, and the cursor with it.
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

    /// When the line changes.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.shown.map(|(_, until)| until)
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The line below the cursor, which comes back to where it was.
fn line(shown: Shown) -> String {
    let (minutes, seconds) = (shown.seconds / 60, shown.seconds % 60);
    let lost = if shown.is_elsewhere { "connection lost, another host answers" } else { "connection lost" };
    format!("\x1b7\x1b[B\r\x1b[2K{lost}; reconnecting for {minutes}:{seconds:02}, ~. ends it\x1b8")
}

fn write(text: &str) {
    // A terminal that is gone needs no line.
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
