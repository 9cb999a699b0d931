//! Licence texts of all crates whose code is in the programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use super::dependencies::{Crate, Graph};
use super::source::failed;

/// Returns one document: the licensors of each crate, then every text once.
pub(super) fn text(graph: &Graph) -> Result<String, String> {
    let mut out = String::from(
        "Longhaul is licensed under MIT or Apache-2.0, as you like. Its programs contain code of these crates:\n\n",
    );
    // Each text with the crates to which it belongs.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in graph.crates.iter().filter(|one| one.from_registry && one.is_linked) {
        if one.licence.is_empty() {
            return Err(format!("{} {}: names no licence", one.name, one.version));
        }
        let _ = writeln!(out, "{} {}: {}  {}", one.name, one.version, one.licence, one.repository);
        for text in files(one)? {
            texts.entry(text).or_default().push(format!("{} {}", one.name, one.version));
        }
    }
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        let _ = write!(out, "\n{}\n{}\n\n{}\n", "=".repeat(78), names.join(", "), text.trim_end());
    }
    Ok(out)
}

/// Returns the licence files in the directory of a crate.
fn files(one: &Crate) -> Result<Vec<String>, String> {
    let mut paths: Vec<_> = fs::read_dir(&one.directory)
        .map_err(failed(&one.directory))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
            let starts = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
            path.is_file() && starts.iter().any(|start| name.starts_with(start))
        })
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).map_err(failed(path)).map(|bytes| text_of(&bytes))).collect()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n")
}
