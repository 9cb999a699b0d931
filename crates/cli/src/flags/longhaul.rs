//! The flags of `longhaul`.

use super::program::Support::Works;
use super::program::{Flag, Program};

/// `longhaul`. The first operand is the subcommand, which takes some of the flags.
pub static LONGHAUL: Program = Program {
    name: "longhaul",
    about: "analyse recorded connections, check copies, and resume them",
    operands: "report file ... | verify manifest [[user@]host:dir | dir] | transfers [resume id | clean [id]]",
    flags_after_first_operand: true,
    usage_status: 2,
    flags: &[
        Flag::plain('4', Works, "verify: Use IPv4 addresses only."),
        Flag::plain('6', Works, "verify: Use IPv6 addresses only."),
        Flag::plain('A', Works, "verify: Forward the authentication agent."),
        Flag::plain('B', Works, "verify: Never ask for a password or passphrase."),
        Flag::plain('C', Works, "verify: Compress the connection."),
        Flag::with('c', "cipher", Works, "verify: Use these ciphers, best first, separated by commas."),
        Flag::with(
            'F',
            "ssh_config",
            Works,
            "verify: Read this file instead of ~/.ssh/config and the system's.",
        ),
        Flag::with('i', "identity_file", Works, "verify: Try this private key; may be repeated."),
        Flag::with(
            'J',
            "destination",
            Works,
            "verify: Connect through this host, or several separated by commas.",
        ),
        Flag::with(
            'o',
            "file",
            Works,
            "report: Write the report to this file, - for standard output (report.html, or report.csv with --csv). verify: Set a keyword as in the configuration file of ssh (keyword=value); may be repeated.",
        ),
        Flag::with('P', "port", Works, "verify: Connect to this port."),
        Flag::plain('q', Works, "verify: Show no warnings of the connection."),
        Flag::plain('v', Works, "verify: Be verbose about the connection; up to three times for more."),
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
        Flag::long("json", Works, "verify, transfers: Report what is found as JSON, one object per line."),
        Flag::long_with(
            "older-than",
            "time",
            Works,
            "transfers clean: Remove what all copies have left on which nothing has worked for this time, such as 12h or 30d.",
        ),
    ],
};
