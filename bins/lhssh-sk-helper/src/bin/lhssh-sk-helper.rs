//! The program `lhssh-sk-helper` on its own. Packages have it as a name of `lhssh-pkcs11-helper`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lhssh_sk_helper::main()
}
