//! Results on standard output.

use std::io::{self, ErrorKind, Write as _};

use crate::fault::Fault;

/// Writes text to standard output, at once. A reader that has gone away has enough, which is no fault.
///
/// # Errors
/// [`Fault::Output`]: it cannot be written.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Fault::Output(error)),
        _ => Ok(()),
    }
}

/// Writes a line to standard output, at once.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_line(text: &str) -> Result<(), Fault> {
    print(&format!("{text}\n"))
}
