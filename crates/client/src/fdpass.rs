//! `ProxyUseFdpass`: the proxy command connects, passes the socket back over its standard output, and exits.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use lh_sys::spawn::Program;

use crate::commands::{Commands, locked};
use crate::options::user_shell;

/// Time between two looks for the end of a command.
const LOOK: Duration = Duration::from_millis(5);

/// Runs `command` in the user's shell and returns the connected socket it passes. It is one of
/// `commands`, if these are given.
///
/// # Errors
/// The command cannot be started, passes no descriptor, or fails.
pub(crate) fn dial(command: &str, commands: Option<&Commands>) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    if let Some(commands) = commands {
        let mut shell = Command::new(user_shell());
        shell.arg("-c").arg(format!("exec {command}")).stdin(theirs.try_clone()?).stdout(theirs);
        let process = commands.spawn(&mut shell)?;
        // Its copies of the descriptor would hide the end of the command.
        drop(shell);
        let socket = lh_sys::pass::wait_for_fd(&ours);
        drop(ours);
        // Not locked meanwhile, so that it can be hung up.
        while !locked(&process).has_ended() {
            std::thread::sleep(LOOK);
        }
        return received(socket?);
    }
    let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
    let mut child = Program::new(user_shell())
        .arg("-c")
        .arg(format!("exec {command}"))
        .stdio(theirs.try_clone()?, theirs, stderr)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("proxy dialer: {error}")))?;
    let socket = lh_sys::pass::wait_for_fd(&ours);
    drop(ours);
    child.wait()?;
    received(socket?)
}

fn received(socket: Option<OwnedFd>) -> io::Result<OwnedFd> {
    socket.ok_or_else(|| io::Error::other("proxy dialer did not pass back a connection"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// Covers: ssh_config ProxyUseFdpass
    #[test]
    fn passed_socket_is_used_and_a_missing_one_is_an_error() {
        let script = "import socket, array, sys\n\
            a, b = socket.socketpair()\n\
            b.sendall(b'hello')\n\
            out = socket.socket(fileno=1)\n\
            out.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [a.fileno()]))])\n";
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("dialer.py");
        std::fs::write(&file, script).expect("written");
        if lh_testkit::peers("ProxyUseFdpass", ["python3"]).is_none() {
            return;
        }
        let socket = dial(&format!("python3 {}", file.display()), None).expect("a socket");
        let mut text = String::new();
        UnixStream::from(socket).read_to_string(&mut text).expect("readable");
        assert_eq!(text, "hello");
        for commands in [None, Some(Commands::attached()), Some(Commands::detached())] {
            let error = dial("true", commands.as_ref()).expect_err("nothing is passed").to_string();
            assert!(error == "proxy dialer did not pass back a connection", "{error}");
        }
    }
}
