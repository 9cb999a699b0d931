use std::fs;
use std::path::{Path, PathBuf};

/// Returns the files below `root` with the name of an unfinished copy (`.NAME.ID.lhpart`). Unreadable
/// directories count as empty.
#[must_use]
pub fn leftovers(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(leftovers(&path));
        } else if path.extension().is_some_and(|end| end == "lhpart") {
            found.push(path);
        }
    }
    found
}
