//! Messages and prompts of the program.

use std::io::{self, Write as _};

use lh_cli::prompt::{Kind, Prompter};
use lh_client::sanitise;
use lh_crypto::Zeroizing;

/// Prints a message on standard error.
pub(crate) fn say(text: &str) {
    // If this fails, there is no output left to report it on.
    let _ = writeln!(io::stderr(), "{}", sanitise(text.trim_end()));
}

/// Prints lines to standard output; a closed pipe is no failure.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Asks for a passphrase, on the terminal, in a window, or from standard input. Empty without an answer.
pub(crate) fn ask(prompt: &str) -> Zeroizing<String> {
    let prompter = Prompter { allow_stdin: true, ..Prompter::from_environment() };
    prompter.ask(prompt, Kind::Secret).unwrap_or_default()
}
