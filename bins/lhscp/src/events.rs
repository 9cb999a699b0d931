//! `--json`: what happens, for programs. One object a line on standard output; times in seconds since the start, rates in
//! bytes per second. Names that are not UTF-8 have replacement characters.
//!
//! | `event` | members |
//! |---|---|
//! | `resumed` | `source`, `kept`, `size`: a file that an earlier attempt has left unfinished is gone on with |
//! | `planned` | `source`, `target`, `size` (or null): with `--dry-run` |
//! | `file` | `name`, `size`, `kept`, `seconds`: a file is complete |
//! | `skipped`, `failed` | `message` |
//! | `told` | `message`: how the copy is being made, such as over how many channels |
//! | `progress` | `files`, `files_found`, `bytes`, `bytes_found`, `kept`, `in_flight`, `all_found`, `rate`, `peak`, `average`, `eta` (or null): every second |
//! | `end` | `files`, `directories`, `bytes`, `kept`, `verified`, `failures`, `lost`, `seconds`, `average`, `peak`, `limited_by`, `advice` |

use std::fmt::Write as _;
use std::time::Instant;

use lh_transfer::{Event, Summary, Totals};

use crate::limits::Verdict;

/// A JSON object in the making.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new(event: &str) -> Self {
        Self(format!("{{\"event\":\"{event}\""))
    }

    pub(crate) fn text(mut self, name: &str, value: &[u8]) -> Self {
        let _ = write!(self.0, ",\"{name}\":\"");
        for c in String::from_utf8_lossy(value).chars() {
            match c {
                '"' | '\\' => {
                    self.0.push('\\');
                    self.0.push(c);
                }
                c if lh_wire::is_hidden(c) => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        let _ = write!(self.0, "\\u{unit:04x}");
                    }
                }
                c => self.0.push(c),
            }
        }
        self.0.push('"');
        self
    }

    pub(crate) fn number(mut self, name: &str, value: u64) -> Self {
        let _ = write!(self.0, ",\"{name}\":{value}");
        self
    }

    pub(crate) fn maybe(mut self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => {
                let _ = write!(self.0, ",\"{name}\":null");
                self
            }
        }
    }

    pub(crate) fn real(mut self, name: &str, value: f64) -> Self {
        let value = if value.is_finite() { value } else { 0.0 };
        let _ = write!(self.0, ",\"{name}\":{value:.3}");
        self
    }

    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        let _ = write!(self.0, ",\"{name}\":{value}");
        self
    }

    /// The line.
    pub(crate) fn line(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

/// The line for something that happened; what has none is for people only.
pub(crate) fn line_for(event: &Event, now: Instant) -> Option<String> {
    let object = match event {
        Event::Resumed { source, kept, size } => {
            Object::new("resumed").text("source", source).number("kept", *kept).number("size", *size)
        }
        Event::Planned { source, target, size } => {
            Object::new("planned").text("source", source).text("target", target).maybe("size", *size)
        }
        Event::FileDone { name, size, kept, started, .. } => Object::new("file")
            .text("name", name)
            .number("size", *size)
            .number("kept", *kept)
            .real("seconds", now.saturating_duration_since(*started).as_secs_f64()),
        Event::Failed { text } => Object::new("failed").text("message", text.as_bytes()),
        Event::Skipped { text } => Object::new("skipped").text("message", text.as_bytes()),
        Event::Told { text } => Object::new("told").text("message", text.as_bytes()),
        Event::Started { .. } | Event::Entered { .. } => return None,
    };
    Some(object.line())
}

/// The line for the state of the whole copy.
pub(crate) fn progress(totals: &Totals, rate: f64, peak: f64, average: f64) -> String {
    let left = totals.bytes_found.saturating_sub(totals.bytes) as f64;
    let eta = (totals.all_found && rate > 0.0).then(|| (left / rate) as u64);
    Object::new("progress")
        .number("files", totals.files)
        .number("files_found", totals.files_found)
        .number("bytes", totals.bytes)
        .number("bytes_found", totals.bytes_found)
        .number("kept", totals.kept)
        .number("in_flight", totals.in_flight as u64)
        .flag("all_found", totals.all_found)
        .real("rate", rate)
        .real("peak", peak)
        .real("average", average)
        .maybe("eta", eta)
        .line()
}

/// The last line.
pub(crate) fn end(summary: &Summary, seconds: f64, peak: f64, verdict: &Verdict) -> String {
    let average = summary.bytes as f64 / seconds.max(1e-6);
    Object::new("end")
        .number("files", summary.files)
        .number("directories", summary.directories)
        .number("bytes", summary.bytes)
        .number("kept", summary.kept)
        .number("verified", summary.verified)
        .number("failures", summary.failures)
        .flag("lost", summary.lost)
        .real("seconds", seconds)
        .real("average", average)
        .real("peak", peak.max(average))
        .text("limited_by", verdict.name.as_bytes())
        .text("advice", verdict.advice.as_bytes())
        .line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_their_string() {
        let line = Object::new("x").text("name", b"a\"b\\c\nd\xff\x1b").maybe("n", None).line();
        assert_eq!(line, "{\"event\":\"x\",\"name\":\"a\\\"b\\\\c\\u000ad\u{fffd}\\u001b\",\"n\":null}\n");
    }
}
