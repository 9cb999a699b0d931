//! Values of keywords that keep a session or a master alive: `yes`, `no` or a time.

use crate::line::Arguments;
use crate::table::Value;
use crate::units::parse_time;
use crate::value_error::{Syntax, ValueError};

/// The values of keywords that take `yes`, `no` or a time.
enum YesNoOrTime {
    No,
    Yes,
    Seconds(u64),
}

impl YesNoOrTime {
    const KIND: &'static str = "yes, no or time";

    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        match word.to_ascii_lowercase().as_str() {
            "no" | "false" => Ok(Self::No),
            "yes" | "true" => Ok(Self::Yes),
            time => {
                let seconds = parse_time(time).ok_or_else(|| args.malformed(Syntax::YesNoOrTime, &word))?;
                Ok(Self::Seconds(seconds))
            }
        }
    }
}

impl std::fmt::Display for YesNoOrTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::No => f.write_str("no"),
            Self::Yes => f.write_str("yes"),
            Self::Seconds(seconds) => seconds.fmt(f),
        }
    }
}

/// `ControlPersist`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ControlPersist {
    /// The master exits with its first session.
    #[default]
    No,
    /// The master stays until it is told to exit.
    Forever,
    /// The master stays for this time after its last session, seconds.
    Seconds(u64),
}

impl Value for ControlPersist {
    const KIND: &'static str = YesNoOrTime::KIND;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        Ok(match YesNoOrTime::parse(args)? {
            YesNoOrTime::No => Self::No,
            YesNoOrTime::Yes | YesNoOrTime::Seconds(0) => Self::Forever,
            YesNoOrTime::Seconds(seconds) => Self::Seconds(seconds),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let value = match *self {
            Self::No => YesNoOrTime::No,
            Self::Forever => YesNoOrTime::Yes,
            Self::Seconds(seconds) => YesNoOrTime::Seconds(seconds),
        };
        out.push(format!("{name} {value}"));
    }
}

/// `Resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// The session ends with its connection.
    #[default]
    No,
    /// The session continues for as long as the server keeps it.
    Yes,
    /// The session continues, but is given up after this time without a connection, seconds.
    Seconds(u64),
}

impl Value for Resume {
    const KIND: &'static str = YesNoOrTime::KIND;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        Ok(match YesNoOrTime::parse(args)? {
            YesNoOrTime::No | YesNoOrTime::Seconds(0) => Self::No,
            YesNoOrTime::Yes => Self::Yes,
            YesNoOrTime::Seconds(seconds) => Self::Seconds(seconds),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let value = match *self {
            Self::No => YesNoOrTime::No,
            Self::Yes => YesNoOrTime::Yes,
            Self::Seconds(seconds) => YesNoOrTime::Seconds(seconds),
        };
        out.push(format!("{name} {value}"));
    }
}
