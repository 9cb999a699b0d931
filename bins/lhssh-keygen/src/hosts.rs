//! known_hosts files: find (`-F`), remove (`-R`), hash (`-H`).
//!
//! Lines are handled as text: a line with a damaged key can still be found and removed by its name, and lines
//! that are printed or written again stay unchanged.

use std::path::PathBuf;

use lh_client::known_hosts::{self, Marker};
use lh_crypto::registry::KEYS;
use lh_crypto::{PublicKey, SystemRandom};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Outcome, error, fatal, print, shown, silent, ssh_directory, warn};
use crate::files;

/// Upper limit of a file, bytes.
const MAX_FILE: u64 = 64 << 20;

/// A known_hosts file as it was read.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// A line with hosts and a key.
struct Entry {
    number: usize,
    marker: Marker,
    /// Names and patterns separated by commas, or a hash.
    hosts: String,
    /// Type, key and comment.
    key: String,
}

/// Kind of a line.
enum Line {
    /// Blank, or a comment.
    Nothing,
    Entry(Entry),
    /// A key whose hashed name is damaged: no host's, but nothing is left to hash.
    BrokenHash,
    Broken,
}

impl File {
    fn open(arguments: &Arguments) -> Outcome<Self> {
        let path = match &arguments.file {
            Some(path) => path.clone(),
            None => ssh_directory()?.join("known_hosts"),
        };
        let bytes = files::read_up_to(&path, MAX_FILE)
            .map_err(|why| fatal(format!("Cannot stat {}: {}", shown(&path), errno_text(&why))))?;
        Ok(Self { path, bytes: bytes.to_vec() })
    }

    /// Number, bytes (without the line end) and kind of each line.
    fn lines(&self) -> impl Iterator<Item = (usize, &[u8], Line)> {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let lines = (!self.bytes.is_empty()).then(|| text.split(|byte| *byte == b'\n'));
        (1..).zip(lines.into_iter().flatten()).map(|(number, raw)| {
            // Comments may be in any encoding.
            (number, raw, parse(number, &String::from_utf8_lossy(raw)))
        })
    }

    /// Bytes and entry of each line that has hosts and a key.
    fn entries(&self) -> impl Iterator<Item = (&[u8], Entry)> {
        self.lines().filter_map(|(_, raw, line)| match line {
            Line::Entry(entry) => Some((raw, entry)),
            _ => None,
        })
    }

    /// Calls `on_entry` for the entries, and warns about lines that are neither entries nor comments. A file
    /// with such lines is not rewritten, because it may not be a known_hosts file. `allow_broken_hashes`
    /// permits lines whose hash no name is compared with.
    fn check(&self, allow_broken_hashes: bool, on_entry: impl Fn(&Entry)) -> Outcome {
        let mut broken = false;
        for (number, _, line) in self.lines() {
            match line {
                Line::Entry(entry) => on_entry(&entry),
                Line::BrokenHash if allow_broken_hashes => {}
                Line::Broken | Line::BrokenHash => {
                    warn(&format!("{}:{number}: invalid line", shown(&self.path)));
                    broken = true;
                }
                Line::Nothing => {}
            }
        }
        if broken {
            warn(&format!("{} is not a valid known_hosts file.", shown(&self.path)));
            return Err(error("Not replacing existing known_hosts file because of errors"));
        }
        Ok(())
    }

    /// Replaces the contents, keeping the old file; returns that file's name.
    fn replace(&self, contents: &[u8]) -> Outcome<PathBuf> {
        let old = known_hosts::replace(&self.path, contents)
            .map_err(|why| fatal(format!("Cannot replace {}: {}", shown(&self.path), errno_text(&why))))?;
        print(format!("{} updated.\nOriginal contents retained as {}\n", shown(&self.path), shown(&old)))?;
        Ok(old)
    }
}

impl Entry {
    fn is_about(&self, host: &str) -> bool {
        known_hosts::hosts_match(&self.hosts, host)
    }

    fn is_hashed(&self) -> bool {
        self.hosts.starts_with('|')
    }

    fn has_wildcard(&self) -> bool {
        self.hosts.contains(['*', '?', '!'])
    }

    fn is_hashable(&self) -> bool {
        self.marker == Marker::Plain && !self.is_hashed() && !self.has_wildcard()
    }

    /// One hashed line for each name.
    fn hashed(&self) -> String {
        let names = self.hosts.split(',').filter(|name| !name.is_empty());
        names
            .map(|name| format!("{} {}\n", known_hosts::hash_name(name, &mut SystemRandom), self.key))
            .collect()
    }
}

/// Prints the entries of a host; status 1 when there are none.
pub(crate) fn find(arguments: &Arguments, host: &str) -> Outcome {
    let file = File::open(arguments)?;
    let mut found = false;
    for (raw, entry) in file.entries().filter(|(_, entry)| entry.is_about(host)) {
        let fingerprint = if arguments.switches.fingerprints {
            // A damaged key has no fingerprint.
            let Some(line) = fingerprint(arguments, &entry, host) else { continue };
            Some(line)
        } else {
            None
        };
        found = true;
        if !arguments.quiet {
            let marker = match entry.marker {
                Marker::Plain => "",
                Marker::CertAuthority => "CA",
                Marker::Revoked => "REVOKED",
            };
            // ssh-keygen prints the blank at the end of the line, too.
            print(format!("# Host {host} found: line {} {marker}\n", entry.number))?;
        }
        if arguments.switches.hash_names && entry.is_hashable() {
            print(entry.hashed())?;
        } else if let Some(line) = fingerprint {
            print(line)?;
        } else {
            print(raw)?;
            print("\n")?;
        }
    }
    if found { Ok(()) } else { Err(silent()) }
}

/// Removes the entries of a host. A missing host is reported but no failure: scripts remove before they add.
pub(crate) fn remove(arguments: &Arguments, host: &str) -> Outcome {
    let file = File::open(arguments)?;
    let mut kept = Vec::new();
    let mut removed = false;
    for (number, raw, line) in file.lines() {
        match line {
            // Lines with a marker are not plain host keys, so they stay.
            Line::Entry(entry) if entry.marker == Marker::Plain && entry.is_about(host) => {
                removed = true;
                if !arguments.quiet {
                    print(format!("# Host {host} found: line {number}\n"))?;
                }
            }
            _ => {
                kept.extend_from_slice(raw);
                kept.push(b'\n');
            }
        }
    }
    file.check(false, |_| ())?;
    if !removed {
        warn(&format!("Host {host} not found in {}", shown(&file.path)));
        return Ok(());
    }
    file.replace(&kept).map(drop)
}

/// Hashes all names.
pub(crate) fn hash(arguments: &Arguments) -> Outcome {
    let file = File::open(arguments)?;
    file.check(true, |entry| {
        if !entry.is_hashed() && entry.has_wildcard() {
            let (path, hosts) = (shown(&file.path), lh_client::sanitise(&entry.hosts));
            warn(&format!("{path}:{}: ignoring host name with wildcard: {hosts}", entry.number));
        }
    })?;
    let mut out = Vec::new();
    let mut changed = false;
    for (_, raw, line) in file.lines() {
        match line {
            Line::Entry(entry) if entry.is_hashable() => {
                changed = true;
                out.extend_from_slice(entry.hashed().as_bytes());
            }
            _ => {
                out.extend_from_slice(raw);
                out.push(b'\n');
            }
        }
    }
    let old = file.replace(&out)?;
    if changed {
        warn(&format!(
            "WARNING: {} contains unhashed entries\nDelete this file to ensure privacy of hostnames",
            shown(&old)
        ));
    }
    Ok(())
}

/// Output of `-lF`, with randomart for `-v`; `None` for a damaged key.
fn fingerprint(arguments: &Arguments, entry: &Entry, host: &str) -> Option<String> {
    let (key, comment) = PublicKey::from_openssh_line(&entry.key)?;
    let gap = if comment.is_empty() { "" } else { " " };
    let mut out = format!(
        "{host} {} {}{gap}{}\n",
        key.display_type(),
        key.fingerprint(arguments.hash),
        lh_client::sanitise(&comment)
    );
    if arguments.verbose {
        out.push_str(&key.randomart(arguments.hash));
        out.push('\n');
    }
    Some(out)
}

/// Returns whether a line of `known_hosts` with this key type counts as an entry even if its key is damaged.
/// It does for OpenSSH's key types, old ones included.
fn is_key_type(name: &str) -> bool {
    name == "ssh-dss" || KEYS.iter().any(|row| row.key_type == name)
}

fn parse(number: usize, raw: &str) -> Line {
    const BLANK: [char; 2] = [' ', '\t'];
    let rest = raw.trim_matches([' ', '\t', '\r']);
    if rest.is_empty() || rest.starts_with('#') {
        return Line::Nothing;
    }
    let word = |text: &'_ str| text.find(BLANK).unwrap_or(text.len());
    let (marker, rest) = match rest.split_at(word(rest)) {
        ("@cert-authority", rest) => (Marker::CertAuthority, rest.trim_start_matches(BLANK)),
        ("@revoked", rest) => (Marker::Revoked, rest.trim_start_matches(BLANK)),
        (first, _) if first.starts_with('@') => return Line::Broken,
        _ => (Marker::Plain, rest),
    };
    let (hosts, key) = rest.split_at(word(rest));
    let key = key.trim_start_matches(BLANK);
    let (key_type, blob) = key.split_at(word(key));
    let known = is_key_type(key_type) && !blob.trim_start_matches(BLANK).is_empty();
    if !known && PublicKey::from_openssh_line(key).is_none() {
        return Line::Broken;
    }
    if hosts.starts_with('|') && !known_hosts::is_hash(hosts) {
        return Line::BrokenHash;
    }
    Line::Entry(Entry { number, marker, hosts: hosts.to_owned(), key: key.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_classified_by_their_form() {
        for line in ["", "  \t", "# x", "  #"] {
            assert!(matches!(parse(1, line), Line::Nothing), "{line}");
        }
        for line in ["h ssh-dss AAAAB3NzaC1kc3M=", "@revoked h,i ssh-rsa broken note", "h ssh-ed25519 AAAA"] {
            let Line::Entry(entry) = parse(1, line) else { panic!("{line}") };
            assert!(entry.is_about("h") && !entry.is_about("j"), "{line}");
        }
        for line in [
            "what is this",
            "h ssh-rsa",
            "@revoked h",
            "@what h ssh-rsa x",
            "h 1024 35 123",
            "|1|x|y what is this",
        ] {
            assert!(matches!(parse(1, line), Line::Broken), "{line}");
        }
        assert!(matches!(parse(1, "|1|x|y ssh-rsa x"), Line::BrokenHash));
    }

    proptest! {
        #[test]
        fn arbitrary_lines_do_not_panic(line in "(@revoked |@cert-authority |\\|1\\||ssh-rsa |AAAA|[a-z*!,]| |\\PC){0,12}") {
            if let Line::Entry(entry) = parse(1, &line) {
                let _ = entry.is_about("a");
                let _ = entry.hashed();
            }
        }
    }
}
