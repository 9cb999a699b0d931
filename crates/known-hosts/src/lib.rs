//! known_hosts files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): look a host's key up, add, remove, hash.
//!
//! A file is kept line by line as it was, so that what we do not understand (comments, key types of the future, bytes that
//! are not UTF-8) survives being rewritten. Looking up never writes; the functions that change a file say so and replace it
//! atomically.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use lh_config::pattern::{ListMatch, match_list};
use lh_crypto::{Hash, PublicKey, Random};

/// Marks a hashed name; OpenSSH knows one kind.
const HASH_MAGIC: &str = "|1|";
/// Bytes of SHA-1, which are also the bytes of a salt.
const SALT: usize = 20;
/// The largest file that is read, in bytes: 100 times the largest seen, and still no danger to memory.
const MAX_FILE: u64 = 64 << 20;

/// What a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// The key of a host.
    Plain,
    /// `@cert-authority`: the key signs host certificates.
    CertAuthority,
    /// `@revoked`: the key must not be accepted, as host key or as authority.
    Revoked,
}

/// A line with a key.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Line number, from 1.
    pub line: usize,
    /// What it is for.
    pub marker: Marker,
    /// The hosts field as written: names and patterns separated by commas, or one hash.
    pub hosts: String,
    /// The key.
    pub key: PublicKey,
    /// What follows the key.
    pub comment: String,
}

/// What a file, or several, say about a host's key.
#[derive(Debug, Clone)]
pub enum Lookup<'a> {
    /// The key is known for the host.
    Match(&'a Entry),
    /// The host is known with other keys only, of whatever type: that is what a changed key looks like, and OpenSSH treats a
    /// change of type no differently. The last such entry.
    Changed(&'a Entry),
    /// The host is not known.
    Unknown,
    /// The key is revoked for this host.
    Revoked(&'a Entry),
}

#[derive(Debug, Clone)]
struct Line {
    raw: Vec<u8>,
    entry: Option<Entry>,
}

/// A known_hosts file in memory.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

impl Entry {
    /// Whether the line is about this name, as [`name`] makes it: by hash, or by pattern with `!` exceptions.
    pub fn matches(&self, name: &str) -> bool {
        hosts_match(&self.hosts, name)
    }

    /// Whether its name is hashed.
    pub fn is_hashed(&self) -> bool {
        self.hosts.starts_with(HASH_MAGIC)
    }

    /// Salt and hash.
    fn hash(&self) -> Option<([u8; SALT], [u8; SALT])> {
        hash_of(&self.hosts)
    }

    /// Reads a line; `None` for blank lines, comments and everything that is no entry.
    fn parse(text: &str, line: usize) -> Option<Self> {
        let text = text.trim_start_matches([' ', '\t']).trim_end_matches(['\r', '\n', ' ', '\t']);
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let (marker, text) = match text.split_once([' ', '\t']) {
            Some(("@cert-authority", rest)) => (Marker::CertAuthority, rest),
            Some(("@revoked", rest)) => (Marker::Revoked, rest),
            Some((unknown, _)) if unknown.starts_with('@') => return None,
            _ => (Marker::Plain, text),
        };
        let (hosts, rest) = text.trim_start_matches([' ', '\t']).split_once([' ', '\t'])?;
        let (key, comment) = PublicKey::from_openssh_line(rest)?;
        let entry = Self { line, marker, hosts: hosts.to_owned(), key, comment };
        // A broken hash would otherwise be taken for a pattern.
        (!entry.is_hashed() || entry.hash().is_some()).then_some(entry)
    }
}

impl KnownHosts {
    /// Parses a file's contents. Lines that cannot be understood are kept and never match.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut lines = Vec::new();
        for (index, raw) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let entry = Entry::parse(&String::from_utf8_lossy(raw), index + 1);
            lines.push(Line { raw: raw.to_vec(), entry });
        }
        Self { lines }
    }

    /// Reads a file; a missing one is empty.
    ///
    /// # Errors
    /// The operating system's, other than that the file is not there.
    pub fn read(path: &Path) -> io::Result<Self> {
        match Self::read_existing(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            result => result,
        }
    }

    /// Reads a file, which must be there.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read_existing(path: &Path) -> io::Result<Self> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(Self::parse(&bytes))
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.lines.iter().filter_map(|line| line.entry.as_ref())
    }

    /// Entries about a name.
    pub fn about<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries().filter(move |entry| entry.matches(name))
    }

    /// What is known about `key` (a plain key, no certificate) of `host` on `port`.
    pub fn lookup(&self, host: &str, port: u16, key: &PublicKey) -> Lookup<'_> {
        self.lookup_name(&name(host, port), key)
    }

    /// The same for a name as [`name`] makes it (or a `HostKeyAlias`).
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

    /// The authorities that may sign certificates for a name, without the revoked ones.
    pub fn authorities(&self, name: &str) -> Vec<&Entry> {
        let revoked = |key: &PublicKey| {
            self.entries().any(|e| e.marker == Marker::Revoked && e.key == *key && e.matches(name))
        };
        self.entries()
            .filter(|e| e.marker == Marker::CertAuthority && e.matches(name) && !revoked(&e.key))
            .collect()
    }

    /// Key types that are known for a name, in file order without repetition: the client asks for these first.
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

    /// The contents without the plain and authority lines about a name, and the lines that went. Marked lines stay, as with
    /// `ssh-keygen -R`.
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

    /// The contents without the plain lines that are `unwanted`.
    pub fn without_entries(&self, unwanted: impl Fn(&Entry) -> bool) -> Vec<u8> {
        let goes = |line: &&Line| {
            line.entry.as_ref().is_some_and(|entry| entry.marker == Marker::Plain && unwanted(entry))
        };
        self.lines.iter().filter(|line| !goes(line)).flat_map(|line| line.raw.clone()).collect()
    }

    /// The contents with every plain name hashed, each on its own line. Patterns and marked lines stay as they are; patterns
    /// that could not be hashed are returned with their line numbers, and whether anything changed.
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

/// Whether the hosts field of a line is about this name: by hash, or by pattern with `!` exceptions. A hash that cannot be read
/// is about nobody.
pub fn hosts_match(hosts: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if hosts.starts_with(HASH_MAGIC) {
        return hash_of(hosts).is_some_and(|(salt, hash)| hmac_sha1(&salt, name.as_bytes()) == hash);
    }
    match_list(&name, hosts, true) == ListMatch::Yes
}

/// Whether a hosts field is a hash that can be read.
pub fn is_hash(hosts: &str) -> bool {
    hash_of(hosts).is_some()
}

/// Salt and hash of a hosts field.
fn hash_of(hosts: &str) -> Option<([u8; SALT], [u8; SALT])> {
    let (salt, hash) = hosts.strip_prefix(HASH_MAGIC)?.split_once('|')?;
    let decode = |text: &str| {
        let mut out = [0; SALT];
        (Base64::decode(text, &mut out).ok()?.len() == SALT).then_some(out)
    };
    Some((decode(salt)?, decode(hash)?))
}

/// The name of `host` in known_hosts: lower case, `[host]:port` unless the port is 22.
pub fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// A hashed name with a fresh salt.
pub fn hash_name(name: &str, random: &mut dyn Random) -> String {
    let mut salt = [0; SALT];
    random.fill(&mut salt);
    let hash = hmac_sha1(&salt, name.to_ascii_lowercase().as_bytes());
    format!("{HASH_MAGIC}{}|{}", Base64::encode_string(&salt), Base64::encode_string(&hash))
}

/// A line for `names` (separated by commas, usually host and address); with `random` each name is hashed on a line of its own.
pub fn entry_lines(names: &[&str], key: &PublicKey, random: Option<&mut dyn Random>) -> String {
    let key = key.to_openssh_line("");
    let key = key.trim_end();
    match random {
        None => format!("{} {key}\n", names.join(",")),
        Some(random) => names.iter().map(|name| format!("{} {key}\n", hash_name(name, random))).collect(),
    }
}

/// Appends entries to a file, which is made (mode 0600, its folder 0700) if it does not exist. A last line without a newline gets one.
///
/// # Errors
/// The operating system's.
pub fn append(
    path: &Path,
    names: &[&str],
    key: &PublicKey,
    random: Option<&mut dyn Random>,
) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        fs::DirBuilder::new().mode(0o700).create(folder)?;
    }
    let mut file = fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut text = String::new();
    if !ends_with_newline(&mut file)? {
        text.push('\n');
    }
    text.push_str(&entry_lines(names, key, random));
    // One write: two clients that learn a key at once do not mix their lines.
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

/// Replaces a file, keeping its mode; the old contents stay as `path.old`. Returns the name of the old file.
///
/// # Errors
/// The operating system's. The file is whole at every moment.
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

/// HMAC-SHA1 (RFC 2104) with a key no longer than a block. It hides names in a file from onlookers, nothing more, so its speed and
/// the age of SHA-1 do not matter.
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
