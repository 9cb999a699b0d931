//! The manifest that a copy leaves (`lhscp --manifest-out`) and `longhaul verify` reads: JSON Lines.
//!
//! A header, a line for each file, and a last line that shows that nothing is missing. docs/json.md describes
//! the members. Paths are text where they are UTF-8; others stand in hexadecimal digits under another name,
//! so that none is lost.

use std::io::{self, BufRead};

use serde_json::{Map, Value};

use crate::content::SumAlgorithm;
use crate::is_safe_name;
use crate::journal::{hex, unhex};
use crate::select::Shard;

/// Version of the format, in the header. It rises when a member is taken away or changes its meaning.
pub const VERSION: u64 = 1;

/// Longest line, bytes: a path and a link have 4096 bytes each at most, six for each at worst.
const LONGEST_LINE: u64 = 256 * 1024;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Algorithm of all digests.
    pub algorithm: SumAlgorithm,
    /// Destination of the copy: a local path, or in the form of `lhscp`'s command line.
    pub destination: Vec<u8>,
    /// The run that made the copy.
    pub run: String,
    /// When it began, RFC 3339.
    pub time: String,
    /// Which share of the tree it has, of a copy in shares.
    pub shard: Option<Shard>,
}

/// A line for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path below the destination.
    pub path: Vec<u8>,
    /// Bytes.
    pub size: u64,
    /// Time of modification of the source: nanoseconds since 1970.
    pub modified: Option<i128>,
    /// Kind of the entry.
    pub kind: EntryKind,
}

/// See [`Entry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file and the sum of its content, where that is known.
    File(Option<Vec<u8>>),
    /// A symbolic link and where it leads.
    Link(Vec<u8>),
}

/// The last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Lines between the first and the last one.
    pub files: u64,
    /// Their bytes together, without links.
    pub bytes: u64,
    /// Outcome of the copy, in the words of `lhscp --json`.
    pub outcome: String,
}

/// Why a manifest cannot be read: with its path in front, a message.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The first line is no header.
    #[error("is not a manifest of lhscp --manifest-out")]
    NoManifest,
    /// There is not even a header.
    #[error("is empty")]
    Empty,
    /// A newer version wrote it.
    #[error("version {0} of the format is not known")]
    UnknownVersion(u64),
    /// The header lacks this member.
    #[error("the header has no {0}")]
    MissingMember(&'static str),
    /// The sums are made with this algorithm.
    #[error("algorithm {0:?} is not known")]
    UnknownAlgorithm(String),
    /// A line behind the header is wrong.
    #[error("line {number}: {error}")]
    Line {
        /// Its number; the header is line 1.
        number: u64,
        /// The fault.
        error: LineError,
    },
    /// The last line is missing.
    #[error("is cut off: its last line is missing")]
    CutOff,
    /// Lines are missing, or were added.
    #[error("has {found} files where its last line says {stated}")]
    WrongCount {
        /// Lines for files.
        found: u64,
        /// Number in the last line.
        stated: u64,
    },
}

/// Fault of a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is nothing that a manifest has.
    #[error("not understood")]
    NotUnderstood,
}

fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

fn bytes_of(object: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    match object.get(name) {
        Some(value) => value.as_str().map(|text| text.as_bytes().to_vec()),
        None => unhex(object.get(&format!("{name}_hex"))?.as_str()?.as_bytes()),
    }
}

fn text_of(object: &Map<String, Value>, name: &str) -> Option<String> {
    Some(object.get(name)?.as_str()?.to_owned())
}

fn line(object: Map<String, Value>) -> String {
    Value::Object(object).to_string() + "\n"
}

impl Header {
    /// The line.
    pub fn line(&self) -> String {
        let mut object = Map::new();
        object.insert("longhaul_manifest".into(), VERSION.into());
        object.insert("algorithm".into(), self.algorithm.name().into());
        put_bytes(&mut object, "destination", &self.destination);
        object.insert("run".into(), self.run.clone().into());
        object.insert("time".into(), self.time.clone().into());
        if let Some(shard) = self.shard {
            object.insert("shard".into(), shard.to_string().into());
        }
        line(object)
    }

    fn of(object: &Map<String, Value>) -> Result<Self, ManifestError> {
        let missing = ManifestError::MissingMember;
        let version = object.get("longhaul_manifest").and_then(Value::as_u64);
        match version {
            Some(VERSION) => {}
            Some(version) => return Err(ManifestError::UnknownVersion(version)),
            None => return Err(ManifestError::NoManifest),
        }
        let name = text_of(object, "algorithm").ok_or(missing("algorithm"))?;
        let algorithm = SumAlgorithm::parse(&name).ok_or(ManifestError::UnknownAlgorithm(name))?;
        Ok(Self {
            algorithm,
            destination: bytes_of(object, "destination").ok_or(missing("destination"))?,
            run: text_of(object, "run").unwrap_or_default(),
            time: text_of(object, "time").unwrap_or_default(),
            shard: text_of(object, "shard").and_then(|text| Shard::parse(&text)),
        })
    }
}

impl Entry {
    /// The line.
    pub fn line(&self) -> String {
        let mut object = Map::new();
        put_bytes(&mut object, "path", &self.path);
        object.insert("size".into(), self.size.into());
        let modified = self.modified.and_then(|time| i64::try_from(time).ok());
        object.insert("mtime_ns".into(), modified.into());
        match &self.kind {
            EntryKind::File(sum) => {
                object.insert("sum".into(), sum.as_deref().map(hex).into());
            }
            EntryKind::Link(to) => put_bytes(&mut object, "link", to),
        }
        line(object)
    }

    /// Reads one; `None` for anything else, and for a path that leads out of the tree.
    pub fn parse(line: &str, algorithm: SumAlgorithm) -> Option<Self> {
        Self::of(serde_json::from_str::<Value>(line).ok()?.as_object()?, algorithm)
    }

    fn of(object: &Map<String, Value>, algorithm: SumAlgorithm) -> Option<Self> {
        let path = bytes_of(object, "path")?;
        // An empty name, `.`, `..`: nothing that a copy makes.
        if !path.split(|&byte| byte == b'/').all(is_safe_name) {
            return None;
        }
        let kind = match bytes_of(object, "link") {
            Some(to) => EntryKind::Link(to),
            None => EntryKind::File(match object.get("sum")? {
                Value::Null => None,
                sum => {
                    Some(unhex(sum.as_str()?.as_bytes()).filter(|sum| sum.len() == algorithm.output_len())?)
                }
            }),
        };
        let modified = object.get("mtime_ns").and_then(Value::as_i64).map(i128::from);
        Some(Self { path, size: object.get("size")?.as_u64()?, modified, kind })
    }
}

impl End {
    /// The line.
    pub fn line(&self) -> String {
        let mut object = Map::new();
        object.insert("end".into(), true.into());
        object.insert("files".into(), self.files.into());
        object.insert("bytes".into(), self.bytes.into());
        object.insert("outcome".into(), self.outcome.clone().into());
        line(object)
    }

    fn of(object: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            files: object.get("files")?.as_u64()?,
            bytes: object.get("bytes")?.as_u64()?,
            outcome: text_of(object, "outcome")?,
        })
    }
}

/// Reads a manifest line by line.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Lines read so far.
    number: u64,
    header: Header,
    files: u64,
    end: Option<End>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(mut input: R) -> Result<Self, ManifestError> {
        let object = next_object(&mut input).map_err(|_| ManifestError::NoManifest)?;
        let object = object.ok_or(ManifestError::Empty)?;
        let header = Header::of(&object)?;
        Ok(Self { input, number: 1, header, files: 0, end: None })
    }

    /// The first line.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The last line, once [`next_entry`](Self::next_entry) has come to it.
    pub const fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The next file; `None` behind the last.
    ///
    /// # Errors
    /// A line that is none, or a manifest without its end.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ManifestError> {
        if self.end.is_some() {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        let wrong = |error| ManifestError::Line { number, error };
        let object = next_object(&mut self.input).map_err(wrong)?.ok_or(ManifestError::CutOff)?;
        if object.contains_key("end") {
            let end = End::of(&object).ok_or(wrong(LineError::NotUnderstood))?;
            if end.files != self.files {
                return Err(ManifestError::WrongCount { found: self.files, stated: end.files });
            }
            self.end = Some(end);
            return Ok(None);
        }
        self.files += 1;
        let entry = Entry::of(&object, self.header.algorithm);
        entry.map(Some).ok_or(wrong(LineError::NotUnderstood))
    }
}

/// The object of the next line; `None` at the end.
fn next_object(input: &mut impl BufRead) -> Result<Option<Map<String, Value>>, LineError> {
    let mut line = Vec::new();
    let mut limited = std::io::Read::take(&mut *input, LONGEST_LINE);
    let read = limited.read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    match serde_json::from_slice(&line) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        _ => Err(LineError::NotUnderstood),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            algorithm: SumAlgorithm::Xxh3,
            destination: b"me@host:/data\xff".to_vec(),
            run: "1-2".into(),
            time: "2026-01-01T00:00:00Z".into(),
            shard: Some(Shard { number: 1, of: 4 }),
        }
    }

    fn entries() -> Vec<Entry> {
        let file = |path: &[u8], sum| Entry {
            path: path.to_vec(),
            size: u64::MAX,
            modified: Some(-1_700_000_000_123_456_789),
            kind: EntryKind::File(sum),
        };
        let link = EntryKind::Link(b"../\xfe\n".to_vec());
        vec![
            file(b"a/b \"quoted\"\\\n\x1b", Some(vec![7; 16])),
            file(b"odd\xff\x00name", None),
            file("\u{e4}\u{202e}".as_bytes(), None),
            Entry { path: b"l".to_vec(), size: 5, modified: None, kind: link },
        ]
    }

    fn text(entries: &[Entry], end: Option<u64>) -> String {
        let mut text = header().line();
        text.extend(entries.iter().map(Entry::line));
        text.extend(end.map(|files| End { files, bytes: 1, outcome: "complete".into() }.line()));
        text
    }

    fn read(text: &str) -> Result<Vec<Entry>, ManifestError> {
        let mut reader = Reader::new(text.as_bytes())?;
        assert_eq!(*reader.header(), header());
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            entries.push(entry);
        }
        assert!(reader.end().is_some());
        Ok(entries)
    }

    #[test]
    fn every_name_is_read_as_it_was_written() {
        let mut entries = entries();
        // NUL is in no path.
        entries[1].path = b"odd\xffname".to_vec();
        assert_eq!(read(&text(&entries, Some(4))).unwrap(), entries);
    }

    #[test]
    fn cut_or_miscounted_manifests_are_refused() {
        let entries = &entries()[..1];
        let whole = text(entries, Some(1));
        for at in 1..whole.len() - 1 {
            assert!(Reader::new(&whole.as_bytes()[..at]).is_err() || read(&whole[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let entries = &entries()[..1];
        let header = |members: &str| format!("{{\"longhaul_manifest\":1{members}}}\n");
        for (text, error) in [
            (String::new(), "is empty"),
            ("hello\n".to_owned(), "is not a manifest of lhscp --manifest-out"),
            ("{}\n".to_owned(), "is not a manifest of lhscp --manifest-out"),
            ("{\"longhaul_manifest\":2}\n".to_owned(), "version 2 of the format is not known"),
            (header(""), "the header has no algorithm"),
            (header(",\"algorithm\":\"md9\""), "algorithm \"md9\" is not known"),
            (header(",\"algorithm\":\"xxh3\""), "the header has no destination"),
            (text(entries, None), "is cut off: its last line is missing"),
            (text(entries, Some(2)), "has 1 files where its last line says 2"),
            (text(entries, None) + "[]\n", "line 3: not understood"),
            (text(entries, None) + "{\"end\":true}\n", "line 3: not understood"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn paths_that_lead_out_of_the_tree_are_refused() {
        for path in ["/etc/passwd", "..", "a/../b", "a//b", "", ".", "a/"] {
            let line = format!("{{\"path\":{},\"size\":1,\"sum\":null}}", Value::from(path));
            assert_eq!(Entry::parse(&line, SumAlgorithm::Xxh3), None, "{path}");
        }
        let short = "{\"path\":\"a\",\"size\":1,\"sum\":\"00\"}";
        assert_eq!(Entry::parse(short, SumAlgorithm::Xxh3), None, "no sum of this algorithm");
    }
}
