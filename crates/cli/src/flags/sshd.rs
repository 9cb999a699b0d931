//! The flags of `lhsshd`, which are those of sshd(8).

use super::program::Support::{Accepted, Works};
use super::program::{Flag, Program};

/// The flag table of `lhsshd`.
pub static SSHD: Program = Program {
    name: "lhsshd",
    about: "the SSH server",
    operands: "",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('4', Works, "Use IPv4 addresses only."),
        Flag::plain('6', Works, "Use IPv6 addresses only."),
        Flag::with('b', "bits", Accepted("it belonged to version 1 of the protocol"), ""),
        Flag::with(
            'C',
            "connection_spec",
            Works,
            "With -T: the connection that Match blocks are applied to: user=…,host=…,addr=…",
        ),
        Flag::with('c', "host_cert_file", Works, "Certificate of a host key; may be repeated."),
        Flag::plain('D', Works, "Stay in the foreground."),
        Flag::plain(
            'd',
            Works,
            "Debug: stay in the foreground, log to standard error, serve one connection; up to three times.",
        ),
        Flag::with('E', "log_file", Works, "Append the log to this file instead of syslog."),
        Flag::plain('e', Works, "Log to standard error instead of syslog."),
        Flag::with('f', "config_file", Works, "Read this file instead of the system's; none: read no file."),
        Flag::plain('G', Works, "Print the configuration and exit, without loading keys."),
        Flag::with('g', "login_grace_time", Works, "Time to log in."),
        Flag::with('h', "host_key_file", Works, "Host key; may be repeated."),
        Flag::plain('i', Works, "Serve the connection on standard input and output."),
        Flag::with('k', "time", Accepted("it belonged to version 1 of the protocol"), ""),
        Flag::with('o', "option", Works, "Set a keyword as in the configuration file; may be repeated."),
        Flag::with('p', "port", Works, "Listen on this port; may be repeated."),
        Flag::plain('Q', Accepted("it has no meaning any more"), ""),
        Flag::plain('q', Works, "Log nothing."),
        Flag::plain('R', Accepted("session processes get their data by other means"), ""),
        Flag::plain('r', Accepted("each connection gets a new process"), ""),
        Flag::plain('T', Works, "Check the configuration, print it and exit."),
        Flag::plain('t', Works, "Check the configuration and the keys and exit."),
        Flag::with('u', "len", Accepted("addresses are logged in full"), "Width of the host field of utmp."),
        Flag::plain('V', Works, "Print the version and exit."),
    ],
};
