//! The program `lhssh-keyscan` on its own. Packages have it as a name of one program for all
//! (`longhaul-multi`).

use std::process::ExitCode;

fn main() -> ExitCode {
    lhssh_keyscan::main()
}
