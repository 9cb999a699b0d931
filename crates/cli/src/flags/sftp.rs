//! The flags of `lhsftp`, which are those of sftp(1).

use super::Support::{Accepted, Works};
use super::{Flag, Program};

/// `lhsftp`.
pub static SFTP: Program = Program {
    name: "lhsftp",
    about: "move files to and from another host over SSH, at a prompt or from a batch",
    operands: "destination [local]",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('1', Accepted("version 1 of the protocol is long gone"), ""),
        Flag::plain('2', Accepted("it is the only protocol version"), ""),
        Flag::plain('4', Works, "Use IPv4 addresses only."),
        Flag::plain('6', Works, "Use IPv6 addresses only."),
        Flag::plain('A', Works, "Forward the authentication agent."),
        Flag::plain('a', Works, "Resume copies: go on where a shorter copy ends."),
        Flag::with('B', "buffer_size", Works, "Bytes of one request; by default what the server allows."),
        Flag::with(
            'b',
            "batchfile",
            Works,
            "Take commands from this file (- for standard input); never ask; end at the first failure.",
        ),
        Flag::plain('C', Works, "Compress the connection."),
        Flag::with('c', "cipher", Works, "Use these ciphers, best first, separated by commas."),
        Flag::with('D', "sftp_server_command", Works, "Run this SFTP server here instead of connecting."),
        Flag::with('F', "ssh_config", Works, "Read this file instead of ~/.ssh/config and the system's."),
        Flag::plain('f', Works, "Have files written to the disk before they are closed."),
        Flag::plain('h', Works, ""),
        Flag::with('i', "identity_file", Works, "Try this private key; may be repeated."),
        Flag::with('J', "destination", Works, "Connect through this host, or several separated by commas."),
        Flag::with(
            'j',
            "channels",
            Works,
            "Copy over this many channels, or connections that join the session; by default as many as help.",
        ),
        Flag::with('l', "limit", Works, "Use at most this many Kbit/s."),
        Flag::plain('N', Works, "Show what is copied even though -b or -q was given."),
        Flag::with('o', "ssh_option", Works, "Set a keyword as in the configuration file; may be repeated."),
        Flag::with('P', "port", Works, "Connect to this port."),
        Flag::plain('p', Works, "Keep times and modes."),
        Flag::plain('q', Works, "Show no progress, say as little as possible."),
        Flag::with('R', "num_requests", Works, "Requests in flight; by default they adapt."),
        Flag::plain('r', Works, "Copy directories with everything in them."),
        Flag::with('S', "program", Works, "Connect with this program, which takes the flags of ssh."),
        Flag::with(
            's',
            "subsystem | sftp_server",
            Works,
            "Use this subsystem, or run this server on the other host.",
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
