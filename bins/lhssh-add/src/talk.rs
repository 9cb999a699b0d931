//! What the program says and asks.

use std::io::{self, Write as _};

use lh_cli::prompt::{Kind, Prompter};
use lh_client::sanitise;
use lh_crypto::Zeroizing;

/// Says something on standard error.
pub(crate) fn say(text: &str) {
    // Nobody is left to be told when even this fails.
    let _ = writeln!(io::stderr(), "{}", sanitise(text.trim_end()));
}

/// Prints lines to standard output; a reader that has gone is no failure of ours.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Asks for a passphrase, at the terminal, in a window, or from standard input. Empty when nobody answers.
pub(crate) fn ask(prompt: &str) -> Zeroizing<String> {
    let prompter = Prompter { allow_stdin: true, ..Prompter::from_environment() };
    prompter.ask(prompt, Kind::Secret).unwrap_or_default()
}

/// The system's words for an error, without the number Rust puts behind them.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}
