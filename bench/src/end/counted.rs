//! A remote command whose CPU time is counted separately from that of the SSH programs.
//!
//! `lh-bench counted FILE PROGRAM [ARGUMENT…]` writes the CPU time of the program and of itself to the file.
//! If the login shell executes it in its own process, its time includes the shell's.

use std::process::Command;

use crate::usage::Usage;

/// Name of the subcommand.
pub(crate) const NAME: &str = "counted";

/// Entry point of the helper.
///
/// # Errors
/// The program cannot be started or fails; nothing is written then.
pub fn main(args: &[String]) -> Result<(), String> {
    let [file, program, rest @ ..] = args else { return Err("no file or command".to_owned()) };
    let status = Command::new(program).args(rest).status().map_err(|error| format!("{program}: {error}"))?;
    if !status.success() {
        return Err(format!("{program}: {status}"));
    }
    let us = Usage::of_children()?.cpu_us() + Usage::of_self()?.cpu_us();
    std::fs::write(file, us.to_string()).map_err(|error| format!("{file}: {error}"))
}
