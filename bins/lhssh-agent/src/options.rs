//! The checked command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lh_cli::flags::{AGENT, Parsed};
use lh_config::token::Tokens;
use lh_crypto::FingerprintHash;
use lh_sys::users::User;

use crate::error::OptionsError;
use crate::hardware::Rules;
use crate::shell::Syntax;

/// Task of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Run an agent.
    Serve,
    /// `-k`: stop an agent.
    Kill,
    /// `-u`: remove stale sockets.
    Clean,
    /// `-V`.
    Version,
}

/// Directory of the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SocketDirectory {
    /// `~/.ssh/agent`.
    Default,
    /// `-A user:…`: this directory of the user's own.
    User(PathBuf),
    /// `-A shared:…`: a new directory below this one, which other users may write to.
    Shared(PathBuf),
    /// `-T`: a new directory below `$TMPDIR`.
    Temporary,
}

impl SocketDirectory {
    /// Parses `-A`; tokens are expanded with the values of this user.
    ///
    /// # Errors
    /// A token cannot be expanded, or the text has another form.
    fn parse(text: &str, user: &User) -> Result<Self, OptionsError> {
        let tokens = Tokens::new()
            .with('h', user.home.to_string_lossy())
            .with('u', user.name.as_str())
            .with('U', user.uid.to_string());
        let expand = |path: &str| tokens.expand(path).map(PathBuf::from);
        if let Some(path) = text.strip_prefix("user:") {
            // An absolute path replaces the home directory.
            return Ok(Self::User(user.home.join(expand(path)?)));
        }
        match text.strip_prefix("shared:").map(expand).transpose()? {
            Some(path) if path.is_absolute() => Ok(Self::Shared(path)),
            Some(_) => Err(OptionsError::RelativeShared),
            None => Err(OptionsError::Directory(text.to_owned())),
        }
    }
}

/// A valid command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) syntax: Syntax,
    /// `-a`.
    pub(crate) bind: Option<PathBuf>,
    /// `-A` and `-T`.
    pub(crate) directory: SocketDirectory,
    /// `-d` and `-D`.
    pub(crate) foreground: bool,
    /// `-d`.
    pub(crate) debug: bool,
    pub(crate) fingerprint: FingerprintHash,
    /// `-t`.
    pub(crate) lifetime: Option<Duration>,
    /// Cleared by `-U`, which keeps stale sockets.
    pub(crate) clean: bool,
    /// `-uu`: also sockets of other machines.
    pub(crate) clean_all_hosts: bool,
    /// `-P` and `-O`.
    pub(crate) rules: Rules,
    /// Program and arguments to run with the agent.
    pub(crate) command: Vec<OsString>,
}

impl Options {
    /// # Errors
    /// A value is invalid, or options exclude each other.
    pub(crate) fn new(parsed: &Parsed) -> Result<Self, OptionsError> {
        let usage = || AGENT.usage();
        let fingerprint = match parsed.text('E') {
            None => FingerprintHash::Sha256,
            Some(name) => FingerprintHash::by_name(&name).ok_or(OptionsError::Hash(name))?,
        };
        let lifetime = match parsed.text('t') {
            None => None,
            Some(text) => match lh_config::units::parse_time(&text) {
                Some(0) => None,
                Some(seconds) => Some(Duration::from_secs(seconds)),
                None => return Err(OptionsError::Lifetime(usage())),
            },
        };
        let mut rules = Rules::default();
        for option in parsed.values('O') {
            rules.add(&option.to_string_lossy())?;
        }
        if parsed.count('P') > 1 {
            return Err(OptionsError::AllowedTwice);
        }
        if let Some(patterns) = parsed.text('P') {
            rules.allow(patterns);
        }
        let mode = if parsed.has('V') {
            Mode::Version
        } else if parsed.has('k') {
            Mode::Kill
        } else if parsed.has('u') {
            Mode::Clean
        } else {
            Mode::Serve
        };
        let foreground = parsed.has('d') || parsed.has('D');
        let command = parsed.operands.clone();
        let one_place = [parsed.has('a'), parsed.has('A'), parsed.has('T')];
        let shells = parsed.has('c') && parsed.has('s');
        let alone = parsed.has('c') || parsed.has('s') || parsed.has('k') || foreground;
        if shells
            || (!command.is_empty() && alone)
            || (mode == Mode::Kill && foreground)
            || (parsed.has('d') && parsed.has('D'))
            || one_place.iter().filter(|each| **each).count() > 1
        {
            return Err(OptionsError::Usage(usage()));
        }
        let directory = match parsed.text('A') {
            Some(text) => {
                let user = lh_sys::users::current().ok().flatten().ok_or(OptionsError::NoUser)?;
                // As everywhere else, `$HOME` counts before the entry in the password file.
                let home = lh_sys::users::home().unwrap_or_else(|| user.home.clone());
                SocketDirectory::parse(&text, &User { home, ..user })?
            }
            None if parsed.has('T') => SocketDirectory::Temporary,
            None => SocketDirectory::Default,
        };
        let syntax = match (parsed.has('c'), parsed.has('s')) {
            (true, _) => Syntax::Csh,
            (_, true) => Syntax::Sh,
            _ => Syntax::of_login_shell(),
        };
        Ok(Self {
            mode,
            syntax,
            bind: parsed.value('a').map(PathBuf::from),
            directory,
            foreground,
            debug: parsed.has('d'),
            fingerprint,
            lifetime,
            clean: !parsed.has('U'),
            clean_all_hosts: parsed.count('u') > 1,
            rules,
            command,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        let parsed = AGENT.parse(arguments.iter().map(OsString::from)).map_err(|stop| stop.err)?;
        Options::new(&parsed).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_after_the_command_belong_to_it() {
        let found = options(&["-t", "1h30m", "-T", "sh", "-c", "true"]).expect("fine");
        assert_eq!(found.command, ["sh", "-c", "true"]);
        let temporary = (Some(Duration::from_secs(5400)), SocketDirectory::Temporary);
        assert_eq!((found.lifetime, found.directory), temporary);
    }

    #[test]
    fn socket_directories_are_expanded() {
        let user = User {
            name: "me".to_owned(),
            uid: 7,
            gid: 7,
            home: "/home/me".into(),
            shell: "/bin/sh".into(),
            gecos: String::new(),
        };
        for (text, expected) in [
            ("user:.ssh/%u", SocketDirectory::User("/home/me/.ssh/me".into())),
            ("user:/run/user/%U", SocketDirectory::User("/run/user/7".into())),
            ("shared:/tmp/%%", SocketDirectory::Shared("/tmp/%".into())),
            ("shared:%h", SocketDirectory::Shared("/home/me".into())),
        ] {
            assert_eq!(SocketDirectory::parse(text, &user), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_options_are_refused() {
        for bad in [
            &["-c", "-s"][..],
            &["-k", "-D"],
            &["-d", "true"],
            &["-t", "soon"],
            &["-E", "sha3"],
            &["-O", "x"],
            &["-P", "a", "-P", "b"],
            &["-c", "true"],
            &["-A", "/tmp"],
            &["-A", "shared:relative"],
            &["-A", "user:%q"],
            &["-A", "user:x", "-T"],
            &["-A", "user:x", "-a", "socket"],
        ] {
            assert!(options(bad).is_err(), "{bad:?}");
        }
        assert_eq!(options(&["-O", "no-restrict-websafe", "-k"]).map(|o| o.mode), Ok(Mode::Kill));
    }
}
