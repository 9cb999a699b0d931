//! The flags of `longhaul`.

use super::program::Support::Works;
use super::program::{Flag, Program};

/// `longhaul`. The first operand is the subcommand.
pub static LONGHAUL: Program = Program {
    name: "longhaul",
    about: "analyse recorded connections",
    operands: "report file ...",
    flags_after_first_operand: true,
    usage_status: 2,
    flags: &[
        Flag::with(
            'o',
            "file",
            Works,
            "Write the report to this file, - for standard output (report.html, or report.csv with --csv).",
        ),
        Flag::long("csv", Works, "Write the samples as comma-separated values (RFC 4180) instead of a page."),
    ],
};
