//! The plain value types: flags, numbers, words, paths, commands, times, lists.

use std::time::Duration;

use crate::cidr;
use crate::line::{Arguments, BadQuotes, Dialect, split_words};
use crate::table::Value;
use crate::token::Tokens;
use crate::units::{parse_fractional_time, parse_size, parse_time};
use crate::value_error::{Bound, Part, Syntax, ValueError, ValueFault};

/// `yes` or `no`.
impl Value for bool {
    const KIND: &'static str = "yes/no";
    const WORDS: &'static [&'static str] = &["yes", "no"];
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Word)?;
        let client = args.dialect() == Dialect::Client;
        match word.to_ascii_lowercase().as_str() {
            "yes" => Ok(true),
            "no" => Ok(false),
            "true" if client => Ok(true),
            "false" if client => Ok(false),
            _ => Err(args.unknown_word(&word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", if *self { "yes" } else { "no" }));
    }
}

/// A whole number from 0 to `i32::MAX`.
impl Value for u32 {
    const KIND: &'static str = "number";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Number)?;
        let digits = word.strip_prefix('-').unwrap_or(&word);
        let is_large = digits.len() > 18 && digits.bytes().all(|digit| digit.is_ascii_digit());
        match word.parse::<i64>() {
            Ok(number) if number < 0 => Err(args.refused(ValueFault::OutOfRange(Bound::NumberTooSmall))),
            Ok(number) if number > i64::from(i32::MAX) => {
                Err(args.refused(ValueFault::OutOfRange(Bound::NumberTooLarge)))
            }
            Ok(number) => Ok(number as u32),
            Err(_) if is_large => {
                let bound = if word.starts_with('-') { Bound::NumberTooSmall } else { Bound::NumberTooLarge };
                Err(args.refused(ValueFault::OutOfRange(bound)))
            }
            Err(_) => Err(args.malformed(Syntax::Number, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {self}"));
    }
}

/// One optional word. It is dumped only if set.
impl Value for Option<String> {
    const KIND: &'static str = "word";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        args.required().map(Some)
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if let Some(text) = self {
            out.push(format!("{name} {text}"));
        }
    }
}

/// One word; `none` (the usual default) means unset and is dumped as `none`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WordOrNone(pub Option<String>);

impl WordOrNone {
    /// Returns the word, unless it is `none`.
    pub fn as_deref(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl Value for WordOrNone {
    const KIND: &'static str = "word or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        Ok(Self((!word.eq_ignore_ascii_case("none")).then_some(word)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.as_deref().unwrap_or("none")));
    }
}

/// A command or text: the rest of the line as written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestOfLine(pub Option<String>);

impl RestOfLine {
    /// Returns the text, unless it is empty or `none`.
    pub fn command(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty() && !text.eq_ignore_ascii_case("none"))
    }
}

impl Value for RestOfLine {
    const KIND: &'static str = "rest of the line";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        Ok(Self(Some(args.rest_of_line())))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if let Some(text) = &self.0 {
            out.push(format!("{name} {text}"));
        }
    }
}

/// Like [`RestOfLine`], for keywords whose unset value is dumped as `none` (sshd).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestOrNone(pub Option<String>);

impl RestOrNone {
    /// Returns the text, unless it is empty or `none`.
    pub fn command(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl Value for RestOrNone {
    const KIND: &'static str = "rest of the line or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let text = args.rest_of_line();
        // A line end within the identification would end it early.
        if args.keyword == "VersionAddendum" && text.contains(['\r', '\n']) {
            return Err(args.malformed(Syntax::SingleLine, &text));
        }
        Ok(Self((!text.is_empty() && !text.eq_ignore_ascii_case("none")).then_some(text)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.as_deref().unwrap_or("none")));
    }
}

/// A command with an absolute program path, or `none` (sshd).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbsoluteCommand(pub Option<String>);

impl Value for AbsoluteCommand {
    const KIND: &'static str = "command with absolute path or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let text = args.rest_of_line();
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        // A token may expand to an absolute path, so only plain relative paths are refused.
        if !text.starts_with('/') && !text.starts_with('%') && !text.starts_with('"') {
            return Err(args.malformed(Syntax::AbsolutePath, &text));
        }
        Ok(Self(Some(text)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.as_deref().unwrap_or("none")));
    }
}

/// Like [`AbsoluteCommand`], with the tokens of `UploadHook`, which are checked when the file is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookCommand(pub Option<String>);

impl Value for HookCommand {
    const KIND: &'static str = AbsoluteCommand::KIND;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let AbsoluteCommand(command) = AbsoluteCommand::parse(args)?;
        let tokens = HOOK_TOKENS.iter().fold(Tokens::new(), |tokens, &key| tokens.with(key, ""));
        if let Some(text) = &command {
            let words = split_words(text, false).map_err(|BadQuotes| args.malformed(Syntax::Quotes, text))?;
            for word in &words {
                tokens.expand(word).map_err(|why| args.refused(ValueFault::Unexpandable(why)))?;
            }
        }
        Ok(Self(command))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        AbsoluteCommand(self.0.clone()).dump(name, out);
    }
}

/// Tokens that `UploadHook` accepts, beside `%%`.
const HOOK_TOKENS: [char; 3] = ['h', 'U', 'u'];

/// The words of the first line with the keyword (`UserKnownHostsFile`, `CanonicalDomains`,
/// `AuthorizedKeysFile`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words(pub Vec<String>);

impl Words {
    /// Returns the words; an empty list if the only one is `none`.
    pub fn list(&self) -> &[String] {
        if self.0.len() == 1 && self.0[0].eq_ignore_ascii_case("none") { &[] } else { &self.0 }
    }
}

impl Value for Words {
    const KIND: &'static str = "words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut words = vec![args.required()?];
        words.extend(args.remaining());
        // On a server, `none` may stand beside further files.
        if args.dialect() == Dialect::Client {
            args.refuse_none_among(&words)?;
        }
        args.refuse_empty_among(&words)?;
        Ok(Self(words))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if !self.0.is_empty() {
            out.push(format!("{name} {}", self.0.join(" ")));
        }
    }
}

/// Values of all lines with the keyword, one word per line (`IdentityFile`, `HostKey`), each dumped on its
/// own line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files(pub Vec<String>);

impl Value for Files {
    const KIND: &'static str = "file name, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        // A default may list several files; a line has one, and the caller refuses further words.
        Ok(Self(vec![word]))
    }
    fn append(&mut self, later: Self) {
        for file in later.0 {
            if !self.0.contains(&file) {
                self.0.push(file);
            }
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|file| format!("{name} {file}")));
    }
}

/// Patterns of all lines with the keyword, any number per line (`AllowUsers`), each dumped on its own line.
/// The hosts of `user@hosts` must be a valid list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patterns(pub Vec<String>);

impl Value for Patterns {
    const KIND: &'static str = "patterns, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut words = vec![args.required()?];
        words.extend(args.remaining());
        if words.iter().any(String::is_empty) {
            return Err(args.malformed(Syntax::UserPattern, ""));
        }
        if matches!(args.keyword, "AllowUsers" | "DenyUsers") {
            // No host has a blank in its name: who writes `*@"a, b"` means `b` as well, and sshd would not.
            let is_list = |hosts: &str| cidr::check_list(hosts) && !hosts.contains([' ', '\t']);
            let is_wrong = |word: &&String| word.rsplit_once('@').is_some_and(|(_, hosts)| !is_list(hosts));
            if let Some(wrong) = words.iter().find(is_wrong) {
                return Err(args.malformed(Syntax::UserPattern, wrong));
            }
        }
        Ok(Self(words))
    }
    fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|pattern| format!("{name} {pattern}")));
    }
}

/// A time in seconds; dumped as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seconds(pub u64);

impl Seconds {
    /// Returns the time as a duration; `None` for 0, which switches the feature off.
    pub fn duration(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_secs(self.0))
    }
}

impl Value for Seconds {
    const KIND: &'static str = "time";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Time)?;
        parse_time(&word).map(Self).ok_or_else(|| args.malformed(Syntax::Time, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0));
    }
}

/// A time, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecondsOrNone(pub Option<u64>);

impl SecondsOrNone {
    /// Returns the time as a duration; `None` for no limit, which 0 means too, as in OpenSSH.
    pub fn duration(self) -> Option<Duration> {
        self.0.filter(|&seconds| seconds > 0).map(Duration::from_secs)
    }
}

impl Value for SecondsOrNone {
    const KIND: &'static str = "time or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required_part(Part::Time)?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let seconds = parse_time(&word).ok_or_else(|| args.malformed(Syntax::Time, &word))?;
        Ok(Self(Some(seconds)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self.0 {
            Some(seconds) => format!("{name} {seconds}"),
            None => format!("{name} none"),
        });
    }
}

/// An interval between recurring events: seconds, optionally with a decimal fraction; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval(pub Duration);

impl Interval {
    /// Shortest interval: a shorter one would occupy the connection.
    const MIN: Duration = Duration::from_millis(10);
}

impl Value for Interval {
    const KIND: &'static str = "time";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        parse_fractional_time(&word)
            .filter(|time| *time >= Self::MIN)
            .map(Self)
            .ok_or_else(|| args.malformed(Syntax::Time, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.as_secs_f64()));
    }
}

/// `RekeyLimit`: bytes and time between key exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RekeyLimit {
    /// Bytes in either direction; `None` for the cipher's own limit.
    pub bytes: Option<u64>,
    /// Time; `None` for no limit.
    pub interval: Option<Duration>,
}

impl Value for RekeyLimit {
    const KIND: &'static str = "size or default, then time or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let bytes = if word == "default" {
            None
        } else {
            let size = parse_size(&word).ok_or_else(|| args.malformed(Syntax::RekeySize, &word))?;
            if size != 0 && size < 16 {
                return Err(args.refused(ValueFault::OutOfRange(Bound::RekeyTooSmall)));
            }
            (size != 0).then_some(size)
        };
        let interval = match args.next_word() {
            None => None,
            Some(word) if word == "none" => None,
            Some(word) => {
                let seconds = parse_time(&word).ok_or_else(|| args.malformed(Syntax::Time, &word))?;
                (seconds > 0).then(|| Duration::from_secs(seconds))
            }
        };
        Ok(Self { bytes, interval })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {} {}", self.bytes.unwrap_or(0), self.interval.map_or(0, |i| i.as_secs())));
    }
}

/// An octal file mode mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OctalMask(pub u32);

impl Value for OctalMask {
    const KIND: &'static str = "octal mask";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let mask = u32::from_str_radix(&word, 8).ok().filter(|mask| *mask <= 0o777);
        mask.map(Self).ok_or_else(|| args.malformed(Syntax::OctalMask, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} 0{:o}", self.0));
    }
}

/// `SendEnv`/`AcceptEnv`: patterns of variable names; on the client a leading `-` removes earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvPatterns(pub Vec<String>);

impl Value for EnvPatterns {
    const KIND: &'static str = "variable name patterns, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        match words.iter().find(|word| word.is_empty() || word.contains('=')) {
            Some(word) => Err(args.malformed(Syntax::VariableName, word)),
            None => Ok(Self(words)),
        }
    }
    fn append(&mut self, later: Self) {
        for word in later.0 {
            match word.strip_prefix('-') {
                Some(pattern) => {
                    self.0.retain(|name| !crate::pattern::wildcard(name.as_bytes(), pattern.as_bytes()));
                }
                None if self.0.contains(&word) => {}
                None => self.0.push(word),
            }
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|pattern| format!("{name} {pattern}")));
    }
}

/// `SetEnv`: `NAME=VALUE` words of the first line with the keyword.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvValues(pub Vec<(String, String)>);

impl Value for EnvValues {
    const KIND: &'static str = "NAME=VALUE words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in args.remaining() {
            // Like OpenSSH, does not check the name: a server refuses names that it does not accept.
            let (name, value) =
                word.split_once('=').ok_or_else(|| args.malformed(Syntax::VariableValue, &word))?;
            // The first of two equal names wins, as for keywords.
            if !pairs.iter().any(|(known, _)| known == name) {
                pairs.push((name.to_string(), value.to_string()));
            }
        }
        Ok(Self(pairs))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|(key, value)| format!("{name} {key}={value}")));
    }
}
