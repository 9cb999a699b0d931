//! A line of `sftp`'s command language.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::detail::Detail;
use crate::words::{Unterminated, split, unescape};

/// What a command's operands name, for completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Nothing that can be completed.
    Nothing,
    /// Local paths.
    Local,
    /// A local directory.
    LocalDirectory,
    /// Remote paths.
    Remote,
    /// A remote directory.
    RemoteDirectory,
    /// A mode, owner or group, then a remote path.
    ValueThenRemote,
    /// A remote path, then a local one.
    RemoteThenLocal,
    /// A local path, then a remote one.
    LocalThenRemote,
}

/// A command's name and what follows it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// As it is typed, in any case.
    pub name: &'static str,
    /// What its operands name.
    pub names: Names,
    /// Letters of its flags.
    pub flags: &'static str,
    /// For `help`: arguments and explanation. `None` for second names.
    pub help: Option<(&'static str, &'static str)>,
}

const fn entry(name: &'static str, names: Names, args: &'static str, about: &'static str) -> Entry {
    Entry { name, names, flags: "", help: Some((args, about)) }
}

const fn alias(name: &'static str, names: Names) -> Entry {
    Entry { name, names, flags: "", help: None }
}

impl Entry {
    const fn with_flags(self, flags: &'static str) -> Self {
        Self { flags, ..self }
    }

    /// Returns the row of a command, by its name in any case.
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes()))
    }
}

/// Flags of commands that copy.
const COPY_FLAGS: &str = "afpPrR";

/// Flags of `ls`.
const LIST_FLAGS: &str = "1afhlnrSt";

/// All commands, in the order in which `help` shows them.
pub static COMMANDS: &[Entry] = &[
    entry("bye", Names::Nothing, "", "Quit sftp"),
    entry("cd", Names::RemoteDirectory, "[path]", "Change remote directory to 'path'"),
    alias("chdir", Names::RemoteDirectory),
    entry("chgrp", Names::ValueThenRemote, "[-h] grp path", "Change group of file 'path' to 'grp'")
        .with_flags("h"),
    entry("chmod", Names::ValueThenRemote, "[-h] mode path", "Change permissions of file 'path' to 'mode'")
        .with_flags("h"),
    entry("chown", Names::ValueThenRemote, "[-h] own path", "Change owner of file 'path' to 'own'")
        .with_flags("h"),
    entry("copy", Names::Remote, "oldpath newpath", "Copy remote file"),
    entry("cp", Names::Remote, "oldpath newpath", "Copy remote file"),
    entry("df", Names::Remote, "[-hi] [path]", "Show space of the file system that holds 'path'")
        .with_flags("hi"),
    alias("dir", Names::Remote).with_flags(LIST_FLAGS),
    entry("exit", Names::Nothing, "", "Quit sftp"),
    entry("get", Names::RemoteThenLocal, "[-afpR] remote [local]", "Download file").with_flags(COPY_FLAGS),
    entry("help", Names::Nothing, "", "Display this help text"),
    entry("lcd", Names::LocalDirectory, "[path]", "Change local directory to 'path'"),
    alias("lchdir", Names::LocalDirectory),
    entry("lls", Names::Local, "[ls-options [path]]", "Display local directory listing"),
    entry("lmkdir", Names::Local, "[-p] path", "Create local directory").with_flags("p"),
    entry("ln", Names::Remote, "[-s] oldpath newpath", "Link remote file (-s for symlink)").with_flags("s"),
    entry("lpwd", Names::Nothing, "", "Print local working directory"),
    entry("ls", Names::Remote, "[-1afhlnrSt] [path]", "Display remote directory listing")
        .with_flags(LIST_FLAGS),
    entry("lumask", Names::Nothing, "umask", "Set local umask to 'umask'"),
    alias("mget", Names::RemoteThenLocal).with_flags(COPY_FLAGS),
    entry("mkdir", Names::Remote, "[-p] path", "Create remote directory").with_flags("p"),
    alias("mput", Names::LocalThenRemote).with_flags(COPY_FLAGS),
    entry("progress", Names::Nothing, "", "Toggle display of progress meter"),
    entry("put", Names::LocalThenRemote, "[-afpR] local [remote]", "Upload file").with_flags(COPY_FLAGS),
    entry("pwd", Names::Nothing, "", "Display remote working directory"),
    entry("quit", Names::Nothing, "", "Quit sftp"),
    entry("reget", Names::RemoteThenLocal, "[-fpR] remote [local]", "Resume download file")
        .with_flags(COPY_FLAGS),
    entry("rename", Names::Remote, "oldpath newpath", "Rename remote file").with_flags("l"),
    entry("reput", Names::LocalThenRemote, "[-fpR] local [remote]", "Resume upload file")
        .with_flags(COPY_FLAGS),
    entry("rm", Names::Remote, "path", "Delete remote file"),
    entry("rmdir", Names::RemoteDirectory, "path", "Remove remote directory"),
    entry("symlink", Names::Remote, "oldpath newpath", "Symlink remote file"),
    entry("version", Names::Nothing, "", "Show SFTP version"),
    entry("!", Names::Nothing, "[command]", "Execute 'command' in local shell, or start one"),
    entry("?", Names::Nothing, "", "Synonym for help"),
];

/// Flags of `get`, `put` and their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyFlags {
    /// `-a`: resume.
    pub resume: bool,
    /// `-f`: have it written to the disk.
    pub sync: bool,
    /// `-p`, `-P`: keep times and modes.
    pub preserve: bool,
    /// `-r`, `-R`: directories too.
    pub recursive: bool,
}

/// What a listing is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By name.
    #[default]
    Name,
    /// As the server sent it (`-f`).
    None,
    /// Largest first (`-S`).
    Size,
    /// Newest first (`-t`).
    Time,
}

/// Flags of `ls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListFlags {
    /// `-1`: one name a line.
    pub single: bool,
    /// `-a`: names that start with a dot too.
    pub all: bool,
    /// `-l`: with attributes.
    pub long: bool,
    /// `-n`: ids as numbers; implies long.
    pub numeric: bool,
    /// `-h`: sizes for people.
    pub human: bool,
    /// `-r`.
    pub reverse: bool,
    /// `-f`, `-S`, `-t`.
    pub order: Order,
}

impl ListFlags {
    /// What has to be known of what is listed.
    pub(crate) fn detail(&self) -> Detail {
        let names = !self.long && matches!(self.order, Order::Name | Order::None);
        if names { Detail::Names } else { Detail::Attrs }
    }

    /// True when each entry can be shown as it arrives: in the server's order, a line each, nothing else to
    /// be asked.
    pub fn in_order_of_arrival(&self) -> bool {
        let line_each = self.single || self.long;
        self.order == Order::None && !self.reverse && line_each && !self.numeric && !self.human
    }
}

/// What a change of attributes is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    /// `chmod`.
    Mode,
    /// `chown`.
    Owner,
    /// `chgrp`.
    Group,
}

/// A command with its arguments. Paths are patterns where they may be ones, else names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the commands and their arguments are")]
pub enum Command {
    Quit,
    Help,
    Version,
    Progress,
    Pwd,
    Lpwd,
    Cd(Option<Vec<u8>>),
    Lcd(Option<Vec<u8>>),
    Lmkdir {
        parents: bool,
        path: Vec<u8>,
    },
    Lumask(u32),
    /// `lls`, with what follows it as it was typed.
    Lls(OsString),
    /// `!`, with the command as it was typed.
    Escape(OsString),
    Ls {
        flags: ListFlags,
        pattern: Option<Vec<u8>>,
    },
    Df {
        human: bool,
        inodes: bool,
        path: Option<Vec<u8>>,
    },
    Get {
        flags: CopyFlags,
        source: Vec<u8>,
        target: Option<Vec<u8>>,
    },
    Put {
        flags: CopyFlags,
        source: Vec<u8>,
        target: Option<Vec<u8>>,
    },
    Change {
        what: Attribute,
        no_follow: bool,
        value: u32,
        pattern: Vec<u8>,
    },
    Rm(Vec<u8>),
    Mkdir {
        parents: bool,
        path: Vec<u8>,
    },
    Rmdir(Vec<u8>),
    Rename {
        legacy: bool,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Link {
        symbolic: bool,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Copy {
        from: Vec<u8>,
        to: Vec<u8>,
    },
}

/// What is wrong with a line, in the words of OpenSSH's `sftp`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No command has this name.
    #[error("Invalid command.")]
    Unknown,
    /// A quote is not closed.
    #[error(transparent)]
    Unterminated(#[from] Unterminated),
    /// The command has no such flag.
    #[error("{command}: Invalid flag -{}", char::from(*.letter).escape_default())]
    Flag {
        /// The command.
        command: &'static str,
        /// The flag's letter.
        letter: u8,
    },
    /// This command needs a path.
    #[error("You must specify a path after a {0} command.")]
    NoPath(&'static str),
    /// This command copies, and needs a source.
    #[error("You must specify at least one path after a {0} command.")]
    NoSource(&'static str),
    /// This command needs two paths.
    #[error("You must specify two paths after a {0} command.")]
    NotTwoPaths(&'static str),
    /// This command needs a number first.
    #[error("You must supply a numeric argument to the {0} command.")]
    NoNumber(&'static str),
}

/// A line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `-` in front: a failure does not end the batch.
    pub ignore_errors: bool,
    /// `@` in front: the line is not shown.
    pub no_echo: bool,
    /// The command; `None` on an empty line or a comment.
    pub command: Result<Option<Command>, CommandError>,
}

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
            Ok(Command::Df { human, inodes, path: words.name() })
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

/// What a local shell is to understand, without blanks in front.
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
    fn commands_are_parsed_in_any_case() {
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
