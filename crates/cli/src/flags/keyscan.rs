//! The flags of `lhssh-keyscan`, which are those of ssh-keyscan(1).

use super::program::Support::Works;
use super::program::{Flag, Program};

/// The flag table of `lhssh-keyscan`.
pub static KEYSCAN: Program = Program {
    name: "lhssh-keyscan",
    about: "collect the public keys of hosts",
    operands: "[host | addrlist namelist]",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('4', Works, "Use IPv4 addresses only."),
        Flag::plain('6', Works, "Use IPv6 addresses only."),
        Flag::plain('c', Works, "Ask for certificates instead of plain keys."),
        Flag::plain('D', Works, "Print keys as SSHFP DNS records."),
        Flag::with('f', "file", Works, "Read hosts from this file, - for standard input."),
        Flag::plain('H', Works, "Hash all names."),
        Flag::with('O', "option", Works, "hashalg=sha1 or hashalg=sha256: only this hash in SSHFP records."),
        Flag::with('p', "port", Works, "Connect to this port."),
        Flag::plain('q', Works, "Leave out the comments about servers."),
        Flag::with('T', "timeout", Works, "Give up on a host after this time (5 seconds)."),
        Flag::with('t', "type", Works, "Key types to ask for: rsa, ecdsa, ed25519, …"),
        Flag::plain('v', Works, "Be verbose."),
    ],
};
