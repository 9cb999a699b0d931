//! The list of what was not copied (`--failed-out`).

use std::collections::BTreeSet;

/// Items that were not copied, or not completely.
#[derive(Debug, Default)]
pub(super) struct Failed {
    /// Paths from the top of their trees.
    pub(super) paths: BTreeSet<Vec<u8>>,
    /// Whether something that the command line names is among them.
    pub(super) named: bool,
}

impl Failed {
    /// Adds the whole tree, because it is not known what of it was not copied.
    pub(super) fn add_everything(&mut self) {
        self.paths.insert(Vec::new());
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.paths.extend(other.paths);
        self.named |= other.named;
    }

    /// Returns the list in the form that `--manifest` reads.
    pub(super) fn text(&self) -> Vec<u8> {
        let lines = |path: &Vec<u8>| !path.contains(&b'\n') && !path.ends_with(b"\r");
        let with_lines = self.paths.iter().all(lines);
        let mut text = Vec::new();
        if with_lines && self.named {
            text.extend_from_slice(b"# and files that the command line names, which are always copied\n");
        }
        for path in &self.paths {
            if path.is_empty() || path.starts_with(b"#") {
                text.extend_from_slice(b"./");
            }
            text.extend_from_slice(path);
            text.push(if with_lines { b'\n' } else { 0 });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_failures_are_manifests() {
        let mut failed = Failed::default();
        assert_eq!(failed.text(), b"");
        failed.paths.extend([b"a b".to_vec(), b"#c".to_vec(), Vec::new()]);
        assert_eq!(failed.text(), b"./\n./#c\na b\n");
        failed.named = true;
        assert!(failed.text().starts_with(b"# "));
        failed.paths.insert(b"with\nline".to_vec());
        assert_eq!(failed.text(), b"./\0./#c\0a b\0with\nline\0");
    }
}
