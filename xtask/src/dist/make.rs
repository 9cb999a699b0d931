//! Makes all packages, one after the other.

use std::fs;
use std::path::Path;

use super::source::{Source, failed, sha256, write};
use super::{bill, build, deb, dependencies, layout, licences, rpm, tarball};

/// Builds the programs and makes every package in `source.out`. Returns their names.
pub(super) fn make(source: &Source) -> Result<Vec<String>, String> {
    if source.out.exists() {
        fs::remove_dir_all(&source.out).map_err(failed(&source.out))?;
    }
    fs::create_dir_all(&source.out).map_err(failed(&source.out))?;
    let graph = dependencies::read(source)?;
    let programs = build::build(source, &graph)?;
    let licences = licences::text(&graph)?;
    let bill = bill::cyclonedx(&graph, source)?;
    let parts = layout::Parts::new(source, &programs, &licences)?;
    write(&source.out.join(format!("longhaul-{}.cdx.json", source.version())), &bill)?;
    write(&source.out.join("THIRD-PARTY-LICENCES.txt"), &licences)?;
    tarball::make(source, &parts, &bill)?;
    if source.built.is_none() {
        tarball::debug_symbols(source, &programs)?;
    }
    deb::make(source, &parts)?;
    rpm::make(source, &parts)?;
    sums(&source.out)
}

/// Writes `SHA256SUMS` for all files of a directory and prints them with their sizes.
fn sums(directory: &Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .map_err(failed(directory))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut list = String::new();
    for name in &names {
        let bytes = fs::read(directory.join(name)).map_err(failed(&directory.join(name)))?;
        list.push_str(&format!("{}  {name}\n", sha256(&bytes)));
        println!("dist: {:>9} bytes  {name}", bytes.len());
    }
    write(&directory.join("SHA256SUMS"), &list)?;
    println!("dist: {}", directory.display());
    Ok(names)
}
