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
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| b"~".to_vec());
    let path = expand_tilde(path)?;
    std::env::set_current_dir(Path::new(&path)).map_err(|error| {
        let path = printable(path.as_bytes());
        say(&format!("Couldn't change local directory to \"{path}\": {}", errno_text(&error)));
        Failed::Command
    })
}

/// Replaces a leading `~` or `~user` by the home directory, as sftp does for `lcd` alone. For a name that
/// begins with `~`, the user writes `./~name`.
fn expand_tilde(path: Vec<u8>) -> Result<OsString, Failed> {
    let Some(rest) = path.strip_prefix(b"~") else { return Ok(OsString::from_vec(path)) };
    let (user, below) = rest.split_at(rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len()));
    let home = if user.is_empty() {
        lh_sys::users::home().ok_or_else(|| "Couldn't find your home directory".to_owned())
    } else {
        let account = lh_sys::users::by_name(OsStr::from_bytes(user)).ok().flatten();
        account.map(|account| account.home).ok_or_else(|| format!("No such user {}", printable(user)))
    };
    let home = home.map_err(|text| {
        say(&text);
        Failed::Command
    })?;
    let mut path = home.into_os_string();
    // A lone `~` gets a slash, which sftp's messages show.
    path.push(OsStr::from_bytes(if below.is_empty() { b"/" } else { below }));
    Ok(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_tildes_stand_for_homes() {
        let expanded = |path: &str| expand_tilde(path.into()).ok().map(OsString::into_vec);
        let home = lh_sys::users::home().unwrap().into_os_string().into_vec();
        assert_eq!(expanded("~"), Some([&home[..], b"/"].concat()));
        assert_eq!(expanded("~/a/~b"), Some([&home[..], b"/a/~b"].concat()));
        assert_eq!(expanded("~root/x").as_deref(), Some(&b"/root/x"[..]));
        assert_eq!(expanded("./~root").as_deref(), Some(&b"./~root"[..]));
        assert_eq!(expanded("~no-such-user/x"), None);
    }
}
