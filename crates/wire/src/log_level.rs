//! The importance of log lines.

/// A log level, the quietest first: the importance of a line, and that of the least important lines that are
/// logged. The names are those of `LogLevel` in OpenSSH's configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// Logs nothing.
    Quiet,
    /// Logs fatal errors.
    Fatal,
    /// Logs errors.
    Error,
    /// Logs the default amount.
    #[default]
    Info,
    /// Logs more than the default.
    Verbose,
    /// `-v`.
    Debug1,
    /// `-vv`.
    Debug2,
    /// `-vvv`.
    Debug3,
}

impl LogLevel {
    /// All levels, the quietest first.
    pub const ALL: [Self; 8] = [
        Self::Quiet,
        Self::Fatal,
        Self::Error,
        Self::Info,
        Self::Verbose,
        Self::Debug1,
        Self::Debug2,
        Self::Debug3,
    ];

    /// All spellings, with their levels. The first one of a level is [`word`](Self::word).
    const SPELLINGS: [(&'static str, Self); 10] = [
        ("SILENT", Self::Quiet),
        ("QUIET", Self::Quiet),
        ("FATAL", Self::Fatal),
        ("ERROR", Self::Error),
        ("INFO", Self::Info),
        ("VERBOSE", Self::Verbose),
        ("DEBUG", Self::Debug1),
        ("DEBUG1", Self::Debug1),
        ("DEBUG2", Self::Debug2),
        ("DEBUG3", Self::Debug3),
    ];

    /// All spellings, as for completions.
    pub const WORDS: [&'static str; 10] = {
        let mut words = [""; 10];
        let mut index = 0;
        while index < words.len() {
            words[index] = Self::SPELLINGS[index].0;
            index += 1;
        }
        words
    };

    /// Returns the word that OpenSSH prints for the level.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Quiet => "SILENT",
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Info => "INFO",
            Self::Verbose => "VERBOSE",
            Self::Debug1 => "DEBUG",
            Self::Debug2 => "DEBUG2",
            Self::Debug3 => "DEBUG3",
        }
    }

    /// Parses any spelling of a level, in any case.
    pub fn from_word(word: &str) -> Option<Self> {
        let (_, level) = Self::SPELLINGS.into_iter().find(|(each, _)| word.eq_ignore_ascii_case(each))?;
        Some(level)
    }

    /// Returns the level with this number (`as u8`), or the last level for a larger one.
    pub fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Debug3)
    }

    /// Returns the next more verbose level, for `-v` and `~v`.
    #[must_use]
    pub fn more(self) -> Self {
        Self::ALL.into_iter().find(|level| *level > self).unwrap_or(Self::Debug3)
    }

    /// Returns the next quieter level.
    #[must_use]
    pub fn less(self) -> Self {
        Self::ALL.into_iter().rev().find(|level| *level < self).unwrap_or(Self::Quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_a_spelling_of_its_level() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_word(level.word()), Some(level));
            assert_eq!(LogLevel::from_number(level as u8), level);
        }
        for word in LogLevel::WORDS {
            assert!(LogLevel::from_word(&word.to_lowercase()).is_some(), "{word}");
        }
        assert_eq!(LogLevel::from_word("loud"), None);
        assert_eq!((LogLevel::Debug3.more(), LogLevel::Quiet.less()), (LogLevel::Debug3, LogLevel::Quiet));
    }
}
