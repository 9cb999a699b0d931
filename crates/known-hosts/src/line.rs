//! The lines of a known_hosts file: entries, and lines with a fault.

use std::path::Path;

use lh_crypto::PublicKey;

use crate::names::{HASH_MAGIC, SALT, hash_of, hosts_match};

/// The marker of lines that revoke a key.
const REVOKED: &[u8] = b"@revoked";

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

    /// Returns true if the line revokes a key, and it is unknown for which hosts.
    fn revokes_for_unreadable_hosts(&self) -> bool {
        self.marker == Marker::Revoked && !is_readable(&self.hosts)
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
        // Only a marker at the very beginning counts, as in OpenSSH.
        let (marker, text) = match split_marker(text) {
            (Some(marker), rest) if marker == Marker::Plain || text.starts_with('@') => (marker, rest),
            _ => return None,
        };
        let (hosts, rest) = text.trim_start_matches([' ', '\t']).split_once([' ', '\t'])?;
        let (key, comment) = PublicKey::from_openssh_line(rest)?;
        let entry = Self { line, marker, hosts: hosts.to_owned(), key, comment };
        // A malformed hash would otherwise be used as a pattern.
        (!entry.is_hashed() || entry.hash().is_some()).then_some(entry)
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The line is not an entry, or holds more than one.
    Unparsable,
    /// The line begins with `@` and a word that is no marker.
    UnknownMarker,
}

/// A line that is not an entry, that holds more than one, or that revokes a key for unreadable hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// Line number, from 1.
    pub line: usize,
    /// Purpose of the line, as far as it is known. [`Marker::Revoked`] if the line has that marker anywhere,
    /// or an unknown one, which may be a misspelt `@revoked`: a key that should be revoked is then not
    /// revoked.
    pub marker: Marker,
    /// The hosts field; `None` if it is unknown which hosts the line applies to.
    hosts: Option<String>,
    fault: Fault,
}

impl BrokenLine {
    /// Returns true if the line may have been meant for this name (in the form of [`name`](crate::name)).
    pub fn may_match(&self, name: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        hosts_match(hosts, name) || (hosts.starts_with(HASH_MAGIC) && hash_of(hosts).is_none())
    }

    /// Returns the message about this line of a file, in OpenSSH's words.
    pub fn describe(&self, file: &Path) -> String {
        let fault = match self.fault {
            Fault::Unparsable => "parse error in hostkeys file",
            Fault::UnknownMarker => "invalid marker in hostkeys file",
        };
        format!("{}:{}: {fault}", file.display(), self.line)
    }

    /// Returns the message about this line of a file where it may revoke a key of `name`.
    pub fn describe_revocation(&self, file: &Path, name: &str) -> String {
        let about = match self.fault {
            Fault::Unparsable => "in an @revoked line",
            Fault::UnknownMarker => "which may mean @revoked, in a line",
        };
        format!("{}, {about} for {name}", self.describe(file))
    }

    /// Checks a line; returns its fault, if it has one.
    pub(crate) fn find(from: &Line) -> Option<Self> {
        let text = String::from_utf8_lossy(&from.raw);
        let text = text.trim_matches(['\r', '\n', ' ', '\t']);
        let runs_on = text.contains('\r');
        let is_whole = match &from.entry {
            Some(entry) => !has_second_key(&entry.comment) && !entry.revokes_for_unreadable_hosts(),
            None => text.is_empty() || text.starts_with('#'),
        };
        if is_whole && !runs_on {
            return None;
        }
        let (marker, rest) = split_marker(text);
        // The second entry on the line applies to other hosts than the first.
        let is_single = !runs_on && from.entry.is_none() && !names_revoked(rest);
        let may_revoke = marker.is_none() || text.split('\r').any(may_revoke);
        let fault = if is_single && marker.is_none() { Fault::UnknownMarker } else { Fault::Unparsable };
        let marker = if may_revoke { Marker::Revoked } else { marker.unwrap_or(Marker::Plain) };
        let hosts = if may_revoke { readable_hosts(rest) } else { hosts_field(rest) };
        let hosts = hosts.filter(|_| is_single).map(str::to_owned);
        Some(Self { line: from.number, marker, hosts, fault })
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

/// Returns true if a text, which is not a comment, may have been meant to revoke a key: it has the marker
/// anywhere, or begins with an unknown one.
fn may_revoke(text: &str) -> bool {
    names_revoked(text) || split_marker(text).0.is_none()
}

/// Returns true if a text contains `@revoked`, in any case.
fn names_revoked(text: &str) -> bool {
    let has_marker = |at: usize| {
        text.as_bytes().get(at..at + REVOKED.len()).is_some_and(|word| word.eq_ignore_ascii_case(REVOKED))
    };
    text.match_indices('@').any(|(at, _)| has_marker(at))
}

/// Splits off the marker, which is `None` if it is unknown. What an editor puts in front of the first line
/// (a byte order mark) or of a pasted one (other blanks) does not hide it.
fn split_marker(text: &str) -> (Option<Marker>, &str) {
    let marked = text.trim_start_matches(|character: char| !character.is_ascii_graphic());
    match marked.split_once([' ', '\t']).unwrap_or((marked, "")) {
        ("@cert-authority", rest) => (Some(Marker::CertAuthority), rest),
        ("@revoked", rest) => (Some(Marker::Revoked), rest),
        (unknown, rest) if unknown.starts_with('@') => (None, rest),
        _ => (Some(Marker::Plain), text),
    }
}

/// Returns the hosts field of a line without its marker.
fn hosts_field(rest: &str) -> Option<&str> {
    rest.split([' ', '\t']).find(|word| !word.is_empty())
}

/// Returns the hosts field of a line without its marker, if it is certain that this is the whole field: a key
/// or the end of the line follows, and no character that nobody sees is in it.
fn readable_hosts(rest: &str) -> Option<&str> {
    let hosts = hosts_field(rest)?;
    let (_, key) = rest.split_once(hosts)?;
    let is_whole = match hosts_field(key) {
        None => !is_key_type(hosts),
        // Keys of SSH 1 begin with their size.
        Some(next) => {
            is_key_type(next) || next.parse::<u16>().is_ok() || PublicKey::from_openssh_line(key).is_some()
        }
    };
    (is_whole && is_readable(hosts)).then_some(hosts)
}

fn is_key_type(word: &str) -> bool {
    word.starts_with("ssh-") || word.starts_with("ecdsa-sha2-") || word.starts_with("sk-")
}

/// Returns false if a hosts field contains characters that are no part of a name and do not show: blanks of
/// other alphabets, control characters, and bytes that are not UTF-8.
fn is_readable(hosts: &str) -> bool {
    let is_hidden = |character: char| {
        character.is_whitespace()
            || character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{fffd}')
    };
    !hosts.contains(is_hidden)
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
        let is_about = |hosts| hosts_match(hosts, name);
        let (_, rest) = split_marker(text.trim_matches(['\r', '\n', ' ', '\t']));
        if !text.split('\r').any(may_revoke) && !hosts_field(rest).is_some_and(is_about) {
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
