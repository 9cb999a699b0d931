//! SIGHUP: the program is started again in the same process, with its arguments; sessions go on.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use lh_sys::spawn::Program;

use super::options::ListenerOptions;

/// Tells the program, started again in its own process, that it is in the background already: the process id, which init scripts
/// and pid files know.
const RESTARTED: &str = "LHSSHD_RESTARTED";

/// Whether this process was a server before, which has started its program again.
pub fn is_restarted() -> bool {
    std::env::var(RESTARTED).is_ok_and(|pid| pid == std::process::id().to_string())
}

/// Longest text of the check that is logged.
const LONGEST: usize = 2048;

/// The program's file may have been replaced by a newer one, which is the point of restarting; where it is gone, the one that
/// runs goes on.
fn program(options: &ListenerOptions) -> Option<(PathBuf, &[OsString])> {
    let (program, arguments) = options.restart.as_ref()?;
    let program = if program.exists() { program.clone() } else { PathBuf::from("/proc/self/exe") };
    Some((program, arguments))
}

/// Why the program would not start again with what its files say now; `None` when it would. It checks that itself (`-t`).
pub(super) fn problem(options: &ListenerOptions) -> Option<String> {
    let (path, arguments) = program(options)?;
    let check = || -> io::Result<Option<String>> {
        let (output, theirs) = lh_sys::fd::pipe()?;
        let mut check = Program::new(path).stdio(lh_sys::fd::null()?, lh_sys::fd::null()?, theirs).arg("-t");
        // Where one file is several programs, the name chooses.
        if let Some(name) = arguments.first() {
            check = check.arg0(name);
        }
        // Only the log file's name must not be looked at: what is wrong is for us to log.
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
        // What is only noted has been read when the server was started.
        let is_problem = |line: &&str| !line.is_empty() && !line.contains(": Unsupported option ");
        let lines: Vec<&str> = text.lines().map(str::trim).filter(is_problem).collect();
        Ok(Some(lines.join("; ").chars().take(LONGEST).collect()))
    };
    // What cannot even be asked is found out by trying, as it always was.
    check().ok().flatten()
}

/// Starts the program again, with these variables as well. Returns only when that fails.
pub(super) fn restart(options: &ListenerOptions, variables: Vec<(&'static str, OsString)>) -> io::Error {
    let Some((path, arguments)) = program(options) else {
        return io::Error::other("arguments are not known");
    };
    let mut command = Command::new(path);
    command.envs(variables);
    command.env(RESTARTED, std::process::id().to_string());
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command.exec()
}
