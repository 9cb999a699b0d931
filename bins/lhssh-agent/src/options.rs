//! The checked command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lh_cli::flags::{AGENT, Parsed};
use lh_crypto::FingerprintHash;

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

/// A valid command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) syntax: Syntax,
    /// `-a`.
    pub(crate) bind: Option<PathBuf>,
    /// `-T`: use a new directory below `$TMPDIR`.
    pub(crate) temporary: bool,
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
    /// The lines to print; exit status 1.
    pub(crate) fn new(parsed: &Parsed) -> Result<Self, String> {
        let usage = || AGENT.usage();
        let fingerprint = match parsed.text('E') {
            None => FingerprintHash::Sha256,
            Some(name) => match name.to_ascii_lowercase().as_str() {
                "sha256" => FingerprintHash::Sha256,
                "md5" => FingerprintHash::Md5,
                _ => return Err(format!("Invalid hash algorithm \"{name}\"")),
            },
        };
        let lifetime = match parsed.text('t') {
            None => None,
            Some(text) => match lh_config::units::parse_time(&text) {
                Some(0) => None,
                Some(seconds) => Some(Duration::from_secs(seconds)),
                None => return Err(format!("Invalid lifetime\n{}", usage())),
            },
        };
        let mut rules = Rules::default();
        for option in parsed.values('O') {
            if !rules.add(&option.to_string_lossy())? {
                return Err("Unknown -O option".to_owned());
            }
        }
        if parsed.count('P') > 1 {
            return Err("-P option already specified".to_owned());
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
        let shells = parsed.has('c') && parsed.has('s');
        let alone = parsed.has('c') || parsed.has('s') || parsed.has('k') || foreground;
        if shells
            || (!command.is_empty() && alone)
            || (mode == Mode::Kill && foreground)
            || (parsed.has('d') && parsed.has('D'))
        {
            return Err(usage());
        }
        let syntax = match (parsed.has('c'), parsed.has('s')) {
            (true, _) => Syntax::Csh,
            (_, true) => Syntax::Sh,
            _ => Syntax::of_login_shell(),
        };
        Ok(Self {
            mode,
            syntax,
            bind: parsed.value('a').map(PathBuf::from),
            temporary: parsed.has('T'),
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
        Options::new(&parsed)
    }

    #[test]
    fn flags_after_the_command_belong_to_it() {
        let found = options(&["-t", "1h30m", "-T", "sh", "-c", "true"]).expect("fine");
        assert_eq!(found.command, ["sh", "-c", "true"]);
        assert_eq!((found.lifetime, found.temporary), (Some(Duration::from_secs(5400)), true));
    }

    #[test]
    fn invalid_options_are_refused() {
        for bad in [
            &["-c", "-s"][..],
            &["-k", "-D"],
            &["-d", "true"],
            &["-t", "soon"],
            &["-E", "sha1"],
            &["-O", "x"],
            &["-P", "a", "-P", "b"],
            &["-c", "true"],
        ] {
            assert!(options(bad).is_err(), "{bad:?}");
        }
        assert_eq!(options(&["-O", "no-restrict-websafe", "-k"]).map(|o| o.mode), Ok(Mode::Kill));
    }
}
