//! The flags of `lhsftp`, which are those of sftp(1).

use super::program::Support::{Accepted, Gone, Works};
use super::program::{Flag, Program, VERSION_1};

/// The flag table of `lhsftp`.
pub static SFTP: Program = Program {
    name: "lhsftp",
    about: "transfer files over SSH, at a prompt or from a batch file",
    operands: "destination [local]",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('1', Gone(VERSION_1), ""),
        Flag::plain('2', Accepted("it is the only protocol version"), ""),
        Flag::plain('4', Works, "Use IPv4 addresses only."),
        Flag::plain('6', Works, "Use IPv6 addresses only."),
        Flag::plain('A', Works, "Forward the authentication agent."),
        Flag::plain('a', Works, "Resume copies at the end of a shorter copy."),
        Flag::with('B', "buffer_size", Works, "Bytes of one request; by default what the server allows."),
        Flag::with(
            'b',
            "batchfile",
            Works,
            "Read commands from this file (- for standard input); never prompt; end at the first failure.",
        ),
        Flag::plain('C', Works, "Compress the connection."),
        Flag::with('c', "cipher", Works, "Use these ciphers, best first, separated by commas."),
        Flag::with('D', "sftp_server_command", Works, "Run this SFTP server here instead of connecting."),
        Flag::with('F', "ssh_config", Works, "Read this file instead of ~/.ssh/config and the system's."),
        Flag::plain('f', Works, "Write files to the disk (fsync) before they are closed."),
        Flag::plain('h', Works, ""),
        Flag::with('i', "identity_file", Works, "Try this private key; may be repeated."),
        Flag::with('J', "destination", Works, "Connect through this host, or several separated by commas."),
        Flag::with(
            'j',
            "channels",
            Works,
            "Copy over this many channels, or additional connections; by default as many as raise the speed.",
        ),
        Flag::with('l', "limit", Works, "Use at most this many Kbit/s."),
        Flag::plain('N', Works, "Show copied files even with -b or -q."),
        Flag::with('o', "ssh_option", Works, "Set a keyword as in the configuration file; may be repeated."),
        Flag::with('P', "port", Works, "Connect to this port."),
        Flag::plain('p', Works, "Keep times and modes."),
        Flag::plain('q', Works, "Show no progress, and no warnings and errors of the connection."),
        Flag::with('R', "num_requests", Works, "Requests in flight; by default they adapt."),
        Flag::plain('r', Works, "Copy directories recursively."),
        Flag::with('S', "program", Works, "Connect with this program, which takes the flags of ssh."),
        Flag::with(
            's',
            "subsystem | sftp_server",
            Works,
            "Use this subsystem, or run this server on the other host.",
        ),
        Flag::plain('v', Works, "Be verbose; up to three times for more."),
        Flag::with(
            'X',
            "sftp_option",
            Works,
            "Tune SFTP: nrequests=n (requests in flight), buffer=bytes (of one request). By default both adapt.",
        ),
    ],
};
