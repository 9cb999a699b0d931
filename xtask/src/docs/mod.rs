//! Manual pages and shell completions, generated from the tables with which the programs parse their
//! arguments.

mod bash;
mod fish;
mod man;
mod pages;
mod programs;
mod values;
mod zsh;

use std::fs;
use std::path::{Path, PathBuf};

use lh_cli::flags::PROGRAMS;

use crate::workspace::{Outcome, target_dir};

/// Writes everything below `--out`, or `target/docs`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let out = match args {
        [] => target_dir().join("docs"),
        [flag, directory] if flag == "--out" => PathBuf::from(directory),
        _ => return Err("usage: cargo xtask docs [--out DIR]".to_owned()),
    };
    let files = files();
    for (name, text) in &files {
        write(&out.join(name), text)?;
    }
    println!("docs: {} files in {}", files.len(), out.display());
    Ok(())
}

/// Like [`files`], with this date in the pages.
pub(crate) fn files_dated(epoch: u64) -> Vec<(String, String)> {
    let _ = man::TIME.set(i64::try_from(epoch).unwrap_or_default());
    files()
}

/// The manual pages.
pub(crate) fn manual_pages() -> Vec<(String, String)> {
    files().into_iter().filter(|(name, _)| name.starts_with("man/")).collect()
}

/// Returns every generated file: its name below the output directory, and its content.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for program in PROGRAMS {
        let section = man::section(program.name);
        files.push((format!("man/man{section}/{}.{section}", program.name), man::program(program)));
        files.push((format!("completions/bash/{}", program.name), bash::completion(program)));
        files.push((format!("completions/zsh/_{}", program.name), zsh::completion(program)));
        files.push((format!("completions/fish/{}.fish", program.name), fish::completion(program)));
    }
    files.extend(man::helpers().map(|(name, text)| (format!("man/man8/{name}.8"), text)));
    files.push(("man/man5/lhssh_config.5".to_owned(), pages::client_configuration()));
    files.push(("man/man5/lhsshd_config.5".to_owned(), pages::server_configuration()));
    files
}

fn write(path: &Path, text: &str) -> Outcome {
    let problem = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(problem)?;
    }
    fs::write(path, text).map_err(problem)
}

#[cfg(test)]
mod installed;
#[cfg(test)]
mod tests;
