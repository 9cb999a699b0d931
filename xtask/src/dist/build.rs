//! Builds the packaged programs, the same on every machine and in every directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::dependencies::{FEATURES, Graph, TARGET};
use super::elf;
use super::source::{Source, failed, output};
use crate::workspace::{call, cargo};

/// A program: what is installed, and its symbols.
#[derive(Debug)]
pub(super) struct Program {
    /// Name it is installed by.
    pub name: &'static str,
    /// Its file, without symbols.
    pub file: PathBuf,
    /// Its symbols.
    pub symbols: PathBuf,
    /// Hexadecimal; debuggers find the symbols by it.
    pub build_id: String,
}

/// Builds all programs, splits their symbols off, and embeds the list of crates that they are made of.
pub(super) fn build(source: &Source, graph: &Graph) -> Result<Vec<Program>, String> {
    let built = match &source.built {
        Some(directory) => directory.clone(),
        None => compile(source, graph)?,
    };
    let stripped = source.scratch("programs")?;
    let list = stripped.join("crates");
    fs::write(&list, elf::crate_list(graph)).map_err(failed(&list))?;
    graph.roots.iter().map(|package| finish(package, &built, &stripped, &list)).collect()
}

/// Runs the compiler; returns the directory of the programs.
fn compile(source: &Source, graph: &Graph) -> Result<PathBuf, String> {
    let maps = path_maps(source, graph)?;
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", "dist", "--features", FEATURES]);
    for package in &graph.roots {
        command.args(["--package", package]);
    }
    let flags: Vec<String> =
        maps.iter().map(|(from, to)| format!("\"--remap-path-prefix={from}={to}\"")).collect();
    command.args(["--config", &format!("target.{TARGET}.rustflags=[{}]", flags.join(","))]);
    let flags: Vec<String> = maps.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    // These would override the flags above, or what the C compiler is told.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_TARGET_DIR"] {
        command.env_remove(variable);
    }
    command.env("CFLAGS", flags.join(" "));
    command.arg("--target-dir").arg(&source.build).current_dir(&source.root);
    call(&mut command)?;
    Ok(source.build.join("dist"))
}

/// Directories that compilers would write into the programs, and what they write instead. The last one that
/// fits counts.
fn path_maps(source: &Source, graph: &Graph) -> Result<Vec<(String, &'static str)>, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".cargo")));
    let paths =
        [(home, "/cargo"), (graph.sources.clone(), "/cargo"), (Some(source.root.clone()), "/longhaul")];
    let text = |path: PathBuf| {
        let text = path.to_str().filter(|text| !text.contains(['"', '\\', ' ', '=']));
        text.map(str::to_owned)
            .ok_or_else(|| format!("{}: cannot be built in that directory", path.display()))
    };
    paths.into_iter().filter_map(|(path, to)| Some(text(path?).map(|from| (from, to)))).collect()
}

fn home() -> Option<PathBuf> {
    std::env::home_dir()
}

/// Splits the symbols off one program and embeds the list of its crates.
fn finish(package: &&'static str, built: &Path, to: &Path, list: &Path) -> Result<Program, String> {
    let name = if *package == "longhaul-multi" { "longhaul" } else { package };
    let (file, symbols) = (to.join(name), to.join(format!("{name}.debug")));
    let from = built.join(package);
    output(
        Command::new("objcopy")
            .args(["--only-keep-debug", "--compress-debug-sections"])
            .args([&from, &symbols]),
    )?;
    let mut strip = Command::new("objcopy");
    strip.arg("--strip-all").arg(format!("--add-section=.dep-v0={}", list.display()));
    strip.arg("--set-section-flags=.dep-v0=noload,readonly");
    output(strip.arg(format!("--add-gnu-debuglink={}", symbols.display())).args([&from, &file]))?;
    let notes = output(Command::new("readelf").args(["--notes", "--wide"]).arg(&file))?;
    let build_id = notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let build_id = build_id.ok_or_else(|| format!("{name}: the linker wrote no build ID"))?.to_owned();
    Ok(Program { name, file, symbols, build_id })
}
