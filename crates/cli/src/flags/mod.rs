//! The flag tables of all programs, and the parser that reads them.

mod add;
mod agent;
mod keygen;
mod keyscan;
mod longhaul;
mod parsed;
mod program;
mod scp;
mod sftp;
mod sftp_server;
mod ssh;
mod sshd;

pub use add::ADD;
pub use agent::AGENT;
pub use keygen::{KEYGEN, KEYGEN_FORMS};
pub use keyscan::KEYSCAN;
pub use longhaul::LONGHAUL;
pub use parsed::{Parsed, Stop};
pub use program::{Flag, Program, Support};
pub use scp::SCP;
pub use sftp::SFTP;
pub use sftp_server::SFTP_SERVER;
pub use ssh::SSH;
pub use sshd::SSHD;

/// Every program with a flag table: manual pages, completions and `docs/compat.md` are made from these.
pub static PROGRAMS: &[&Program] =
    &[&SSH, &SCP, &SFTP, &SFTP_SERVER, &SSHD, &KEYGEN, &AGENT, &ADD, &KEYSCAN, &LONGHAUL];

#[cfg(test)]
mod tests;
