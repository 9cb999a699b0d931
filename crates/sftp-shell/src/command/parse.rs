//! Reads a line: its prefixes, the command's name, flags and operands.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::line::{Attribute, Command, CommandError, CopyFlags, DiskUse, Line, ListFlags, Order};
use super::table::Entry;
use crate::words::{split, unescape};

/// Reads a line.
pub fn parse(line: &[u8]) -> Line {
    let trim =
        |text: &'_ [u8]| text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let mut rest = &line[trim(line)..];
    let (mut ignore_errors, mut no_echo) = (false, false);
    while let [prefix @ (b'-' | b'@'), after @ ..] = rest {
        ignore_errors |= *prefix == b'-';
        no_echo |= *prefix == b'@';
        rest = after;
    }
    rest = &rest[trim(rest)..];
    let command = if rest.is_empty() || rest[0] == b'#' { Ok(None) } else { parse_command(rest).map(Some) };
    Line { ignore_errors, no_echo, command }
}

/// Flags and the rest of one command's words.
struct Words<'a> {
    name: &'static str,
    words: std::slice::Iter<'a, Vec<u8>>,
}

impl Words<'_> {
    /// Calls `take` for each flag letter; `take` returns whether it knows the letter. Flags end at the first
    /// other word.
    fn flags(&mut self, mut take: impl FnMut(u8) -> bool) -> Result<(), CommandError> {
        while let Some([b'-', letters @ ..]) = self.words.as_slice().first().map(Vec::as_slice) {
            if letters.is_empty() {
                break;
            }
            self.words.next();
            if letters == b"-" {
                break;
            }
            for &letter in letters {
                if !take(letter) {
                    return Err(CommandError::Flag { command: self.name, letter });
                }
            }
        }
        Ok(())
    }

    fn pattern(&mut self) -> Option<Vec<u8>> {
        self.words.next().cloned()
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        self.words.next().map(|word| unescape(word))
    }

    fn one(&mut self) -> Result<Vec<u8>, CommandError> {
        self.name().ok_or(CommandError::NoPath(self.name))
    }

    fn two(&mut self) -> Result<(Vec<u8>, Vec<u8>), CommandError> {
        match (self.name(), self.name()) {
            (Some(from), Some(to)) => Ok((from, to)),
            _ => Err(CommandError::NotTwoPaths(self.name)),
        }
    }

    fn number(&mut self, radix: u32) -> Result<u32, CommandError> {
        let number = self.words.next().and_then(|word| std::str::from_utf8(word).ok());
        let number = number.and_then(|text| u32::from_str_radix(text, radix).ok());
        number.ok_or(CommandError::NoNumber(self.name))
    }
}

fn parse_command(text: &[u8]) -> Result<Command, CommandError> {
    if let [b'!', command @ ..] = text {
        return Ok(Command::Escape(raw(command)));
    }
    let words = split(text)?;
    let first = words.first().map(Vec::as_slice).unwrap_or_default();
    let Entry { name, flags, .. } = *Entry::find(first).ok_or(CommandError::Unknown)?;
    let mut words = Words { name, words: words.get(1..).unwrap_or_default().iter() };
    if flags.is_empty() && name != "lls" {
        words.flags(|_| false)?;
    }
    match name {
        "bye" | "exit" | "quit" => Ok(Command::Quit),
        "help" | "?" => Ok(Command::Help),
        "version" => Ok(Command::Version),
        "progress" => Ok(Command::Progress),
        "pwd" => Ok(Command::Pwd),
        "lpwd" => Ok(Command::Lpwd),
        "cd" | "chdir" => Ok(Command::Cd(words.name())),
        "lcd" | "lchdir" => Ok(Command::Lcd(words.name())),
        "lmkdir" | "mkdir" => {
            let mut parents = false;
            words.flags(|letter| letter == b'p' && set(&mut parents))?;
            let path = words.one()?;
            Ok(if name == "mkdir" {
                Command::Mkdir { parents, path }
            } else {
                Command::Lmkdir { parents, path }
            })
        }
        "lumask" => words.number(8).map(Command::Lumask),
        "lls" => Ok(Command::Lls(raw(&text[name.len()..]))),
        "ls" | "dir" => parse_ls(words),
        "df" => {
            let (mut human, mut inodes) = (false, false);
            words.flags(|letter| match letter {
                b'h' => set(&mut human),
                b'i' => set(&mut inodes),
                _ => false,
            })?;
            let shown = match inodes {
                true => DiskUse::Inodes,
                false if human => DiskUse::Scaled,
                false => DiskUse::Kilobytes,
            };
            Ok(Command::Df { shown, path: words.name() })
        }
        "get" | "mget" | "reget" | "put" | "mput" | "reput" => parse_copy(words),
        "chmod" => parse_change(words, Attribute::Mode),
        "chown" => parse_change(words, Attribute::Owner),
        "chgrp" => parse_change(words, Attribute::Group),
        "rm" => words.pattern().map(Command::Rm).ok_or(CommandError::NoPath(name)),
        "rmdir" => words.one().map(Command::Rmdir),
        "rename" => {
            let mut legacy = false;
            words.flags(|letter| letter == b'l' && set(&mut legacy))?;
            words.two().map(|(from, to)| Command::Rename { legacy, from, to })
        }
        "ln" | "symlink" => {
            let mut symbolic = name == "symlink";
            words.flags(|letter| name == "ln" && letter == b's' && set(&mut symbolic))?;
            words.two().map(|(from, to)| Command::Link { symbolic, from, to })
        }
        "copy" | "cp" => words.two().map(|(from, to)| Command::Copy { from, to }),
        _ => Err(CommandError::Unknown),
    }
}

const fn set(flag: &mut bool) -> bool {
    *flag = true;
    true
}

/// Returns the text for a local shell, without leading blanks.
fn raw(text: &[u8]) -> OsString {
    OsString::from_vec(text.trim_ascii_start().to_vec())
}

fn parse_ls(mut words: Words<'_>) -> Result<Command, CommandError> {
    let mut flags = ListFlags::default();
    words.flags(|letter| {
        match letter {
            b'1' => flags.single = true,
            b'a' => flags.all = true,
            b'f' => flags.order = Order::None,
            b'h' => flags.human = true,
            b'l' => flags.long = true,
            b'n' => (flags.long, flags.numeric) = (true, true),
            b'r' => flags.reverse = true,
            b'S' => flags.order = Order::Size,
            b't' => flags.order = Order::Time,
            _ => return false,
        }
        true
    })?;
    Ok(Command::Ls { flags, pattern: words.pattern() })
}

fn parse_copy(mut words: Words<'_>) -> Result<Command, CommandError> {
    let resumes = words.name.starts_with("re");
    let mut flags = CopyFlags { resume: resumes, ..CopyFlags::default() };
    words.flags(|letter| {
        match letter {
            b'a' => flags.resume = true,
            b'f' => flags.sync = true,
            b'p' | b'P' => flags.preserve = true,
            b'r' | b'R' => flags.recursive = true,
            _ => return false,
        }
        true
    })?;
    let source = words.pattern().ok_or(CommandError::NoSource(words.name))?;
    let target = words.name();
    Ok(if words.name.ends_with("get") {
        Command::Get { flags, source, target }
    } else {
        Command::Put { flags, source, target }
    })
}

fn parse_change(mut words: Words<'_>, what: Attribute) -> Result<Command, CommandError> {
    let mut no_follow = false;
    words.flags(|letter| letter == b'h' && set(&mut no_follow))?;
    let value = words.number(if what == Attribute::Mode { 8 } else { 10 })?;
    let pattern = words.pattern().ok_or(CommandError::NoPath(words.name))?;
    Ok(Command::Change { what, no_follow, value, pattern })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::table::COMMANDS;
    use super::*;

    fn command(line: &str) -> Result<Option<Command>, String> {
        parse(line.as_bytes()).command.map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_has_the_flags_that_are_parsed() {
        for entry in COMMANDS.iter().filter(|entry| !matches!(entry.name, "!" | "?" | "lls")) {
            for letter in ('0'..='9').chain('a'..='z').chain('A'..='Z') {
                let refused = format!("{}: Invalid flag -{letter}", entry.name);
                let line = command(&format!("{} -{letter} 0 a b", entry.name));
                let takes = line != Err(refused);
                if entry.flags.contains(letter) {
                    assert!(takes && line.is_ok(), "{} -{letter}: {line:?}", entry.name);
                } else {
                    assert!(!takes, "{} takes -{letter}", entry.name);
                }
            }
        }
    }

    #[test]
    fn prefixes_are_taken_off() {
        let line = parse(b"  -@ rm x");
        assert!(line.ignore_errors && line.no_echo);
        assert_eq!(line.command, Ok(Some(Command::Rm(b"x".to_vec()))));
        for empty in ["", "   ", "# x", "-", "@  # x"] {
            assert_eq!(command(empty), Ok(None), "{empty}");
        }
    }

    #[test]
    fn commands_parse_with_flags_quotes_and_any_case() {
        assert_eq!(command("BYE"), Ok(Some(Command::Quit)));
        let flags = CopyFlags { resume: true, sync: true, preserve: true, recursive: true };
        let (source, target) = (b"a*".to_vec(), Some(b"b*".to_vec()));
        assert_eq!(command("get -af -Pr a* \"b*\""), Ok(Some(Command::Get { flags, source, target })));
        assert_eq!(
            command("reput x")
                .unwrap()
                .map(|found| matches!(found, Command::Put { flags, .. } if flags.resume)),
            Some(true)
        );
        assert_eq!(command("!  ls -l 'x"), Ok(Some(Command::Escape("ls -l 'x".into()))));
        assert_eq!(command("lls -l  \"a b\""), Ok(Some(Command::Lls("-l  \"a b\"".into()))));
        let flags = ListFlags { long: true, numeric: true, order: Order::Time, ..ListFlags::default() };
        assert_eq!(command("ls -nt"), Ok(Some(Command::Ls { flags, pattern: None })));
    }

    #[test]
    fn errors_have_openssh_s_words() {
        for (line, text) in [
            ("bogus", "Invalid command."),
            ("get", "You must specify at least one path after a get command."),
            ("put -z x", "put: Invalid flag -z"),
            ("ls -Z", "ls: Invalid flag -Z"),
            ("rm", "You must specify a path after a rm command."),
            ("rename a", "You must specify two paths after a rename command."),
            ("chmod 9 x", "You must supply a numeric argument to the chmod command."),
            ("chmod 600", "You must specify a path after a chmod command."),
            ("lumask 0x12", "You must supply a numeric argument to the lumask command."),
            ("rm -f x", "rm: Invalid flag -f"),
            ("symlink -s a b", "symlink: Invalid flag -s"),
            ("pwd -x", "pwd: Invalid flag -x"),
            ("get \"x", "Unterminated quoted argument"),
        ] {
            assert_eq!(command(line), Err(text.to_owned()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_parser(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&line);
        }

        #[test]
        fn no_command_breaks_the_parser(
            at in 0..COMMANDS.len(),
            rest in "[-a-zA-Z0-9 '\"\\\\*]{0,20}",
        ) {
            let _ = parse(format!("{} {rest}", COMMANDS[at].name).as_bytes());
        }
    }
}
