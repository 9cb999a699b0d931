//! What the programs share at the command line: flag tables and their parser, prompts, the progress display.
//!
//! - [`copying`]: what flags of the copying programs say to the configuration.
//! - [`flags`]: one table per program gives the parser, usage and help texts; manual pages and completions come from the
//!   same rows. The parser follows getopt(3) as OpenSSH's programs use it, not the GNU one.
//! - [`identity`]: key files of `-i`.
//! - [`helper`]: the `main` of programs that others start.
//! - [`prompt`]: passphrases and questions, from the terminal or an `SSH_ASKPASS` program.
//! - [`progress`]: the transfer display.

pub mod copying;
pub mod flags;
pub mod helper;
pub mod identity;
pub mod progress;
pub mod prompt;
