//! Reads files and parses their lines.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::JumpHost;
use super::loader::{FileContext, Loader, Place};
use crate::algorithms::{AlgorithmKind, all_known, expanded, first_unknown};
use crate::client_table::{CLIENT_IGNORED, CLIENT_KEYWORDS};
use crate::enums::LogLevel;
use crate::environment::CommandFailure;
use crate::error::{ConfigError, errno_text};
use crate::expand_error::ExpandError;
use crate::include::{MAX_DEPTH, Matches, glob, read_text};
use crate::line::{Arguments, Dialect, NOT_UTF8, has_replaced_bytes, split_keyword, split_words};
use crate::match_error::MatchError;
use crate::names::{host_is_safe, user_is_safe};
use crate::pattern::{ListMatch, match_list, wildcard};
use crate::table::{Origin, find};
use crate::token::{expand_environment, expand_tilde};

impl Loader<'_> {
    /// Reads a file. The inner result is an error if the file cannot be opened, the outer one if its contents
    /// are invalid.
    pub(super) fn file(
        &mut self,
        path: &Path,
        context: FileContext,
        active: &mut bool,
    ) -> Result<std::io::Result<()>, ConfigError> {
        if context.depth > MAX_DEPTH {
            return Err(self.fatal("Too many recursive configuration includes".to_string()));
        }
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return Ok(Err(error)),
        };
        let text = match read_text(path) {
            Ok(text) => text,
            Err(error) => return Ok(Err(error)),
        };
        let uid = self.request.account.uid;
        if context.check_owner && !self.environment.only_owner_writes(path, &metadata, uid) {
            return Err(self.fatal(format!("Bad owner or permissions on {}", path.display())));
        }
        self.text(path, &text, context, active).map(Ok)
    }

    /// Parses a file's text.
    pub(super) fn text(
        &mut self,
        path: &Path,
        text: &str,
        context: FileContext,
        active: &mut bool,
    ) -> Result<(), ConfigError> {
        let file = Arc::new(path.to_path_buf());
        self.debug(format!("Reading configuration data {}", path.display()));
        let mut bad = 0;
        for (index, line) in text.split('\n').enumerate() {
            let origin = Origin::File { path: Arc::clone(&file), line: index + 1 };
            let place = Place { name: path.display().to_string(), line: index + 1, origin };
            if !self.line(line, &place, active, context)? {
                bad += 1;
            }
        }
        if bad > 0 {
            let name = path.display();
            return Err(self.fatal(format!("{name}: terminating, {bad} bad configuration options")));
        }
        Ok(())
    }

    /// The end of loading where a command of `Match exec` has no status.
    fn command_failed(&mut self, why: &CommandFailure, place: &Place) -> ConfigError {
        self.lines.push(why.to_string());
        let command = match why {
            CommandFailure::Shell { .. } => return self.give_up(),
            CommandFailure::Abnormal(command) => command,
            CommandFailure::Start { command, .. } => {
                self.lines.push(CommandFailure::Abnormal(command.clone()).to_string());
                command
            }
        };
        self.fatal(place.say(format!("match exec '{command}' error")))
    }

    /// Parses one line; `false` if it is invalid, which was reported.
    pub(super) fn line(
        &mut self,
        line: &str,
        place: &Place,
        active: &mut bool,
        context: FileContext,
    ) -> Result<bool, ConfigError> {
        let Some((keyword, rest)) = split_keyword(line) else { return Ok(true) };
        let lower = keyword.to_ascii_lowercase();
        if rest.is_empty() {
            return Ok(self.bad(place.say(format!("no argument after keyword \"{lower}\""))));
        }
        // The patterns of a `Host` line match no name that a user types. Blocks of other hosts do not count.
        if lower != "host" && (*active || lower == "match") && has_replaced_bytes(rest) {
            return Ok(self.bad(place.say(NOT_UTF8)));
        }
        match lower.as_str() {
            "host" => return Ok(self.host_line(rest, place, active, context)),
            "match" => {
                return Ok(match self.criteria(rest, place, !context.never) {
                    Ok(holds) => {
                        *active = holds && !context.never;
                        true
                    }
                    Err(MatchError::Command(why)) => return Err(self.command_failed(&why, place)),
                    Err(error @ MatchError::BadQuotes) => self.bad(place.say(error)),
                    Err(error) => {
                        let is_placed = matches!(error, MatchError::AllNotAlone);
                        self.lines.push(if is_placed { place.say(error) } else { error.to_string() });
                        self.bad(place.say("Bad Match condition"))
                    }
                });
            }
            "include" => return self.include(rest, place, active, context),
            _ => {}
        }
        let Some(row) = find(CLIENT_KEYWORDS, &keyword) else {
            return Ok(self.unknown(&lower, place));
        };
        let is_time = ["ServerAliveInterval", "ForwardX11Timeout"].contains(&CLIENT_KEYWORDS[row].name);
        if is_time && rest == "none" {
            // As in ssh: the keyword stays unset.
            return Ok(true);
        }
        if CLIENT_KEYWORDS[row].name == "ProxyJump" && place.origin == Origin::CommandLine {
            // As in OpenSSH: quotes would be part of a name, and are refused.
            let args = Arguments::from_words("ProxyJump", Dialect::Client, &[rest]);
            return Ok(self.keyword(row, args, place, *active));
        }
        match Arguments::new(CLIENT_KEYWORDS[row].name, Dialect::Client, rest) {
            Ok(args) => Ok(self.keyword(row, args, place, *active)),
            Err(_) => Ok(self.bad(place.say("invalid quotes"))),
        }
    }

    fn unknown(&mut self, lower: &str, place: &Place) -> bool {
        if let Some((_, loud)) = CLIENT_IGNORED.iter().find(|(name, _)| name.eq_ignore_ascii_case(lower)) {
            let kind = if *loud { "Unsupported" } else { "Deprecated" };
            self.note(level(*loud), place.say(format!("{kind} option \"{lower}\"")));
            return true;
        }
        let ignored = self.settings.ignore_unknown.as_deref().unwrap_or("").to_ascii_lowercase();
        if match_list(lower, &ignored, true) == ListMatch::Yes {
            self.debug(place.say(format!("Ignored unknown option \"{lower}\"")));
            return true;
        }
        let shown = visible(lower);
        self.bad(format!("{}: line {}: Bad configuration option: {shown}", place.name, place.line))
    }

    fn host_line(&mut self, rest: &str, place: &Place, active: &mut bool, context: FileContext) -> bool {
        *active = false;
        let Ok(patterns) = split_words(rest, true) else {
            return self.bad(place.say("invalid quotes"));
        };
        let mut matched = None;
        for pattern in patterns {
            if pattern.is_empty() {
                return self.bad(place.say("keyword host empty argument"));
            }
            let (negated, pattern) = match pattern.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, pattern.as_str()),
            };
            if !context.never && wildcard(self.host.as_bytes(), pattern.as_bytes()) {
                *active = !negated;
                if negated {
                    self.debug(
                        place.say(format!("Skipping Host block because of negated match for {pattern}")),
                    );
                    break;
                }
                matched.get_or_insert_with(|| pattern.to_owned());
            }
        }
        if *active && let Some(pattern) = matched {
            self.debug(place.say(format!("Applying options for {pattern}")));
        }
        true
    }

    fn include(
        &mut self,
        rest: &str,
        place: &Place,
        active: &mut bool,
        context: FileContext,
    ) -> Result<bool, ConfigError> {
        let Ok(words) = split_words(rest, true) else {
            return Ok(self.bad(place.say("invalid quotes")));
        };
        for word in words {
            if word.is_empty() {
                return Ok(self.bad(place.say("keyword include empty argument")));
            }
            if word.starts_with('~') && !context.user {
                return Ok(self.bad(place.say(format!("bad include path {word}."))));
            }
            let expanded =
                expand_tilde(&word, &self.request.account.home, |user| self.environment.home_of(user))
                    .and_then(|path| self.current_tokens().expand(&path))
                    .and_then(|path| expand_environment(&path, self.environment));
            let expanded = match expanded {
                Ok(path) => path,
                // Like a pattern that matches no file.
                Err(ExpandError::UnknownUser(_)) => continue,
                Err(error) => return Ok(self.bad(place.say(error))),
            };
            let base =
                if context.user { self.request.account.home.join(".ssh") } else { PathBuf::from("/etc/ssh") };
            let pattern = base.join(expanded);
            let Matches { paths, failed } = glob(&pattern.to_string_lossy());
            for (path, error) in failed {
                self.debug(place.say(format!("include: {}: {}", path.display(), errno_text(&error))));
            }
            if paths.is_empty() {
                let shown = match (word.starts_with(['/', '~']), context.user) {
                    (true, _) => word,
                    (false, true) => format!("~/.ssh/{word}"),
                    (false, false) => format!("/etc/ssh/{word}"),
                };
                self.debug(place.say(format!("include {shown} matched no files")));
            }
            for path in paths {
                // As in ssh, the owner and mode of every included file count.
                let inner = FileContext {
                    depth: context.depth + 1,
                    never: context.never || !*active,
                    check_owner: true,
                    ..context
                };
                // A `Host` or `Match` line of the included file has no effect after it.
                let mut inner_active = *active;
                match self.file(&path, inner, &mut inner_active)? {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        let text = errno_text(&error);
                        let line = format!("Can't open user config file {}: {text}", path.display());
                        return Err(self.fatal(line));
                    }
                    _ => {}
                }
            }
        }
        Ok(true)
    }

    /// Parses a keyword's words; `false` if they are invalid, which was reported.
    pub(super) fn keyword(&mut self, row: usize, mut args: Arguments, place: &Place, active: bool) -> bool {
        let keyword = &CLIENT_KEYWORDS[row];
        let name = keyword.name;
        let mut active = active;
        // The second pass keeps the name that the first one found.
        active &= !(self.final_pass && name == "Hostname");
        // The first of these two keywords wins.
        let other_proxy = match name {
            "ProxyJump" => self.settings.proxy_command.is_set(),
            "ProxyCommand" => self.settings.proxy_jump.is_set(),
            _ => false,
        };
        let list = args.clone().next_word().filter(|list| !list.is_empty());
        if let (Some(kind), Some(list)) = (AlgorithmKind::of_keyword(name), list) {
            if !all_known(&list, kind, self.environment) {
                let unknown = first_unknown(&list, kind, self.environment);
                self.lines.extend(unknown.and_then(|name| kind.detail(name)));
                return self.bad(place.say(kind.message(&list)));
            }
            let list = expanded(&list, kind, self.environment);
            let more = args.remaining();
            let words: Vec<&str> =
                std::iter::once(list.as_str()).chain(more.iter().skip(1).map(String::as_str)).collect();
            args = Arguments::from_words(name, Dialect::Client, &words);
        }
        if ["LocalForward", "RemoteForward", "DynamicForward"].contains(&name) && args.has_variable() {
            // As in ssh, `${NAME}` may stand for any part. A block of another host may lack its variables.
            if !active {
                return true;
            }
            args = match args.map(|word| expand_environment(word, self.environment)) {
                Ok(args) => args,
                Err(why) => {
                    self.lines.push(why.to_string());
                    return self.bad(place.say("Bad forwarding specification."));
                }
            };
        }
        if name == "ProxyJump" {
            let spec = args.clone().next_word().unwrap_or_default();
            let typed = place.origin == Origin::CommandLine;
            let fits = |hops: Vec<JumpHost>| {
                !typed
                    || hops
                        .iter()
                        .all(|hop| host_is_safe(&hop.host) && hop.user.as_deref().is_none_or(user_is_safe))
            };
            let fits = |hops: Vec<JumpHost>| hops.iter().all(|hop| !hop.host.contains('/')) && fits(hops);
            if !spec.is_empty() && !JumpHost::parse_list(&spec).is_some_and(fits) {
                return self.bad(place.say(format!("Invalid ProxyJump \"{spec}\"")));
            }
        }
        if let Err(error) = self.settings.set(row, &mut args, &place.origin, active && !other_proxy) {
            return self.bad(place.say(error));
        }
        if !args.is_empty() {
            let message = format!("keyword {} extra arguments at end of line", name.to_ascii_lowercase());
            return self.bad(place.say(message));
        }
        if active && keyword.is_unsupported() {
            // System files are written for several SSH programs; Debian's has such a line.
            let system = self.request.system_file.as_deref().and_then(Path::parent);
            let loud = match &place.origin {
                Origin::File { path, .. } => system.is_none_or(|directory| !path.starts_with(directory)),
                _ => true,
            };
            let text = place.say(format!("Unsupported option \"{}\"", name.to_ascii_lowercase()));
            self.note(level(loud), text);
        }
        if active && let Some(text) = keyword.no_effect_note() {
            self.debug(place.say(text));
        }
        true
    }
}

/// Level of a note that is always logged (`true`), or only with `-v`.
const fn level(loud: bool) -> LogLevel {
    if loud { LogLevel::Info } else { LogLevel::Debug1 }
}

/// Returns a word as ssh's log shows it, with non-ASCII characters in octal: otherwise a byte-order mark
/// before a keyword would be invisible.
fn visible(word: &str) -> String {
    let mut out = String::new();
    for byte in word.bytes() {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}
