//! The flags of `lhssh-agent`, which are those of ssh-agent(1).

use super::program::Support::Works;
use super::program::{Flag, Program};

/// The flag table of `lhssh-agent`.
pub static AGENT: Program = Program {
    name: "lhssh-agent",
    about: "hold private keys and sign with them",
    operands: "[command [argument ...]]",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::with(
            'A',
            "socket_path",
            Works,
            "Put the socket into this directory: user:dir (relative to the home directory), or below shared:/dir.",
        ),
        Flag::with('a', "bind_address", Works, "Listen on this Unix socket."),
        Flag::plain('c', Works, "Print commands for the C shell."),
        Flag::plain('D', Works, "Stay in the foreground."),
        Flag::plain('d', Works, "Stay in the foreground and log debugging messages."),
        Flag::with('E', "fingerprint_hash", Works, "Hash of fingerprints: sha256 (default) or md5."),
        Flag::plain('k', Works, "End the agent that SSH_AGENT_PID names."),
        Flag::with(
            'O',
            "option",
            Works,
            "no-restrict-websafe, allow-remote-pkcs11 or websafe-allow=patterns.",
        ),
        Flag::with(
            'P',
            "allowed_providers",
            Works,
            "Libraries that may be loaded for security keys: patterns (/usr/lib*/*,/usr/local/lib*/*).",
        ),
        Flag::plain('s', Works, "Print commands for the Bourne shell."),
        Flag::plain('T', Works, "Put the socket below $TMPDIR instead of ~/.ssh/agent."),
        Flag::with('t', "life", Works, "Remove keys after this time, unless they are added with their own."),
        Flag::plain('U', Works, "Leave stale sockets in ~/.ssh/agent alone."),
        Flag::plain(
            'u',
            Works,
            "Remove stale sockets from ~/.ssh/agent and exit; twice: those of other machines too.",
        ),
        Flag::plain('V', Works, "Print the version and exit."),
    ],
};
