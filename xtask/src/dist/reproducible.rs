//! Checks that packages depend only on the sources: builds them again in another directory, and compares.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::make::make;
use super::source::{Source, failed, output};
use crate::workspace::Outcome;

/// `cargo xtask dist --check-reproducible`
pub(super) fn check() -> Outcome {
    let here = Source::here()?;
    let names = make(&here)?;
    // The path is different, has another length, and contains no files of earlier builds.
    let elsewhere = tempfile::Builder::new().prefix("longhaul-somewhere-else-").tempdir();
    let elsewhere = elsewhere.map_err(|error| format!("temporary directory: {error}"))?;
    let root = elsewhere.path().join("a/copy/of/the/sources");
    export(&here.root, &root)?;
    let there = Source {
        build: root.join("target/dist-build"),
        out: root.join("target/dist"),
        built: None,
        epoch: here.epoch,
        root,
    };
    let others = make(&there)?;
    let mut different: Vec<&String> = names.iter().filter(|name| !others.contains(name)).collect();
    different.extend(others.iter().filter(|name| !names.contains(name)));
    for name in names.iter().filter(|name| others.contains(name)) {
        let read = |source: &Source| fs::read(source.out.join(name)).map_err(failed(&source.out.join(name)));
        if read(&here)? != read(&there)? {
            different.push(name);
        }
    }
    if different.is_empty() {
        println!("dist: {} files are the same, byte for byte, from two directories", names.len());
        Ok(())
    } else {
        // The differing files are kept, so that they can be examined.
        Err(format!("different in {}: {different:?}", elsewhere.keep().display()))
    }
}

/// Copies the files that git tracks, in their present state.
fn export(from: &Path, to: &Path) -> Outcome {
    let list = output(Command::new("git").args(["ls-files", "-z"]).current_dir(from))?;
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        let target = to.join(name);
        let directory = target.parent().unwrap_or(to);
        fs::create_dir_all(directory).map_err(failed(directory))?;
        fs::copy(from.join(name), &target).map_err(failed(&target))?;
    }
    Ok(())
}
