//! SIGHUP: executes the program again in this process, with its arguments; sessions go on.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use lh_sys::spawn::Program;

use super::options::{ListenerOptions, Restart};

/// Environment variable with the process id. It tells the restarted program that it already runs in the
/// background, under the id that init scripts and pid files know.
const RESTARTED: &str = "LHSSHD_RESTARTED";

/// Returns whether this process was a server before and has executed its program again.
pub fn is_restarted() -> bool {
    std::env::var(RESTARTED).is_ok_and(|pid| pid == std::process::id().to_string())
}

/// Largest part of the check's output that is logged, bytes.
const LONGEST: usize = 2048;
/// Parts of the check's lines that are notes.
const NOTES: [&str; 3] = [": Unsupported option ", ": Deprecated option ", "' already defined."];

/// Returns the program's file. An upgrade may have replaced it; a restart then runs the new one. Where it is
/// missing, the running program is executed again.
fn program(restart: &Restart) -> PathBuf {
    if restart.program.exists() { restart.program.clone() } else { PathBuf::from("/proc/self/exe") }
}

/// Returns the directory to run the program in: the one it was started in, where it still exists.
fn directory(restart: &Restart) -> Option<&PathBuf> {
    restart.directory.as_ref().filter(|directory| directory.is_dir())
}

/// Returns why the program could not restart with its current files; `None` when it could. The program checks
/// that itself (`-t`).
pub(super) fn problem(options: &ListenerOptions) -> Option<String> {
    let restart = options.restart.as_ref()?;
    let arguments = &restart.arguments;
    let check = || -> io::Result<Option<String>> {
        let (output, theirs) = lh_sys::fd::pipe()?;
        let [stdin, stdout] = [lh_sys::fd::null()?, lh_sys::fd::null()?];
        let mut check = Program::new(program(restart)).stdio(stdin, stdout, theirs).arg("-t");
        if let Some(directory) = directory(restart) {
            check = check.dir(directory);
        }
        // A multi-call binary chooses the program by argument 0.
        if let Some(name) = arguments.first() {
            check = check.arg0(name);
        }
        // Drop the log file's option: the check's errors must go to our log.
        let mut skip = false;
        for argument in arguments.iter().skip(1) {
            if std::mem::take(&mut skip) {
                continue;
            }
            match argument.to_str() {
                Some("-E") => skip = true,
                Some(text) if text.starts_with("-E") => {}
                _ => check = check.arg(argument),
            }
        }
        let mut child = check.spawn()?;
        let text = io::read_to_string(std::fs::File::from(output))?;
        if child.wait()?.success() {
            return Ok(None);
        }
        // Notes are no reason, and were already logged at the first start.
        let is_note = |line: &str| NOTES.iter().any(|note| line.contains(note));
        let is_problem = |line: &&str| !line.is_empty() && !is_note(line);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(is_problem).collect();
        Ok(Some(lines.join("; ").chars().take(LONGEST).collect()))
    };
    // If the check cannot run at all, the restart itself shows whether it works.
    check().ok().flatten()
}

/// Executes the program again with additional environment variables. Returns only on failure.
pub(super) fn restart(options: &ListenerOptions, variables: Vec<(&'static str, OsString)>) -> io::Error {
    let Some(restart) = &options.restart else {
        return io::Error::other("arguments are not known");
    };
    let mut command = Command::new(program(restart));
    command.envs(variables);
    command.env(RESTARTED, std::process::id().to_string());
    if let Some(directory) = directory(restart) {
        command.current_dir(directory);
    }
    if let Some((name, rest)) = restart.arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command.exec()
}
