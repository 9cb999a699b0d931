//! Loads the configuration from files and the command line.

use std::fmt::Display;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::{ClientConfig, JumpHost, Note};
use super::{CommandLine, Request, UserFile};
use crate::algorithms::{AlgorithmKind, all_known, expanded, first_unknown};
use crate::client_table::{CLIENT_IGNORED, CLIENT_KEYWORDS, ClientSettings};
use crate::enums::CanonicalizeHostname;
use crate::environment::Environment;
use crate::error::{ConfigError, ConfigFault, errno_text};
use crate::expand_error::ExpandError;
use crate::include::{MAX_DEPTH, glob, read_text};
use crate::line::{Arguments, Dialect, split_keyword, split_words};
use crate::names::{BAD_HOST, BAD_USER, host_is_safe, user_is_safe};
use crate::pattern::{ListMatch, match_list, wildcard};
use crate::table::{Origin, Setting, find};
use crate::token::{Tokens, expand_environment, expand_tilde};

/// The default key files, in OpenSSH's order.
const DEFAULT_IDENTITIES: [&str; 6] = [
    "~/.ssh/id_rsa",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_ecdsa_sk",
    "~/.ssh/id_ed25519",
    "~/.ssh/id_ed25519_sk",
    "~/.ssh/id_mldsa44_ed25519",
];

/// Loads all settings that apply to `request.host`.
///
/// # Errors
/// [`ConfigError`] with the lines to print; exit status 255.
pub fn load(request: &Request, environment: &dyn Environment) -> Result<ClientConfig, ConfigError> {
    let mut loader = Loader {
        request,
        environment,
        settings: ClientSettings::unset(),
        notes: Vec::new(),
        lines: Vec::new(),
        host: request.host.clone(),
        final_pass: false,
        final_wanted: false,
        user_as_typed: false,
    };
    loader.check_host(&request.host)?;
    loader.command_line()?;
    loader.files()?;
    let resolved = loader.resolved_host()?;
    loader.check_host(&resolved)?;
    loader.host = loader.canonical_host(&resolved)?;
    let host = loader.host.clone();
    loader.check_host(&host)?;
    if *loader.settings.canonicalize_hostname != CanonicalizeHostname::No {
        loader.notes.push(Note {
            loud: false,
            text: "hostname canonicalisation enabled, will re-parse configuration".to_string(),
        });
        loader.final_wanted = true;
    }
    if loader.final_wanted {
        loader.final_pass = true;
        loader.files()?;
    }
    let attempts = &loader.settings.connection_attempts;
    if attempts.is_set() && attempts.value == 0 {
        return Err(loader.fatal("Invalid number of ConnectionAttempts".to_owned()));
    }
    loader.finish()
}

pub(super) struct Loader<'a> {
    pub(super) request: &'a Request,
    pub(super) environment: &'a dyn Environment,
    pub(super) settings: ClientSettings,
    notes: Vec<Note>,
    /// Error messages so far.
    lines: Vec<String>,
    /// The name that `Host` patterns are matched against.
    pub(super) host: String,
    pub(super) final_pass: bool,
    pub(super) final_wanted: bool,
    /// The user is from a flag or the destination, where tokens are not expanded.
    user_as_typed: bool,
}

/// Position of a line.
struct Place {
    /// The file's name in messages.
    name: String,
    line: usize,
    origin: Origin,
}

impl Place {
    fn say(&self, message: impl Display) -> String {
        format!("{} line {}: {message}", self.name, self.line)
    }
}

/// How a file is read.
#[derive(Clone, Copy)]
struct FileContext {
    /// The user's file: for relative includes and the permission check.
    user: bool,
    check_owner: bool,
    depth: usize,
    /// Included from a block that does not apply: only checked.
    never: bool,
}

impl Loader<'_> {
    fn command_line(&mut self) -> Result<(), ConfigError> {
        let request = self.request;
        for given in &request.command_line {
            let mut place = Place { name: "command-line".to_string(), line: 0, origin: Origin::CommandLine };
            let mut active = true;
            match given {
                CommandLine::Option(text) => {
                    if let Some((keyword, _)) = split_keyword(text) {
                        let lower = keyword.to_ascii_lowercase();
                        if ["host", "match", "include"].contains(&lower.as_str()) {
                            let name = format!("{}{}", lower[..1].to_ascii_uppercase(), &lower[1..]);
                            let line = format!("{name} directive not supported as a command-line option");
                            return Err(ConfigError::new(line));
                        }
                    }
                    let context = FileContext { user: true, check_owner: false, depth: 0, never: false };
                    if !self.line(text, &place, &mut active, context)? {
                        return Err(self.give_up());
                    }
                }
                CommandLine::Flag(keyword, words) => {
                    let Some(row) = find(CLIENT_KEYWORDS, keyword) else { continue };
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    if let (Some(kind), [list, ..]) = (AlgorithmKind::of_keyword(keyword), &words[..])
                        && let Some(message) = kind.flag_message(list)
                        && !all_known(list, kind, self.environment)
                    {
                        return Err(ConfigError::new(message));
                    }
                    let args = Arguments::from_words(CLIENT_KEYWORDS[row].name, Dialect::Client, &words);
                    place.name = "command-line".to_string();
                    self.user_as_typed |= *keyword == "User" && !self.settings.user.is_set();
                    if !self.keyword(row, args, &place, active) {
                        return Err(self.give_up());
                    }
                }
            }
        }
        Ok(())
    }

    fn give_up(&mut self) -> ConfigError {
        ConfigError { lines: std::mem::take(&mut self.lines), fault: ConfigFault::Text }
    }

    fn fatal(&mut self, line: String) -> ConfigError {
        self.lines.push(line);
        self.give_up()
    }

    fn files(&mut self) -> Result<(), ConfigError> {
        let request = self.request;
        let mut active = true;
        match &request.user_file {
            UserFile::None => return Ok(()),
            UserFile::Skipped => {}
            UserFile::Text(name, text) => {
                let context = FileContext { user: true, check_owner: false, depth: 0, never: false };
                return self.text(name, text, context, &mut active);
            }
            UserFile::Named(path) => {
                let context = FileContext { user: true, check_owner: false, depth: 0, never: false };
                return match self.file(path, context, &mut active)? {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        let text = errno_text(&error);
                        Err(self.fatal(format!("Can't open user config file {}: {text}", path.display())))
                    }
                };
            }
            UserFile::Default => {
                let path = request.account.home.join(".ssh/config");
                let context = FileContext { user: true, check_owner: true, depth: 0, never: false };
                // A missing or unreadable file counts as empty.
                let _ = self.file(&path, context, &mut active)?;
            }
        }
        if let Some(path) = &request.system_file {
            active = true;
            let context = FileContext { user: false, check_owner: false, depth: 0, never: false };
            let _ = self.file(path, context, &mut active)?;
        }
        Ok(())
    }

    /// Reads a file. The inner result says whether it could be opened, the outer one whether its contents are
    /// valid.
    fn file(
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
        let own = metadata.uid() == 0 || metadata.uid() == self.request.account.uid;
        if context.check_owner && (!own || metadata.mode() & 0o022 != 0) {
            return Err(self.fatal(format!("Bad owner or permissions on {}", path.display())));
        }
        self.text(path, &text, context, active).map(Ok)
    }

    /// Reads a file's text.
    fn text(
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

    fn bad(&mut self, line: String) -> bool {
        self.lines.push(line);
        false
    }

    /// Parses one line; `false` if it is invalid, which was reported.
    fn line(
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
        match lower.as_str() {
            "host" => return Ok(self.host_line(rest, place, active, context)),
            "match" => {
                return Ok(match self.criteria(rest, !context.never) {
                    Ok(holds) => {
                        *active = holds && !context.never;
                        true
                    }
                    Err(error) => {
                        self.lines.push(error.to_string());
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
        if CLIENT_KEYWORDS[row].name == "ProxyJump" && place.origin == Origin::CommandLine {
            // As OpenSSH does: quotes are part of a name, and refused.
            let args = Arguments::from_words("ProxyJump", Dialect::Client, &[rest]);
            return Ok(self.keyword(row, args, place, *active));
        }
        match Arguments::new(CLIENT_KEYWORDS[row].name, Dialect::Client, rest) {
            Ok(args) => Ok(self.keyword(row, args, place, *active)),
            Err(_) => Ok(self.bad(place.say("invalid quotes"))),
        }
    }

    /// Adds a debug message about the origin of a setting.
    fn debug(&mut self, text: String) {
        self.notes.push(Note { loud: false, text });
    }

    fn unknown(&mut self, lower: &str, place: &Place) -> bool {
        if let Some((_, loud)) = CLIENT_IGNORED.iter().find(|(name, _)| name.eq_ignore_ascii_case(lower)) {
            let kind = if *loud { "Unsupported" } else { "Deprecated" };
            self.notes.push(Note { loud: *loud, text: place.say(format!("{kind} option \"{lower}\"")) });
            return true;
        }
        let ignored = self.settings.ignore_unknown.as_deref().unwrap_or("").to_ascii_lowercase();
        if match_list(lower, &ignored, true) == ListMatch::Yes {
            self.notes
                .push(Note { loud: false, text: place.say(format!("Ignored unknown option \"{lower}\"")) });
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
            let expanded = expand_tilde(&word, &self.request.account, |user| self.environment.home_of(user))
                .and_then(|path| self.current_tokens().expand(&path))
                .and_then(|path| expand_environment(&path, self.environment));
            let expanded = match expanded {
                Ok(path) => path,
                // As a pattern that matches no file.
                Err(ExpandError::UnknownUser(_)) => continue,
                Err(error) => return Ok(self.bad(place.say(error))),
            };
            let base =
                if context.user { self.request.account.home.join(".ssh") } else { PathBuf::from("/etc/ssh") };
            let pattern = base.join(expanded);
            for path in glob(&pattern.to_string_lossy()) {
                let inner =
                    FileContext { depth: context.depth + 1, never: context.never || !*active, ..context };
                // A `Host` or `Match` line of the included file has no effect behind it.
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
    fn keyword(&mut self, row: usize, mut args: Arguments, place: &Place, active: bool) -> bool {
        let keyword = &CLIENT_KEYWORDS[row];
        let name = keyword.name;
        let mut active = active;
        // The second pass uses the name that the first one found.
        active &= !(self.final_pass && name == "Hostname");
        // The first of these two keywords wins.
        let other_proxy = match name {
            "ProxyJump" => self.settings.proxy_command.is_set(),
            "ProxyCommand" => self.settings.proxy_jump.is_set(),
            _ => false,
        };
        if let (Some(kind), Some(list)) = (AlgorithmKind::of_keyword(name), args.clone().next_word()) {
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
        if name == "ProxyJump" {
            let spec = args.clone().next_word().unwrap_or_default();
            let typed = place.origin == Origin::CommandLine;
            let fits = |hops: Vec<JumpHost>| {
                !typed
                    || hops
                        .iter()
                        .all(|hop| host_is_safe(&hop.host) && hop.user.as_deref().is_none_or(user_is_safe))
            };
            if !spec.is_empty() && !JumpHost::parse_list(&spec).is_some_and(fits) {
                return self.bad(place.say(format!("Invalid ProxyJump \"{spec}\"")));
            }
        }
        let value = args.clone().rest_of_line();
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
            self.notes.push(Note { loud, text });
        }
        if active && let Some(text) = keyword.shortfall(&value) {
            self.notes.push(Note { loud: false, text: place.say(text) });
        }
        true
    }

    /// `Hostname` with its tokens expanded, or the typed host; in lower case.
    fn resolved_host(&mut self) -> Result<String, ConfigError> {
        let host = match self.settings.hostname.as_deref() {
            Some(name) => match Tokens::new().with('h', &self.request.host).expand(name) {
                Ok(host) => host,
                Err(why) => return Err(self.fatal(format!("Hostname: {why}"))),
            },
            None => self.request.host.clone(),
        };
        Ok(host.to_ascii_lowercase())
    }

    /// Refuses a host name with shell syntax, whatever its source: no network has one.
    fn check_host(&mut self, host: &str) -> Result<(), ConfigError> {
        if host_is_safe(host) { Ok(()) } else { Err(self.fatal(BAD_HOST.to_string())) }
    }

    /// `User` with its tokens and variables expanded. Literal text from a file may be anything, as in
    /// OpenSSH, and is checked before a shell gets it. Text from the command line or an expansion must not
    /// contain shell syntax.
    fn resolve_user(&mut self) -> Result<(), ConfigError> {
        let Some(text) = self.settings.user.value.clone() else { return Ok(()) };
        let typed = self.settings.user.origin == Origin::CommandLine;
        let user = if self.user_as_typed {
            text.clone()
        } else {
            // %r would be the user itself, and %C contains it.
            let tokens = self.current_tokens().only("Ldhijklnpu");
            let expanded = tokens.expand(&text).and_then(|text| expand_environment(&text, self.environment));
            expanded.map_err(|why| self.fatal(format!("User: {why}")))?
        };
        if (typed || user != text) && !user_is_safe(&user) {
            return Err(self.fatal(BAD_USER.to_string()));
        }
        self.settings.user.value = Some(user);
        Ok(())
    }

    /// The values of `SetEnv` with their tokens and variables expanded.
    fn resolve_set_env(&mut self) -> Result<(), ConfigError> {
        let tokens = self.current_tokens();
        let mut pairs = std::mem::take(&mut self.settings.set_env.value.0);
        for (name, value) in &mut pairs {
            let expanded = tokens.expand(value).and_then(|text| expand_environment(&text, self.environment));
            *value = expanded.map_err(|why| self.fatal(format!("SetEnv {name}: {why}")))?;
        }
        self.settings.set_env.value.0 = pairs;
        Ok(())
    }

    fn finish(mut self) -> Result<ClientConfig, ConfigError> {
        let host = self.host.clone();
        // From here on all criteria and tokens use the resolved host.
        self.final_pass = true;
        self.resolve_user()?;
        self.resolve_set_env()?;
        // Two passes report some things twice.
        let mut said = std::collections::HashSet::new();
        self.notes.retain(|note| said.insert(note.text.clone()));
        let s = &mut self.settings;
        if s.metrics_path.is_set() && !s.metrics.is_set() {
            s.metrics = Setting { value: true, origin: s.metrics_path.origin.clone() };
        }
        // `UpdateHostKeys` stays off by default for a user with other host key files, or with keys in DNS.
        let own_files = s.user_known_hosts_file.is_set();
        s.fill_defaults();
        use crate::enums::YesNoAsk;
        if !s.update_host_keys.is_set() && (own_files || *s.verify_host_key_dns != YesNoAsk::No) {
            s.update_host_keys.value = YesNoAsk::No;
        }
        if !s.identity_file.is_set() {
            s.identity_file.value.0 = DEFAULT_IDENTITIES.iter().map(|file| file.to_string()).collect();
        }
        if *s.clear_all_forwardings {
            s.local_forward.value.0.clear();
            s.remote_forward.value.0.clear();
            s.dynamic_forward.value.0.clear();
        }
        if s.user.is_none() {
            s.user.value = Some(self.request.account.name.clone());
        }
        s.hostname.value = Some(host.clone());
        // The value `none` disables these keywords.
        let is_none = |text: &Option<String>| text.as_deref().is_some_and(|t| t.eq_ignore_ascii_case("none"));
        for command in [&mut s.proxy_command, &mut s.local_command, &mut s.remote_command] {
            if is_none(&command.value.0) {
                command.value.0 = None;
            }
        }
        for word in [&mut s.control_path, &mut s.proxy_jump, &mut s.pkcs11_provider] {
            if is_none(&word.value) {
                word.value = None;
            }
        }
        if let Some(hops) = s.proxy_jump.as_deref().and_then(JumpHost::parse_list) {
            let hops: Vec<String> = hops.iter().map(JumpHost::to_string).collect();
            s.proxy_jump.value = Some(hops.join(","));
        }
        let mut config = ClientConfig {
            settings: self.settings,
            original_host: self.request.host.clone(),
            host,
            account: self.request.account.clone(),
            notes: self.notes,
        };
        config.expand_shared_paths(self.environment)?;
        Ok(config)
    }
}

/// A word as ssh's log shows it, with other than ASCII characters in octal: a byte-order mark in front of a keyword is
/// invisible otherwise.
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
