//! Programs that the server asks about logins: `AuthorizedKeysCommand` and `AuthorizedPrincipalsCommand`.
//!
//! They run as a user of their own, with an environment that holds nothing of ours, and only if no other user
//! than root could have put something else in their place. What they print is bounded, and so is their time.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lh_config::line::split_words;
use lh_config::token::Tokens;
use lh_sys::child::{Ended, Watched};
use lh_sys::ids::Ids;
use lh_sys::spawn::Program;
use lh_sys::users::{self, User};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::strict;

/// `PATH` of these programs: the one of the C library.
const PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// Most that is read of what a program prints: many thousands of keys.
const MOST_OUTPUT: u64 = 16 << 20;

/// Where `LoginGraceTime` does not end it, a program ends here.
const LONGEST: Duration = Duration::from_secs(120);

/// One of these programs.
pub(super) struct External<'a> {
    /// The keyword that names it.
    pub(super) keyword: &'static str,
    /// Its value: path and arguments with tokens.
    pub(super) command: &'a str,
    /// The user that runs it: the value of the keyword for that.
    pub(super) user: Option<&'a str>,
    /// What it is given when it has no arguments.
    pub(super) default_argument: Option<&'a str>,
    pub(super) tokens: &'a Tokens,
    pub(super) deadline: Option<Instant>,
}

impl External<'_> {
    /// The path, for messages about what it printed.
    pub(super) fn path(&self) -> String {
        split_words(self.command, false).ok().and_then(|words| words.into_iter().next()).unwrap_or_default()
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// The line for the log.
    pub(super) fn run(&self) -> Result<String, String> {
        let Self { keyword, command, .. } = self;
        let name = self.user.ok_or_else(|| format!("No user for {keyword} specified, skipping"))?;
        let name =
            self.tokens.only("u").expand(name).map_err(|problem| format!("{keyword}User: {problem}"))?;
        let user = users::by_name(name.as_ref())
            .ok()
            .flatten()
            .ok_or_else(|| format!("{keyword}User \"{name}\" not found"))?;
        let mut words = split_words(command, false)
            .map_err(|_| format!("{keyword} \"{command}\" contains invalid quotes"))?
            .into_iter();
        let path = words.next().ok_or_else(|| format!("{keyword} \"{command}\" resulted in no arguments"))?;
        let mut arguments = Vec::new();
        for word in words {
            let word = self.tokens.expand(&word).map_err(|problem| format!("{keyword}: {problem}"))?;
            arguments.push(word);
        }
        if arguments.is_empty() {
            arguments.extend(self.default_argument.map(str::to_owned));
        }
        if !path.starts_with('/') {
            return Err(format!("{keyword} path is not absolute"));
        }
        strict::check_program(path.as_ref())
            .map_err(|problem| format!("Unsafe {keyword} \"{path}\": {problem}"))?;
        let (output, ended) = self
            .start(&path, arguments, &user)
            .and_then(|(child, output)| self.collect(child, output))
            .map_err(|problem| format!("{keyword} {path}: {problem}"))?;
        match ended {
            Ended::Exit(0) => Ok(output),
            Ended::Exit(status) => Err(format!("{keyword} {path} failed, status {status}")),
            Ended::Signal { number, .. } => Err(format!("{keyword} {path} exited on signal {number}")),
        }
    }

    fn start(&self, path: &str, arguments: Vec<String>, user: &User) -> std::io::Result<(Watched, OwnedFd)> {
        let variables: [(&str, OsString); 4] = [
            ("PATH", PATH.into()),
            ("USER", user.name.clone().into()),
            ("LOGNAME", user.name.clone().into()),
            ("HOME", user.home.clone().into()),
        ];
        let (ours, theirs) = lh_sys::fd::pipe()?;
        let mut program = Program::new(path)
            .env(variables.into_iter().map(|(name, value)| (name.into(), value)).collect())
            .stdio(lh_sys::fd::null()?, theirs, lh_sys::fd::null()?)
            .dir("/")
            .new_session();
        if lh_sys::ids::is_root() {
            program = program.ids(Ids::of(user)?);
        } else if rustix::process::getuid().as_raw() != user.uid {
            return Err(std::io::Error::other("only root can become another user"));
        }
        for argument in arguments {
            program = program.arg(argument);
        }
        Ok((Watched::new(program.spawn()?)?, ours))
    }

    /// Reads until the program closes its output, then waits for its end; neither beyond the deadline.
    fn collect(&self, mut child: Watched, output: OwnedFd) -> std::io::Result<(String, Ended)> {
        let longest = Instant::now() + LONGEST;
        let deadline = self.deadline.map_or(longest, |deadline| deadline.min(longest));
        let mut bytes = Vec::new();
        let read = loop {
            if !wait_until(&output, deadline) {
                break Err(std::io::ErrorKind::TimedOut.into());
            }
            let mut chunk = [0; 16 * 1024];
            match std::fs::File::from(output.try_clone()?).read(&mut chunk) {
                Ok(0) => break Ok(()),
                Ok(n) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if bytes.len() as u64 > MOST_OUTPUT {
                break Err(std::io::Error::other("too much output"));
            }
        };
        let read = read.and_then(|()| {
            if wait_until(&child, deadline) { Ok(()) } else { Err(std::io::ErrorKind::TimedOut.into()) }
        });
        if let Err(problem) = read {
            let _ = child.signal(Signal::KILL, true);
            let _ = child.wait();
            return Err(problem);
        }
        let ended = child.wait()?;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), ended))
    }
}

/// Whether the descriptor became readable (or its other end closed) in time.
fn wait_until(fd: impl std::os::fd::AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
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
    }

    #[test]
    fn arguments_tokens_and_an_empty_environment() {
        assert_eq!(run("/bin/echo %u '%k x' %%", None, 60).unwrap(), "ada AAAA x %\n");
        assert_eq!(run("/bin/echo", Some("ada"), 60).unwrap(), "ada\n");
        let environment = run("/usr/bin/env", None, 60).unwrap();
        let mut names: Vec<_> = environment.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "LOGNAME", "PATH", "USER"]);
        assert!(run("/bin/echo %z", None, 60).unwrap_err().contains("unknown key %z"));
    }

    #[test]
    fn programs_that_fail_hang_or_flood_say_nothing() {
        assert!(run("/bin/false", None, 60).unwrap_err().ends_with("/bin/false failed, status 1"));
        assert!(run("/bin/sleep 100", None, 0).unwrap_err().contains("timed out"));
        assert!(run("/bin/cat /dev/zero", None, 60).unwrap_err().contains("too much output"));
        assert!(run("relative", None, 60).unwrap_err().contains("not absolute"));
        assert!(run("/etc/passwd", None, 60).is_err());
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
