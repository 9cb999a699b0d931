//! known_hosts files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): looking up, adding, removing and hashing host
//! keys.
//!
//! A file is stored line by line unchanged, so that unknown content (comments, future key types, bytes that
//! are not UTF-8) is preserved when the file is rewritten. Look-ups never write. The functions that change a
//! file say so and replace it atomically.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use lh_config::pattern::{ListMatch, match_list};
use lh_crypto::{Hash, PublicKey, Random};

/// Prefix of a hashed name; OpenSSH defines one kind.
const HASH_MAGIC: &str = "|1|";
/// Length of a SHA-1 hash and of a salt, bytes.
const SALT: usize = 20;
/// Largest file that is read, bytes: 100 times the largest one seen, and no risk for memory.
const MAX_FILE: u64 = 64 << 20;

/// Initial buffer size, bytes: the usual file fits.
const USUAL_FILE: usize = 8 << 10;

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
    /// Returns true if the line may have been meant for this name (in the form of [`name`]).
    pub fn may_match(&self, name: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        hosts_match(hosts, name) || (hosts.starts_with(HASH_MAGIC) && hash_of(hosts).is_none())
    }

    /// Checks a line; returns its fault, if it has one.
    fn find(from: &Line) -> Option<Self> {
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

#[derive(Debug, Clone)]
struct Line {
    /// Line number, from 1.
    number: usize,
    raw: Vec<u8>,
    entry: Option<Entry>,
}

/// A known_hosts file in memory.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

impl Entry {
    /// Returns true when the line applies to this name (in the form of [`name`]): by hash, or by pattern with
    /// `!` exceptions.
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

impl KnownHosts {
    /// Parses a file's contents. Lines that cannot be parsed are kept but never match.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut lines = Vec::new();
        for (number, raw) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let entry = Entry::parse(&String::from_utf8_lossy(raw), number);
            lines.push(Line { number, raw: raw.to_vec(), entry });
        }
        Self { lines }
    }

    /// Adds one line of a file if it concerns a name (in the form of [`name`]): an entry that applies to it, or
    /// a line with a fault that may have been meant to revoke a key of it. Returns whether the line was added.
    ///
    /// Look-ups of that name give the same results as with all lines of the file, in much less memory.
    /// `number` is the line's number, from 1.
    pub fn add_line_about(&mut self, name: &str, number: usize, raw: &[u8]) -> bool {
        let text = String::from_utf8_lossy(raw);
        // Most lines are about other hosts. These need not be parsed, which takes long for keys.
        if !text.contains("@revoked") && !hosts_of(&text).is_some_and(|hosts| hosts_match(hosts, name)) {
            return false;
        }
        let line = Line { number, entry: Entry::parse(&text, number), raw: raw.to_vec() };
        let applies = line.entry.as_ref().is_some_and(|entry| entry.matches(name));
        let may_revoke = || {
            BrokenLine::find(&line).is_some_and(|line| line.marker == Marker::Revoked && line.may_match(name))
        };
        let is_about = applies || may_revoke();
        if is_about {
            self.lines.push(line);
        }
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
        use std::io::Read as _;
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

/// Returns true when the hosts field of a line applies to this name: by hash, or by pattern with `!`
/// exceptions. A malformed hash applies to no name.
pub fn hosts_match(hosts: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if hosts.starts_with(HASH_MAGIC) {
        return hash_of(hosts).is_some_and(|(salt, hash)| hmac_sha1(&salt, name.as_bytes()) == hash);
    }
    match_list(&name, hosts, true) == ListMatch::Yes
}

/// Returns true when a hosts field is a well-formed hash.
pub fn is_hash(hosts: &str) -> bool {
    hash_of(hosts).is_some()
}

/// Returns salt and hash of a hosts field.
fn hash_of(hosts: &str) -> Option<([u8; SALT], [u8; SALT])> {
    let (salt, hash) = hosts.strip_prefix(HASH_MAGIC)?.split_once('|')?;
    let decode = |text: &str| {
        let mut out = [0; SALT];
        (Base64::decode(text, &mut out).ok()?.len() == SALT).then_some(out)
    };
    Some((decode(salt)?, decode(hash)?))
}

/// Returns the name of `host` in known_hosts: lower case, and `[host]:port` unless the port is 22.
pub fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// Returns a name hashed with a new salt.
pub fn hash_name(name: &str, random: &mut dyn Random) -> String {
    let mut salt = [0; SALT];
    random.fill(&mut salt);
    let hash = hmac_sha1(&salt, name.to_ascii_lowercase().as_bytes());
    format!("{HASH_MAGIC}{}|{}", Base64::encode_string(&salt), Base64::encode_string(&hash))
}

/// Returns the line for `names` (usually host and address). With `random`, each name is hashed on a separate
/// line.
pub fn entry_lines(names: &[&str], key: &PublicKey, random: Option<&mut dyn Random>) -> String {
    let key = key.to_openssh_line("");
    let key = key.trim_end();
    match random {
        None => format!("{} {key}\n", names.join(",")),
        Some(random) => names.iter().map(|name| format!("{} {key}\n", hash_name(name, random))).collect(),
    }
}

/// Appends entries to a file, which is created if it does not exist (with the mode that the umask leaves;
/// a missing directory is an error). A newline is added to a last line without one.
///
/// # Errors
/// Errors of the operating system.
pub fn append(
    path: &Path,
    names: &[&str],
    key: &PublicKey,
    random: Option<&mut dyn Random>,
) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut text = String::new();
    if !ends_with_newline(&mut file)? {
        text.push('\n');
    }
    text.push_str(&entry_lines(names, key, random));
    // A single write keeps the lines of two clients that add a key at once apart.
    file.write_all(text.as_bytes())
}

fn ends_with_newline(file: &mut fs::File) -> io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] == b'\n')
}

/// Replaces a file and keeps its mode; the old contents are kept as `path.old`. Returns the path of the old
/// file.
///
/// # Errors
/// Errors of the operating system. The file is complete at every moment.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<PathBuf> {
    let mode = fs::metadata(path)?.mode() & 0o777;
    let with_suffix = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let fresh = with_suffix(&format!(".{}", std::process::id()));
    let result = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(contents)?;
        file.sync_all()?;
        let old = with_suffix(".old");
        match fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::hard_link(path, &old)?;
        fs::rename(&fresh, path)?;
        Ok(old)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    result
}

/// Computes HMAC-SHA1 (RFC 2104) with a key no longer than a block. It only hides names in a file from casual
/// readers, so its speed and the age of SHA-1 do not matter.
fn hmac_sha1(key: &[u8; SALT], data: &[u8]) -> [u8; SALT] {
    const BLOCK: usize = 64;
    let pad = |with: u8| {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Hash::Sha1.digest(&[&pad(0x36), data]);
    let outer = Hash::Sha1.digest(&[&pad(0x5c), inner.as_ref()]);
    let mut out = [0; SALT];
    for (byte, from) in out.iter_mut().zip(outer.as_ref()) {
        *byte = *from;
    }
    out
}

#[cfg(test)]
mod tests;
