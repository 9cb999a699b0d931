//! Values of keywords about sessions that outlive their connection.

use crate::line::Arguments;
use crate::table::Value;
use crate::units::{parse_size, parse_time};
use crate::value::Seconds;
use crate::value_error::{Syntax, ValueError};
use std::time::Duration;

/// `ResumeGrace`: how long sessions wait for their clients, and how long if the connection ended with an end
/// of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResumeGrace {
    grace: Seconds,
    after_end: Option<Seconds>,
}

impl ResumeGrace {
    /// Returns how long a session waits; `None` if sessions do not wait.
    pub fn duration(self) -> Option<Duration> {
        self.grace.duration()
    }

    /// Returns how long a session waits if its connection ended with an end of file.
    pub fn after_end_of_file(self) -> Duration {
        let Seconds(seconds) = self.after_end.unwrap_or(self.grace);
        Duration::from_secs(seconds)
    }
}

impl Value for ResumeGrace {
    const KIND: &'static str = "time [time]";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let grace = Seconds::parse(args)?;
        let Some(word) = args.next_word() else { return Ok(Self { grace, after_end: None }) };
        let after_end = parse_time(&word).map(Seconds).filter(|after_end| after_end.0 <= grace.0);
        match after_end {
            Some(after_end) => Ok(Self { grace, after_end: Some(after_end) }),
            None => Err(args.malformed(Syntax::ShorterTime, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let after_end = self.after_end.map(|Seconds(seconds)| format!(" {seconds}")).unwrap_or_default();
        out.push(format!("{name} {}{after_end}", self.grace.0));
    }
}

/// `ResumeMaxSessions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeMaxSessions {
    /// Largest number of waiting sessions of one user.
    pub per_user: u32,
    /// Largest number of waiting sessions of all users.
    pub total: u32,
}

impl Default for ResumeMaxSessions {
    fn default() -> Self {
        Self { per_user: 64, total: 1024 }
    }
}

impl Value for ResumeMaxSessions {
    const KIND: &'static str = "user:all";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let numbers =
            word.split_once(':').and_then(|(user, all)| Some((user.parse().ok()?, all.parse().ok()?)));
        match numbers {
            Some((per_user, total)) if per_user > 0 && per_user <= total => Ok(Self { per_user, total }),
            _ => Err(args.malformed(Syntax::Spec, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}:{}", self.per_user, self.total));
    }
}

/// `ResumeMaxMemory`: a size, or `none` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeMaxMemory(Option<u64>);

impl ResumeMaxMemory {
    /// Returns the limit in bytes; `u64::MAX` for no limit.
    pub const fn bytes(self) -> u64 {
        match self.0 {
            Some(bytes) => bytes,
            None => u64::MAX,
        }
    }
}

impl Default for ResumeMaxMemory {
    fn default() -> Self {
        Self(Some(1 << 30))
    }
}

impl Value for ResumeMaxMemory {
    const KIND: &'static str = "size, with K, M or G, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let size = parse_size(&word).filter(|size| *size > 0);
        size.map(|size| Self(Some(size))).ok_or_else(|| args.malformed(Syntax::Spec, &word))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(self.0.map_or(format!("{name} none"), |bytes| format!("{name} {bytes}")));
    }
}
