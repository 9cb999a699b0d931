//! Checks docs/security.md: each test it names exists, and each row names tests or says that there is none.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::workspace::root;

/// Collects the names of all `#[test]` functions in the sources of a directory.
fn tests_in(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            tests_in(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line == "#[test]" {
                    let function = lines.by_ref().find_map(|line| line.strip_prefix("fn "));
                    let name = function.and_then(|rest| rest.split(['(', '<']).next());
                    names.extend(name.map(str::to_owned));
                }
            }
        }
    }
}

/// Returns the cells of the rows between `heading` and the next heading, without the table's head.
fn table<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let section = text.split_once(heading).map(|(_, rest)| rest).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.skip(1).map(|row| row.split(" | ").collect()).collect()
}

/// Returns the words in backticks in a cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_test_named_in_the_table_exists() {
    let mut tests = BTreeSet::new();
    for directory in ["crates", "bins", "interop", "bench", "xtask", "campaign"] {
        tests_in(&root().join(directory), &mut tests);
    }
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let rows = table(&text, "\n## Known vulnerabilities");
    assert!(rows.len() >= 40, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let [name, _, stand, cell] = row[..] else {
            wrong.push(format!("a row has {} cells: {row:?}", row.len()));
            continue;
        };
        let stands = ["absent", "prevented", "language", "applies", "limited"];
        if !stands.iter().any(|each| stand.starts_with(each)) {
            wrong.push(format!("{name}: the stand is none of {stands:?}"));
        }
        let named = quoted(cell);
        if named.is_empty() != (cell == "no test") {
            wrong.push(format!("{name}: neither tests nor \"no test\": {cell}"));
        }
        let missing = named.into_iter().filter(|test| !tests.contains(*test));
        wrong.extend(missing.map(|test| format!("{name}: there is no test `{test}`")));
    }
    assert!(wrong.is_empty(), "docs/security.md:\n{}", wrong.join("\n"));
}

/// The table of the last campaigns has a row for each target, and the sum above it is correct.
#[test]
fn every_fuzz_target_had_a_campaign() {
    let targets = fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap().flatten();
    let targets: BTreeSet<String> = targets
        .filter_map(|file| file.file_name().to_string_lossy().strip_suffix(".rs").map(str::to_owned))
        .collect();
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let section = text.split_once("\n### Fuzzing, last campaigns\n").unwrap().1;
    let section = section.split("\n### ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let (name, number) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
        Some((name.to_owned(), number.replace(',', "").parse::<u64>().ok()?))
    });
    let rows: Vec<(String, u64)> = rows.collect();
    assert_eq!(rows.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>(), targets);
    let sum: u64 = rows.iter().map(|(_, executions)| executions).sum();
    let said = format!("over {} targets", targets.len());
    let (million, _) = section.trim_start().split_once(" million executions ").unwrap();
    let million: u64 = million.replace(',', "").parse().unwrap();
    assert!(section.contains(&said), "docs/security.md does not say {said:?}");
    assert!(million.abs_diff(sum / 1_000_000) <= 1, "{million} million, but the rows have {sum}");
}

#[test]
fn tables_end_with_their_section() {
    let text = "x\n## A\n\n| a | b |\n|---|---|\n| 1 | `t`, `u` |\n\n## B\n| c | d |\n";
    assert_eq!(table(text, "\n## A"), [vec!["1", "`t`, `u`"]]);
    assert_eq!(quoted("`t`, `u`"), ["t", "u"]);
    assert!(quoted("no test").is_empty());
}
