//! Reports the findings, as text or JSON, and counts them.

use std::cell::RefCell;

use lh_transfer::display_name;
use lh_transfer::manifest_file::{Entry, EntryKind};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::output::print_line;

/// Exit status where the tree is not what the manifest says.
const DIFFERENT: u8 = 1;

/// Exit status where that is not known: mistakes on the command line, an unreadable manifest, no connection.
pub(super) const CANNOT: u8 = 2;

/// Fault of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is not there.
    Missing,
    /// It has this many bytes.
    Size(u64),
    /// Its content has another sum, or the link leads elsewhere.
    Content,
    /// It is something else, such as a directory.
    Kind(&'static str),
    /// It is not in the manifest.
    Extra,
    /// The manifest has no sum of it; its size is right.
    Unchecked,
    /// It could not be looked at.
    Error(String),
}

impl Finding {
    /// Its name in events and counts.
    const fn name(&self) -> &'static str {
        NAMES[self.at()]
    }

    const fn at(&self) -> usize {
        match self {
            Self::Missing => 0,
            Self::Size(_) => 1,
            Self::Content => 2,
            Self::Kind(_) => 3,
            Self::Extra => 4,
            Self::Unchecked => 5,
            Self::Error(_) => 6,
        }
    }

    /// The copy is not what the manifest says; otherwise it is not known.
    const fn is_difference(&self) -> bool {
        self.at() < 5
    }
}

const NAMES: [&str; 8] = ["missing", "size", "content", "kind", "extra", "unchecked", "error", SHARE];

/// A share without a manifest, or one that was not copied completely.
const SHARE: &str = "share";
/// Its place in [`NAMES`].
const AT_SHARE: usize = 7;

/// For the last line, in the order of [`NAMES`].
const WORDS: [&str; 8] = [
    "missing",
    "of another size",
    "of other content",
    "of another kind",
    "not in the manifest",
    "without a sum in the manifest",
    "that could not be checked",
    "of the shares missing or not complete",
];

/// All findings of one run.
#[derive(Debug)]
pub(super) struct Findings {
    json: bool,
    counts: [u64; 8],
    different: bool,
    /// Files that are as the manifest says, and their bytes.
    good: u64,
    bytes: u64,
    /// The first failure to write what is found.
    unwritten: RefCell<Option<Fault>>,
}

impl Findings {
    pub(super) const fn new(json: bool) -> Self {
        Self { json, counts: [0; 8], different: false, good: 0, bytes: 0, unwritten: RefCell::new(None) }
    }

    /// The first event.
    pub(super) fn start(&self, manifests: &[String], destination: &str) {
        if self.json {
            let mut event = event("start");
            event.insert("version".into(), 1.into());
            event.insert("manifest".into(), manifests.first().map_or("", String::as_str).into());
            event.insert("manifests".into(), manifests.into());
            event.insert("destination".into(), destination.into());
            self.print(&event);
        }
    }

    /// A file is as the manifest says.
    pub(super) const fn good(&mut self, entry: &Entry) {
        self.good += 1;
        if matches!(entry.kind, EntryKind::File(_)) {
            self.bytes += entry.size;
        }
    }

    /// A share is missing, or not complete.
    pub(super) fn add_share(&mut self, share: &str, why: &str) {
        self.counts[AT_SHARE] += 1;
        self.different = true;
        if self.json {
            let mut event = event(SHARE);
            event.insert("share".into(), share.into());
            event.insert("message".into(), why.into());
            self.print(&event);
        } else {
            self.line(&format!("share: {share}: {why}"));
        }
    }

    /// A file is not, or that is not known. `size`: what the manifest says, where it has the file.
    pub(super) fn add(&mut self, path: &[u8], size: Option<u64>, finding: &Finding) {
        self.counts[finding.at()] += 1;
        self.different |= finding.is_difference();
        if self.json {
            let mut event = event(finding.name());
            match std::str::from_utf8(path) {
                Ok(text) => event.insert("path".into(), text.into()),
                Err(_) => {
                    let digits: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
                    event.insert("path_hex".into(), digits.into())
                }
            };
            match finding {
                Finding::Size(there) => {
                    event.insert("expected".into(), size.into());
                    event.insert("found".into(), (*there).into());
                }
                Finding::Kind(what) => {
                    event.insert("message".into(), (*what).into());
                }
                Finding::Error(why) => {
                    event.insert("message".into(), why.as_str().into());
                }
                _ => {}
            }
            return self.print(&event);
        }
        let path = display_name(path);
        self.line(&match finding {
            Finding::Missing => format!("missing: {path}"),
            Finding::Size(there) => {
                format!("size: {path}: {there} bytes, {} in the manifest", size.unwrap_or_default())
            }
            Finding::Content => format!("content: {path}: differs"),
            Finding::Kind(what) => format!("kind: {path}: {what}"),
            Finding::Extra => format!("extra: {path}"),
            Finding::Unchecked => format!("unchecked: {path}: no sum in the manifest"),
            Finding::Error(why) => format!("error: {path}: {why}"),
        });
    }

    /// The exit status, after everything has been looked at.
    fn status(&self) -> u8 {
        match (self.different, self.counts.iter().sum::<u64>()) {
            (true, _) => DIFFERENT,
            (false, 0) => 0,
            (false, _) => CANNOT,
        }
    }

    /// The last line; returns the exit status. `failed`: why not everything was looked at, which is said on
    /// standard error.
    pub(super) fn finish(&self, failed: Option<&str>) -> u8 {
        let status = if failed.is_some() && !self.different { CANNOT } else { self.status() };
        let outcome = match status {
            0 => "same",
            DIFFERENT => "different",
            _ => "unknown",
        };
        if self.json {
            let mut event = event("end");
            event.insert("outcome".into(), outcome.into());
            event.insert("status".into(), status.into());
            event.insert("complete".into(), failed.is_none().into());
            event.insert("files".into(), self.good.into());
            event.insert("bytes".into(), self.bytes.into());
            for (name, count) in NAMES.iter().zip(self.counts) {
                event.insert((*name).into(), count.into());
            }
            event.insert("message".into(), failed.map(Value::from).unwrap_or_default());
            self.print(&event);
        } else {
            let parts: Vec<String> = WORDS
                .iter()
                .zip(self.counts)
                .filter(|(_, count)| *count > 0)
                .map(|(words, count)| format!("{count} {words}"))
                .collect();
            let good = if self.good == 1 { "1 file is".into() } else { format!("{} files are", self.good) };
            let rest = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) };
            let cut = if failed.is_some() { "; not everything was checked" } else { "" };
            self.line(&format!("{good} as in the manifest{rest}{cut}"));
        }
        status
    }

    /// Why something of what was found could not be written.
    pub(super) fn unwritten(&self) -> Option<Fault> {
        self.unwritten.take()
    }

    fn print(&self, event: &Map<String, Value>) {
        self.line(&serde_json::to_string(event).unwrap_or_default());
    }

    fn line(&self, text: &str) {
        if let Err(fault) = print_line(text) {
            *self.unwritten.borrow_mut() = Some(fault);
        }
    }
}

fn event(name: &str) -> Map<String, Value> {
    Map::from_iter([("event".to_owned(), name.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_count_more_than_what_is_not_known() {
        let status = |findings: &[Finding]| {
            let mut all = Findings::new(true);
            findings.iter().for_each(|finding| all.add(b"x", Some(1), finding));
            all.status()
        };
        assert_eq!(status(&[]), 0);
        assert_eq!(status(&[Finding::Unchecked, Finding::Error(String::new())]), 2);
        for finding in
            [Finding::Missing, Finding::Size(1), Finding::Content, Finding::Kind("x"), Finding::Extra]
        {
            assert_eq!(status(&[Finding::Unchecked, finding]), 1);
        }
    }
}
