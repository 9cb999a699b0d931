//! The oldest supported compiler (`rust-version` in `Cargo.toml`). If this run does not use it, the workspace
//! is also checked with it, provided that it is installed.

use std::fs;
use std::process::{Command, Stdio};

use crate::workspace::{Outcome, call, root, target_dir};

/// Major and minor number of a compiler.
type Version = (u32, u32);

/// Checks that the declared compiler suffices, and that the README names it.
pub(crate) fn check() -> Outcome {
    let manifest =
        fs::read_to_string(root().join("Cargo.toml")).map_err(|error| format!("Cargo.toml: {error}"))?;
    let oldest = declared(&manifest).ok_or("Cargo.toml declares no rust-version")?;
    let readme =
        fs::read_to_string(root().join("README.md")).map_err(|error| format!("README.md: {error}"))?;
    let name = format!("{}.{}", oldest.0, oldest.1);
    if !readme.contains(&format!("Rust {name} (`rust-version`")) {
        return Err(format!("README.md does not name Rust {name} as the oldest supported compiler"));
    }
    let used = used().ok_or("rustc --version has no version")?;
    if used == oldest {
        println!("msrv: Rust {name}, the oldest supported compiler, builds everything in this run");
        return Ok(());
    }
    let installed = ["run", &name, "rustc", "--version"];
    let found = Command::new("rustup").args(installed).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        // The tests must also run on a machine with only a newer compiler; CI has both.
        println!("msrv: SKIPPED: Rust {name} is not installed; `rustup toolchain install {name}` does that");
        return Ok(());
    }
    let check = ["run", &name, "cargo", "check", "--locked", "--workspace", "--all-targets"];
    // The builds of the two compilers must not replace each other.
    let target = target_dir().join("msrv");
    let mut command = Command::new("rustup");
    command.current_dir(root()).args(check).env("CARGO_TARGET_DIR", target);
    call(command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC"))
}

/// Returns the `rust-version` of a manifest.
fn declared(manifest: &str) -> Option<Version> {
    let value = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    version(value.trim_matches('"'))
}

/// Returns the version of the compiler that cargo calls.
fn used() -> Option<Version> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).current_dir(root()).arg("--version").output().ok()?;
    version(String::from_utf8_lossy(&output.stdout).strip_prefix("rustc ")?)
}

/// Returns the first two numbers of a version.
fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split(['.', ' ', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(declared("[workspace.package]\nrust-version = \"1.95\"\n"), Some((1, 95)));
        assert_eq!(declared("edition = \"2024\"\n"), None);
        for text in ["1.95.0 (59807616e 2026-04-14)", "1.95.3-beta.1", "1.95"] {
            assert_eq!(version(text), Some((1, 95)), "{text}");
        }
        assert_eq!(version("nightly"), None);
        assert!(used().is_some_and(|used| used >= (1, 95)));
    }

    #[test]
    fn every_crate_declares_the_oldest_compiler() {
        for group in ["crates", "bins"] {
            for entry in fs::read_dir(root().join(group)).expect("a directory").flatten() {
                let manifest = entry.path().join("Cargo.toml");
                let text = fs::read_to_string(&manifest).expect("a manifest");
                assert!(text.contains("\nrust-version.workspace = true\n"), "{}", manifest.display());
            }
        }
    }
}
