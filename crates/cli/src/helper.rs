//! Helper programs: another program of ours starts one, sends a single request on its standard input, and
//! reads the answer.

use std::process::ExitCode;

/// Exit status of a failure; OpenSSH's helpers call it fatal.
const FATAL: u8 = 255;

/// The `main` of a helper program. An error is one line on standard error.
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

/// Prints one line on standard error. Control characters are escaped: the text may come from a library or
/// from the request.
pub fn say(text: &str) {
    eprintln!("{}", lh_wire::printable(text.as_bytes()));
}
