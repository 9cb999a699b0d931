//! Checks that tests report skips by `lh_testkit::skip` and `skip_unavailable` only: these also write to the
//! list of `LH_SKIP_LOG`, and `skip` fails where `LH_REQUIRE_PEERS` forbids it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::{Outcome, root, shown};

/// Directories whose Rust files contain tests. Steps of `xtask` and campaigns report skips of their own.
const WITH_TESTS: &[&str] = &["bench", "bins", "campaign/tests", "crates", "interop", "xtask/src/docs"];

/// The crate that defines the functions.
const DEFINITION: &str = "crates/testkit";

/// Adds to `wrong` every line that reports a skip itself.
///
/// # Errors
/// A directory or file cannot be read.
pub(super) fn check(wrong: &mut Vec<String>) -> Outcome {
    for name in WITH_TESTS {
        for file in rust_files(&root().join(name))? {
            if file.starts_with(root().join(DEFINITION)) {
                continue;
            }
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            wrong.extend(direct_reports(&text).map(|line| {
                format!(
                    "{}:{line}: report the skip by `lh_testkit::skip` or `skip_unavailable`",
                    shown(&file)
                )
            }));
        }
    }
    Ok(())
}

fn rust_files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries =
            fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Returns the numbers of the lines of code that contain the word of a report.
fn direct_reports(text: &str) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let is_code = !line.trim_start().starts_with("//");
        (is_code && line.contains("SKIPPED")).then_some(index + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_reports_are_found_in_code_only() {
        let text = "fn test() {\n    // Says SKIPPED.\n    eprintln!(\"SKIPPED: no terminal\");\n    \
                    return eprintln!(\n        \"SKIPPED nice values\"\n    );\n    \
                    lh_testkit::skip(\"a test\", \"no terminal\");\n}\n";
        assert_eq!(direct_reports(text).collect::<Vec<_>>(), [3, 5]);
    }

    #[test]
    fn tests_of_the_workspace_have_no_direct_reports() {
        let mut wrong = Vec::new();
        check(&mut wrong).unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
