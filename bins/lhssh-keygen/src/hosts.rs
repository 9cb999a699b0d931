//! known_hosts files: find (`-F`), remove (`-R`), hash (`-H`).

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use lh_client::known_hosts::{self, Entry, KnownHosts, Marker};
use lh_crypto::SystemRandom;

use crate::arguments::Arguments;
use crate::talk::{Outcome, error, fatal, print, reason, shown, silent, ssh_folder, warn};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// A known_hosts file as it was read.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    known: KnownHosts,
}

impl File {
    fn open(arguments: &Arguments) -> Outcome<Self> {
        let path = match &arguments.file {
            Some(path) => path.clone(),
            None => ssh_folder()?.join("known_hosts"),
        };
        let bytes =
            read(&path).map_err(|why| fatal(format!("Cannot stat {}: {}", shown(&path), reason(&why))))?;
        let known = KnownHosts::parse(&bytes);
        Ok(Self { path, bytes, known })
    }

    /// Lines without their ends.
    fn lines(&self) -> Vec<&[u8]> {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        text.split(|byte| *byte == b'\n').collect()
    }

    /// Names lines that are neither entries nor comments; a file with such is not rewritten, for who knows what it is.
    fn check(&self) -> Outcome {
        let entries: HashSet<usize> = self.known.entries().map(|entry| entry.line).collect();
        let mut broken = false;
        for (number, line) in (1..).zip(self.lines()) {
            if !entries.contains(&number) && !is_readable(&String::from_utf8_lossy(line)) {
                warn(&format!("{}:{number}: invalid line", shown(&self.path)));
                broken = true;
            }
        }
        if broken {
            warn(&format!("{} is not a valid known_hosts file.", shown(&self.path)));
            return Err(error("Not replacing existing known_hosts file because of errors"));
        }
        Ok(())
    }

    /// Puts other contents in its place; returns the name of the old file.
    fn replace(&self, contents: &[u8]) -> Outcome<PathBuf> {
        let old = known_hosts::replace(&self.path, contents)
            .map_err(|why| fatal(format!("Cannot replace {}: {}", shown(&self.path), reason(&why))))?;
        print(format!("{} updated.\nOriginal contents retained as {}\n", shown(&self.path), shown(&old)))?;
        Ok(old)
    }
}

/// Prints the entries about a host; status 1 when there are none.
pub(crate) fn find(arguments: &Arguments, host: &str) -> Outcome {
    let file = File::open(arguments)?;
    let lines = file.lines();
    let mut found = false;
    for entry in file.known.about(host) {
        found = true;
        if !arguments.quiet {
            let marker = match entry.marker {
                Marker::Plain => "",
                Marker::CertAuthority => "CA",
                Marker::Revoked => "REVOKED",
            };
            // The blank at the end of the line is ssh-keygen's.
            print(format!("# Host {host} found: line {} {marker}\n", entry.line))?;
        }
        if arguments.has('H') && is_hashable(entry) {
            print(known_hosts_line(entry, host))?;
        } else if arguments.has('l') {
            print(fingerprint(arguments, entry, host))?;
        } else {
            print(lines.get(entry.line - 1).copied().unwrap_or_default())?;
            print("\n")?;
        }
    }
    if found { Ok(()) } else { Err(silent()) }
}

/// Removes the entries about a host. That there are none is said but is no failure: scripts remove before they add.
pub(crate) fn remove(arguments: &Arguments, host: &str) -> Outcome {
    let file = File::open(arguments)?;
    let (mut kept, removed) = file.known.without(host);
    if !arguments.quiet {
        for entry in &removed {
            print(format!("# Host {host} found: line {}\n", entry.line))?;
        }
    }
    file.check()?;
    if removed.is_empty() {
        warn(&format!("Host {host} not found in {}", shown(&file.path)));
        return Ok(());
    }
    if kept.last().is_some_and(|last| *last != b'\n') {
        kept.push(b'\n');
    }
    file.replace(&kept).map(drop)
}

/// Hashes all names.
pub(crate) fn hash(arguments: &Arguments) -> Outcome {
    let file = File::open(arguments)?;
    for entry in file.known.entries().filter(|entry| !entry.is_hashed() && has_wildcard(entry)) {
        let (path, hosts) = (shown(&file.path), lh_client::sanitise(&entry.hosts));
        warn(&format!("{path}:{}: ignoring host name with wildcard: {hosts}", entry.line));
    }
    file.check()?;
    let (contents, _, changed) = file.known.hashed(&mut SystemRandom);
    let old = file.replace(&contents)?;
    if changed {
        warn(&format!(
            "WARNING: {} contains unhashed entries\nDelete this file to ensure privacy of hostnames",
            shown(&old)
        ));
    }
    Ok(())
}

/// The line of `-lF`, with its picture where `-v` asks for it.
fn fingerprint(arguments: &Arguments, entry: &Entry, host: &str) -> String {
    let gap = if entry.comment.is_empty() { "" } else { " " };
    let mut out = format!(
        "{host} {} {}{gap}{}\n",
        entry.key.display_type(),
        entry.key.fingerprint(arguments.hash),
        lh_client::sanitise(&entry.comment)
    );
    if arguments.verbose {
        out.push_str(&entry.key.randomart(arguments.hash));
        out.push('\n');
    }
    out
}

/// The entry with the name hashed that was asked for.
fn known_hosts_line(entry: &Entry, host: &str) -> String {
    format!(
        "{} {}\n",
        known_hosts::hash_name(host, &mut SystemRandom),
        entry.key.to_openssh_line(&entry.comment)
    )
}

fn is_hashable(entry: &Entry) -> bool {
    entry.marker == Marker::Plain && !entry.is_hashed() && !has_wildcard(entry)
}

fn has_wildcard(entry: &Entry) -> bool {
    entry.hosts.contains(['*', '?', '!'])
}

/// Key types whose lines are taken for entries even where the key itself cannot be read: OpenSSH's, old ones included.
const KEY_TYPES: [&str; 8] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ssh-dss",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Whether a line that is no entry looks like something to leave alone: blank, a comment, or names, a known type and something
/// in the key's place.
fn is_readable(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().peekable();
    match words.peek() {
        None => return true,
        Some(first) if first.starts_with('#') => return true,
        Some(&("@cert-authority" | "@revoked")) => {
            words.next();
        }
        Some(first) if first.starts_with('@') => return false,
        _ => {}
    }
    // A hash that could be read would have made it an entry, or its key is broken; which, nobody can say.
    let Some((hosts, key_type)) = words.next().zip(words.next()) else { return false };
    !hosts.starts_with('|') && KEY_TYPES.contains(&key_type) && words.next().is_some()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_entries_are_left_alone_or_refused() {
        for line in
            ["", "  \t", "# x", "  #", "h ssh-dss AAAAB3NzaC1kc3M=", "@revoked h,i ssh-rsa broken note"]
        {
            assert!(is_readable(line), "{line}");
        }
        for line in [
            "what is this",
            "h ssh-rsa",
            "@revoked h",
            "@what h ssh-rsa x",
            "h 1024 35 123",
            "|1|x|y ssh-rsa x",
        ] {
            assert!(!is_readable(line), "{line}");
        }
    }
}
