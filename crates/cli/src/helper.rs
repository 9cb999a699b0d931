//! Helper programs. Another program of ours starts one, sends a single request on its standard input, and
//! reads the answer.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

#[cfg(any(target_os = "linux", target_os = "freebsd"))]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Exit status of a failure; OpenSSH's helpers call it fatal.
const FATAL: u8 = 255;

/// Runs a helper program. An error becomes one line on standard error.
pub fn main<E: Display>(run: impl FnOnce() -> Result<(), E>) -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why.to_string());
            ExitCode::from(FATAL)
        }
    }
}

/// The system refuses to protect this process's memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot protect the memory of this process: {0}")]
pub struct MemoryUnprotected(#[source] io::Error);

/// Protects this process's memory, which contains PINs, from core files and debuggers.
///
/// # Errors
/// The system refuses.
pub fn protect_memory() -> Result<(), MemoryUnprotected> {
    forbid_inspection().map_err(MemoryUnprotected)
}

/// Forbids core files of this process, and access to its memory by the user's other programs.
///
/// # Errors
/// The system refuses.
fn forbid_inspection() -> io::Result<()> {
    forbid_debuggers()?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Denies the user's other programs access to this process's memory.
///
/// # Errors
/// The kernel refuses.
#[cfg(target_os = "linux")]
fn forbid_debuggers() -> rustix::io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Denies the user's other programs access to this process's memory.
///
/// # Errors
/// The kernel refuses.
#[cfg(target_os = "freebsd")]
fn forbid_debuggers() -> rustix::io::Result<()> {
    set_dumpable_behavior(None, DumpableBehavior::NotDumpable)
}

/// Does nothing: this system has no call for it, or asks the user before a debugger may attach.
///
/// # Errors
/// Never fails.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn forbid_debuggers() -> rustix::io::Result<()> {
    Ok(())
}

/// Moves standard input and output to other descriptors, so that libraries that read or print cannot disturb
/// the protocol.
///
/// # Errors
/// The system's error.
pub fn own_channels() -> io::Result<(File, File)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((File::from(input), File::from(output)))
}

/// Prints one line on standard error. Control characters are escaped, because the text may come from a
/// library or from the request.
/// from the request.
pub fn say(text: &str) {
    eprintln!("{}", lh_wire::printable(text.as_bytes()));
}
