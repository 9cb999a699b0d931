//! Command-line code that the programs share: flag tables and their parser, prompts, the progress display.
//!
//! - [`copying`]: configuration keywords from flags of the copying programs.
//! - [`flags`]: one table per program, from which the parser, usage and help texts, manual pages and
//!   completions are made. The parser follows getopt(3) as OpenSSH's programs use it, not the GNU one.
//! - [`helper`]: the `main` of helper programs.
//! - [`prompt`]: passphrases and questions, from the terminal or an `SSH_ASKPASS` program.
//! - [`progress`]: the transfer display.

pub mod copying;
pub mod flags;
pub mod helper;
pub mod identity;
pub mod progress;
pub mod prompt;
