//! `-R`: the first of two remote hosts copies to the second by itself. It needs a way there, and credentials.

use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use crate::command_line::Arguments;
use crate::outcome::FAILURE;
use crate::place::Host;
use crate::program::{ended_well, operand, spawn, spelled, ssh};
use crate::show::say;

/// Runs `scp` on `source`, for each path.
pub(crate) fn run(
    arguments: &Arguments,
    source: &Host,
    sources: &[Vec<u8>],
    target: &Host,
    target_path: &[u8],
) -> u8 {
    if target.port.is_some() {
        say("target port not supported with two remote hosts and the -R option");
        return FAILURE;
    }
    let mut status = 0;
    for path in sources {
        let mut command = Command::new(ssh(arguments));
        command.args(["-x", "-oClearAllForwardings=yes", "-n"]).args(&arguments.login.ssh_words);
        if let Some(port) = source.port.or(arguments.login.port) {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &source.user {
            command.args(["-l", user]);
        }
        command.args(["--", &source.name, "scp"]);
        for (flag, wanted) in [
            ("-v", arguments.messages.verbose > 0),
            ("-r", arguments.options.recursive),
            ("-p", arguments.options.preserve),
            ("-d", arguments.needs_directory()),
        ] {
            if wanted {
                command.arg(flag);
            }
        }
        // Words of a command line that the remote shell takes apart again.
        command.arg(std::ffi::OsStr::from_bytes(&operand(path))).arg(spelled(target, target_path));
        let done = spawn(command.stdin(Stdio::null())).is_some_and(|mut child| ended_well(&mut child));
        if !done {
            status = FAILURE;
        }
    }
    status
}
