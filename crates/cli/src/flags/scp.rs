//! The flags of `lhscp`, which are those of scp(1).

use super::Support::{Accepted, NotYet, Works};
use super::{Flag, Program};

/// `lhscp`.
pub static SCP: Program = Program {
    name: "lhscp",
    about: "copy files between hosts over SSH",
    operands: "source ... target",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain(
            '3',
            Accepted("copies between two remote hosts always go through this one"),
            "Copy between two remote hosts through this one.",
        ),
        Flag::plain('4', Works, "Use IPv4 addresses only."),
        Flag::plain('6', Works, "Use IPv6 addresses only."),
        Flag::plain('A', NotYet, "Forward the authentication agent."),
        Flag::plain('B', Works, "Never ask for a password or passphrase."),
        Flag::plain('C', Works, "Compress the connection."),
        Flag::with('c', "cipher", Works, "Use these ciphers, best first, separated by commas."),
        Flag::with('D', "sftp_server_path", NotYet, "Run this SFTP server here instead of connecting."),
        Flag::with('F', "ssh_config", Works, "Read this file instead of ~/.ssh/config and the system's."),
        Flag::with('i', "identity_file", Works, "Try this private key; may be repeated."),
        Flag::with('J', "destination", Works, "Connect through this host, or several separated by commas."),
        Flag::with('l', "limit", Works, "Use at most this many Kbit/s."),
        Flag::plain('O', NotYet, "Use the old copy protocol instead of SFTP."),
        Flag::with('o', "ssh_option", Works, "Set a keyword as in the configuration file; may be repeated."),
        Flag::with('P', "port", Works, "Connect to this port."),
        Flag::plain('p', Works, "Keep times and modes."),
        Flag::plain('q', Works, "Show no progress, say as little as possible."),
        Flag::plain('R', NotYet, "Copy between two remote hosts directly."),
        Flag::plain('r', Works, "Copy folders with everything in them."),
        Flag::with(
            'S',
            "program",
            Accepted("the protocol runs in this process"),
            "Program for the connection.",
        ),
        Flag::plain('s', Accepted("SFTP is always used"), "Use SFTP."),
        Flag::plain(
            'T',
            Accepted("names from the server are always checked"),
            "Check no names from the server.",
        ),
        Flag::plain('v', Works, "Tell what happens; up to three times for more."),
        Flag::with(
            'X',
            "sftp_option",
            Works,
            "Tune SFTP: nrequests=n (requests in flight), buffer=bytes (of one request). By default both adapt.",
        ),
    ],
};
