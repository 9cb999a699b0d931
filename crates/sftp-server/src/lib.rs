//! Common code of `lhsftp-server` and `lhsshd`'s `internal-sftp`: the flags of sftp-server(8), user and group
//! names, the log, and the loop that serves standard input and output.
//!
//! Both use `lh_sftp::server`, so a flag has the same effect in both.

mod arguments;
mod log;
mod names;
mod stdio;

pub use arguments::{Arguments, Stopped};
pub use log::Lines;
pub use names::HostNames;
pub use stdio::serve;

/// Environment variable in which `lhsshd` passes the client's identification line to subsystem programs.
pub const CLIENT_IDENTIFICATION: &str = "SSH_CLIENT_IDENTIFICATION";

/// Environment variable in which `lhsshd` passes its own identification line to subsystem programs.
pub const SERVER_IDENTIFICATION: &str = "SSH_SERVER_IDENTIFICATION";

/// Exit status when the client breaks the SFTP protocol, as in sftp-server.
pub const BAD_CLIENT: u8 = 11;
