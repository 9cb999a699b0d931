//! The flags of `lhscp`, which are those of scp(1).

use super::Support::{Accepted, Works};
use super::{Flag, Program};

/// `lhscp`.
pub static SCP: Program = Program {
    name: "lhscp",
    about: "copy files between hosts over SSH",
    operands: "source ... target",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('2', Accepted("there is no other version of the protocol"), ""),
        Flag::plain('3', Works, "Copy between two remote hosts through this one; the default."),
        Flag::plain('4', Works, "Use IPv4 addresses only."),
        Flag::plain('6', Works, "Use IPv6 addresses only."),
        Flag::plain('A', Works, "Forward the authentication agent; for -R."),
        Flag::plain('B', Works, "Never ask for a password or passphrase."),
        Flag::plain('C', Works, "Compress the connection."),
        Flag::with('c', "cipher", Works, "Use these ciphers, best first, separated by commas."),
        Flag::with('D', "sftp_server_path", Works, "Run this SFTP server here instead of connecting."),
        Flag::plain('d', Works, ""),
        Flag::with('F', "ssh_config", Works, "Read this file instead of ~/.ssh/config and the system's."),
        Flag::plain('f', Works, ""),
        Flag::with('i', "identity_file", Works, "Try this private key; may be repeated."),
        Flag::with('J', "destination", Works, "Connect through this host, or several separated by commas."),
        Flag::with('l', "limit", Works, "Use at most this many Kbit/s."),
        Flag::with('M', "mode", Works, ""),
        Flag::plain('O', Works, "Use the old copy protocol instead of SFTP."),
        Flag::with('o', "ssh_option", Works, "Set a keyword as in the configuration file; may be repeated."),
        Flag::with('P', "port", Works, "Connect to this port."),
        Flag::plain('p', Works, "Keep times and modes."),
        Flag::plain('q', Works, "Show no progress, say as little as possible."),
        Flag::plain('R', Works, "Copy between two remote hosts directly: the first runs scp to the second."),
        Flag::plain('r', Works, "Copy folders with everything in them."),
        Flag::with('S', "program", Works, "Connect with this program, which takes the arguments of ssh."),
        Flag::plain('s', Works, "Use SFTP; the default."),
        Flag::plain(
            'T',
            Works,
            "With -O: take files whatever their names, not only those that were asked for.",
        ),
        Flag::plain('t', Works, ""),
        Flag::plain('v', Works, "Tell what happens; up to three times for more."),
        Flag::with(
            'X',
            "sftp_option",
            Works,
            "Tune SFTP: nrequests=n (requests in flight), buffer=bytes (of one request). By default both adapt.",
        ),
        Flag::plain(
            'Z',
            Works,
            "Go on with shorter copies that something else has left, as far as they are found to agree with the source.",
        ),
        Flag::long(
            "in-place",
            Works,
            "Write files under their final names from the start, as scp does, instead of renaming them when they are complete.",
        ),
        Flag::long(
            "no-resume",
            Works,
            "Do not go on with what an interrupted copy has left, and leave nothing to go on with.",
        ),
        Flag::long(
            "verify",
            Works,
            "Compare every file with its source after the copy; read it back where the server cannot compare.",
        ),
        Flag::long(
            "no-verify",
            Works,
            "Do not compare; by default files are compared where a Longhaul server helps.",
        ),
        Flag::long("fsync", Works, "Have files written to the disk before they get their names."),
        Flag::long_with(
            "retries",
            "n",
            Works,
            "Connect again up to n times in a row when the connection breaks (without asking anything), and go on; 3 by default.",
        ),
    ],
};
