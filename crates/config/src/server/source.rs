//! The statements of a server configuration, before they are converted to values.

use std::path::PathBuf;
use std::sync::Arc;

use super::criteria::Criteria;
use super::facts::ConnectionFacts;
use crate::error::{ConfigError, lines_at};
use crate::line::{Arguments, BadQuotes, Dialect};
use crate::note::Note;
use crate::server_table::{SERVER_KEYWORDS, ServerSettings};
use crate::table::{Origin, find};

/// First bytes of a serialised configuration: name and version.
const MAGIC: &[u8] = b"lh-sshd-config-1\n";

/// One valid `keyword value` statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    /// Row of the keyword table.
    pub(super) row: usize,
    /// The value as written.
    pub(super) rest: String,
    /// Index of the file; `None` for the command line.
    pub(super) file: Option<usize>,
    pub(super) line: usize,
    /// Indices of the `Match` lines around it; all must match. Empty: global.
    pub(super) conditions: Vec<usize>,
}

/// All statements that were loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) files: Vec<Arc<PathBuf>>,
    pub(super) criteria: Vec<Criteria>,
    pub(super) statements: Vec<Statement>,
    pub(super) notes: Vec<Note>,
}

impl Source {
    pub(super) fn origin(&self, statement: &Statement) -> Origin {
        match statement.file.and_then(|file| self.files.get(file)) {
            Some(path) => Origin::File { path: Arc::clone(path), line: statement.line },
            None => Origin::CommandLine,
        }
    }

    pub(super) fn holds(&self, statement: &Statement, facts: &ConnectionFacts) -> bool {
        statement.conditions.iter().all(|index| self.criteria.get(*index).is_some_and(|c| c.hold(facts)))
    }

    pub(super) fn apply(&self, statement: &Statement, to: &mut ServerSettings) -> Result<(), ConfigError> {
        let Some(keyword) = SERVER_KEYWORDS.get(statement.row) else { return Ok(()) };
        // Ports of the command line replace those of the file.
        if keyword.name == "Port" && statement.file.is_some() && to.port.origin == Origin::CommandLine {
            return Ok(());
        }
        let origin = self.origin(statement);
        let error = |message: &str| ConfigError {
            lines: lines_at(&origin.to_string(), message),
            ..ConfigError::default()
        };
        let mut args = Arguments::new(keyword.name, Dialect::Server, &statement.rest)
            .map_err(|BadQuotes| error("invalid quotes"))?;
        to.set(statement.row, &mut args, &origin, true).map_err(|why| error(&why.to_string()))
    }

    /// Serialises the statements for another process of the server.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let number = |out: &mut Vec<u8>, value: usize| out.extend_from_slice(&(value as u64).to_be_bytes());
        let text = |out: &mut Vec<u8>, value: &[u8]| {
            number(out, value.len());
            out.extend_from_slice(value);
        };
        number(&mut out, self.files.len());
        for file in &self.files {
            text(&mut out, file.as_os_str().as_encoded_bytes());
        }
        number(&mut out, self.criteria.len());
        for criteria in &self.criteria {
            text(&mut out, criteria.text.as_bytes());
        }
        number(&mut out, self.statements.len());
        for statement in &self.statements {
            text(&mut out, SERVER_KEYWORDS.get(statement.row).map_or("", |keyword| keyword.name).as_bytes());
            text(&mut out, statement.rest.as_bytes());
            number(&mut out, statement.file.map_or(0, |file| file + 1));
            number(&mut out, statement.line);
            number(&mut out, statement.conditions.len());
            for condition in &statement.conditions {
                number(&mut out, *condition);
            }
        }
        out
    }

    /// Inverse of [`to_bytes`](Self::to_bytes).
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, ConfigError> {
        read_bytes(bytes)
            .ok_or_else(|| ConfigError::new("malformed configuration from the listening process"))
    }
}

/// Reads numbers and texts from bytes; `None` at a premature end.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn number(&mut self) -> Option<usize> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        usize::try_from(u64::from_be_bytes(*head)).ok()
    }

    /// Reads a number of items of at least 8 bytes each; limits allocations to the size of the input.
    fn count(&mut self) -> Option<usize> {
        self.number().filter(|count| *count <= self.0.len() / 8)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(head).ok()
    }
}

fn read_bytes(bytes: &[u8]) -> Option<Source> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut cursor = Cursor(bytes.strip_prefix(MAGIC)?);
    let mut source = Source::default();
    for _ in 0..cursor.count()? {
        let length = cursor.number()?;
        let (name, rest) = cursor.0.split_at_checked(length)?;
        cursor.0 = rest;
        source.files.push(Arc::new(PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()))));
    }
    for _ in 0..cursor.count()? {
        source.criteria.push(Criteria::parse(cursor.text()?).ok()?);
    }
    for _ in 0..cursor.count()? {
        let row = find(SERVER_KEYWORDS, cursor.text()?)?;
        let rest = cursor.text()?.to_string();
        let file = cursor.number()?.checked_sub(1);
        let line = cursor.number()?;
        let mut conditions = Vec::new();
        for _ in 0..cursor.count()? {
            conditions.push(cursor.number().filter(|index| *index < source.criteria.len())?);
        }
        source.statements.push(Statement { row, rest, file, line, conditions });
    }
    cursor.0.is_empty().then_some(source)
}
