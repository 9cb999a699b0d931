//! `--json`: what happens, for programs. One object a line on standard output. docs/json.md has the events
//! and their members, and a test holds it against this module.

use std::fmt::Write as _;
use std::time::Instant;

use lh_transfer::{Event, Totals};

use crate::record::RunRecord;

/// Version of the events, in `start`. It rises when a member is taken away or changes its meaning, not when
/// one is added.
const VERSION: u64 = 1;

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
        Event::Deleted { target } => Object::new("deleted").text("target", target),
        Event::PlannedDelete { target } => Object::new("planned_delete").text("target", target),
        Event::FileDone { name, size, kept, started, .. } => Object::new("file")
            .text("name", name)
            .number("size", *size)
            .number("kept", *kept)
            .real("seconds", now.saturating_duration_since(*started).as_secs_f64()),
        Event::Changed { source, text } => {
            Object::new("changed").text("source", source).text("message", text.as_bytes())
        }
        Event::Failed { text } => Object::new("failed").text("message", text.as_bytes()),
        Event::Skipped { text } => Object::new("skipped").text("message", text.as_bytes()),
        Event::Notice { text } => Object::new("told").text("message", text.as_bytes()),
        Event::Started { .. } | Event::Entered { .. } | Event::Copied(_) | Event::Missed { .. } => {
            return None;
        }
    };
    Some(object.line())
}

/// The line for the state of the whole copy.
pub(crate) fn progress(totals: &Totals, rate: f64, peak: f64, average: f64) -> String {
    let left = totals.bytes_found.saturating_sub(totals.bytes) as f64;
    let eta = (totals.all_opened && rate > 0.0).then(|| (left / rate) as u64);
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

/// The first line.
pub(crate) fn start(record: &RunRecord) -> String {
    Object::new("start")
        .number("version", VERSION)
        .text("run", record.id.as_bytes())
        .text("time", record.start.as_bytes())
        .line()
}

/// The line for a connection that was lost and is made again in `pause` seconds. Attempts or seconds are left
/// after that.
pub(crate) fn retry(pause: u64, left: Option<u64>, seconds_left: Option<u64>) -> String {
    Object::new("retry").number("in", pause).maybe("left", left).maybe("seconds_left", seconds_left).line()
}

/// The last line.
pub(crate) fn end(record: &RunRecord, status: u8) -> String {
    let (summary, seconds) = (record.total(), record.seconds());
    let average = summary.bytes as f64 / seconds.max(1e-6);
    let (limited_by, advice) = record.limit();
    Object::new("end")
        .text("run", record.id.as_bytes())
        .text("outcome", record.outcome(status).name().as_bytes())
        .number("status", status.into())
        .number("files", summary.files)
        .number("unchanged", summary.unchanged)
        .number("deleted", summary.deleted)
        .number("directories", summary.directories)
        .number("bytes", summary.bytes)
        .number("kept", summary.kept)
        .number("verified", summary.verified)
        .number("failures", summary.failures)
        .flag("lost", summary.lost)
        .real("seconds", seconds)
        .real("average", average)
        .real("peak", record.peak().max(average))
        .text("limited_by", limited_by.as_bytes())
        .text("advice", advice.as_bytes())
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

    /// The names of a line's members, in order, without `event`.
    fn members(line: &str) -> (String, Vec<String>) {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).expect(line);
        let event = object["event"].as_str().expect("event").to_owned();
        (event, object.keys().filter(|name| *name != "event").cloned().collect())
    }

    #[test]
    fn the_documentation_names_each_event_and_member() {
        let now = Instant::now();
        let (source, target, name) = (b"s".to_vec(), b"t".to_vec(), b"n".to_vec());
        let text = "m".to_owned();
        let happened = [
            Event::Resumed { source: source.clone(), kept: 1, size: 2 },
            Event::Changed { source: source.clone(), text: text.clone() },
            Event::Deleted { target: target.clone() },
            Event::PlannedDelete { target: target.clone() },
            Event::Planned { source, target, size: Some(3) },
            Event::FileDone { id: 1, name, size: 2, kept: 0, started: now },
            Event::Failed { text: text.clone() },
            Event::Skipped { text: text.clone() },
            Event::Notice { text },
        ];
        let record = RunRecord::new();
        let mut lines: Vec<String> = happened.iter().filter_map(|event| line_for(event, now)).collect();
        assert_eq!(lines.len(), happened.len());
        lines.extend([
            start(&record),
            progress(&Totals::default(), 1.0, 1.0, 1.0),
            retry(1, Some(2), None),
            end(&record, 0),
        ]);
        let page = include_str!("../../../docs/json.md");
        let rows: Vec<(String, Vec<String>)> = page
            .lines()
            .filter_map(|line| {
                let (event, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
                // Members stand in backquotes; other tables of the page have text there.
                let is_name = |name: &str| name.starts_with('`') && name.matches('`').count() == 2;
                let (names, _) = rest.split_once(" |").filter(|(names, _)| names.split(", ").all(is_name))?;
                let names = names.split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
                Some((event.to_owned(), names))
            })
            .collect();
        let written: Vec<_> = lines.iter().map(|line| members(line)).collect();
        for each in &written {
            assert!(rows.contains(each), "docs/json.md lacks {each:?}");
        }
        assert_eq!(rows.len(), written.len(), "docs/json.md names an event that is not written");
    }
}
