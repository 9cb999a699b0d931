//! Reads which tests cover which feature, from lines like `/// Covers: ssh -L; ssh_config LocalForward; token
//! %C; wire ping@openssh.com` above them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Maps each subject (`ssh -L`) to the tests that cover it.
#[derive(Debug, Default)]
pub(crate) struct Covers {
    tests: BTreeMap<String, Vec<String>>,
}

impl Covers {
    /// Reads every source file of the workspace below `root`.
    pub(crate) fn collect(root: &Path) -> Result<Self, String> {
        let mut covers = Self::default();
        for directory in ["crates", "bins", "interop", "xtask"] {
            covers.directory(&root.join(directory))?;
        }
        Ok(covers)
    }

    fn directory(&mut self, directory: &Path) -> Result<(), String> {
        let problem = |error: std::io::Error| format!("{}: {error}", directory.display());
        let mut entries: Vec<_> =
            fs::read_dir(directory).map_err(problem)?.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                if !path.ends_with("target") {
                    self.directory(&path)?;
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text =
                    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                self.file(&text);
            }
        }
        Ok(())
    }

    fn file(&mut self, text: &str) {
        let mut claims: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(list) = line.strip_prefix("/// Covers:") {
                // A remark in parentheses names the part of the subject that the test covers.
                let subject = |claim: &str| claim.split(" (").next().unwrap_or_default().trim().to_owned();
                claims.extend(list.split(';').map(subject));
            } else if let Some(rest) = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn ")) {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                for claim in claims.drain(..).filter(|claim| !claim.is_empty()) {
                    let tests = self.tests.entry(claim).or_default();
                    if !tests.contains(&name) {
                        tests.push(name.clone());
                    }
                }
            } else if line.is_empty() {
                claims.clear();
            }
        }
    }

    /// Returns a table cell with the tests that cover any of these subjects; empty when none does.
    pub(crate) fn cell(&self, subjects: &[String]) -> String {
        let mut names: Vec<&str> = Vec::new();
        for test in subjects.iter().filter_map(|subject| self.tests.get(subject)).flatten() {
            if !names.contains(&test.as_str()) {
                names.push(test);
            }
        }
        let more = names.len().saturating_sub(SHOWN);
        let mut cell: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        if more > 0 {
            cell.push(format!("and {more} more"));
        }
        cell.join(", ")
    }

    /// Returns the covered subjects that begin with `prefix`, without it.
    pub(crate) fn subjects<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.tests.keys().filter_map(move |subject| subject.strip_prefix(prefix))
    }

    /// Returns the subjects for which `known` is false: those without a table row.
    pub(crate) fn others(&self, known: &dyn Fn(&str) -> bool) -> Vec<String> {
        self.tests.keys().filter(|subject| !known(subject)).cloned().collect()
    }
}

/// Number of tests that a cell names; further ones are only counted.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_those_above_the_next_function() {
        let mut covers = Covers::default();
        covers.file(
            "/// Says something.\n/// Covers: ssh -L (two of them); token %C\n#[test]\nfn one() {}\n\n    /// Covers: ssh -L;\n    #[test]\n    \
             fn two() {}\n\n/// Covers: ssh -X\n\nfn three() {}\n",
        );
        assert_eq!(covers.cell(&["ssh -L".to_owned()]), "`one`, `two`");
        assert_eq!(covers.cell(&["token %C".to_owned(), "ssh -L".to_owned()]), "`one`, `two`");
        assert_eq!(covers.cell(&["ssh -X".to_owned()]), "", "a blank line ends the comment");
        assert_eq!(covers.others(&|subject| subject != "token %C"), ["token %C"]);
        assert_eq!(covers.subjects("token ").collect::<Vec<_>>(), ["%C"]);
    }

    #[test]
    fn many_tests_are_counted() {
        let mut covers = Covers::default();
        for name in ["a", "b", "c", "d", "e"] {
            covers.file(&format!("/// Covers: x\nfn {name}() {{}}\n"));
        }
        assert_eq!(covers.cell(&["x".to_owned()]), "`a`, `b`, `c`, and 2 more");
    }
}
