//! Completion of the word before the cursor: commands, their flags, and paths of either side.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use lh_transfer::join;

use crate::command::{COMMANDS, Entry, Names};
use crate::console::Completions;
use crate::detail::Detail;
use crate::paths::absolute;
use crate::remote::Remote;
use crate::words::{Word, split_open, typed, unescape};

/// Which side's paths a word is completed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This host's.
    Local,
    /// The server's.
    Remote,
}

/// Kind of the word before the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typing {
    /// The name of a command.
    Command(Word),
    /// A flag of this command.
    Flag(&'static str, Word),
    /// A path of one side.
    Path(Side, EntryFilter, Word),
    /// Something that cannot be completed.
    Other,
}

/// Which entries of a directory are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryFilter {
    /// All.
    Any,
    /// Directories, and links that may lead to one.
    Directories,
}

/// Finds out what the last word of `line`, which ends at the cursor, is.
pub fn typing(line: &str) -> Typing {
    let prefix = line.len() - line.trim_start_matches([' ', '\t', '-', '@']).len();
    if line[prefix..].starts_with(['!', '#']) {
        return Typing::Other;
    }
    let mut words = split_open(&line.as_bytes()[prefix..]);
    for word in &mut words {
        word.start += prefix;
    }
    let blank_behind = line.ends_with([' ', '\t']) && !line.ends_with("\\ ");
    if words.is_empty() || (blank_behind && words.last().is_some_and(|word| word.open_quote.is_none())) {
        words.push(Word { pattern: Vec::new(), start: line.len(), open_quote: None });
    }
    let Some(last) = words.pop() else { return Typing::Other };
    let Some(command) = words.first() else { return Typing::Command(last) };
    let Some(entry) = Entry::find(&command.pattern) else { return Typing::Other };
    // Flags end at the first operand, and behind `--`.
    let flags = words[1..].iter().take_while(|word| word.pattern.starts_with(b"-") && word.pattern != b"-");
    let flags = flags.count();
    let ended = words[1..][..flags].iter().any(|word| word.pattern == b"--");
    if flags == words.len() - 1 && !ended && last.pattern.starts_with(b"-") {
        return Typing::Flag(entry.flags, last);
    }
    let operands = words.len() - 1 - flags;
    let (side, only) = match (entry.names, operands) {
        (Names::Local, _) | (Names::RemoteThenLocal, 1) | (Names::LocalThenRemote, 0) => {
            (Side::Local, EntryFilter::Any)
        }
        (Names::Remote, _)
        | (Names::RemoteThenLocal, 0)
        | (Names::LocalThenRemote, 1)
        | (Names::ValueThenRemote, 1) => (Side::Remote, EntryFilter::Any),
        (Names::LocalDirectory, 0) => (Side::Local, EntryFilter::Directories),
        (Names::RemoteDirectory, 0) => (Side::Remote, EntryFilter::Directories),
        _ => return Typing::Other,
    };
    Typing::Path(side, only, last)
}

/// Looks up what the last word of `line` may become. `directory` is the remote working directory.
pub fn complete(line: &str, remote: &mut Remote, directory: &[u8]) -> Completions {
    match typing(line) {
        Typing::Command(word) => {
            let typed = String::from_utf8_lossy(&word.pattern).to_ascii_lowercase();
            let names = COMMANDS.iter().map(|entry| entry.name).filter(|name| name.starts_with(&typed));
            // A single candidate is completed with a blank.
            let names: Vec<&str> = names.filter(|name| name.len() > 1).collect();
            let end = if names.len() == 1 { " " } else { "" };
            let found = names.iter().map(|name| ((*name).to_owned(), format!("{name}{end}"))).collect();
            Completions { start: word.start, found }
        }
        Typing::Flag(flags, word) => {
            let typed = String::from_utf8_lossy(&word.pattern).into_owned();
            // Flags of one letter each can share a word: one more is offered behind those that are there.
            let more = flags.chars().filter(|&letter| !typed.contains(letter));
            let found = more.map(|letter| (format!("-{letter}"), format!("{typed}{letter}"))).collect();
            Completions { start: word.start, found }
        }
        Typing::Path(side, only, word) => {
            let path = unescape(&word.pattern);
            let cut = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            let (parent, prefix) = path.split_at(cut);
            let parent_path = absolute(parent, directory);
            let mut entries = match side {
                Side::Local => local_entries(parent),
                Side::Remote => remote_entries(remote, &parent_path),
            };
            entries.retain(|(name, kind)| {
                name.starts_with(prefix)
                    && (!name.starts_with(b".") || prefix.starts_with(b"."))
                    && (only == EntryFilter::Any || *kind != Kind::Other)
            });
            if let [(name, kind @ Kind::Link)] = &mut entries[..]
                && let Ok(true) = remote.is_dir(&join(&parent_path, name))
            {
                *kind = Kind::Directory;
            }
            candidates(&word, parent, entries)
        }
        Typing::Other => Completions { start: line.len(), found: Vec::new() },
    }
}

/// Kind of a directory entry, for the completion of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A directory. On this host, also a symbolic link to one.
    Directory,
    /// A symbolic link on the server, which may point to a directory.
    Link,
    Other,
}

/// The entries of a directory: name and kind.
type Entries = Vec<(Vec<u8>, Kind)>;

fn local_entries(parent: &[u8]) -> Entries {
    let parent = if parent.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(parent) };
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let kind = |is_dir| if is_dir { Kind::Directory } else { Kind::Other };
    entries.flatten().map(|entry| (entry.file_name().into_vec(), kind(entry.path().is_dir()))).collect()
}

fn remote_entries(remote: &mut Remote, parent: &[u8]) -> Entries {
    remote.begin_command();
    let mut entries = Vec::new();
    // A directory that cannot be listed completes to nothing.
    let _ = remote.list(parent, b"", Detail::Attrs, &mut |entry| {
        if !lh_transfer::is_safe_name(&entry.name) {
            return 0;
        }
        let kept = size_of::<(Vec<u8>, Kind)>() + entry.name.len();
        let kind = match &entry.attrs {
            attrs if attrs.is_dir() => Kind::Directory,
            attrs if attrs.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        entries.push((entry.name, kind));
        kept
    });
    entries
}

fn candidates(word: &Word, parent: &[u8], mut entries: Entries) -> Completions {
    entries.sort();
    // The line is text: a name that is not UTF-8 cannot be typed.
    let (Ok(parent), single) = (std::str::from_utf8(parent), entries.len() == 1) else {
        return Completions { start: word.start, found: Vec::new() };
    };
    let quote = word.open_quote;
    let open = quote.map_or_else(String::new, |quote| char::from(quote).to_string());
    let found = entries.iter().filter_map(|(name, kind)| {
        let is_dir = *kind == Kind::Directory;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.contains(char::is_control))?;
        let mut replacement = format!("{open}{}", typed(&format!("{parent}{name}"), quote));
        match (is_dir, single) {
            (true, _) => replacement.push('/'),
            (false, true) => replacement.push_str(&format!("{open} ")),
            (false, false) => {}
        }
        Some((format!("{name}{}", if is_dir { "/" } else { "" }), replacement))
    });
    Completions { start: word.start, found: found.collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(line: &str) -> Option<(Side, String)> {
        match typing(line) {
            Typing::Path(side, _, word) => Some((side, String::from_utf8(unescape(&word.pattern)).unwrap())),
            _ => None,
        }
    }

    #[test]
    fn the_word_before_the_cursor_is_found() {
        assert!(matches!(typing("ge"), Typing::Command(word) if word.start == 0 && word.pattern == b"ge"));
        assert!(matches!(typing("  -@ge"), Typing::Command(word) if word.start == 4));
        assert!(matches!(typing(""), Typing::Command(_)));
        assert_eq!(path("get fi"), Some((Side::Remote, "fi".to_owned())));
        assert_eq!(path("get -r fi"), Some((Side::Remote, "fi".to_owned())));
        assert_eq!(path("get a "), Some((Side::Local, String::new())));
        assert_eq!(path("put \"my fi"), Some((Side::Local, "my fi".to_owned())));
        assert_eq!(path("put a b"), Some((Side::Remote, "b".to_owned())));
        assert_eq!(path("PUT my\\ "), Some((Side::Local, "my ".to_owned())));
        assert_eq!(path("chmod 644 fi"), Some((Side::Remote, "fi".to_owned())));
        assert_eq!(path("get -- -fi"), Some((Side::Remote, "-fi".to_owned())));
        assert_eq!(path("rename a -b"), Some((Side::Remote, "-b".to_owned())));
        for other in ["!ls x", "help x", "nonsense x", "put a b c", "# x", "chmod 6", "cd a b", "chmod 6 a b"]
        {
            assert_eq!(typing(other), Typing::Other, "{other}");
        }
    }

    #[test]
    fn every_path_argument_is_completed() {
        use Side::{Local, Remote};
        for (command, sides) in [
            ("cd", &[Remote][..]),
            ("chdir", &[Remote]),
            ("copy", &[Remote, Remote]),
            ("cp", &[Remote, Remote]),
            ("df -h", &[Remote]),
            ("dir", &[Remote]),
            ("get -r", &[Remote, Local]),
            ("mget", &[Remote, Local]),
            ("reget", &[Remote, Local]),
            ("put -a", &[Local, Remote]),
            ("mput", &[Local, Remote]),
            ("reput", &[Local, Remote]),
            ("ln -s", &[Remote, Remote]),
            ("symlink", &[Remote, Remote]),
            ("rename", &[Remote, Remote]),
            ("ls -la", &[Remote]),
            ("mkdir", &[Remote]),
            ("rmdir", &[Remote]),
            ("rm", &[Remote]),
            ("chown -h 0", &[Remote]),
            ("chgrp 0", &[Remote]),
            ("lcd", &[Local]),
            ("lls", &[Local]),
            ("lmkdir", &[Local]),
        ] {
            let mut line = command.to_owned();
            for &side in sides {
                assert_eq!(path(&format!("{line} x")), Some((side, "x".to_owned())), "{line} x");
                line.push_str(" operand");
            }
        }
        let only = |line| match typing(line) {
            Typing::Path(_, only, _) => Some(only),
            _ => None,
        };
        assert_eq!(
            (only("cd x"), only("lcd x")),
            (Some(EntryFilter::Directories), Some(EntryFilter::Directories))
        );
        assert_eq!((only("ls x"), only("lls x")), (Some(EntryFilter::Any), Some(EntryFilter::Any)));
    }

    #[test]
    fn flags_are_those_of_the_command() {
        assert!(matches!(typing("get -"), Typing::Flag("afpPrR", word) if word.start == 4));
        assert!(matches!(typing("ls -l -"), Typing::Flag("1afhlnrSt", word) if word.start == 6));
        assert!(matches!(typing("pwd -"), Typing::Flag("", _)));
    }

    #[test]
    fn candidates_are_typed_as_the_word_was() {
        let Typing::Path(_, _, word) = typing("get d/my") else { panic!("a path") };
        let entries = vec![(b"my file".to_vec(), Kind::Other), (b"my".to_vec(), Kind::Directory)];
        let found = candidates(&word, b"d/", entries.clone()).found;
        assert_eq!(found, [("my/".into(), "d/my/".into()), ("my file".into(), "d/my\\ file".into())]);
        let Typing::Path(_, _, word) = typing("get \"d/my f") else { panic!("a path") };
        let found = candidates(&word, b"d/", entries[..1].to_vec()).found;
        assert_eq!(found, [("my file".to_owned(), "\"d/my file\" ".to_owned())]);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[-@!a-z'\" \\\\#/]{0,20}") {
            let _ = typing(&line);
            let _ = typing(&format!("get {line}"));
        }
    }
}
