//! The flags of `longhaul`.

use super::program::Support::Works;
use super::program::{Flag, Program};

/// `longhaul`. The first operand is the subcommand, which takes some of the flags.
pub static LONGHAUL: Program = Program {
    name: "longhaul",
    about: "measure connections and say what limits them, check copies, and resume them",
    operands: "doctor [user@]host | report file ... | verify manifest [[user@]host:dir | dir] | transfers [resume id | clean [id]]",
    flags_after_first_operand: true,
    usage_status: 2,
    flags: &[
        Flag::plain('4', Works, "verify, doctor: Use IPv4 addresses only."),
        Flag::plain('6', Works, "verify, doctor: Use IPv6 addresses only."),
        Flag::plain('A', Works, "verify, doctor: Forward the authentication agent."),
        Flag::plain('B', Works, "verify, doctor: Never ask for a password or passphrase."),
        Flag::plain('C', Works, "verify, doctor: Compress the connection."),
        Flag::with(
            'c',
            "cipher",
            Works,
            "verify, doctor: Use these ciphers, best first, separated by commas.",
        ),
        Flag::with(
            'F',
            "ssh_config",
            Works,
            "verify, doctor: Read this file instead of ~/.ssh/config and the system's.",
        ),
        Flag::with('i', "identity_file", Works, "verify, doctor: Try this private key; may be repeated."),
        Flag::with(
            'J',
            "destination",
            Works,
            "verify, doctor: Connect through this host, or several separated by commas.",
        ),
        Flag::with(
            'o',
            "file",
            Works,
            "report: Write the report to this file, - for standard output (report.html, or report.csv with --csv). verify, doctor: Set a keyword as in the configuration file of ssh (keyword=value); may be repeated.",
        ),
        Flag::with('P', "port", Works, "verify, doctor: Connect to this port."),
        Flag::plain('q', Works, "verify, doctor: Show no warnings of the connection."),
        Flag::plain(
            'v',
            Works,
            "verify, doctor: Be verbose about the connection; up to three times for more.",
        ),
        Flag::long(
            "csv",
            Works,
            "report: Write the samples as comma-separated values (RFC 4180) instead of a page.",
        ),
        Flag::long(
            "extra",
            Works,
            "verify: Report files that the manifest does not have, too: below the destination or, where all paths begin with one directory, below that.",
        ),
        Flag::long(
            "json",
            Works,
            "verify, transfers: Report what is found as JSON, one object per line. doctor: Print the diagnosis as one JSON object.",
        ),
        Flag::long_with(
            "local-dir",
            "directory",
            Works,
            "doctor: Measure the disk of this machine here (.). A file is written and removed.",
        ),
        Flag::long_with(
            "older-than",
            "time",
            Works,
            "transfers clean: Remove what all copies have left on which nothing has worked for this time, such as 12h or 30d.",
        ),
        Flag::long_with(
            "remote-dir",
            "directory",
            Works,
            "doctor: Measure the disk of the server here (the home directory). A file is written and removed.",
        ),
    ],
};
