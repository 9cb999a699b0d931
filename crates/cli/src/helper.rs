//! Programs that nobody types: another one of ours starts them, asks one thing on their standard input, and ends with them.

use std::process::ExitCode;

/// Exit status when there is nothing to answer to: what OpenSSH's helpers call fatal.
const FATAL: u8 = 255;

/// The `main` of such a program. What went wrong is one line on standard error.
pub fn main(run: impl FnOnce() -> Result<(), String>) -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_sigpipe();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why);
            ExitCode::from(FATAL)
        }
    }
}

/// One line for whoever reads our standard error. It may hold what a library, or whoever asked, has made up.
pub fn say(text: &str) {
    eprintln!("{}", lh_wire::printable(text.as_bytes()));
}
