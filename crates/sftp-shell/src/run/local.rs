//! Commands that concern this host alone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use lh_cli::progress::printable;
use lh_sys::child::{Ended, Watched};
use lh_sys::errno_text;
use lh_sys::spawn::Program;

use crate::shell::{Failed, Outcome};
use crate::{print, say};

pub(super) fn print_directory() -> Outcome {
    match std::env::current_dir() {
        Ok(path) => {
            print(&format!("Local working directory: {}", printable(path.as_os_str().as_bytes())));
            Ok(())
        }
        Err(error) => {
            say(&format!("Couldn't get local cwd: {}", errno_text(&error)));
            Err(Failed::Command)
        }
    }
}

/// `lcd`; without a path home.
pub(super) fn change_directory(path: Option<Vec<u8>>) -> Outcome {
    let path = match path {
        Some(path) if !path.is_empty() => OsString::from_vec(path),
        _ => match lh_sys::users::home() {
            Some(home) => home.into_os_string(),
            None => {
                say("Couldn't find your home directory");
                return Err(Failed::Command);
            }
        },
    };
    std::env::set_current_dir(Path::new(&path)).map_err(|error| {
        let path = printable(path.as_bytes());
        say(&format!("Couldn't change local directory to \"{path}\": {}", errno_text(&error)));
        Failed::Command
    })
}

/// `parents`: with those above it, and it may be there (`lmkdir -p`).
pub(super) fn make_directory(path: &[u8], parents: bool) -> Outcome {
    let made = std::fs::DirBuilder::new().recursive(parents).create(OsStr::from_bytes(path));
    made.map_err(|error| {
        let path = printable(path);
        say(&format!("Couldn't create local directory \"{path}\": {}", errno_text(&error)));
        Failed::Command
    })
}

/// `lls`: ls(1), with arguments as a shell understands them.
pub(super) fn list(arguments: &OsStr) -> Outcome {
    let mut command = OsString::from("ls ");
    command.push(arguments);
    run_shell(&command)
}

/// `!`: the user's shell, or one command in it. Its exit status is printed and is no failure.
pub(super) fn run_shell(command: &OsStr) -> Outcome {
    let shell =
        std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let mut program = Program::new(&shell);
    if !command.is_empty() {
        program = program.arg("-c").arg(command);
    }
    let ended = standard_descriptors()
        .and_then(|[stdin, stdout, stderr]| program.stdio(stdin, stdout, stderr).spawn())
        .and_then(Watched::new)
        .and_then(|mut child| child.wait());
    match ended {
        Ok(Ended::Exit(0)) => {}
        Ok(Ended::Exit(status)) => say(&format!("Shell exited with status {status}")),
        Ok(Ended::Signal { .. }) => say("Shell exited abnormally"),
        Err(error) => {
            say(&format!("Couldn't execute \"{}\": {}", printable(shell.as_bytes()), errno_text(&error)));
            return Err(Failed::Command);
        }
    }
    Ok(())
}

fn standard_descriptors() -> std::io::Result<[std::os::fd::OwnedFd; 3]> {
    let copy = |fd: std::os::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    Ok([copy(rustix::stdio::stdin())?, copy(rustix::stdio::stdout())?, copy(rustix::stdio::stderr())?])
}
