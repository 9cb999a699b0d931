//! `lhssh-keygen`: make, change and show SSH keys, and manage known_hosts files, with the command line, the messages and
//! the exit statuses of ssh-keygen(1).

use std::process::ExitCode;

use lh_cli::flags::KEYGEN;

fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_sigpipe();
    match KEYGEN.parse(std::env::args_os().skip(1)) {
        Ok(_) => {
            eprintln!("lhssh-keygen: nothing is done yet");
            ExitCode::FAILURE
        }
        Err(stop) => ExitCode::from(stop.print()),
    }
}
