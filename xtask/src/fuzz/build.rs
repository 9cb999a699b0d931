//! Builds of the fuzz targets, and the directories of their programs and inputs.

use std::fs;
use std::path::PathBuf;

use crate::workspace::{Outcome, built_library, call, cargo, host, root, target_dir};

/// Builds these targets with these flags into a separate directory below the target directory. `is_short`:
/// they run so briefly that to compile fast matters more than to run fast.
pub(super) fn build(names: &[String], flags: &str, directory: &str, is_short: bool) -> Outcome {
    let (place, host) = (root().join("fuzz"), host()?);
    // The flags are for the compiler of Rust, so the library in C is equal to that of the release build.
    let library = built_library(&place, &host)?;
    let mut build = cargo();
    build.current_dir(place).args(["build", "--locked", "--release", "--target", &host]).args(library);
    build.args(names.iter().flat_map(|name| ["--bin", name]));
    if is_short {
        build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    call(build.env("CARGO_TARGET_DIR", target_dir().join(directory)).env("RUSTFLAGS", flags))
}

/// Returns the directory of the programs.
pub(super) fn programs(directory: &str) -> Result<PathBuf, String> {
    Ok(target_dir().join(directory).join(host()?).join("release"))
}

/// Returns the directories of inputs: those found by runs, then those of the repository.
pub(super) fn corpora(name: &str) -> Result<[PathBuf; 2], String> {
    let directories = [target_dir().join("fuzz/corpus").join(name), root().join("fuzz/corpus").join(name)];
    for directory in &directories {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    Ok(directories)
}
