//! The checked command line.

use std::ffi::OsStr;
use std::path::PathBuf;

use lh_cli::flags::Parsed;
use lh_config::ConnectionFacts;
use lh_config::units::parse_time;

use crate::stop::Stop;

/// Task of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    /// Listen.
    #[default]
    Listen,
    /// `-i`: serve the connection on standard input and output.
    Inetd,
    /// `-t`: check configuration and keys.
    Check,
    /// `-T`: check, and print the configuration.
    CheckAndPrint,
    /// `-G`: print the configuration without loading keys.
    Print,
    /// `-V`.
    Version,
}

impl Mode {
    /// Returns whether the program only looks at the configuration.
    pub(crate) const fn is_test(self) -> bool {
        matches!(self, Self::Check | Self::CheckAndPrint | Self::Print)
    }

    fn of(parsed: &Parsed) -> Self {
        let modes = [
            ('V', Self::Version),
            ('G', Self::Print),
            ('T', Self::CheckAndPrint),
            ('t', Self::Check),
            ('i', Self::Inetd),
        ];
        modes.into_iter().find(|(flag, _)| parsed.has(*flag)).map_or(Self::Listen, |(_, mode)| mode)
    }
}

/// The configuration file, `-f`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ConfigFile {
    /// OpenSSH's file, where it exists.
    #[default]
    OfSystem,
    /// `-f none`.
    None,
    Path(PathBuf),
}

/// A valid command line.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) config_file: ConfigFile,
    /// Lines of configuration, in the order of their flags: `-4`, `-6`, `-c`, `-g`, `-h`, `-o`.
    pub(crate) statements: Vec<String>,
    /// `-p`. 0 lets the kernel choose; the log says what it chose.
    pub(crate) ports: Vec<u16>,
    /// `-C`: the connection that `Match` blocks are applied to.
    pub(crate) connection: Option<ConnectionFacts>,
    /// Number of `-d`.
    pub(crate) debug: usize,
    /// `-D`: stay in the foreground.
    pub(crate) foreground: bool,
    /// `-q`: log nothing.
    pub(crate) quiet: bool,
    /// `-e`: log to standard error.
    pub(crate) log_to_stderr: bool,
    /// `-E`.
    pub(crate) log_file: Option<PathBuf>,
}

impl Options {
    /// # Errors
    /// There is an operand, or a flag's value is invalid.
    pub(crate) fn new(parsed: &Parsed) -> Result<Self, Stop> {
        let mode = Mode::of(parsed);
        if mode == Mode::Version {
            return Ok(Self { mode, ..Self::default() });
        }
        if let Some(extra) = parsed.operands.first() {
            return Err(Stop::new(format!("Extra argument {}.", extra.display()), 1));
        }
        let config_file = match parsed.value('f') {
            None => ConfigFile::OfSystem,
            Some(name) if name == "none" => ConfigFile::None,
            Some(name) => ConfigFile::Path(name.into()),
        };
        Ok(Self {
            mode,
            config_file,
            statements: statements(parsed)?,
            ports: parsed.values('p').map(port).collect::<Result<_, _>>()?,
            connection: connection(parsed)?,
            debug: parsed.count('d'),
            foreground: parsed.has('D'),
            quiet: parsed.has('q'),
            log_to_stderr: parsed.has('e'),
            log_file: parsed.value('E').map(PathBuf::from),
        })
    }
}

/// Returns the lines of configuration that flags stand for.
fn statements(parsed: &Parsed) -> Result<Vec<String>, Stop> {
    let mut statements = Vec::new();
    for (flag, value) in &parsed.flags {
        let text = value.as_deref().map(OsStr::to_string_lossy).unwrap_or_default();
        statements.push(match flag {
            '4' => "AddressFamily inet".to_owned(),
            '6' => "AddressFamily inet6".to_owned(),
            'c' => with_path("HostCertificate", &text)?,
            'g' => {
                parse_time(&text).ok_or_else(|| Stop::new("Invalid login grace time.", 1))?;
                format!("LoginGraceTime {text}")
            }
            'h' => with_path("HostKey", &text)?,
            'o' => text.into_owned(),
            _ => continue,
        });
    }
    Ok(statements)
}

/// Returns a line whose value is a path, which is absolute from here on.
fn with_path(keyword: &str, text: &str) -> Result<String, Stop> {
    let path = std::path::absolute(text).map_err(|problem| Stop::new(format!("{text}: {problem}"), 1))?;
    Ok(format!("{keyword} \"{}\"", path.display()))
}

fn port(text: &OsStr) -> Result<u16, Stop> {
    text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| Stop::new("Bad port number.", 1))
}

/// Returns the connection that `-C` describes, if there is one.
fn connection(parsed: &Parsed) -> Result<Option<ConnectionFacts>, Stop> {
    if !parsed.has('C') {
        return Ok(None);
    }
    let mut facts = ConnectionFacts::default();
    for spec in parsed.values('C') {
        facts.parse_spec(&spec.to_string_lossy()).map_err(|problem| Stop::new(problem, 1))?;
    }
    Ok(Some(facts))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use lh_cli::flags::SSHD;

    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        let parsed = SSHD.parse(arguments.iter().map(OsString::from)).map_err(|stop| stop.err)?;
        Options::new(&parsed).map_err(|stop| format!("{} ({})", stop.lines.join("\n"), stop.status))
    }

    #[test]
    fn tests_of_the_configuration_come_before_serving() {
        for (arguments, mode) in [
            (&[][..], Mode::Listen),
            (&["-D", "-e"], Mode::Listen),
            (&["-i"], Mode::Inetd),
            (&["-i", "-t"], Mode::Check),
            (&["-t", "-T"], Mode::CheckAndPrint),
            (&["-T", "-G"], Mode::Print),
            (&["-V", "-p", "x", "operand"], Mode::Version),
        ] {
            assert_eq!(options(arguments).map(|options| options.mode), Ok(mode), "{arguments:?}");
        }
    }

    #[test]
    fn flags_for_keywords_keep_their_order() {
        let options =
            options(&["-oPort 7", "-4", "-g", "2m", "-h", "/k", "-6", "-p", "22", "-p", "0"]).unwrap();
        let statements =
            ["Port 7", "AddressFamily inet", "LoginGraceTime 2m", "HostKey \"/k\"", "AddressFamily inet6"];
        assert_eq!(options.statements, statements);
        assert_eq!(options.ports, [22, 0]);
    }

    #[test]
    fn invalid_values_are_refused() {
        for (arguments, line) in [
            (&["-p", "65536"][..], "Bad port number. (1)"),
            (&["-g", "soon"], "Invalid login grace time. (1)"),
            (&["-p", "x", "operand"], "Extra argument operand. (1)"),
        ] {
            assert_eq!(options(arguments).map(drop), Err(line.to_owned()));
        }
        assert!(options(&["-C", "nothing"]).is_err());
        assert_eq!(options(&["-f", "none"]).unwrap().config_file, ConfigFile::None);
    }
}
