//! The status line on the terminal while a session has no connection.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use lh_sys::termios::is_in_foreground;
use rustix::termios::{LocalModes, tcgetattr};

use crate::resumptions::Resumptions;
use crate::ui::LogLevel;

/// Shows the remaining time in the line below the cursor.
pub(super) struct Status {
    /// Standard error is a terminal, and messages are shown.
    can_show: bool,
    /// The keys that end the program; `None` where no line is wanted.
    keys: Option<&'static str>,
    /// The shown text, and when it next changes.
    shown: Option<(Shown, Instant)>,
    /// Learns what the line has destroyed.
    resumptions: Resumptions,
}

/// Content of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    seconds: u64,
    /// Another host answers in place of the server.
    is_elsewhere: bool,
}

/// How the line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Below the cursor, in a terminal that does not echo: only the session moves the cursor.
    Below,
    /// Below the cursor, in a terminal that echoes: typed lines move the cursor onto the line. The cursor is
    /// at the end of all text.
    BelowEcho,
    /// A line of text, once: the terminal has no cursor control.
    Plain,
}

impl Style {
    fn of_terminal() -> Self {
        let echo =
            tcgetattr(std::io::stderr()).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ECHO));
        match std::env::var_os("TERM") {
            _ if !echo => Self::Below,
            Some(term) if term != "dumb" && !term.is_empty() => Self::BelowEcho,
            _ => Self::Plain,
        }
    }
}

impl Status {
    pub(super) fn new(keys: Option<&'static str>, level: LogLevel, resumptions: Resumptions) -> Self {
        let can_show = level >= LogLevel::Info && std::io::stderr().is_terminal();
        Self { can_show, keys, shown: None, resumptions }
    }

    pub(super) fn set_keys(&mut self, keys: Option<&'static str>) {
        if keys.is_none() {
            self.clear();
        }
        self.keys = keys;
    }

    /// Shows the line, or updates it after a second. `is_elsewhere`: another host answers in place of the
    /// server.
    pub(super) fn show(&mut self, left: Duration, is_elsewhere: bool) {
        let Some(keys) = self.keys.filter(|_| self.can_show) else { return };
        let new = Shown { seconds: left.as_secs(), is_elsewhere };
        if self.shown.is_some_and(|(shown, _)| shown == new) || is_in_background() {
            return;
        }
        match Style::of_terminal() {
            Style::Plain if self.shown.is_some() => {}
            Style::Plain => write(&format!("{}\n", text(new, keys))),
            style => write(&line(new, keys, style)),
        }
        self.shown = Some((new, Instant::now() + Duration::from_secs(1)));
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() && !is_in_background() {
            match Style::of_terminal() {
                Style::Below => {
                    write("\x1b7\x1b[B\r\x1b[2K\x1b8");
                    self.resumptions.set_overwritten();
                }
                Style::BelowEcho => write("\x1b[J"),
                Style::Plain => {}
            }
        }
    }

    /// Removes the line at the end of the session, where the program may have moved the cursor onto it.
    pub(super) fn end(&mut self) {
        if self.shown.take().is_some() && !is_in_background() && Style::of_terminal() != Style::Plain {
            write("\x1b[J");
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

/// True while the terminal belongs to another program, such as the shell that has started this one with `&`.
fn is_in_background() -> bool {
    is_in_foreground(std::io::stderr()).is_ok_and(|is_there| !is_there)
}

fn text(shown: Shown, keys: &str) -> String {
    let (minutes, seconds) = (shown.seconds / 60, shown.seconds % 60);
    let lost = if shown.is_elsewhere { "connection lost, another host answers" } else { "connection lost" };
    format!("{lost}; reconnecting for {minutes}:{seconds:02}, {keys} ends it")
}

/// Returns the escape sequences that write the line below the cursor and restore the cursor's position.
fn line(shown: Shown, keys: &str, style: Style) -> String {
    // Where the cursor was moved onto the line, its text is erased.
    let erase = if style == Style::BelowEcho { "\x1b[J" } else { "" };
    // If the cursor is in the last line, index (ESC D) scrolls the screen up by a line. Unlike a newline it
    // keeps the column in all modes of the terminal.
    format!("{erase}\x1bD\x1b[A\x1b7\x1b[B\r\x1b[2K{}\x1b8", text(shown, keys))
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
        let shown = |seconds, is_elsewhere| text(Shown { seconds, is_elsewhere }, "~.");
        assert_eq!(shown(581, false), "connection lost; reconnecting for 9:41, ~. ends it");
        assert!(shown(7, false).contains(" 0:07,"));
        let elsewhere = "connection lost, another host answers; reconnecting for 9:41, ~. ends it";
        assert!(shown(581, true) == elsewhere && elsewhere.len() < 80);
    }

    #[test]
    fn the_keys_that_end_the_program_are_named() {
        let shown = Shown { seconds: 60, is_elsewhere: false };
        let text = "connection lost; reconnecting for 1:00, ^C ends it";
        for (style, erases) in [(Style::Below, false), (Style::BelowEcho, true)] {
            let line = line(shown, "^C", style);
            assert!(line.contains(text) && line.starts_with("\x1b[J") == erases, "{line:?}");
        }
    }
}
