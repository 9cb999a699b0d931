//! What a word on the command line may become.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::command::{COMMANDS, Names};
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

/// What is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typing {
    /// The name of a command.
    Command(Word),
    /// A path of one side.
    Path(Side, Word),
    /// Something that cannot be completed.
    Other,
}

/// Understands the line up to the cursor.
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
    let Some(entry) =
        COMMANDS.iter().find(|entry| command.pattern.eq_ignore_ascii_case(entry.name.as_bytes()))
    else {
        return Typing::Other;
    };
    let operands = words[1..].iter().filter(|word| !word.pattern.starts_with(b"-")).count();
    let side = match (entry.names, operands) {
        (Names::Local, _) | (Names::RemoteThenLocal, 1) | (Names::LocalThenRemote, 0) => Side::Local,
        (Names::Remote, _) | (Names::RemoteThenLocal, 0) | (Names::LocalThenRemote, 1) => Side::Remote,
        _ => return Typing::Other,
    };
    Typing::Path(side, last)
}

/// Looks up what the last word of `line` may become. `directory` is the remote working directory.
pub fn complete(line: &str, remote: &mut Remote, directory: &[u8]) -> Completions {
    match typing(line) {
        Typing::Command(word) => {
            let typed = String::from_utf8_lossy(&word.pattern).to_ascii_lowercase();
            let names = COMMANDS.iter().map(|entry| entry.name).filter(|name| name.starts_with(&typed));
            // What is the only possibility is finished with a blank.
            let names: Vec<&str> = names.filter(|name| name.len() > 1).collect();
            let end = if names.len() == 1 { " " } else { "" };
            let found = names.iter().map(|name| ((*name).to_owned(), format!("{name}{end}"))).collect();
            Completions { start: word.start, found }
        }
        Typing::Path(side, word) => {
            let path = unescape(&word.pattern);
            let cut = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            let (parent, prefix) = path.split_at(cut);
            let entries = match side {
                Side::Local => local_entries(parent),
                Side::Remote => remote_entries(remote, &absolute(parent, directory)),
            };
            candidates(&word, parent, prefix, entries)
        }
        Typing::Other => Completions { start: line.len(), found: Vec::new() },
    }
}

/// A name in a directory, and whether it is a directory itself.
type Entry = (Vec<u8>, bool);

fn local_entries(parent: &[u8]) -> Vec<Entry> {
    let parent = if parent.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(parent) };
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    entries.flatten().map(|entry| (entry.file_name().into_vec(), entry.path().is_dir())).collect()
}

fn remote_entries(remote: &mut Remote, parent: &[u8]) -> Vec<Entry> {
    remote.begin_command();
    let mut entries = Vec::new();
    // What cannot be listed completes to nothing.
    let _ = remote.list(parent, b"", Detail::Attrs, &mut |entry| {
        if !lh_transfer::is_safe_name(&entry.name) {
            return 0;
        }
        let kept = size_of::<Entry>() + entry.name.len();
        entries.push((entry.name, entry.attrs.is_dir()));
        kept
    });
    entries
}

fn candidates(word: &Word, parent: &[u8], prefix: &[u8], mut entries: Vec<Entry>) -> Completions {
    entries.retain(|(name, _)| {
        name.starts_with(prefix) && (!name.starts_with(b".") || prefix.starts_with(b"."))
    });
    entries.sort();
    // The line is text: a name that is none cannot be typed.
    let (Ok(parent), single) = (std::str::from_utf8(parent), entries.len() == 1) else {
        return Completions { start: word.start, found: Vec::new() };
    };
    let quote = word.open_quote;
    let open = quote.map_or_else(String::new, |quote| char::from(quote).to_string());
    let found = entries.iter().filter_map(|(name, is_dir)| {
        let name = std::str::from_utf8(name).ok().filter(|name| !name.contains(char::is_control))?;
        let mut replacement = format!("{open}{}", typed(&format!("{parent}{name}"), quote));
        match (is_dir, single) {
            (true, _) => replacement.push('/'),
            (false, true) => replacement.push_str(&format!("{open} ")),
            (false, false) => {}
        }
        Some((format!("{name}{}", if *is_dir { "/" } else { "" }), replacement))
    });
    Completions { start: word.start, found: found.collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(line: &str) -> Option<(Side, String)> {
        match typing(line) {
            Typing::Path(side, word) => Some((side, String::from_utf8(unescape(&word.pattern)).unwrap())),
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
        for other in ["!ls x", "help x", "nonsense x", "put a b c", "# x"] {
            assert_eq!(typing(other), Typing::Other, "{other}");
        }
    }

    #[test]
    fn candidates_are_typed_as_the_word_was() {
        let Typing::Path(_, word) = typing("get d/my") else { panic!("a path") };
        let entries = vec![(b"my file".to_vec(), false), (b"my".to_vec(), true), (b"other".to_vec(), false)];
        let found = candidates(&word, b"d/", b"my", entries.clone()).found;
        assert_eq!(found, [("my/".into(), "d/my/".into()), ("my file".into(), "d/my\\ file".into())]);
        let Typing::Path(_, word) = typing("get \"d/my f") else { panic!("a path") };
        let found = candidates(&word, b"d/", b"my f", entries).found;
        assert_eq!(found, [("my file".to_owned(), "\"d/my file\" ".to_owned())]);
    }

    proptest! {
        #[test]
        fn no_line_breaks_it(line in "[-@!a-z'\" \\\\#/]{0,20}") {
            let _ = typing(&line);
            let _ = typing(&format!("get {line}"));
        }
    }
}
