//! Commands that the tests of the packages run: those of `packaging/tests`, in new systems and in containers.
//!
//! They are calls of the shell functions `page START [PAGE]` and `line_of START [PAGE]` there. In
//! `podman.sh`, a second part of the command stands in the place of the page.

use crate::pages::read;

/// Scripts, the page of a call that names none, and whether the second word is a part of the command.
const SCRIPTS: &[(&str, &str, bool)] = &[
    ("installed.sh", "docs/install.md", false),
    ("installed_systemd.sh", "docs/install.md", false),
    ("podman.sh", "docs/containers.md", true),
];

/// A command that a script follows.
pub(crate) struct Call {
    pub(crate) script: &'static str,
    pub(crate) page: String,
    /// How the command begins, and what else it contains.
    pub(crate) start: String,
    pub(crate) part: String,
}

impl Call {
    /// Returns whether this is the command.
    pub(crate) fn is(&self, page: &str, command: &str) -> bool {
        self.page == page && command.starts_with(&self.start) && command.contains(&self.part)
    }
}

/// Returns the text in quotes at the beginning, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|char| ['\'', '"'].contains(char))?;
    text[1..].split_once(quote)
}

/// Returns the calls in a script.
fn calls(script: &'static str, text: &str, page: &str, has_part: bool) -> Vec<Call> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let at = ["page ", "line_of "].iter().flat_map(|name| line.match_indices(name));
        for (at, name) in at {
            if line[..at].ends_with(|char: char| char.is_alphanumeric() || "_$".contains(char)) {
                continue;
            }
            let Some((start, rest)) = quoted(&line[at + name.len()..]) else { continue };
            let (mut page, mut part) = (page.to_owned(), String::new());
            if has_part {
                part = quoted(rest.trim_start()).map_or("", |(part, _)| part).to_owned();
            } else if let Some(name) = rest.trim_start().split([' ', ')', ';']).next()
                && name.ends_with(".md")
            {
                page = if name == "README.md" { name.to_owned() } else { format!("docs/{name}") };
            }
            found.push(Call { script, page, start: start.to_owned(), part });
        }
    }
    found
}

/// Returns the calls of all scripts.
pub(crate) fn all_calls() -> Vec<Call> {
    let of_script = |&(script, page, has_part): &(&'static str, &str, bool)| {
        calls(script, &read(&format!("packaging/tests/{script}")), page, has_part)
    };
    let found: Vec<_> = SCRIPTS.iter().flat_map(of_script).collect();
    assert!(found.len() > 30, "only {} calls", found.len());
    found
}

#[test]
fn calls_name_a_page_or_a_part() {
    let text = "page \"a b\"\n# page \"c\"\nx | grep; page 'd \"e' server.md | f\n(page \"g\" README.md)\nopage \"h\"\n";
    let found: Vec<_> =
        calls("s", text, "docs/install.md", false).into_iter().map(|call| (call.page, call.start)).collect();
    assert_eq!(
        found,
        [("docs/install.md", "a b"), ("docs/server.md", "d \"e"), ("README.md", "g")]
            .map(|(page, start)| (page.to_owned(), start.to_owned()))
    );
    let found = calls("s", "page \"a\" \"--b\"\n", "docs/containers.md", true);
    assert!(found[0].is("docs/containers.md", "a c --b") && !found[0].is("docs/containers.md", "a c"));
}
