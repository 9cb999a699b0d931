//! The lines of a known_hosts file: entries, and lines with a fault.

use lh_crypto::PublicKey;

use crate::names::{HASH_MAGIC, SALT, hash_of, hosts_match};

/// Purpose of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// The key of a host.
    Plain,
    /// `@cert-authority`: the key signs host certificates.
    CertAuthority,
    /// `@revoked`: the key must not be accepted, neither as host key nor as authority.
    Revoked,
}

/// A line with a key.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Line number, from 1.
    pub line: usize,
    /// Purpose of the line.
    pub marker: Marker,
    /// The hosts field as written: names and patterns separated by commas, or one hash.
    pub hosts: String,
    /// The key.
    pub key: PublicKey,
    /// The text after the key.
    pub comment: String,
}

impl Entry {
    /// Returns true when the line applies to this name (in the form of [`name`](crate::name)): by hash, or by
    /// pattern with `!` exceptions.
    pub fn matches(&self, name: &str) -> bool {
        hosts_match(&self.hosts, name)
    }

    /// Returns true when the name is hashed.
    pub fn is_hashed(&self) -> bool {
        self.hosts.starts_with(HASH_MAGIC)
    }

    /// Returns salt and hash.
    fn hash(&self) -> Option<([u8; SALT], [u8; SALT])> {
        hash_of(&self.hosts)
    }

    /// Parses a line; returns `None` for blank lines, comments and lines that are not entries.
    fn parse(text: &str, line: usize) -> Option<Self> {
        let text = text.trim_start_matches([' ', '\t']).trim_end_matches(['\r', '\n', ' ', '\t']);
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let (marker, text) = split_marker(text)?;
        let (hosts, rest) = text.trim_start_matches([' ', '\t']).split_once([' ', '\t'])?;
        let (key, comment) = PublicKey::from_openssh_line(rest)?;
        let entry = Self { line, marker, hosts: hosts.to_owned(), key, comment };
        // A malformed hash would otherwise be used as a pattern.
        (!entry.is_hashed() || entry.hash().is_some()).then_some(entry)
    }
}

/// A line that is not an entry, or that holds more than one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// Line number, from 1.
    pub line: usize,
    /// Purpose of the line, as far as it is known. [`Marker::Revoked`] if the line has that marker anywhere:
    /// a key that should be revoked is then not revoked.
    pub marker: Marker,
    /// The hosts field; `None` if it is unknown which hosts the line applies to.
    hosts: Option<String>,
}

impl BrokenLine {
    /// Returns true if the line may have been meant for this name (in the form of [`name`](crate::name)).
    pub fn may_match(&self, name: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        hosts_match(hosts, name) || (hosts.starts_with(HASH_MAGIC) && hash_of(hosts).is_none())
    }

    /// Checks a line; returns its fault, if it has one.
    pub(crate) fn find(from: &Line) -> Option<Self> {
        let text = String::from_utf8_lossy(&from.raw);
        let text = text.trim_matches(['\r', '\n', ' ', '\t']);
        let runs_on = text.contains('\r');
        let is_whole = match &from.entry {
            Some(entry) => !has_second_key(&entry.comment),
            None => text.is_empty() || text.starts_with('#'),
        };
        if is_whole && !runs_on {
            return None;
        }
        let (marker, rest) = split_marker(text)?;
        let hosts = hosts_field(rest);
        // The second entry on the line applies to other hosts than the first.
        let is_single = !runs_on && from.entry.is_none() && !rest.contains("@revoked");
        let marker = if !is_single && text.contains("@revoked") { Marker::Revoked } else { marker };
        let hosts = hosts.filter(|_| is_single).map(str::to_owned);
        Some(Self { line: from.number, marker, hosts })
    }
}

/// Returns true if the comment of a key line holds another key line: two lines were joined, for instance by
/// appending to a file without a newline at its end.
pub fn has_second_key(comment: &str) -> bool {
    let words: Vec<&str> = comment.split_whitespace().collect();
    // The blob begins with the length of the type's name, less than 2^8.
    words.windows(2).any(|pair| {
        pair[1].starts_with("AAAA") && (pair[0].contains("ssh-") || pair[0].contains("ecdsa-sha2-"))
    })
}

/// Splits off the marker. Returns `None` for an unknown marker.
fn split_marker(text: &str) -> Option<(Marker, &str)> {
    match text.split_once([' ', '\t']).unwrap_or((text, "")) {
        ("@cert-authority", rest) => Some((Marker::CertAuthority, rest)),
        ("@revoked", rest) => Some((Marker::Revoked, rest)),
        (unknown, _) if unknown.starts_with('@') => None,
        _ => Some((Marker::Plain, text)),
    }
}

/// Returns the hosts field of a line that may be an entry.
fn hosts_of(text: &str) -> Option<&str> {
    let (_, rest) = split_marker(text.trim_matches(['\r', '\n', ' ', '\t']))?;
    hosts_field(rest)
}

/// Returns the hosts field of a line without its marker.
fn hosts_field(rest: &str) -> Option<&str> {
    rest.split([' ', '\t']).find(|word| !word.is_empty())
}

/// A line of a file, as it is.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Line number, from 1.
    pub(crate) number: usize,
    /// The bytes, with the line's end.
    pub(crate) raw: Vec<u8>,
    /// What the line says, where it is an entry.
    pub(crate) entry: Option<Entry>,
}

impl Line {
    /// Parses line `number`, from 1.
    pub(crate) fn parse(number: usize, raw: &[u8]) -> Self {
        Self::of_text(number, raw, &String::from_utf8_lossy(raw))
    }

    /// Parses a line if it concerns a name: an entry that applies to it, or a line with a fault that may have
    /// been meant to revoke a key of it.
    pub(crate) fn about(name: &str, number: usize, raw: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(raw);
        // Most lines are about other hosts. These need not be parsed, which takes long for keys.
        if !text.contains("@revoked") && !hosts_of(&text).is_some_and(|hosts| hosts_match(hosts, name)) {
            return None;
        }
        let line = Self::of_text(number, raw, &text);
        let applies = line.entry.as_ref().is_some_and(|entry| entry.matches(name));
        let may_revoke = || {
            BrokenLine::find(&line).is_some_and(|line| line.marker == Marker::Revoked && line.may_match(name))
        };
        (applies || may_revoke()).then_some(line)
    }

    /// `text`: the line `raw` as text.
    fn of_text(number: usize, raw: &[u8], text: &str) -> Self {
        Self { number, raw: raw.to_vec(), entry: Entry::parse(text, number) }
    }
}
