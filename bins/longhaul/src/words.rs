//! Messages.

use std::io;

use lh_cli::flags::LONGHAUL;

/// Without the number of the error.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A message of the program.
pub(crate) fn say(text: &str) {
    eprintln!("{}: {text}", LONGHAUL.called());
}
