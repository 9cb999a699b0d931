//! Loads statements from files.

use std::path::Path;
use std::sync::Arc;

use super::criteria::Criteria;
use super::file_names;
use super::source::{Source, Statement};
use crate::algorithms::{AlgorithmKind, all_known, expanded, first_unknown};
use crate::enums::LogLevel;
use crate::environment::Environment;
use crate::error::{ConfigError, ConfigFault, errno_text, lines_at};
use crate::include::{self, MAX_DEPTH, Matches, glob};
use crate::line::{Arguments, Dialect, NOT_UTF8, has_replaced_bytes, split_keyword, split_words};
use crate::match_error::MatchError;
use crate::note::Note;
use crate::server_table::{SERVER_IGNORED, SERVER_KEYWORDS, ServerSettings};
use crate::table::{Origin, Scope, find};

/// Parses the command line's options, then the file.
pub(super) fn read(
    file: Option<&Path>,
    command_line: &[String],
    environment: &dyn Environment,
) -> Result<Source, ConfigError> {
    let mut loader = Loader { source: Source::default(), environment, lines: Vec::new() };
    for option in command_line {
        let place = Place { name: "command-line", file: None, line: 0 };
        let keyword = split_keyword(option).map(|(keyword, _)| keyword).unwrap_or_default();
        for (name, shown) in [("match", "Match"), ("include", "Include")] {
            if keyword.eq_ignore_ascii_case(name) {
                let text = format!("{shown} directive not supported as a command-line option");
                return Err(loader.fatal(text));
            }
        }
        if !loader.line(option, place, &mut Vec::new(), 0)? {
            return Err(ConfigError { fault: ConfigFault::Option, ..loader.give_up() });
        }
    }
    if let Some(path) = file {
        match include::read_text(path) {
            Ok(text) => loader.file(path, &text, &mut Vec::new(), 0)?,
            Err(error) => {
                let error = loader.fatal(format!("{}: {}", path.display(), errno_text(&error)));
                return Err(ConfigError { fault: ConfigFault::Unreadable, ..error });
            }
        }
    }
    Ok(loader.source)
}

/// Parses a text.
pub(super) fn read_text(
    name: &Path,
    text: &str,
    environment: &dyn Environment,
) -> Result<Source, ConfigError> {
    let mut loader = Loader { source: Source::default(), environment, lines: Vec::new() };
    loader.file(name, text, &mut Vec::new(), 0)?;
    Ok(loader.source)
}

struct Loader<'a> {
    source: Source,
    environment: &'a dyn Environment,
    lines: Vec<String>,
}

#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    file: Option<usize>,
    line: usize,
}

impl Place<'_> {
    fn say(&self, message: &str) -> String {
        format!("{} line {}: {message}", self.name, self.line)
    }
}

impl Loader<'_> {
    fn give_up(&mut self) -> ConfigError {
        ConfigError { lines: std::mem::take(&mut self.lines), ..ConfigError::default() }
    }

    fn fatal(&mut self, line: String) -> ConfigError {
        self.lines.push(line);
        self.give_up()
    }

    /// Adds a message about a line to the notes for the log.
    fn note(&mut self, level: LogLevel, place: Place<'_>, message: &str) {
        self.source.notes.push(Note { level, text: place.say(message) });
    }

    fn bad(&mut self, line: String) -> bool {
        self.lines.push(line);
        false
    }

    /// Parses a file. `conditions` are the `Match` lines in force at its `Include` line; they are unchanged
    /// afterwards.
    fn file(
        &mut self,
        path: &Path,
        text: &str,
        conditions: &mut Vec<usize>,
        depth: usize,
    ) -> Result<(), ConfigError> {
        let name = path.display().to_string();
        let file = Some(self.source.files.len());
        self.source.files.push(Arc::new(path.to_path_buf()));
        let outer = conditions.clone();
        let mut bad = 0;
        for (index, line) in text.split('\n').enumerate() {
            let place = Place { name: &name, file, line: index + 1 };
            // A `Match` in an included file adds to those of its `Include` line.
            let mut inner = std::mem::take(conditions);
            if split_keyword(line).is_some_and(|(keyword, _)| keyword.eq_ignore_ascii_case("match")) {
                inner.clone_from(&outer);
            }
            let good = self.line(line, place, &mut inner, depth)?;
            *conditions = inner;
            if !good {
                bad += 1;
            }
        }
        *conditions = outer;
        if bad > 0 {
            return Err(self.fatal(format!("{name}: terminating, {bad} bad configuration options")));
        }
        Ok(())
    }

    /// Parses one line; `false` if it is invalid, which was reported. Most errors end the loading at once, as
    /// in sshd.
    fn line(
        &mut self,
        line: &str,
        place: Place<'_>,
        conditions: &mut Vec<usize>,
        depth: usize,
    ) -> Result<bool, ConfigError> {
        // For sshd a line ends there, so its rule would be another: `DenyUsers eve` and a NUL deny eve.
        if line.contains('\0') {
            return Ok(self.bad(place.say("NUL byte in line")));
        }
        let Some((keyword, rest)) = split_keyword(line) else { return Ok(true) };
        if rest.is_empty() {
            return Ok(self.bad(place.say(&format!("no argument after keyword \"{keyword}\""))));
        }
        if has_replaced_bytes(rest) {
            return Ok(self.bad(place.say(NOT_UTF8)));
        }
        if keyword.eq_ignore_ascii_case("match") {
            return match Criteria::parse(rest) {
                Ok(criteria) => {
                    conditions.push(self.source.criteria.len());
                    self.source.criteria.push(criteria);
                    Ok(true)
                }
                Err(error @ MatchError::BadAddressList { .. }) => {
                    Err(self.fatal(format!("{error} {}", place.line)))
                }
                Err(error) => {
                    self.lines.push(error.to_string());
                    Err(self.fatal(place.say("Bad Match condition")))
                }
            };
        }
        if keyword.eq_ignore_ascii_case("include") {
            return self.include(rest, place, conditions, depth);
        }
        let Some(row) = find(SERVER_KEYWORDS, &keyword) else {
            if split_words(rest, true).is_err() {
                return Ok(self.bad(place.say("invalid quotes")));
            }
            if SERVER_IGNORED.iter().any(|name| name.eq_ignore_ascii_case(&keyword)) {
                // OpenSSH does not report this keyword, which many files still contain.
                if !keyword.eq_ignore_ascii_case("Protocol") {
                    self.note(LogLevel::Info, place, &format!("Deprecated option {keyword}"));
                }
                return Ok(true);
            }
            let text = format!("{}: line {}: Bad configuration option: {keyword}", place.name, place.line);
            return Ok(self.bad(text));
        };
        // As in sshd, `Match all` ends a block: keywords of the whole server may follow, and count as such.
        let is_global = SERVER_KEYWORDS[row].scope == Scope::Global;
        let is_conditional = conditions.iter().any(|index| !self.source.criteria[*index].is_all());
        let conditions: &[usize] = if is_global { &[] } else { conditions };
        if is_global && is_conditional {
            let text = format!("Directive '{keyword}' is not allowed within a Match block");
            return Err(self.fatal(place.say(&text)));
        }
        let Ok(mut args) = Arguments::new(SERVER_KEYWORDS[row].name, Dialect::Server, rest) else {
            return Ok(self.bad(place.say("invalid quotes")));
        };
        self.check_names(row, &args, place, conditions)?;
        // Expanded here, so that session processes use the listener's result.
        let rest = match (AlgorithmKind::of_keyword(SERVER_KEYWORDS[row].name), args.clone().next_word()) {
            (Some(kind), Some(list)) if list.contains(['*', '?']) && args.clone().remaining().len() == 1 => {
                expanded(&list, kind, self.environment)
            }
            _ => match file_names::absolute(SERVER_KEYWORDS[row].name, &args, self.environment) {
                Ok(absolute) => absolute.unwrap_or_else(|| rest.to_string()),
                Err(message) => return Err(self.fatal(place.say(&message))),
            },
        };
        let mut scratch = ServerSettings::unset();
        if let Err(error) = scratch.set(row, &mut args, &Origin::CommandLine, true) {
            let origin = format!("{} line {}", place.name, place.line);
            self.lines.extend(lines_at(&origin, &error.to_string()));
            return Err(self.give_up());
        }
        if !args.is_empty() {
            let text = format!("keyword {keyword} extra arguments at end of line");
            return Ok(self.bad(place.say(&text)));
        }
        self.source.statements.push(Statement {
            row,
            rest,
            file: place.file,
            line: place.line,
            conditions: conditions.to_vec(),
        });
        Ok(true)
    }

    /// Checks for unknown algorithm names and duplicate subsystems.
    fn check_names(
        &mut self,
        row: usize,
        args: &Arguments,
        place: Place<'_>,
        conditions: &[usize],
    ) -> Result<(), ConfigError> {
        let name = SERVER_KEYWORDS[row].name;
        let first = args.clone().next_word().unwrap_or_default();
        if let Some(kind) = AlgorithmKind::of_keyword(name) {
            let known = all_known(&first, kind, self.environment);
            if !known && !first.is_empty() {
                let unknown = first_unknown(&first, kind, self.environment);
                self.lines.extend(unknown.and_then(|name| kind.detail(name)));
                return Err(self.fatal(place.say(&kind.message(&first))));
            }
        }
        if name == "Subsystem" {
            let taken = self.source.statements.iter().any(|other| {
                other.row == row
                    && other.file.is_some()
                    && other.conditions == conditions
                    && split_words(&other.rest, true).is_ok_and(|words| words.first() == Some(&first))
            });
            if taken {
                // As in sshd, the first definition counts, and only debug messages tell of another. The
                // packages' file has a `Subsystem` line of its own behind an `Include` of sshd's file.
                self.note(LogLevel::Debug1, place, &format!("Subsystem '{first}' already defined."));
            }
        }
        Ok(())
    }

    fn include(
        &mut self,
        rest: &str,
        place: Place<'_>,
        conditions: &mut Vec<usize>,
        depth: usize,
    ) -> Result<bool, ConfigError> {
        let Ok(words) = split_words(rest, true) else {
            return Ok(self.bad(place.say("invalid quotes")));
        };
        if words.is_empty() {
            return Ok(self.bad(place.say("Include missing filename argument")));
        }
        if depth >= MAX_DEPTH {
            return Err(self.fatal("Too many recursive configuration includes".to_string()));
        }
        for word in words {
            if word.is_empty() {
                return Ok(self.bad(place.say("keyword Include empty argument")));
            }
            let Matches { paths, failed } = glob(&Path::new("/etc/ssh").join(&word).to_string_lossy());
            for (path, error) in failed {
                let text = format!("Include: {}: {}", path.display(), errno_text(&error));
                self.note(LogLevel::Error, place, &text);
            }
            for path in paths {
                match include::read_text(&path) {
                    Ok(text) => self.file(&path, &text, conditions, depth + 1)?,
                    Err(error) => {
                        let text = format!("{}: {}", path.display(), errno_text(&error));
                        return Err(self.fatal(text));
                    }
                }
            }
        }
        Ok(true)
    }
}
