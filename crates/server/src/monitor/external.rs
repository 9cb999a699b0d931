//! Programs that the server runs for a login: `AuthorizedKeysCommand` and `AuthorizedPrincipalsCommand`.
//!
//! They run as their configured user, with an environment of their own, and only if no other user than root
//! could have replaced them.

use std::ffi::OsString;
use std::time::{Duration, Instant};
use std::{fmt, io};

use lh_config::ExpandError;
use lh_config::line::split_words;
use lh_config::token::Tokens;
use lh_sys::child::Ended;
use lh_sys::ids::Ids;
use lh_sys::users::{self, User};

use crate::external_program::{End, ExternalProgram, Reads};
use crate::strict::{self, ProgramError};

/// `PATH` of these programs, as in Debian's sshd: that of ordinary users' sessions.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/games";

/// Largest output of a program, bytes: many thousands of keys.
const MOST_OUTPUT: usize = 16 << 20;

/// Longest run time of a program; `LoginGraceTime` may end it earlier.
const LONGEST: Duration = Duration::from_secs(120);

/// One of these programs, as the configuration names it.
pub(super) struct External<'a> {
    /// Keyword of the program, for messages.
    pub(super) keyword: &'static str,
    /// Value of the keyword: path and arguments, with tokens.
    pub(super) command: &'a str,
    /// User that runs the program: the value of the corresponding `…User` keyword.
    pub(super) user: Option<&'a str>,
    /// Argument of a command that has none.
    pub(super) default_argument: Option<&'a str>,
    pub(super) tokens: &'a Tokens,
    pub(super) deadline: Option<Instant>,
}

impl External<'_> {
    /// Returns the program's path, for messages about its output.
    pub(super) fn path(&self) -> String {
        split_words(self.command, false).ok().and_then(|words| words.into_iter().next()).unwrap_or_default()
    }

    /// Runs the program and returns its output.
    ///
    /// # Errors
    /// The program cannot be run, or it has failed.
    pub(super) fn run(&self) -> Result<String, ExternalError> {
        self.run_or_fail().map_err(|fault| ExternalError {
            keyword: self.keyword,
            command: self.command.to_owned(),
            path: self.path(),
            fault,
        })
    }

    fn run_or_fail(&self) -> Result<String, Fault> {
        let name = self.tokens.only("u").expand(self.user.ok_or(Fault::NoUser)?).map_err(Fault::UserToken)?;
        let found = users::by_name(name.as_ref()).ok().flatten();
        let user = found.ok_or(Fault::UnknownUser(name))?;
        let mut words = split_words(self.command, false).map_err(|_| Fault::Quotes)?.into_iter();
        let path = words.next().ok_or(Fault::Empty)?;
        let mut arguments = Vec::new();
        for word in words {
            arguments.push(self.tokens.expand(&word).map_err(Fault::Token)?);
        }
        if arguments.is_empty() {
            arguments.extend(self.default_argument.map(str::to_owned));
        }
        if !path.starts_with('/') {
            return Err(Fault::Relative);
        }
        strict::check_program(path.as_ref()).map_err(Fault::Unsafe)?;
        let longest = Instant::now() + LONGEST;
        let program = ExternalProgram {
            path: &path,
            arguments: arguments.into_iter().map(OsString::from).collect(),
            environment: environment(&user),
            ids: ids(&user).map_err(Fault::Start)?,
            reads: Reads::Output { most: MOST_OUTPUT },
            deadline: Some(self.deadline.map_or(longest, |deadline| deadline.min(longest))),
            stop: None,
        };
        let (output, end) = program.run().map_err(Fault::Start)?;
        match end {
            End::Ended(Ended::Exit(0)) => Ok(String::from_utf8_lossy(&output).into_owned()),
            End::Ended(Ended::Exit(status)) => Err(Fault::Status(status)),
            End::Ended(Ended::Signal { number, .. }) => Err(Fault::Signal(number)),
            End::TooMuch => Err(Fault::TooMuch),
            End::TooLong | End::Stopped => Err(Fault::TooLong),
        }
    }
}

/// Why a program gave no answer. `Display` is the line for the log.
#[derive(Debug)]
pub(super) struct ExternalError {
    keyword: &'static str,
    command: String,
    /// Path of the program: the first word of the command.
    path: String,
    fault: Fault,
}

/// The error: in the configuration, in what it names, or in the program's end.
#[derive(Debug)]
enum Fault {
    NoUser,
    UserToken(ExpandError),
    UnknownUser(String),
    Quotes,
    Empty,
    Token(ExpandError),
    Relative,
    Unsafe(ProgramError),
    Start(io::Error),
    Status(u8),
    Signal(i32),
    TooMuch,
    TooLong,
}

impl fmt::Display for ExternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keyword, command, path, fault } = self;
        match fault {
            Fault::NoUser => write!(f, "No user for {keyword} specified, skipping"),
            Fault::UserToken(problem) => write!(f, "{keyword}User: {problem}"),
            Fault::UnknownUser(name) => write!(f, "{keyword}User \"{name}\" not found"),
            Fault::Quotes => write!(f, "{keyword} \"{command}\" contains invalid quotes"),
            Fault::Empty => write!(f, "{keyword} \"{command}\" resulted in no arguments"),
            Fault::Token(problem) => write!(f, "{keyword}: {problem}"),
            Fault::Relative => write!(f, "{keyword} path is not absolute"),
            Fault::Unsafe(problem) => write!(f, "Unsafe {keyword} \"{path}\": {problem}"),
            Fault::Start(problem) => write!(f, "{keyword} {path}: {}", lh_sys::errno_text(problem)),
            Fault::Status(status) => write!(f, "{keyword} {path} failed, status {status}"),
            Fault::Signal(number) => write!(f, "{keyword} {path} exited on signal {number}"),
            Fault::TooMuch => write!(f, "{keyword} {path}: too much output"),
            Fault::TooLong => write!(f, "{keyword} {path}: timed out"),
        }
    }
}

impl std::error::Error for ExternalError {}

fn environment(user: &User) -> Vec<(OsString, OsString)> {
    let variables: [(&str, OsString); 4] = [
        ("PATH", PATH.into()),
        ("USER", user.name.clone().into()),
        ("LOGNAME", user.name.clone().into()),
        ("HOME", user.home.clone().into()),
    ];
    // As with sshd: programs that print names of users need to know the encoding.
    let language = std::env::var_os("LANG").map(|value| ("LANG", value));
    variables.into_iter().chain(language).map(|(name, value)| (name.into(), value)).collect()
}

/// Returns the ids that the program runs with; `None` where this process has them already.
fn ids(user: &User) -> std::io::Result<Option<Ids>> {
    if lh_sys::ids::is_root() {
        return Ids::of(user).map(Some);
    }
    if rustix::process::getuid().as_raw() != user.uid {
        return Err(std::io::Error::other("only root can become another user"));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, default_argument: Option<&str>, seconds: u64) -> Result<String, String> {
        let tokens = Tokens::new().with('u', "ada").with('k', "AAAA");
        let me = users::current().unwrap().unwrap().name;
        External {
            keyword: "AuthorizedKeysCommand",
            command,
            user: Some(&me),
            default_argument,
            tokens: &tokens,
            deadline: Some(Instant::now() + Duration::from_secs(seconds)),
        }
        .run()
        .map_err(|problem| problem.to_string())
    }

    #[test]
    fn arguments_tokens_and_an_empty_environment() {
        assert_eq!(run("/bin/echo %u '%k x' %%", None, 60).unwrap(), "ada AAAA x %\n");
        assert_eq!(run("/bin/echo", Some("ada"), 60).unwrap(), "ada\n");
        let environment = run("/usr/bin/env", None, 60).unwrap();
        let mut names: Vec<_> = environment.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        let language = std::env::var_os("LANG").map(|_| "LANG");
        let expected: Vec<_> =
            ["HOME"].into_iter().chain(language).chain(["LOGNAME", "PATH", "USER"]).collect();
        assert_eq!(names, expected);
        assert!(run("/bin/echo %z", None, 60).unwrap_err().contains("unknown key %z"));
    }

    #[test]
    fn programs_that_fail_hang_or_flood_say_nothing() {
        assert!(run("/bin/false", None, 60).unwrap_err().ends_with("/bin/false failed, status 1"));
        assert!(run("/bin/sleep 100", None, 0).unwrap_err().contains("timed out"));
        assert!(run("/bin/cat /dev/zero", None, 60).unwrap_err().contains("too much output"));
        assert!(run("relative", None, 60).unwrap_err().contains("not absolute"));
        assert!(run("/etc/passwd", None, 60).is_err());
        let keyword = "AuthorizedKeysCommand";
        let unended = run("/bin/echo 'x", None, 60).unwrap_err();
        assert_eq!(unended, format!("{keyword} \"/bin/echo 'x\" contains invalid quotes"));
        let missing = run("/no/such", None, 60).unwrap_err();
        assert_eq!(missing, format!("Unsafe {keyword} \"/no/such\": No such file or directory"));
    }

    #[test]
    fn a_program_somebody_else_may_change_is_not_run() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::write(&program, "#!/bin/sh\ntouch \"$0.ran\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o777)).unwrap();
        let text = run(&program.display().to_string(), None, 60).unwrap_err();
        assert!(text.starts_with("Unsafe AuthorizedKeysCommand") && text.contains("bad ownership"), "{text}");
        assert!(!directory.path().join("program.ran").exists());
    }
}
