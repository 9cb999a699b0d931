//! Miri: unit tests of unsafe code under the interpreter that finds undefined behaviour.

use std::process::{Command, Stdio};

use crate::workspace::{Outcome, call, root, target_dir};

/// Tests of lh-sys, by module: those with unsafe code that make no system call which the interpreter lacks.
const TESTS: &[(&str, &str)] = &[
    ("interfaces", "socket_addresses_are_read_at_any_alignment"),
    ("security_key::interface", "options_can_be_read_after_moves"),
    ("security_key::interface", "responses_are_copied_and_freed"),
    ("spawn::image", "pointers_for_the_child_survive_moves"),
    ("users", "entries_of_the_c_library_are_copied"),
];

/// Time limit of all tests after compilation, seconds.
const LIMIT: &str = "300";

/// Runs the tests if a nightly compiler with Miri is installed or can be installed.
pub(crate) fn check() -> Outcome {
    if !has_miri() {
        let add = ["120", "rustup", "component", "add", "--toolchain", "nightly", "miri", "rust-src"];
        // A machine without network access must not wait long.
        let added = Command::new("timeout").args(add).status();
        if !added.is_ok_and(|status| status.success()) || !has_miri() {
            println!("miri: SKIPPED: `rustup component add --toolchain nightly miri rust-src` has failed");
            return Ok(());
        }
    }
    let prepared = |cargo: &mut Command| {
        // The tests may use the host's clocks and files.
        let cargo = cargo.args(["miri", "test", "--locked", "-p", "lh-sys", "--lib"]);
        cargo.env("CARGO_TARGET_DIR", target_dir().join("miri")).env("MIRIFLAGS", "-Zmiri-disable-isolation");
    };
    // The first run compiles a standard library, whose crates may have to be downloaded.
    let mut setup = nightly(Command::new("rustup"));
    if !setup.args(["miri", "setup"]).status().is_ok_and(|status| status.success()) {
        println!("miri: SKIPPED: `cargo +nightly miri setup` has failed");
        return Ok(());
    }
    let mut compile = nightly(Command::new("rustup"));
    prepared(&mut compile);
    call(compile.arg("--no-run"))?;
    let mut test = Command::new("timeout");
    test.args([LIMIT, "rustup"]);
    let mut test = nightly(test);
    prepared(&mut test);
    call(
        test.args(["--", "--exact"])
            .args(TESTS.iter().map(|(module, test)| format!("{module}::tests::{test}"))),
    )
}

fn has_miri() -> bool {
    let mut version = nightly(Command::new("rustup"));
    let found = version.args(["miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Completes a call of rustup to one of the nightly cargo, without the variables that the calling cargo has
/// set.
fn nightly(mut rustup: Command) -> Command {
    rustup.current_dir(root()).args(["run", "nightly", "cargo"]);
    rustup.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    rustup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_the_list_exist() {
        for (module, test) in TESTS {
            let path = root().join("crates/sys/src").join(format!("{}.rs", module.replace("::", "/")));
            let text = std::fs::read_to_string(&path).expect("a module of lh-sys");
            assert!(text.contains(&format!("fn {test}()")), "{}: {test}", path.display());
        }
    }
}
