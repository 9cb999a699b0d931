//! Checks that comments fit into the line width of `rustfmt.toml`, which rustfmt applies to code only.

use std::fs;
use std::process::Command;

use crate::workspace::{Outcome, root};

/// `max_width` of `rustfmt.toml`.
const WIDTH: usize = 110;

/// Checks all Rust files under version control.
///
/// # Errors
/// The lines that are too long, or git does not run.
pub(crate) fn check() -> Outcome {
    let listed = Command::new("git").current_dir(root()).args(["ls-files", "-z", "*.rs"]).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        // An unpacked archive has no list of files.
        return Ok(());
    }
    let mut long = Vec::new();
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        // A file that is deleted and not committed yet is listed.
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        long.extend(too_long(&text).map(|number| format!("{name}:{number}: comment over {WIDTH} columns")));
    }
    if long.is_empty() { Ok(()) } else { Err(long.join("\n")) }
}

/// Returns the numbers of lines whose comment is too long. Lines that cannot be broken are left out: tables,
/// lists of what a test covers, and words without a space, as addresses.
fn too_long(text: &str) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
        let breaks = comment.contains(' ') && !comment.starts_with('|') && !comment.starts_with("Covers:");
        (breaks && line.chars().count() > WIDTH).then_some(index + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_comments_that_can_be_broken_are_too_long() {
        let words = "word ".repeat(30);
        let text = format!(
            "/// {words}\n/// | {words} |\n/// Covers: {words}\nlet code = \"{words}\";\n    // {words}\n//! https://{}\n// short\n",
            "x".repeat(120)
        );
        assert_eq!(too_long(&text).collect::<Vec<_>>(), [1, 5]);
    }
}
