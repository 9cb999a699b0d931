//! The form of a program's flag table, and the parser that reads it.
//!
//! Scripts pass flags in every form that getopt(3) allows, so its rules are kept exactly. Flags cluster
//! (`-tt`, `-vvv`), a value may follow its flag directly (`-p22`) or as the next argument, and `--` ends
//! flags. The first operand ends them too, except that `ssh` accepts flags once more after the host. Long
//! options are ours: `--help`, `--version`, and those for which OpenSSH has no letter. Their value follows as
//! the next argument or after `=`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::parsed::{Parsed, Stop};

/// What a program does with a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Does what its description says.
    Works,
    /// Accepted without effect, for the given reason.
    Accepted(&'static str),
    /// Refused by OpenSSH too. Holds its error message; the exit status is 255.
    Gone(&'static str),
}

/// The error message of OpenSSH's programs for `-1`.
pub(super) const VERSION_1: &str = "SSH protocol v.1 is no longer supported";

/// One row of a flag table.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The letter; NUL for a flag that has only a long name.
    pub short: char,
    /// The long name, without its dashes.
    pub long: Option<&'static str>,
    /// Placeholder of the flag's value; `None` for a flag without a value.
    pub value: Option<&'static str>,
    /// What the program does with it.
    pub support: Support,
    /// Description for help and manual page.
    pub help: &'static str,
}

impl Flag {
    /// Returns the row of a flag without a value.
    pub const fn plain(short: char, support: Support, help: &'static str) -> Self {
        Self { short, long: None, value: None, support, help }
    }

    /// Returns the row of a flag with a value.
    pub const fn with(short: char, value: &'static str, support: Support, help: &'static str) -> Self {
        Self { short, long: None, value: Some(value), support, help }
    }

    /// Returns the row of a flag with only a long name, and without a value.
    pub const fn long(name: &'static str, support: Support, help: &'static str) -> Self {
        Self { short: '\0', long: Some(name), value: None, support, help }
    }

    /// Returns the row of a flag with only a long name, and a value.
    pub const fn long_with(
        name: &'static str,
        value: &'static str,
        support: Support,
        help: &'static str,
    ) -> Self {
        Self { short: '\0', long: Some(name), value: Some(value), support, help }
    }

    /// Returns whether the flag has a letter.
    pub const fn has_letter(&self) -> bool {
        self.short != '\0'
    }

    /// Returns the flag as the user types it: `-p`, `--verify`.
    pub fn spelled(&self) -> String {
        match self.long {
            Some(name) if !self.has_letter() => format!("--{name}"),
            _ => format!("-{}", self.short),
        }
    }
}

/// A program's command line.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Name of the program.
    pub name: &'static str,
    /// Purpose of the program, in one line.
    pub about: &'static str,
    /// The operands, for the usage text.
    pub operands: &'static str,
    /// Flags may also follow the first operand once (`ssh host -v command`).
    pub flags_after_first_operand: bool,
    /// Exit status for usage errors.
    pub usage_status: u8,
    /// The program's flags, in the order of the manual page.
    pub flags: &'static [Flag],
}

impl Program {
    /// Returns the table row of a flag.
    pub fn flag(&self, short: char) -> Option<&'static Flag> {
        self.flags.iter().find(|flag| flag.short == short)
    }

    /// Program name for messages: OpenSSH's where the program was called by that name, for example through a
    /// link, because scripts look for `scp: …` in the messages of `scp`.
    pub fn called(&self) -> &'static str {
        let called = std::env::args_os().next().unwrap_or_default();
        self.name_when_called(&called)
    }

    /// Returns the text of `-V`. Under OpenSSH's program name, it begins with the OpenSSH version whose flags
    /// and keywords are supported. Test suites and remote development tools look for `OpenSSH_` and a number,
    /// and disable features without it.
    pub fn version(&self) -> String {
        self.version_when_called(self.called())
    }

    pub(super) fn version_when_called(&self, called: &str) -> String {
        let theirs = if called == self.name { "" } else { "OpenSSH_10.5p1 " };
        let library = if cfg!(feature = "fips") { "AWS-LC FIPS module" } else { "AWS-LC" };
        format!("{theirs}Longhaul_{}, {library}", env!("CARGO_PKG_VERSION"))
    }

    pub(super) fn name_when_called(&self, called: &OsStr) -> &'static str {
        let called = std::path::Path::new(called).file_name().unwrap_or_default();
        match self.name.strip_prefix("lh") {
            Some(theirs) if called == theirs => theirs,
            _ => self.name,
        }
    }

    /// Parses the arguments (without the program's name).
    ///
    /// # Errors
    /// [`Stop`] for `--help` and `--version`, unknown flags, missing values, and flags that are not supported
    /// yet.
    pub fn parse(&self, arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Stop> {
        self.parse_among(arguments, usize::from(self.flags_after_first_operand))
    }

    /// Like [`parse`](Self::parse), with flags anywhere among the operands.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse).
    pub fn parse_anywhere(&self, arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Stop> {
        self.parse_among(arguments, usize::MAX - 1)
    }

    /// Parses arguments; flags may also follow the first `operands` operands.
    fn parse_among(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
        operands: usize,
    ) -> Result<Parsed, Stop> {
        let mut parsed = Parsed::default();
        let mut rest = arguments.into_iter().peekable();
        let mut rounds = operands + 1;
        loop {
            let ended = self.parse_flags(&mut rest, &mut parsed)?;
            if parsed.operands.is_empty() {
                parsed.flags_before_operands = parsed.flags.len();
            }
            rounds -= 1;
            if rounds == 0 || ended {
                break;
            }
            match rest.next() {
                Some(operand) => parsed.operands.push(operand),
                None => break,
            }
        }
        parsed.operands.extend(rest);
        Ok(parsed)
    }

    /// Parses flags up to the first operand. Returns true when `--` ended them.
    fn parse_flags(
        &self,
        rest: &mut std::iter::Peekable<impl Iterator<Item = OsString>>,
        parsed: &mut Parsed,
    ) -> Result<bool, Stop> {
        while let Some(argument) = rest.next_if(|argument| is_flag(argument)) {
            match argument.as_bytes() {
                b"--" => return Ok(true),
                b"--help" => return Err(Stop { out: self.help(), err: String::new(), status: 0 }),
                b"--version" => {
                    let out = format!("{} {}\n", self.called(), env!("CARGO_PKG_VERSION"));
                    return Err(Stop { out, err: String::new(), status: 0 });
                }
                long => {
                    if let Some(name) = long.strip_prefix(b"--") {
                        let flag = self.long_flag(name).ok_or_else(|| self.unknown_long(name))?;
                        self.take_long(flag, name, rest, parsed)?;
                        continue;
                    }
                }
            }
            let mut cluster = argument.as_bytes().get(1..).unwrap_or_default();
            while let Some((letter, after)) = cluster.split_first() {
                cluster = after;
                let short = char::from(*letter);
                let flag = self.flag(short).filter(|_| short.is_ascii_alphanumeric()).ok_or_else(|| {
                    self.usage_error(&format!("unknown option -- {}", short.escape_default()))
                })?;
                let value = if flag.value.is_none() {
                    None
                } else if !cluster.is_empty() {
                    Some(OsString::from_vec(std::mem::take(&mut cluster).to_vec()))
                } else {
                    let missing = || self.usage_error(&format!("option requires an argument -- {short}"));
                    Some(rest.next().ok_or_else(missing)?)
                };
                Self::usable(flag)?;
                parsed.flags.push((short, value));
            }
        }
        Ok(false)
    }

    /// Returns the error for an unknown long option: two lines, as the usage text would hide the name.
    fn unknown_long(&self, word: &[u8]) -> Stop {
        let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
        let mut stop = self.error(&format!("unknown option --{}", lh_wire::printable(name)));
        let _ = writeln!(stop.err, "Try '{} --help'.", self.called());
        stop
    }

    /// Returns the table row of a long option, given without its dashes and optionally with `=` and a value.
    fn long_flag(&self, word: &[u8]) -> Option<&'static Flag> {
        let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
        self.flags.iter().find(|flag| flag.long.is_some_and(|long| long.as_bytes() == name))
    }

    fn take_long(
        &self,
        flag: &'static Flag,
        word: &[u8],
        rest: &mut impl Iterator<Item = OsString>,
        parsed: &mut Parsed,
    ) -> Result<(), Stop> {
        let name = flag.long.unwrap_or_default();
        let attached = word.get(name.len() + 1..).filter(|_| word.len() > name.len());
        let value = match (flag.value, attached) {
            (None, None) => None,
            (None, Some(_)) => return Err(self.usage_error(&format!("option --{name} takes no argument"))),
            (Some(_), Some(value)) => Some(OsString::from_vec(value.to_vec())),
            (Some(_), None) => {
                let missing = || self.usage_error(&format!("option requires an argument -- {name}"));
                Some(rest.next().ok_or_else(missing)?)
            }
        };
        Self::usable(flag)?;
        parsed.long.push((name, value));
        Ok(())
    }

    /// Returns OpenSSH's error for a flag that it refuses.
    fn usable(flag: &Flag) -> Result<(), Stop> {
        match flag.support {
            Support::Gone(words) => Err(Stop { out: String::new(), err: format!("{words}\n"), status: 255 }),
            Support::Works | Support::Accepted(_) => Ok(()),
        }
    }

    /// Returns a stop with one line on standard error.
    pub fn error(&self, message: &str) -> Stop {
        Stop { out: String::new(), err: format!("{}: {message}\n", self.called()), status: self.usage_status }
    }

    /// Returns a stop with a line and the usage text on standard error.
    pub fn usage_error(&self, message: &str) -> Stop {
        let mut stop = self.error(message);
        stop.err.push_str(&self.usage());
        stop
    }

    /// Returns the usage text: flags without values in one cluster, and each other flag with its value.
    pub fn usage(&self) -> String {
        let mut plain: Vec<char> =
            self.letters().filter(|flag| flag.value.is_none()).map(|flag| flag.short).collect();
        plain.sort_by_key(|c| (!c.is_ascii_digit(), c.to_ascii_lowercase(), c.is_ascii_lowercase()));
        let mut words = Vec::new();
        if !plain.is_empty() {
            words.push(format!("[-{}]", plain.into_iter().collect::<String>()));
        }
        let mut valued: Vec<&Flag> = self.letters().filter(|flag| flag.value.is_some()).collect();
        valued.sort_by_key(|flag| (flag.short.to_ascii_lowercase(), flag.short.is_ascii_lowercase()));
        words.extend(
            valued.iter().map(|flag| format!("[-{} {}]", flag.short, flag.value.unwrap_or_default())),
        );
        words.extend(self.shown().filter(|flag| !flag.has_letter()).map(|flag| match flag.value {
            None => format!("[{}]", flag.spelled()),
            Some(value) => format!("[{} {value}]", flag.spelled()),
        }));
        words.extend(self.operands.split_inclusive(']').flat_map(|part| {
            // Keep "[command [argument ...]]" on one line.
            if part.contains('[') {
                vec![part.trim().to_string()]
            } else {
                part.split_whitespace().map(str::to_string).collect()
            }
        }));
        let first = format!("usage: {}", self.called());
        wrap(&first, &words, 80)
    }

    /// Returns the text of `--help`.
    pub fn help(&self) -> String {
        let mut out = format!("{}: {}\n\n{}\n", self.called(), self.about, self.usage());
        let width = self
            .shown()
            .map(|flag| flag.spelled().len() - 2 + flag.value.map_or(0, |value| value.chars().count() + 1))
            .max()
            .unwrap_or(0)
            .min(24);
        for flag in self.shown() {
            let value = flag.value.map_or(String::new(), |value| format!(" {value}"));
            let note = match flag.support {
                Support::Works => String::new(),
                Support::Accepted(why) => format!(" (accepted; {why})"),
                Support::Gone(words) => format!(" ({words})"),
            };
            let head = format!("  {:<width$}", flag.spelled() + &value, width = width + 2);
            let words: Vec<String> =
                format!("{}{note}", flag.help).split_whitespace().map(str::to_string).collect();
            out.push_str(&wrap(&head, &words, 96));
        }
        let _ = writeln!(out, "  {:<width$}  Show this text.", "--help", width = width + 2);
        let _ = writeln!(out, "  {:<width$}  Show the version.", "--version", width = width + 2);
        out
    }

    /// Returns the shown flags that have a letter.
    fn letters(&self) -> impl Iterator<Item = &'static Flag> {
        self.shown().filter(|flag| flag.has_letter())
    }

    /// Returns the flags for help and manual page. Flags without a help text are for use between programs.
    pub fn shown(&self) -> impl Iterator<Item = &'static Flag> {
        self.flags.iter().filter(|flag| !flag.help.is_empty())
    }
}

/// Returns whether getopt treats this argument as flags; a lone `-` is an operand.
fn is_flag(argument: &OsStr) -> bool {
    let bytes = argument.as_bytes();
    bytes.len() > 1 && bytes[0] == b'-'
}

/// Wraps words after `first` into lines of at most `width` columns, with further lines indented to the first
/// word.
fn wrap(first: &str, words: &[String], width: usize) -> String {
    let indent = first.chars().count();
    let mut out = first.to_string();
    let mut column = indent;
    for (index, word) in words.iter().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + length;
    }
    out.push('\n');
    out
}
