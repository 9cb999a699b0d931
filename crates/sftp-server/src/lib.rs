//! What `lhsftp-server` and `lhsshd`'s `internal-sftp` have in common: the flags of sftp-server(8), the host's names, and the
//! log; and the loop that serves standard input and output.
//!
//! The engine is `lh_sftp::server`. It is the same in both, so whatever a flag does to one it does to the other.

mod arguments;
mod log;
mod names;
mod stdio;

pub use arguments::{Arguments, Stopped};
pub use log::{Lines, Verbosity};
pub use names::HostNames;
pub use stdio::serve;

/// The environment variable in which `lhsshd` tells programs of subsystems the client's identification line.
pub const CLIENT_IDENTIFICATION: &str = "SSH_CLIENT_IDENTIFICATION";

/// Exit status when the client does not speak SFTP, as sftp-server's.
pub const BAD_CLIENT: u8 = 11;
