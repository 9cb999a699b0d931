//! Result of reading a command line: the flags and operands, or the reason to stop.

use std::ffi::{OsStr, OsString};

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Flags in the order given, with their values.
    pub flags: Vec<(char, Option<OsString>)>,
    /// Long flags in the order given, with their values.
    pub long: Vec<(&'static str, Option<OsString>)>,
    /// Operands in the order given.
    pub operands: Vec<OsString>,
    /// Number of flags before the first operand.
    pub flags_before_operands: usize,
}

impl Parsed {
    /// Returns whether a flag was given.
    pub fn has(&self, short: char) -> bool {
        self.count(short) > 0
    }

    /// Returns how often a flag was given.
    pub fn count(&self, short: char) -> usize {
        self.flags.iter().filter(|(flag, _)| *flag == short).count()
    }

    /// Returns the value of the last occurrence of a flag.
    pub fn value(&self, short: char) -> Option<&OsStr> {
        self.flags.iter().rev().find(|(flag, _)| *flag == short).and_then(|(_, value)| value.as_deref())
    }

    /// Like [`value`](Self::value), as text; bytes that are not UTF-8 become replacement characters.
    pub fn text(&self, short: char) -> Option<String> {
        self.value(short).map(|value| value.to_string_lossy().into_owned())
    }

    /// Returns whether a long flag was given.
    pub fn has_long(&self, name: &str) -> bool {
        self.long.iter().any(|(flag, _)| *flag == name)
    }

    /// Returns the value of the last occurrence of a long flag, as text.
    pub fn long_text(&self, name: &str) -> Option<String> {
        self.long_value(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// Returns all given flags in their written form.
    pub fn given(&self) -> impl Iterator<Item = String> {
        let short = self.flags.iter().map(|(flag, _)| format!("-{flag}"));
        short.chain(self.long.iter().map(|(flag, _)| format!("--{flag}")))
    }

    /// Returns the value of the last occurrence of a long flag, as bytes.
    pub fn long_value(&self, name: &str) -> Option<&OsStr> {
        self.long.iter().rev().find(|(flag, _)| *flag == name).and_then(|(_, value)| value.as_deref())
    }

    /// Returns the values of all occurrences of a flag, in order.
    pub fn values(&self, short: char) -> impl Iterator<Item = &OsStr> {
        self.flags.iter().filter(move |(flag, _)| *flag == short).filter_map(|(_, value)| value.as_deref())
    }
}

/// The program must stop here: the user asked for help, or the command line is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Text for standard output.
    pub out: String,
    /// Text for standard error.
    pub err: String,
    /// Exit status.
    pub status: u8,
}

impl Stop {
    /// Prints both texts and returns the exit status.
    pub fn print(&self) -> u8 {
        use std::io::Write as _;
        // If this fails, there is no output left to report it on.
        let _ = std::io::stdout().write_all(self.out.as_bytes());
        let _ = std::io::stderr().write_all(lh_wire::printable_lines(&self.err).as_bytes());
        self.status
    }
}
