//! Creates all packages, one after the other.

use std::fs;
use std::path::Path;

use super::source::{Source, failed, sha256, write};
use super::{bill, build, deb, dependencies, emulated, layout, licences, oci, platform, rpm, size, tarball};

/// Builds the programs and creates every package in `source.out`. Returns the names of the packages.
pub(super) fn make(source: &Source) -> Result<Vec<String>, String> {
    if source.out.exists() {
        fs::remove_dir_all(&source.out).map_err(failed(&source.out))?;
    }
    fs::create_dir_all(&source.out).map_err(failed(&source.out))?;
    let graph = dependencies::read(source)?;
    let programs = build::build(source, &graph)?;
    if source.built.is_none() {
        size::check(&programs)?;
    } else {
        size::check_release(&programs)?;
    }
    let licences = licences::text(&graph)?;
    let bill = bill::cyclonedx(&graph, source)?;
    let parts = layout::Parts::new(source, &programs, &licences)?;
    write(&source.out.join(format!("longhaul-{}.cdx.json", source.version())), &bill)?;
    write(&source.out.join("THIRD-PARTY-LICENCES.txt"), &licences)?;
    tarball::make(source, &parts, &bill, "x86_64-linux", "README")?;
    if source.built.is_none() {
        tarball::debug_symbols(source, &programs)?;
    }
    deb::make(source, &parts)?;
    rpm::make(source, &parts)?;
    if source.built.is_none() {
        add_static(source, &graph, &licences, &bill)?;
    } else if let Some(program) = programs.iter().find(|program| program.name == "longhaul") {
        oci::make(source, "x86_64", &program.file, &oci::libraries(&program.file)?)?;
    }
    sums(&source.out)
}

/// Implements `cargo xtask dist --static`: adds the archives of the static builds, and fails if one cannot be
/// built.
pub(super) fn make_static(source: &Source) -> Result<(), String> {
    fs::create_dir_all(&source.out).map_err(failed(&source.out))?;
    let graph = dependencies::read(source)?;
    let missing = add_static(source, &graph, &licences::text(&graph)?, &bill::cyclonedx(&graph, source)?)?;
    sums(&source.out)?;
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
}

/// Creates archives for home directories, and container images, of each static build that this machine can
/// make. Returns the missing requirements of the others.
fn add_static(
    source: &Source,
    graph: &dependencies::Graph,
    licences: &str,
    bill: &str,
) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for platform in &platform::STATIC {
        if let Some(text) = platform.missing()? {
            println!("dist: {text}");
            missing.push(text);
            continue;
        }
        let architecture = platform.architecture();
        let program = build::build_static(source, graph, platform)?;
        emulated::test(&program.file, architecture)?;
        oci::make(source, architecture, &program.file, &[])?;
        let parts = layout::Parts::new(source, &[program], licences)?;
        tarball::make(source, &parts, bill, &format!("{architecture}-linux-static"), "README-static")?;
    }
    Ok(missing)
}

/// Writes `SHA256SUMS` for all files of a directory and prints them with their sizes.
fn sums(directory: &Path) -> Result<Vec<String>, String> {
    const LIST: &str = "SHA256SUMS";
    let mut names: Vec<String> = fs::read_dir(directory)
        .map_err(failed(directory))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != LIST)
        .collect();
    names.sort();
    let mut list = String::new();
    for name in &names {
        let bytes = fs::read(directory.join(name)).map_err(failed(&directory.join(name)))?;
        list.push_str(&format!("{}  {name}\n", sha256(&bytes)));
        println!("dist: {:>9} bytes  {name}", bytes.len());
    }
    write(&directory.join(LIST), &list)?;
    println!("dist: {}", directory.display());
    Ok(names)
}
