//! `RecordTerminal`: records a terminal's output with times, in the format asciicast version 2. Input is not
//! recorded, because it includes passwords; the terminal's echo is.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Instant;

use lh_driver::{ChannelCx, InputFilter};
use rustix::termios::Winsize;
use serde_json::{Value, json};

use super::shared::Shared;
use super::terminal;
use crate::log::{Log, error};
use crate::monitor_ipc::{MonitorRequest, TerminalFacts};

/// Opens a recording through the monitor, where `RecordTerminal` is set.
///
/// # Errors
/// The monitor refuses (it logs why) or has ended. The terminal must not be used then.
pub(super) fn open(shared: &Shared, kind: &str, size: Winsize) -> io::Result<Option<Recording>> {
    if shared.settings.record_terminal.0.is_none() {
        return Ok(None);
    }
    let facts = TerminalFacts {
        columns: u32::from(size.ws_col),
        rows: u32::from(size.ws_row),
        kind: kind.to_owned(),
    };
    let monitor = shared.monitor.borrow_mut();
    let sent = monitor.send(&MonitorRequest::Record(facts).encode());
    sent.map_err(|problem| io::Error::other(problem.to_string()))?;
    let file = terminal::receive(&monitor)?;
    let file = file.ok_or_else(|| io::Error::other("the terminal cannot be recorded (RecordTerminal)"))?;
    Ok(Some(Recording {
        recorder: Rc::new(RefCell::new(Recorder::new(File::from(file)))),
        user: shared.user.name.clone(),
        log: shared.log.clone(),
    }))
}

/// A recording of a terminal's output and of changes of its size.
#[derive(Clone)]
pub(super) struct Recording {
    recorder: Rc<RefCell<Recorder<File>>>,
    user: String,
    log: Log,
}

impl Recording {
    /// Records a change of the terminal's size.
    pub(super) fn resized(&self, size: Winsize) {
        self.recorder.borrow_mut().event("r", &format!("{}x{}", size.ws_col, size.ws_row));
        self.log_error();
    }

    fn log_error(&self) {
        if let Some(problem) = self.recorder.borrow_mut().error.take() {
            error!(
                self.log,
                "terminal of user {} ends: its recording cannot be written: {problem}", self.user
            );
        }
    }

    /// Returns whether recording has failed for good; the error has been logged.
    pub(super) fn has_failed(&self) -> bool {
        self.recorder.borrow().failed
    }
}

impl InputFilter for Recording {
    fn filter(&mut self, input: &[u8], out: &mut Vec<u8>, _cx: &mut ChannelCx<'_>) {
        self.recorder.borrow_mut().output(input);
        self.log_error();
        // Output that cannot be recorded is not shown either.
        if !self.has_failed() {
            out.extend_from_slice(input);
        }
    }

    fn ended(&self) -> bool {
        self.has_failed()
    }
}

impl<W: Write> Drop for Recorder<W> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes events to a recording.
#[derive(Debug)]
struct Recorder<W: Write> {
    file: W,
    began: Instant,
    /// The first bytes of an incomplete character: at most three.
    incomplete: Vec<u8>,
    failed: bool,
    error: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    fn new(file: W) -> Self {
        Self { file, began: Instant::now(), incomplete: Vec::new(), failed: false, error: None }
    }

    /// Records the terminal's output. Invalid UTF-8 becomes U+FFFD, because the format is text.
    fn output(&mut self, bytes: &[u8]) {
        self.incomplete.extend_from_slice(bytes);
        let whole = whole_characters(&self.incomplete);
        let rest = self.incomplete.split_off(whole);
        let text = String::from_utf8_lossy(&self.incomplete).into_owned();
        self.incomplete = rest;
        if !text.is_empty() {
            self.event("o", &text);
        }
    }

    /// Records the bytes of a character that stayed incomplete.
    fn end(&mut self) {
        if !self.incomplete.is_empty() {
            let text = String::from_utf8_lossy(&self.incomplete).into_owned();
            self.incomplete.clear();
            self.event("o", &text);
        }
    }

    fn event(&mut self, kind: &str, text: &str) {
        if self.failed {
            return;
        }
        let seconds = (self.began.elapsed().as_secs_f64() * 1e6).round() / 1e6;
        let event: Value = json!([seconds, kind, text]);
        // One call for each line: after a crash the file still ends with a complete one.
        if let Err(error) = self.file.write_all(format!("{event}\n").as_bytes()) {
            self.failed = true;
            self.error = Some(error);
        }
    }
}

/// Returns the length of the part of `bytes` that does not end inside a character.
fn whole_characters(bytes: &[u8]) -> usize {
    let mut start = 0;
    while let Some(rest) = bytes.get(start..) {
        match std::str::from_utf8(rest) {
            Ok(_) => return bytes.len(),
            // Invalid bytes are replaced later; valid characters may follow.
            Err(error) => match error.error_len() {
                Some(bad) => start += error.valid_up_to() + bad,
                None => return start + error.valid_up_to(),
            },
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(recorder: &Recorder<Vec<u8>>) -> Vec<(String, String)> {
        let text = std::str::from_utf8(&recorder.file).unwrap();
        let event = |line: &str| {
            let (time, kind, text): (f64, String, String) = serde_json::from_str(line).unwrap();
            assert!(time >= 0.0);
            (kind, text)
        };
        text.lines().map(event).collect()
    }

    #[test]
    fn characters_that_come_in_pieces_stay_whole() {
        let mut recorder = Recorder::new(Vec::new());
        for byte in "a\u{e9}\u{20ac}\u{1f600}\"\\\r\n\u{1b}[0m".bytes() {
            recorder.output(&[byte]);
        }
        recorder.output(b"\xff\xfeb");
        recorder.output(&"\u{20ac}".as_bytes()[..2]);
        recorder.end();
        let shown: String = events(&recorder).into_iter().map(|(_, text)| text).collect();
        assert_eq!(shown, "a\u{e9}\u{20ac}\u{1f600}\"\\\r\n\u{1b}[0m\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn an_error_ends_the_recording() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut recorder = Recorder::new(Full);
        recorder.output(b"x");
        assert!(recorder.failed);
        assert_eq!(recorder.error.take().unwrap().kind(), io::ErrorKind::StorageFull);
        recorder.output(b"y");
        assert!(recorder.error.is_none());
    }
}
