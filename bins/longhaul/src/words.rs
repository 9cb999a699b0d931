//! Messages.

use lh_cli::flags::LONGHAUL;

/// A message of the program.
pub(crate) fn say(text: &str) {
    eprintln!("{}: {text}", LONGHAUL.called());
}
