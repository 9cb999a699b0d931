//! The flags of `longhaul`.

use super::program::Support::Works;
use super::program::{Flag, Program};

/// The flag table of `longhaul`. The first operand is the subcommand, which accepts some of the flags.
pub static LONGHAUL: Program = Program {
    name: "longhaul",
    about: "measure connections and say what limits them, check copies, resume them, and list sessions",
    operands: "doctor [user@]host | bench [user@]host | compare old new | report file ... | verify manifest [[user@]host:dir | dir] | verify --in [[user@]host:]dir manifest ... | transfers [resume id | clean [id]] | sessions",
    flags_after_first_operand: true,
    usage_status: 2,
    flags: &[
        Flag::plain('4', Works, "verify, doctor, bench: Use IPv4 addresses only."),
        Flag::plain('6', Works, "verify, doctor, bench: Use IPv6 addresses only."),
        Flag::plain('B', Works, "verify, doctor, bench: Never ask for a password or passphrase."),
        Flag::plain('C', Works, "verify, doctor, bench: Compress the connection."),
        Flag::with(
            'c',
            "cipher",
            Works,
            "verify, doctor, bench: Use these ciphers, best first, separated by commas.",
        ),
        Flag::with(
            'F',
            "ssh_config",
            Works,
            "verify, doctor, bench: Read this file instead of ~/.ssh/config and the system's.",
        ),
        Flag::with(
            'i',
            "identity_file",
            Works,
            "verify, doctor, bench: Try this private key; may be repeated.",
        ),
        Flag::with(
            'J',
            "destination",
            Works,
            "verify, doctor, bench: Connect through this host, or several separated by commas.",
        ),
        Flag::with(
            'o',
            "file",
            Works,
            "report: Write the report to this file, - for standard output (report.html, or report.csv with --csv). verify, doctor, bench: Set a keyword as in the configuration file of ssh (keyword=value); may be repeated.",
        ),
        Flag::with('P', "port", Works, "verify, doctor, bench: Connect to this port."),
        Flag::plain('q', Works, "verify, doctor, bench: Show no warnings of the connection."),
        Flag::plain(
            'v',
            Works,
            "verify, doctor, bench: Be verbose about the connection; up to three times for more.",
        ),
        Flag::long(
            "csv",
            Works,
            "report: Write the samples as comma-separated values (RFC 4180) instead of a page.",
        ),
        Flag::long_with(
            "end",
            "id",
            Works,
            "sessions: End this session: one of this user's, or any for root. The ID may be cut to a beginning that no other has.",
        ),
        Flag::long(
            "extra",
            Works,
            "verify: Report files that no manifest has, too: below the destination or, where all paths begin with one directory, below that.",
        ),
        Flag::long_with(
            "fail-below",
            "part",
            Works,
            "compare: Exit with status 1 when a figure is clearly below this part of the old one, such as 0.9; with 3 when none is and the rounds of some are too noisy, or too few, to tell.",
        ),
        Flag::long_with(
            "hosts",
            "file",
            Works,
            "bench: Measure the paths of this list, quickly: a host on a line, measured from here, or two, measured from the first.",
        ),
        Flag::long_with("html", "file", Works, "bench: Write the tables as a page for a browser, too."),
        Flag::long_with(
            "in",
            "destination",
            Works,
            "verify: Check this tree, against all manifests that are named: those of a copy in shares (--shard), of which none may be missing.",
        ),
        Flag::long(
            "json",
            Works,
            "verify, transfers, sessions: Report what is found as JSON, one object per line. doctor, bench: Print the results as one JSON object.",
        ),
        Flag::long_with(
            "local-dir",
            "directory",
            Works,
            "doctor, bench: Measure the disk of this machine here (.). Files are written and removed.",
        ),
        Flag::long_with(
            "older-than",
            "time",
            Works,
            "transfers clean: Remove what all copies have left on which nothing has worked for this time, such as 12h or 30d.",
        ),
        Flag::long_with(
            "peer",
            "name=program",
            Works,
            "bench: Measure this ssh, too, with the scp and sftp beside it; may be repeated.",
        ),
        Flag::long(
            "quick",
            Works,
            "bench: Take 20 seconds instead of two minutes, for the cipher in use, one file over SFTP and session set-up.",
        ),
        Flag::long_with(
            "remote-dir",
            "directory",
            Works,
            "doctor, bench: Measure the disk of the server here (the home directory). Files are written and removed.",
        ),
        Flag::long_with(
            "shard",
            "i/n",
            Works,
            "bench: Measure only the i-th of n equal shares of the paths of --hosts; auto takes both numbers from the job array (Slurm, Grid Engine or LSF) of this process, auto/n the index of an indexed Job of Kubernetes.",
        ),
        Flag::long_with(
            "tcp-port",
            "port",
            Works,
            "bench: Measure TCP alone, too, through this port of the server, which its firewall has to let pass. A helper (python3, perl or socat of the server) listens there for the time of the run.",
        ),
        Flag::long_with(
            "time",
            "seconds",
            Works,
            "bench: Take so long instead of two minutes, from 30 to 86400 seconds. More ciphers and MACs fit into a longer run.",
        ),
        Flag::long(
            "watch",
            Works,
            "doctor: Show connections that run: those of a process (its number in place of the host), those of this machine to the host, or those that write a file of metrics (Metrics=yes). Ends with q.",
        ),
    ],
};
