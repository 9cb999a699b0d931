//! Programs that lead to a host: what `-S` names, and what `-R` needs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use crate::command_line::{Arguments, HostAccess};
use crate::place::Host;

/// The program to run on the host.
pub(crate) enum Remote<'a> {
    /// The SFTP subsystem.
    Sftp,
    /// A command for its shell.
    Command(&'a [u8]),
}

/// The command line of the program that connects to `host`, which takes the arguments of ssh(1).
pub(crate) fn to_host(program: &OsStr, arguments: &Arguments, host: &Host, remote: &Remote<'_>) -> Command {
    let mut command = Command::new(program);
    command.args(["-x", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes", "-oRemoteCommand=none"]);
    command.arg("-oRequestTTY=no").args(&arguments.login.ssh_words);
    if let Some(port) = host.port.or(arguments.login.port) {
        command.args(["-p", &port.to_string()]);
    }
    if let Some(user) = &host.user {
        command.args(["-l", user]);
    }
    match remote {
        Remote::Sftp => command.args(["-s", "--", &host.name, "sftp"]),
        Remote::Command(text) => command.args(["--", &host.name]).arg(OsStr::from_bytes(text)),
    };
    if arguments.messages.verbose > 0 {
        let shown = match remote {
            Remote::Sftp => "sftp".to_owned(),
            Remote::Command(text) => lh_transfer::display_name(text),
        };
        let user = host.user.as_deref().unwrap_or("(unspecified)");
        eprintln!(
            "Executing: program {} host {}, user {user}, command {shown}",
            program.display(),
            host.name
        );
    }
    command
}

/// The program for `-R`: what `-S` says, or the `ssh` that belongs to this program.
pub(crate) fn ssh(arguments: &Arguments) -> OsString {
    if let HostAccess::Program(program) = &arguments.via {
        return program.clone();
    }
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("lhssh"));
    beside.filter(|path: &PathBuf| path.is_file()).map_or_else(|| "ssh".into(), PathBuf::into_os_string)
}

/// Starts it; prints why it cannot, in the words of OpenSSH, whose child process does so.
pub(crate) fn spawn(command: &mut Command) -> Option<Child> {
    match lh_sys::spawn::spawn_like_execvp(command) {
        Ok(child) => Some(child),
        Err(error) => {
            let why = lh_sys::errno_text(&error);
            eprintln!("{}: {why}", command.get_program().display());
            None
        }
    }
}

/// Waits for its end; whether it was a good one.
pub(crate) fn ended_well(child: &mut Child) -> bool {
    child.wait().is_ok_and(|status: ExitStatus| status.success())
}

/// The command of the remote `scp`: `-t` takes files, `-f` gives them. The path is for the remote shell to
/// understand.
pub(crate) fn scp_command(arguments: &Arguments, mode: &str, path: &[u8], needs_directory: bool) -> Vec<u8> {
    let mut command = b"scp".to_vec();
    let options = &arguments.options;
    for (flag, wanted) in [
        (&b" -v"[..], arguments.messages.verbose > 0),
        (b" -r", options.recursive),
        (b" -p", options.preserve),
        (b" -d", needs_directory),
    ] {
        if wanted {
            command.extend_from_slice(flag);
        }
    }
    command.push(b' ');
    command.extend_from_slice(mode.as_bytes());
    command.push(b' ');
    command.extend_from_slice(&operand(path));
    command
}

/// A path as it stands in a command: not empty, and no option.
pub(crate) fn operand(path: &[u8]) -> Vec<u8> {
    match path {
        [] => b".".to_vec(),
        [b'-', ..] => [b"-- ", path].concat(),
        path => path.to_vec(),
    }
}

/// `[user@]host:path` for another `scp` to read.
pub(crate) fn spelled(host: &Host, path: &[u8]) -> OsString {
    host.spelled(path)
}
