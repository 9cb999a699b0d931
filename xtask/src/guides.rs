//! Tests that CONTRIBUTING.md and the pages of docs/ name existing files, functions and headings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;

use crate::workspace::root;

/// Returns the files below `directory` with this extension, sorted.
fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root().join(directory)];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|each| each == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Returns the code of a source file, without comments and tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns whether `text` contains `name` as a whole word. A dash after it belongs to the word; one before it
/// begins a flag.
fn names(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !before.ends_with(part) && !after.starts_with(|c| part(c) || c == '-')
    })
}

/// Returns the words in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns whether a file may mention an example without being in a recipe's list: it uses the name by
/// chance, decides when the example applies, or gives it as advice.
fn outside_of_lists(path: &str) -> bool {
    let directories = ["crates/transfer/src/engine/", "crates/instrument/src/doctor/"];
    let is_in = directories.iter().any(|directory| path.starts_with(directory));
    is_in || path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// A recipe: its heading, the names of its example, the files of its list.
struct Recipe<'a> {
    title: &'a str,
    example: Vec<&'a str>,
    files: Vec<&'a str>,
}

fn recipes(text: &str) -> Vec<Recipe<'_>> {
    let section = text.split_once("\n## Four recipes\n").map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let recipe = |part| -> Option<Recipe<'_>> {
        let (title, rest): (&str, &str) = str::split_once(part, '\n')?;
        let example = quoted(rest.lines().find_map(|line| line.strip_prefix("Example: "))?);
        let rows = rest.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        Some(Recipe { title, example, files: rows.collect() })
    };
    section.split("\n### ").skip(1).filter_map(recipe).collect()
}

#[test]
fn recipes_name_the_files_of_their_examples() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let recipes = recipes(&text);
    assert_eq!(recipes.len(), 4);
    let mut wrong = Vec::new();
    for Recipe { title, example, files: listed } in recipes {
        let is_source = |path: &str| path.contains("/src/") && !outside_of_lists(path);
        for file in &listed {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            if !example.iter().any(|name| names(&text, name)) {
                wrong.push(format!("{title}: {file} does not name {example:?}"));
            }
        }
        let sources = ["crates", "bins"].into_iter().flat_map(|directory| files(directory, "rs"));
        let named: BTreeSet<String> = sources
            .filter(|path| {
                let code = code(&fs::read_to_string(path).unwrap());
                is_source(&relative(path)) && example.iter().any(|name| names(&code, name))
            })
            .map(|path| relative(&path))
            .collect();
        let listed: BTreeSet<String> =
            listed.into_iter().filter(|path| is_source(path)).map(str::to_owned).collect();
        if named != listed {
            wrong.push(format!(
                "{title}: the code that names {example:?} is in {named:?}, the list has {listed:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "CONTRIBUTING.md:\n{}", wrong.join("\n"));
}

#[test]
fn functions_named_by_the_architecture_exist() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (file, function) in quoted(&text).into_iter().filter_map(|name| name.split_once(".rs:")) {
        let path = format!("{file}.rs");
        let code = fs::read_to_string(root().join(&path)).unwrap_or_default();
        count += 1;
        if ![format!("fn {function}("), format!("fn {function}<")].iter().any(|start| code.contains(start)) {
            wrong.push(format!("{path} has no function {function}"));
        }
    }
    assert!(count >= 40, "{count} functions");
    assert!(wrong.is_empty(), "docs/architecture.md:\n{}", wrong.join("\n"));
}

/// Checks links to files and to headings in them.
#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = files("docs", "md");
    pages.extend(
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root().join(name)),
    );
    let mut wrong = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in
            targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let linked = if path.is_dir() { Some(String::new()) } else { fs::read_to_string(&path).ok() };
            let there = linked.is_some_and(|text| {
                heading.is_empty()
                    || text.lines().any(|line| line.starts_with('#') && anchor(line) == heading)
            });
            if !there {
                wrong.push(format!("{}: {target}", relative(&page)));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn own_flags_and_keywords_are_in_the_pages_for_users() {
    let read = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let copying = read("copying.md");
    let flags = lh_cli::flags::SCP.flags.iter().filter_map(|flag| flag.long);
    let mut missing: Vec<String> = flags
        .filter(|flag| !names(&copying, flag))
        .map(|flag| format!("docs/copying.md does not name --{flag}"))
        .collect();
    let migrating = read("migrating.md");
    let others: String =
        ["server.md", "beside-sshd.md", "long-paths.md", "metrics.md", "migrating.md"].map(read).concat();
    for keyword in CLIENT_KEYWORDS.iter().chain(SERVER_KEYWORDS) {
        let meaning = keyword.meaning();
        if meaning.starts_with("HPN-SSH") && !names(&migrating, keyword.name) {
            missing.push(format!("docs/migrating.md does not name {}", keyword.name));
        }
        let own = meaning.starts_with("Longhaul: ") || meaning.contains("Our own keyword");
        if own && !names(&others, keyword.name) {
            missing.push(format!("no page for users names {}", keyword.name));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the versions in names of packages and images, such as `longhaul_0.1.0-1_amd64.deb` and
/// `longhaul:0.1.0`.
fn package_versions(text: &str) -> Vec<&str> {
    let dotted =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let begins: Vec<usize> = ["longhaul", "-server", "-openssh-names"]
        .iter()
        .flat_map(|name| text.match_indices(name).map(|(at, name)| at + name.len()))
        .collect();
    let behind = |at: usize| text[at..].strip_prefix(['-', '_', ':']);
    let version = |rest| -> Option<&str> {
        let version = str::get(rest, ..dotted(rest))?.trim_end_matches('.');
        (version.matches('.').count() == 2).then_some(version)
    };
    begins.into_iter().filter_map(behind).filter_map(version).collect()
}

/// RELEASING.md has a command that changes them all.
#[test]
fn pages_name_the_packages_of_this_version() {
    let page =
        |name: &str| fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut seen = 0;
    for path in files("docs", "md").iter().map(|path| relative(path)).chain(["README.md".to_owned()]) {
        let text = page(&path);
        for version in package_versions(&text) {
            assert_eq!(version, env!("CARGO_PKG_VERSION"), "{path} names packages of another version");
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} names of packages found");
    let example = "a longhaul_0.1.0-1_amd64.deb b/longhaul-server-1.2.3-1.noarch.rpm longhaul:4.5.6. longhaul-VERSION longhaul-1.2";
    assert_eq!(package_versions(example), ["0.1.0", "4.5.6", "1.2.3"]);
}

/// Returns the anchor of a heading in links.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn names_are_words_of_their_own() {
    assert!(names("x \"no-resume\",", "no-resume") && names("X::Aes192Ctr)", "Aes192Ctr"));
    assert!(!names("no-resumed", "no-resume") && !names("xno-resume", "no-resume"));
    assert_eq!(code("a\n  // b\n#[cfg(test)]\nmod tests {\nc"), "a");
    // A declaration of tests in another file may stand before the code.
    assert_eq!(code("#[cfg(test)]\nmod tests;\na"), "#[cfg(test)]\nmod tests;\na");
    assert_eq!(anchor("## \"Many processes\": shards, 2"), "many-processes-shards-2");
    let text = "\n## Four recipes\n\n### Add x\n\nExample: `a`, `b`\n\n| file | what |\n|---|---|\n| `c.rs` | `d` |\n\n## Next\n";
    let found = recipes(text);
    assert_eq!((found.len(), found[0].title), (1, "Add x"));
    assert_eq!((&found[0].example[..], &found[0].files[..]), (&["a", "b"][..], &["c.rs"][..]));
}
