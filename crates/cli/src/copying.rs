//! Configuration keywords from the flags that `scp` and `sftp` share.

use std::path::PathBuf;

use lh_config::Account;
use lh_config::client::{CommandLine, Request, UserFile};

use crate::flags::Parsed;
use crate::identity::identity_warning;

/// Flags that stand for a keyword with a fixed value.
const FIXED: &[(char, &str, &str)] = &[
    ('4', "AddressFamily", "inet"),
    ('6', "AddressFamily", "inet6"),
    ('C', "Compression", "yes"),
    ('q', "LogLevel", "QUIET"),
];

/// Flags whose value is the keyword's.
const VALUED: &[(char, &str)] = &[('J', "ProxyJump"), ('P', "Port"), ('c', "Ciphers"), ('i', "IdentityFile")];

/// Keywords that every copy sets, whatever the configuration has: OpenSSH's `scp` and `sftp` pass them to
/// `ssh`.
pub const ALWAYS: &[(&str, &str)] = &[
    ("ClearAllForwardings", "yes"),
    ("ForwardX11", "no"),
    ("PermitLocalCommand", "no"),
    ("RemoteCommand", "none"),
    ("RequestTTY", "no"),
];

/// Upper limit of channels of one copy. Every server refuses more.
const MAX_CHANNELS: usize = 64;

/// The value of `-j` is no number of channels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid number of channels \"{0}\"")]
pub struct InvalidChannels(String);

/// Value of `-j`: the number of channels or connections that a copy uses; `None` adapts it to the measured
/// gain.
///
/// # Errors
/// It is no number, or too large a one.
pub fn channels(parsed: &Parsed) -> Result<Option<usize>, InvalidChannels> {
    let Some(text) = parsed.text('j') else { return Ok(None) };
    match text.parse() {
        Ok(channels) if (1..=MAX_CHANNELS).contains(&channels) => Ok(Some(channels)),
        _ => Err(InvalidChannels(text)),
    }
}

/// The flags of a command line that are about connections.
#[derive(Debug, Clone)]
pub struct Connecting {
    /// Flags that stand for keywords, in the order given.
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
                lines.push(fixed(keyword, value));
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
        let level = match parsed.count('v') {
            0 => None,
            1 => Some("DEBUG1"),
            2 => Some("DEBUG2"),
            _ => Some("DEBUG3"),
        };
        lines.extend(level.map(|level| fixed("LogLevel", level)));
        lines.extend(ALWAYS.iter().map(|(keyword, value)| fixed(keyword, value)));
        lines.push(fixed("ForwardAgent", if parsed.has('A') { "yes" } else { "no" }));
        let user_file = match parsed.text('F').as_deref() {
            None => UserFile::Default,
            Some("none") => UserFile::None,
            Some(path) => UserFile::Named(PathBuf::from(path)),
        };
        Self { lines, user_file, warnings }
    }

    /// The request for the configuration of `host`. As with OpenSSH, a port in the location overrides `-P`,
    /// which is for locations without one, and a user in the location is overridden by `-o User`.
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

fn fixed(keyword: &'static str, value: &str) -> CommandLine {
    CommandLine::Flag(keyword, vec![value.to_owned()])
}
