//! `lh-bench`: see the library's documentation; usually started by `cargo xtask bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    lh_bench::main(&args)
}
