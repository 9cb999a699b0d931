//! Builds the packaged programs, identically on every machine and in every directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::dependencies::{Graph, TARGET};
use super::elf;
use super::platform::{PACKAGED, Platform};
use super::source::{Source, failed, output};
use crate::workspace::{call, cargo};

/// A packaged program with its symbols.
#[derive(Debug)]
pub(super) struct Program {
    /// Installed name.
    pub name: &'static str,
    /// Path of the program, without symbols.
    pub file: PathBuf,
    /// Path of the symbols.
    pub symbols: PathBuf,
    /// Build id in hexadecimal, by which debuggers find the symbols.
    pub build_id: String,
}

/// Cargo package of the program with all names.
const MULTI: &str = "longhaul-multi";

/// Flags for the C compiler for helpers, which sign once: AWS-LC leaves out the arithmetic of RSA and the
/// curves for processors with ADX and AVX2, and its tables for Curve25519, which are 0.4 MB in a program.
const HELPER_C_FLAGS: &str = "-DMY_ASSEMBLER_IS_TOO_OLD_FOR_ADX_AVX2";

/// Builds all programs, splits off their symbols, and embeds their lists of crates.
pub(super) fn build(source: &Source, graph: &Graph) -> Result<Vec<Program>, String> {
    if source.built.is_none() {
        let helpers: Vec<&str> = graph.roots.iter().copied().filter(|package| *package != MULTI).collect();
        compile(source, graph, &PACKAGED, &[MULTI])?;
        compile(source, graph, &PACKAGED, &helpers)?;
    }
    let stripped = source.scratch("programs")?;
    let finish = |package: &&'static str| {
        let from = source.built.clone().unwrap_or_else(|| source.build.join(profile(package)));
        finish(package, &from, &stripped, graph, &PACKAGED)
    };
    graph.roots.iter().map(finish).collect()
}

/// Builds the program with all names for a static platform.
pub(super) fn build_static(source: &Source, graph: &Graph, platform: &Platform) -> Result<Program, String> {
    compile(source, graph, platform, &[MULTI])?;
    let from = directory(source, platform).join(platform.triple).join(profile(MULTI));
    finish(MULTI, &from, &source.scratch(platform.triple)?, graph, platform)
}

/// Returns cargo's directory. Static builds have their own, because they may run beside the other build.
fn directory(source: &Source, platform: &Platform) -> PathBuf {
    if platform.triple == TARGET { source.build.clone() } else { source.build.join("static") }
}

/// Returns the profile with which a package is built.
fn profile(package: &str) -> &'static str {
    if package == MULTI { "dist" } else { "dist-helper" }
}

/// Runs the compiler for packages of one profile.
fn compile(source: &Source, graph: &Graph, platform: &Platform, packages: &[&str]) -> Result<(), String> {
    let maps = path_maps(source, graph)?;
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", profile(packages[0])]);
    for package in packages {
        command.args(["--package", package]);
    }
    let triple = platform.triple;
    if triple != TARGET {
        command.args(["--target", triple]);
    }
    let mut flags: Vec<String> =
        maps.iter().map(|(from, to)| format!("\"--remap-path-prefix={from}={to}\"")).collect();
    flags.extend(platform.linker_flags.iter().map(|flag| format!("\"-Clink-arg=-Wl,{flag}\"")));
    command.args(["--config", &format!("target.{triple}.rustflags=[{}]", flags.join(","))]);
    let flags: Vec<String> = maps.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    // These variables would override the flags above, or the settings of the C compiler.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_TARGET_DIR"] {
        command.env_remove(variable);
    }
    command.envs(platform.variables.iter().copied());
    // Programs that run during the build are compiled for this machine.
    let variable = format!("CFLAGS_{}", triple.replace('-', "_"));
    let helper = if profile(packages[0]) == "dist-helper" { HELPER_C_FLAGS } else { "" };
    let flags = [&flags.join(" "), platform.c_flags, helper];
    command.env(variable, flags.join(" ").trim_end());
    command.arg("--target-dir").arg(directory(source, platform)).current_dir(&source.root);
    call(&mut command)
}

/// Returns the directories whose names compilers would write into the programs, and their replacements. The
/// last one that matches applies.
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
fn finish(
    package: &'static str,
    built: &Path,
    to: &Path,
    graph: &Graph,
    platform: &Platform,
) -> Result<Program, String> {
    let list = to.join("crates");
    fs::write(&list, elf::crate_list(graph)?).map_err(failed(&list))?;
    let name = if package == MULTI { "longhaul" } else { package };
    let (file, symbols) = (to.join(name), to.join(format!("{name}.debug")));
    let from = built.join(package);
    let tool = |name: &str| Command::new(format!("{}{name}", platform.tools));
    output(tool("objcopy").args(["--only-keep-debug", "--compress-debug-sections"]).args([&from, &symbols]))?;
    let mut strip = tool("objcopy");
    strip.arg("--strip-all").arg(format!("--add-section=.dep-v0={}", list.display()));
    strip.arg("--set-section-flags=.dep-v0=noload,readonly");
    output(strip.arg(format!("--add-gnu-debuglink={}", symbols.display())).args([&from, &file]))?;
    let notes = output(tool("readelf").args(["--notes", "--wide"]).arg(&file))?;
    let build_id = notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let build_id = build_id.ok_or_else(|| format!("{name}: the linker wrote no build ID"))?.to_owned();
    Ok(Program { name, file, symbols, build_id })
}
