//! The flags of `lhsftp-server` and `internal-sftp`, which are those of sftp-server(8).

use super::program::Support::Works;
use super::program::{Flag, Program};

/// The flag table of `lhsftp-server`.
pub static SFTP_SERVER: Program = Program {
    name: "lhsftp-server",
    about: "serve files over SFTP on standard input and output, started by an SSH server",
    operands: "",
    flags_after_first_operand: false,
    usage_status: 1,
    flags: &[
        Flag::plain('c', Works, "Serve, and ignore the operand: a login shell is called with -c COMMAND."),
        Flag::with(
            'd',
            "start_directory",
            Works,
            "Start here; %d and %h stand for the home directory, %u for the user name.",
        ),
        Flag::plain('e', Works, "Log to standard error."),
        Flag::with('f', "log_facility", Works, "Facility of the system's log; AUTH by default."),
        Flag::plain('h', Works, "Show the usage text."),
        Flag::with(
            'l',
            "log_level",
            Works,
            "Log down to this level; ERROR by default; INFO and VERBOSE include each file.",
        ),
        Flag::with('P', "denied_requests", Works, "Refuse these requests, separated by commas."),
        Flag::with('p', "allowed_requests", Works, "Serve only these requests, separated by commas."),
        Flag::with('Q', "protocol_feature", Works, "List the supported values of a feature: requests."),
        Flag::plain('R', Works, "Refuse all requests that change files."),
        Flag::with('u', "umask", Works, "Create files and directories with this umask."),
    ],
};
