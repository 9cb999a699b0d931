//! known_hosts files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): looking up, adding, removing and hashing host
//! keys.
//!
//! A file is stored line by line unchanged, so that unknown content (comments, future key types, bytes that
//! are not UTF-8) is preserved when the file is rewritten. Look-ups never write. The functions that change a
//! file say so and replace it atomically.

mod change;
mod line;
mod names;

pub use change::{append, entry_lines, replace};
pub use line::{BrokenLine, Entry, Marker, has_second_key};
pub use names::{hash_name, hosts_match, is_hash, name};

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use lh_crypto::{PublicKey, Random};

use line::Line;

/// Largest file that is read, bytes: 100 times the largest one seen, and no risk for memory.
const MAX_FILE: u64 = 64 << 20;

/// Initial buffer size, bytes: the usual file fits.
const USUAL_FILE: usize = 8 << 10;

/// Result of looking up a host's key in one or several files.
#[derive(Debug, Clone)]
pub enum Lookup<'a> {
    /// The key is known for the host.
    Match(&'a Entry),
    /// The host is known with other keys only, of any type: the key has changed. OpenSSH treats a change of
    /// type the same way. Contains the last such entry.
    Changed(&'a Entry),
    /// The host is not known.
    Unknown,
    /// The key is revoked for this host.
    Revoked(&'a Entry),
}

/// A known_hosts file in memory.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

impl KnownHosts {
    /// Parses a file's contents. Lines that cannot be parsed are kept but never match.
    pub fn parse(bytes: &[u8]) -> Self {
        let lines = (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n'));
        Self { lines: lines.map(|(number, raw)| Line::parse(number, raw)).collect() }
    }

    /// Adds one line of a file if it concerns a name (in the form of [`name`]): an entry that applies to it,
    /// or a line with a fault that may have been meant to revoke a key of it. Returns whether it was added.
    ///
    /// Look-ups of that name give the same results as with all lines of the file, in much less memory.
    /// `number` is the line's number, from 1.
    pub fn add_line_about(&mut self, name: &str, number: usize, raw: &[u8]) -> bool {
        let line = Line::about(name, number, raw);
        let is_about = line.is_some();
        self.lines.extend(line);
        is_about
    }

    /// Reads a file; a missing one counts as empty.
    ///
    /// # Errors
    /// Errors of the operating system, except for a missing file.
    pub fn read(path: &Path) -> io::Result<Self> {
        match Self::read_existing(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            result => result,
        }
    }

    /// Reads a file, which must exist.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn read_existing(path: &Path) -> io::Result<Self> {
        // Avoids the standard library's first reads of 32 bytes for files of unknown size.
        let mut bytes = Vec::with_capacity(USUAL_FILE);
        fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(Self::parse(&bytes))
    }

    /// Iterates over all entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.lines.iter().filter_map(|line| line.entry.as_ref())
    }

    /// Iterates over the lines that have a fault, in order.
    pub fn broken_lines(&self) -> impl Iterator<Item = BrokenLine> {
        self.lines.iter().filter_map(BrokenLine::find)
    }

    /// Iterates over the entries that apply to a name.
    pub fn about<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries().filter(move |entry| entry.matches(name))
    }

    /// Looks up `key` (a plain key, not a certificate) of `host` on `port`.
    pub fn lookup(&self, host: &str, port: u16, key: &PublicKey) -> Lookup<'_> {
        self.lookup_name(&name(host, port), key)
    }

    /// Like [`lookup`](Self::lookup), for a name in the form of [`name`] (or a `HostKeyAlias`).
    pub fn lookup_name(&self, name: &str, key: &PublicKey) -> Lookup<'_> {
        let mut found = Lookup::Unknown;
        for entry in self.entries().filter(|entry| entry.matches(name)) {
            match (entry.marker, entry.key == *key) {
                (Marker::Revoked, true) => return Lookup::Revoked(entry),
                (Marker::Plain, true) => found = Lookup::Match(entry),
                (Marker::Plain, false) if !matches!(found, Lookup::Match(_)) => {
                    found = Lookup::Changed(entry)
                }
                _ => {}
            }
        }
        found
    }

    /// Returns the authorities that may sign certificates for a name, without revoked ones.
    pub fn authorities(&self, name: &str) -> Vec<&Entry> {
        let revoked = |key: &PublicKey| {
            self.entries().any(|e| e.marker == Marker::Revoked && e.key == *key && e.matches(name))
        };
        self.entries()
            .filter(|e| e.marker == Marker::CertAuthority && e.matches(name) && !revoked(&e.key))
            .collect()
    }

    /// Returns the known key types of a name, in file order without duplicates: the client requests these
    /// first.
    pub fn key_types(&self, name: &str) -> Vec<String> {
        let mut types: Vec<String> = Vec::new();
        for entry in self.about(name).filter(|entry| entry.marker == Marker::Plain) {
            let key_type = entry.key.key_type();
            if !types.iter().any(|known| known == key_type) {
                types.push(key_type.to_owned());
            }
        }
        types
    }

    /// Returns the contents without the plain lines that apply to a name, and the removed lines. Marked lines
    /// are kept, as with `ssh-keygen -R`.
    pub fn without(&self, name: &str) -> (Vec<u8>, Vec<&Entry>) {
        let mut kept = Vec::new();
        let mut removed = Vec::new();
        for line in &self.lines {
            match &line.entry {
                Some(entry) if entry.marker == Marker::Plain && entry.matches(name) => removed.push(entry),
                _ => kept.extend_from_slice(&line.raw),
            }
        }
        (kept, removed)
    }

    /// Returns the contents without the plain lines for which `unwanted` returns true.
    pub fn without_entries(&self, unwanted: impl Fn(&Entry) -> bool) -> Vec<u8> {
        let goes = |line: &&Line| {
            line.entry.as_ref().is_some_and(|entry| entry.marker == Marker::Plain && unwanted(entry))
        };
        self.lines.iter().filter(|line| !goes(line)).flat_map(|line| line.raw.clone()).collect()
    }

    /// Returns the contents with every plain name hashed, each on a separate line; the patterns that could
    /// not be hashed, with their line numbers; and whether anything changed. Patterns and marked lines are
    /// kept unchanged.
    pub fn hashed(&self, random: &mut dyn Random) -> (Vec<u8>, Vec<(usize, String)>, bool) {
        let mut out = Vec::new();
        let mut patterns = Vec::new();
        let mut changed = false;
        for line in &self.lines {
            let Some(entry) = line.entry.as_ref().filter(|entry| !entry.is_hashed()) else {
                out.extend_from_slice(&line.raw);
                continue;
            };
            let pattern = entry.hosts.contains(['*', '?', '!']);
            if pattern {
                patterns.push((entry.line, entry.hosts.clone()));
            }
            if pattern || entry.marker != Marker::Plain {
                out.extend_from_slice(&line.raw);
                continue;
            }
            changed = true;
            for host in entry.hosts.split(',').filter(|host| !host.is_empty()) {
                out.extend_from_slice(hash_name(host, random).as_bytes());
                out.push(b' ');
                out.extend_from_slice(entry.key.to_openssh_line(&entry.comment).trim_end().as_bytes());
                out.push(b'\n');
            }
        }
        (out, patterns, changed)
    }
}

#[cfg(test)]
mod tests;
