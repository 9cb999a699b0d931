//! `KnownHostsCommand`: a program that prints known host keys as known_hosts lines.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;

use base64ct::{Base64, Encoding as _};
use lh_config::ExpandError;
use lh_config::line::split_words;
use lh_config::token::Tokens;
use lh_crypto::{FingerprintHash, PublicKey};
use lh_sys::spawn::Program;

use crate::error::ClientError;
use crate::known_hosts::KnownHosts;
use crate::log::Log;
use lh_sys::errno_text;

/// Limit of the command's output, bytes.
const MAX_OUTPUT: u64 = 16 << 20;

/// Name of the command in messages about its lines.
pub(crate) const NAME: &str = "KnownHostsCommand-";

/// Why the command runs (`%I`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// To list the known key types, before the server has presented a key.
    Order,
    /// To check whether this key is known for the name.
    HostName,
    /// To check whether this key is known for the address.
    Address,
}

impl Reason {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Order => "ORDER",
            Self::HostName => "HOSTNAME",
            Self::Address => "ADDRESS",
        }
    }
}

/// The configured `KnownHostsCommand`.
#[derive(Debug, Clone)]
pub(crate) struct KnownHostsCommand {
    /// As configured. It is split into words before tokens are expanded, so that no token's value becomes two
    /// words.
    pub(crate) text: String,
    /// The tokens that every command accepts.
    pub(crate) tokens: Tokens,
    pub(crate) fingerprint: FingerprintHash,
}

/// Why a `KnownHostsCommand` yields no lines.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// The configuration is wrong: a quote is not closed.
    #[error("\"{0}\" has bad quotes")]
    Quotes(String),
    /// The configuration is wrong: a token that the keyword does not accept.
    #[error(transparent)]
    Token(ExpandError),
    /// The configuration is wrong: the value is blank.
    #[error("\"\" has no command")]
    Empty,
    /// The configuration is wrong: the path of the program is not absolute.
    #[error("path is not absolute")]
    Relative,
    /// The program does not exist.
    #[error("\"{path}\": {}", errno_text(.source))]
    Missing { path: String, source: std::io::Error },
    /// The program cannot be started.
    #[error("execv \"{path}\": {}", errno_text(.source))]
    Start { path: String, source: std::io::Error },
    /// The program failed.
    #[error("{line} {how}")]
    Failed { line: String, how: String },
}

impl CommandError {
    /// Returns whether the files alone decide after this error, as in OpenSSH when there is no program to
    /// run. A program that fails ends the connection: its output might have revoked a key.
    const fn leaves_the_files(&self) -> bool {
        matches!(self, Self::Relative | Self::Missing { .. })
    }
}

impl KnownHostsCommand {
    /// Runs the command and parses its output. `name` is the name to look up (`%H`), `key` the server's key.
    ///
    /// A command whose program does not exist or has a relative path yields no lines; this is logged.
    ///
    /// # Errors
    /// The command cannot be started, or fails: then no key counts as known.
    pub(crate) fn run(
        &self,
        reason: Reason,
        name: &str,
        key: Option<&PublicKey>,
        log: &mut Log<'_>,
    ) -> Result<KnownHosts, ClientError> {
        let why = match self.lines(reason, name, key, log) {
            Ok(known) => return Ok(known),
            Err(why) => why,
        };
        let before = if matches!(why, CommandError::Missing { .. }) { "Could not stat " } else { "" };
        log.error(&format!("{before}{NAME}{} {why}", reason.word()));
        if let CommandError::Start { path, .. } = &why {
            log.error(&format!("{NAME}{} {path} failed, status 127", reason.word()));
        }
        if why.leaves_the_files() {
            return Ok(KnownHosts::default());
        }
        Err(ClientError::HostKey("KnownHostsCommand failed".to_owned()))
    }

    fn lines(
        &self,
        reason: Reason,
        name: &str,
        key: Option<&PublicKey>,
        log: &mut Log<'_>,
    ) -> Result<KnownHosts, CommandError> {
        let words = self.words(reason, name, key)?;
        let [path, arguments @ ..] = words.as_slice() else { return Err(CommandError::Empty) };
        if !path.starts_with('/') {
            return Err(CommandError::Relative);
        }
        std::fs::metadata(path).map_err(|source| CommandError::Missing { path: path.clone(), source })?;
        let line = words.join(" ");
        log.debug(|| format!("{NAME}{}: running {line}", reason.word()));
        let output =
            execute(path, arguments).map_err(|source| CommandError::Start { path: path.clone(), source })?;
        match output {
            (bytes, None) => Ok(KnownHosts::parse(&bytes)),
            (_, Some(how)) => Err(CommandError::Failed { line, how }),
        }
    }

    fn words(
        &self,
        reason: Reason,
        name: &str,
        key: Option<&PublicKey>,
    ) -> Result<Vec<String>, CommandError> {
        let none = || "NONE".to_owned();
        let tokens = self
            .tokens
            .clone()
            .with('H', name)
            .with('I', reason.word())
            .with('t', key.map_or_else(none, |key| key.key_type().to_owned()))
            .with('f', key.map_or_else(none, |key| key.fingerprint(self.fingerprint)))
            .with('K', key.map_or_else(none, |key| Base64::encode_string(key.blob())));
        let words = split_words(&self.text, false).map_err(|_| CommandError::Quotes(self.text.clone()))?;
        words.iter().map(|word| tokens.expand(word).map_err(CommandError::Token)).collect()
    }
}

/// The program's output, and a text about its end if it failed. Runs without a shell and without standard
/// input.
fn execute(path: &str, arguments: &[String]) -> std::io::Result<(Vec<u8>, Option<String>)> {
    let (mut reader, writer) = std::io::pipe()?;
    let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
    let mut program = Program::new(path).stdio(lh_sys::fd::null()?, writer.into(), stderr);
    for argument in arguments {
        program = program.arg(argument);
    }
    let mut child = program.spawn()?;
    let mut bytes = Vec::new();
    let read = (&mut reader).take(MAX_OUTPUT + 1).read_to_end(&mut bytes);
    // A program that continues to print gets SIGPIPE.
    drop(reader);
    let status = child.wait()?;
    read?;
    if bytes.len() as u64 > MAX_OUTPUT {
        return Ok((Vec::new(), Some("failed, its output is too long".to_owned())));
    }
    let how = match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("failed, status {code}")),
        (None, Some(signal)) => Some(format!("exited on signal {signal}")),
        (None, None) => Some("failed".to_owned()),
    };
    Ok((bytes, how))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeUi, key};
    use crate::ui::LogLevel;

    fn run(
        text: &str,
        reason: Reason,
        key: Option<&PublicKey>,
    ) -> (Result<Vec<String>, String>, Vec<String>) {
        let tokens = Tokens::new().with('h', "real").with('n', "a b");
        let command =
            KnownHostsCommand { text: text.to_owned(), tokens, fingerprint: FingerprintHash::Sha256 };
        let mut ui = FakeUi::default();
        let result = command.run(reason, "name", key, &mut Log::new(&mut ui, LogLevel::Info, false));
        let hosts = |known: KnownHosts| known.entries().map(|entry| entry.hosts.clone()).collect();
        (result.map(hosts).map_err(|error| error.to_string()), ui.messages)
    }

    /// Covers: ssh_config KnownHostsCommand; token %f; token %H; token %I; token %K; token %t
    #[test]
    fn key_and_reason_are_passed_and_output_lines_are_read() {
        let key = key();
        let (lines, _) = run("/bin/echo %H,%I,%h %t %K", Reason::HostName, Some(&key));
        assert_eq!(lines, Ok(vec!["name,HOSTNAME,real".to_owned()]));
        let script = "/bin/sh -c 'test \"$1\" = \"$2\" && echo ok $3 $4' sh %f";
        let fingerprint = key.fingerprint(FingerprintHash::Sha256);
        let (lines, _) = run(&format!("{script} {fingerprint} %t %K"), Reason::Address, Some(&key));
        assert_eq!(lines, Ok(vec!["ok".to_owned()]));
        let script = "/bin/sh -c 'test \"$*\" = \"NONE NONE NONE ORDER\"' sh %f %K %t %I";
        assert_eq!(run(script, Reason::Order, None).0, Ok(vec![]));
        // A token's value is one word, also with blanks in it.
        assert_eq!(run("/usr/bin/test %n = 'a b'", Reason::Order, None).0, Ok(vec![]));
    }

    #[test]
    fn failed_command_ends_the_connection() {
        for (text, said) in [
            ("/bin/false", &["KnownHostsCommand-ORDER /bin/false failed, status 1"][..]),
            ("/bin/echo %z", &["KnownHostsCommand-ORDER unknown key %z"]),
            ("/bin/echo 'x", &["KnownHostsCommand-ORDER \"/bin/echo 'x\" has bad quotes"]),
            (
                "/etc/passwd",
                &[
                    "KnownHostsCommand-ORDER execv \"/etc/passwd\": Permission denied",
                    "KnownHostsCommand-ORDER /etc/passwd failed, status 127",
                ],
            ),
        ] {
            let (result, lines) = run(text, Reason::Order, None);
            assert_eq!(result, Err("KnownHostsCommand failed".to_owned()));
            assert_eq!(lines, said);
        }
    }

    #[test]
    fn missing_command_leaves_the_files() {
        for (text, said) in [
            ("false", "KnownHostsCommand-ORDER path is not absolute"),
            (
                "/no/such/thing",
                "Could not stat KnownHostsCommand-ORDER \"/no/such/thing\": No such file or directory",
            ),
            ("/bin/sh/x", "Could not stat KnownHostsCommand-ORDER \"/bin/sh/x\": Not a directory"),
        ] {
            let (result, lines) = run(text, Reason::Order, None);
            assert_eq!(result, Ok(vec![]));
            assert_eq!(lines, [said]);
        }
    }
}
