//! `UploadHook`: an administrator's program that checks each uploaded file before it gets its final name.
//!
//! It is started directly, not by a shell, because the client chooses file names. A client can set nothing in
//! its environment. The thread that serves the file waits for the hook. So with a hook, the session's loop
//! serves no requests itself, unless no thread can be started.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lh_config::ExpandError;
use lh_config::line::split_words;
use lh_config::token::Tokens;
use lh_crypto::{Random as _, SystemRandom};
use lh_sftp::server::{Upload, UploadCheck, Verdict};
use lh_sys::child::Ended;

use super::records::{Notes, recorded_path};
use crate::external_program::{End, ExternalProgram, Reads};
use crate::hosts::endpoints;
use crate::log::Level;
use crate::session::shared::Shared;
use crate::strict::{self, ProgramError};

/// `PATH` of hooks: no directory that the user can write.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Largest part of a hook's standard error that is kept, bytes.
const MOST_ERRORS: usize = 16 * 1024;

/// Largest length of the line for the client, characters.
const LONGEST: usize = 200;

/// Why the configured command cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum CommandError {
    #[error("no program")]
    Empty,
    #[error("\"{0}\" contains invalid quotes")]
    Quotes(String),
    #[error(transparent)]
    Token(#[from] ExpandError),
    #[error("\"{0}\" has no absolute path")]
    Relative(String),
}

/// Why a hook has made no decision, for the log.
#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("{program}: {problem}")]
    Unsafe { program: String, problem: ProgramError },
    #[error("{program}: {}", lh_sys::errno_text(.problem))]
    Start { program: String, problem: io::Error },
    #[error("{program} was ended by signal {number}")]
    Signal { program: String, number: i32 },
    #[error("{0} took longer than UploadHookTimeout")]
    TooLong(String),
    #[error("{0} was stopped: the session has ended")]
    Stopped(String),
}

/// The upload hook of a session. See the module documentation.
pub(super) struct UploadHook {
    /// Program and arguments, or why it cannot run: then every upload is refused.
    command: Result<Vec<String>, CommandError>,
    /// Environment variables that are equal for all files.
    environment: Vec<(OsString, OsString)>,
    user: String,
    /// The directory that relative paths start from.
    start: PathBuf,
    limit: Option<Duration>,
    stop: Arc<AtomicBool>,
    notes: Notes,
}

impl UploadHook {
    /// Returns the hook of a session, where one is configured.
    pub(super) fn new(shared: &Shared, start: PathBuf, notes: Notes) -> Option<Self> {
        let (user, settings) = (&shared.user, &shared.settings);
        let command = settings.upload_hook.0.as_deref()?;
        let tokens = Tokens::new()
            .with('u', user.name.as_str())
            .with('U', user.uid.to_string())
            .with('h', user.home.to_string_lossy());
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), PATH.into()),
            ("USER".into(), user.name.clone().into()),
            ("LOGNAME".into(), user.name.clone().into()),
            ("HOME".into(), user.home.clone().into()),
            ("SHELL".into(), "/bin/sh".into()),
        ];
        if let Some((peer, local)) = shared.client.endpoints.get() {
            environment.push(("SSH_CONNECTION".into(), endpoints(peer, local).into()));
        }
        Some(Self {
            command: words(command, &tokens),
            environment,
            user: user.name.clone(),
            start,
            limit: settings.upload_hook_timeout.value.duration(),
            stop: Arc::default(),
            notes,
        })
    }

    /// Returns a flag that stops the hook. When it is set, a running hook is killed, and no further one is
    /// started.
    pub(super) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Runs the hook for a file. Returns whether it accepts the file, and the first line of its standard
    /// error.
    ///
    /// # Errors
    /// The hook has made no decision.
    fn run(&self, file: &Path, path: &Path) -> Result<(bool, String), HookError> {
        let words = self.command.as_ref().map_err(CommandError::clone)?;
        let [program, arguments @ ..] = &words[..] else { return Err(CommandError::Empty.into()) };
        let at = || program.clone();
        strict::check_program(program.as_ref())
            .map_err(|problem| HookError::Unsafe { program: at(), problem })?;
        let mut environment = self.environment.clone();
        environment.push(("LONGHAUL_UPLOAD_FILE".into(), file.into()));
        environment.push(("LONGHAUL_UPLOAD_PATH".into(), path.into()));
        let arguments = arguments.iter().map(OsString::from).chain([file.into()]).collect();
        let hook = ExternalProgram {
            path: program,
            arguments,
            environment,
            ids: None,
            reads: Reads::Errors { kept: MOST_ERRORS },
            deadline: self.limit.and_then(|limit| Instant::now().checked_add(limit)),
            stop: Some(&self.stop),
        };
        let (said, end) = hook.run().map_err(|problem| HookError::Start { program: at(), problem })?;
        let first = self.note_errors(&said);
        match end {
            End::Ended(Ended::Exit(status)) => Ok((status == 0, first)),
            End::Ended(Ended::Signal { number, .. }) => Err(HookError::Signal { program: at(), number }),
            End::TooLong | End::TooMuch => Err(HookError::TooLong(at())),
            End::Stopped => Err(HookError::Stopped(at())),
        }
    }

    /// Logs the hook's standard error; returns its first line, made safe for the client.
    fn note_errors(&self, said: &[u8]) -> String {
        let text = String::from_utf8_lossy(said);
        let lines: Vec<String> = text.lines().map(visible).filter(|line| !line.is_empty()).collect();
        for line in &lines {
            self.notes.add(Level::Verbose, format!("UploadHook: {line}"));
        }
        lines.into_iter().next().unwrap_or_default()
    }
}

impl UploadCheck for UploadHook {
    fn check(&mut self, upload: &Upload<'_>) -> Verdict {
        let [file, path] = [upload.file, upload.path].map(|path| recorded_path(&self.start, path));
        let (shown, user) = (path.display(), &self.user);
        match self.run(&file, &path) {
            Ok((true, _)) => {
                self.notes
                    .add(Level::Verbose, format!("upload of \"{shown}\" by {user} accepted by UploadHook"));
                Verdict::Accepted
            }
            Ok((false, why)) => {
                let line = format!("upload of \"{shown}\" by {user} rejected by UploadHook: {why}");
                self.notes.add(Level::Info, line);
                let colon = if why.is_empty() { "" } else { ": " };
                Verdict::Rejected(format!("upload rejected{colon}{why}"))
            }
            Err(problem) => {
                let line = format!("UploadHook: {problem}; upload of \"{shown}\" by {user} refused");
                self.notes.add(Level::Error, line);
                // The client is not told the reason, which is in the log.
                Verdict::Undecided("upload refused: it could not be checked".to_owned())
            }
        }
    }

    fn random(&mut self) -> u128 {
        let mut bytes = [0; 16];
        SystemRandom.fill(&mut bytes);
        u128::from_ne_bytes(bytes)
    }
}

/// Splits the command into program and arguments.
fn words(command: &str, tokens: &Tokens) -> Result<Vec<String>, CommandError> {
    let words = split_words(command, false).map_err(|_| CommandError::Quotes(command.to_owned()))?;
    let words: Result<Vec<String>, _> = words.iter().map(|word| tokens.expand(word)).collect();
    let words = words?;
    match words.first() {
        Some(program) if program.starts_with('/') => Ok(words),
        _ => Err(CommandError::Relative(command.to_owned())),
    }
}

/// Returns the line without control characters, and truncated.
fn visible(line: &str) -> String {
    let shown = |c: char| if lh_wire::is_hidden(c) { '?' } else { c };
    line.trim().chars().take(LONGEST).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;

    /// Runs `/bin/sh SCRIPT FILE` as the hook. Returns the verdict and the log lines.
    fn checked(script: &str, name: &str, change: impl FnOnce(&mut UploadHook)) -> (Verdict, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("script"), script).unwrap();
        std::fs::write(dir.path().join(name), "text").unwrap();
        let (notes, taken) = Notes::for_test();
        let command = format!("/bin/sh {}/script %u", dir.path().display());
        let mut hook = UploadHook {
            command: words(&command, &Tokens::new().with('u', "ada")),
            environment: vec![("PATH".into(), PATH.into())],
            user: "ada".to_owned(),
            start: dir.path().to_owned(),
            limit: Some(Duration::from_secs(600)),
            stop: Arc::default(),
            notes,
        };
        change(&mut hook);
        let verdict = hook.check(&Upload { file: name.as_bytes(), path: b"d/./final name" });
        let dir = dir.path().display().to_string();
        (verdict, taken().into_iter().map(|line| line.replace(&dir, "DIR")).collect())
    }

    fn undecided() -> Verdict {
        Verdict::Undecided("upload refused: it could not be checked".to_owned())
    }

    #[test]
    fn status_decides_and_the_first_line_is_told() {
        let (verdict, lines) = checked("exit 0", "x", |_| {});
        assert_eq!(verdict, Verdict::Accepted);
        assert_eq!(lines, ["upload of \"DIR/d/final name\" by ada accepted by UploadHook"]);
        let script = "echo no >&1; printf '\\n \\033[1mfound\\033 it \\nmore\\n' >&2; exit 1";
        let (verdict, lines) = checked(script, "x", |_| {});
        assert_eq!(verdict, Verdict::Rejected("upload rejected: ?[1mfound? it".to_owned()));
        let rejected = "upload of \"DIR/d/final name\" by ada rejected by UploadHook: ?[1mfound? it";
        assert_eq!(lines, ["UploadHook: ?[1mfound? it", "UploadHook: more", rejected]);
        let (verdict, _) = checked("exit 3", "x", |_| {});
        assert_eq!(verdict, Verdict::Rejected("upload rejected".to_owned()));
        // A flood of output neither blocks the hook nor reaches the client.
        let (verdict, lines) = checked("yes 0123456789 | head -c 1000000 >&2; exit 1", "x", |_| {});
        assert_eq!(verdict, Verdict::Rejected("upload rejected: 0123456789".to_owned()));
        assert!(lines.len() < MOST_ERRORS / 10, "{}", lines.len());
    }

    #[test]
    fn names_reach_the_hook_as_they_are() {
        let name = "a $(touch ran) ;`id` '\"\\ \n-x";
        let script = "test $# = 2 -a \"$1\" = ada || exit 1; test \"$2\" = \"$LONGHAUL_UPLOAD_FILE\" || exit 2\n\
            test \"$(cat \"$2\")\" = text || exit 3; test \"$(pwd)\" = / || exit 4\n\
            case \"$LONGHAUL_UPLOAD_PATH\" in */d/'final name') ;; *) exit 5;; esac\n\
            test -z \"$HOME$CARGO\" || exit 6; test ! -e \"${2%/*}/ran\" || exit 7";
        assert_eq!(checked(script, name, |_| {}).0, Verdict::Accepted);
    }

    #[test]
    fn without_an_answer_nothing_is_accepted() {
        let refused = |change: fn(&mut UploadHook), script: &str, reason: &str| {
            let (verdict, lines) = checked(script, "x", change);
            assert_eq!(verdict, undecided(), "{reason}");
            let [.., line] = &lines[..] else { panic!("{reason}: no line") };
            assert!(line.contains(reason) && line.ends_with("by ada refused"), "{line}");
        };
        let command = |text: &str| words(text, &Tokens::new()).map_err(|problem| problem.to_string());
        refused(|_| {}, "kill -KILL $$", "ended by signal 9");
        refused(|hook| hook.limit = Some(Duration::from_millis(1)), "sleep 1000", "UploadHookTimeout");
        refused(|hook| hook.stop.store(true, Ordering::Relaxed), "sleep 1000", "the session has ended");
        assert_eq!(command("bin/sh"), Err("\"bin/sh\" has no absolute path".to_owned()));
        assert!(command("/bin/sh %z").unwrap_err().contains("%z"));
        assert!(command("/bin/sh 'x").unwrap_err().contains("quotes"));
        refused(|hook| hook.command = words("/bin/sh %z", &Tokens::new()), "", "%z");
        refused(|hook| hook.command = words("/no/such", &Tokens::new()), "", "/no/such: No such file");
        refused(|hook| hook.command = words("/etc/passwd", &Tokens::new()), "", "Permission denied");
    }

    #[test]
    fn program_that_others_may_change_is_not_run() {
        let change = |hook: &mut UploadHook| {
            let program = hook.start.join("script");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(&program, mode).unwrap();
            hook.command = Ok(vec![program.display().to_string()]);
        };
        let (verdict, lines) = checked("#!/bin/sh\nexit 0", "x", change);
        assert_eq!(verdict, undecided());
        assert!(lines[0].contains("bad ownership or modes"), "{lines:?}");
    }

    /// A background process keeps the pipe open: it is not waited for, but killed with the hook's process
    /// group.
    #[test]
    fn background_processes_of_a_hook_are_killed() {
        let (mut ours, theirs) = std::io::pipe().unwrap();
        let inherited = theirs.as_raw_fd();
        let script =
            format!("exec 3>/proc/{}/fd/{inherited} || exit 1; sleep 1000 & exit 0", std::process::id());
        let (verdict, _) = checked(&script, "x", |hook| hook.limit = None);
        assert_eq!(verdict, Verdict::Accepted);
        drop(theirs);
        // This ends when the background process has ended.
        assert_eq!(std::io::copy(&mut ours, &mut std::io::sink()).unwrap(), 0);
    }
}
