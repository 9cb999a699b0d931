//! Configuration keywords from the flags that `scp` and `sftp` share.

use std::path::PathBuf;

use lh_config::Account;
use lh_config::client::{CommandLine, Request, UserFile};

use crate::flags::Parsed;
use crate::identity::identity_warning;

/// Flags that [set](assign) a keyword to a fixed value.
const FIXED: &[(char, &str, &str)] =
    &[('4', "AddressFamily", "inet"), ('6', "AddressFamily", "inet6"), ('C', "Compression", "yes")];

/// Flags whose value becomes the keyword's. A keyword with a single value takes the first flag's.
const VALUED: &[(char, &str)] = &[('J', "ProxyJump"), ('P', "Port"), ('i', "IdentityFile")];

/// Keywords that every copy sets, in place of what the configuration has: OpenSSH's `scp` and `sftp` pass
/// them to `ssh`.
pub const ALWAYS: &[(&str, &str)] = &[
    ("ClearAllForwardings", "yes"),
    ("ForwardX11", "no"),
    ("PermitLocalCommand", "no"),
    ("RemoteCommand", "none"),
    ("RequestTTY", "no"),
];

/// Upper limit of channels of one copy. Every server refuses more.
const MAX_CHANNELS: usize = 64;

/// The value of `-j` is not a number of channels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid number of channels \"{0}\"")]
pub struct InvalidChannels(String);

/// Returns the value of `-j`: the number of channels or connections that a copy uses. `None` adapts it to the
/// measured gain.
///
/// # Errors
/// The value is not a number, or too large.
pub fn channels(parsed: &Parsed) -> Result<Option<usize>, InvalidChannels> {
    let Some(text) = parsed.text('j') else { return Ok(None) };
    match text.parse() {
        Ok(channels) if (1..=MAX_CHANNELS).contains(&channels) => Ok(Some(channels)),
        _ => Err(InvalidChannels(text)),
    }
}

/// The flags of a command line that concern the connection.
#[derive(Debug, Clone)]
pub struct Connecting {
    /// Keywords that the flags set, in the order given.
    lines: Vec<CommandLine>,
    user_file: UserFile,
    /// Warnings to print before connecting.
    pub warnings: Vec<String>,
}

impl Connecting {
    /// Collects the flags. `batch` is the flag that forbids prompts: `B` of `scp`, `b` of `sftp`.
    pub fn new(parsed: &Parsed, batch: char, account: &Account) -> Self {
        let mut lines = Vec::new();
        let mut warnings = Vec::new();
        for (flag, value) in &parsed.flags {
            let text = || value.as_deref().unwrap_or_default().to_string_lossy().into_owned();
            if *flag == 'i'
                && let Some(warning) = identity_warning(&text(), account)
            {
                warnings.push(warning);
                continue;
            }
            for (_, keyword, value) in FIXED.iter().filter(|(each, ..)| each == flag) {
                assign(&mut lines, keyword, value);
            }
            if *flag == 'c' {
                assign(&mut lines, "Ciphers", &text());
            }
            for (_, keyword) in VALUED.iter().filter(|(each, _)| each == flag) {
                lines.push(fixed(keyword, &text()));
            }
            if *flag == batch {
                lines.push(fixed("BatchMode", "yes"));
            }
            if *flag == 'o' {
                lines.push(CommandLine::Option(text()));
            }
        }
        if let Some(level) = log_level(parsed) {
            assign(&mut lines, "LogLevel", level);
        }
        lines.extend(ALWAYS.iter().map(|(keyword, value)| fixed(keyword, value)));
        lines.push(fixed("ForwardAgent", if parsed.has('A') { "yes" } else { "no" }));
        let user_file = match parsed.text('F').as_deref() {
            None => UserFile::Default,
            Some(path) if path.eq_ignore_ascii_case("none") => UserFile::None,
            Some(path) => UserFile::Named(PathBuf::from(path)),
        };
        Self { lines, user_file, warnings }
    }

    /// Returns the request for the configuration of `host`. As in OpenSSH, a port in the location takes
    /// precedence over `-P`, and `-o User` takes precedence over a user in the location.
    pub fn request(&self, host: &str, port: Option<u16>, user: Option<&str>, account: Account) -> Request {
        let mut request = Request::new(host, account);
        request.user_file = self.user_file.clone();
        if !matches!(request.user_file, UserFile::Default) {
            request.system_file = None;
        }
        let lines = &mut request.command_line;
        lines.extend(port.map(|port| fixed("Port", &port.to_string())));
        lines.extend(self.lines.iter().cloned());
        lines.extend(user.map(|user| fixed("User", user)));
        request
    }
}

/// Sets a keyword as most of ssh's flags do: the last flag wins and takes precedence over every `-o`. So `-a`
/// can undo an alias such as `ssh -A`.
pub fn assign(lines: &mut Vec<CommandLine>, keyword: &'static str, value: &str) {
    lines.retain(|line| !matches!(line, CommandLine::Flag(name, _) if *name == keyword));
    lines.insert(0, fixed(keyword, value));
}

/// Returns the log level from `-q` and `-v`: the last kind of flag decides, and each further `-v` raises it.
pub fn log_level(parsed: &Parsed) -> Option<&'static str> {
    let mut level = None;
    let mut debugs = 0;
    for (flag, _) in &parsed.flags {
        match flag {
            'q' => level = Some("QUIET"),
            'v' => {
                debugs += 1;
                level = Some(match debugs {
                    1 => "DEBUG1",
                    2 => "DEBUG2",
                    _ => "DEBUG3",
                });
            }
            _ => {}
        }
    }
    level
}

fn fixed(keyword: &'static str, value: &str) -> CommandLine {
    CommandLine::Flag(keyword, vec![value.to_owned()])
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::flags::SCP;

    #[test]
    fn last_flag_wins_over_options() {
        let first = |words: &str, keyword: &str| {
            let parsed = SCP.parse(words.split(' ').map(OsString::from)).expect("a command line");
            let account =
                Account { name: "me".to_owned(), uid: 1, home: "/".into(), host_name: "h".to_owned() };
            let lines = Connecting::new(&parsed, 'B', &account).lines;
            lines.iter().find_map(|line| match line {
                CommandLine::Flag(name, words) if *name == keyword => Some(words.join(" ")),
                CommandLine::Option(text) => {
                    text.strip_prefix(keyword).map(|value| value.trim_start_matches('=').to_owned())
                }
                CommandLine::Flag(..) => None,
            })
        };
        for (words, keyword, value) in [
            ("-4 -6 a h:", "AddressFamily", "inet6"),
            ("-o AddressFamily=inet -6 a h:", "AddressFamily", "inet6"),
            ("-o Compression=no -C a h:", "Compression", "yes"),
            ("-o Ciphers=x -c y -c z a h:", "Ciphers", "z"),
            ("-o LogLevel=ERROR -v a h:", "LogLevel", "DEBUG1"),
            ("-q -v a h:", "LogLevel", "DEBUG1"),
            ("-v -q a h:", "LogLevel", "QUIET"),
            ("-o User=x a h:", "User", "x"),
        ] {
            assert_eq!(first(words, keyword).as_deref(), Some(value), "{words}");
        }
    }
}
