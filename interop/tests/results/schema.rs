//! docs/metrics.md lists the members that the programs write, and no others.

use std::collections::{BTreeMap, BTreeSet};

use lh_interop::{Lab, Lhsshd, me, our, wait_for_samples};
use serde_json::Value;

use super::Ends;

type Names = BTreeSet<String>;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    std::fs::read_to_string(path).expect("docs/metrics.md")
}

/// The part of the page below this heading.
#[track_caller]
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page.split_once(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    begin.1.split("\n## ").next().unwrap_or_default()
}

/// A name in backticks, and the names before each of the parentheses around it.
type Explained = (String, Vec<String>);

/// Names in backticks that can be those of members.
fn names(text: &str) -> Vec<Explained> {
    let (mut found, mut parents, mut last) = (Vec::new(), Vec::new(), String::new());
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.".contains(c);
            if !part.is_empty() && part.chars().all(is_name) {
                found.push((part.to_owned(), parents.clone()));
                last = part.to_owned();
            }
            continue;
        }
        for c in part.chars() {
            match c {
                '(' => parents.push(last.clone()),
                ')' => drop(parents.pop()),
                _ => {}
            }
        }
    }
    found
}

/// The rows of a section's table: the members that a row is about, and the names that it explains.
fn rows(section: &str) -> Vec<(Vec<String>, Vec<Explained>)> {
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let (first, rest) = line[1..].split_once(" | ").expect("two columns");
            (names(first).into_iter().map(|(name, _)| name).collect(), names(rest))
        })
        .collect()
}

fn keys(value: &Value) -> Names {
    value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

/// Objects in a value: itself, or those of a list.
fn objects(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(_) => vec![value],
        Value::Array(all) => all.iter().filter(|each| each.is_object()).collect(),
        _ => Vec::new(),
    }
}

/// Asserts that the names which a row explains are the members of the object, and of those in it. Words of
/// `values` are no members.
#[track_caller]
fn explains(member: &str, explained: &[Explained], value: &Value, values: &[&str]) {
    let written: Names = objects(value).into_iter().flat_map(keys).collect();
    if written.is_empty() {
        return;
    }
    let of_depth = |depth: usize| explained.iter().filter(move |(_, parents)| parents.len() == depth);
    let all: Names = explained.iter().map(|(name, _)| name.clone()).collect();
    let known: Names = of_depth(0).map(|(name, _)| name.clone()).collect();
    let unwritten: Vec<&String> =
        known.difference(&written).filter(|name| !values.contains(&name.as_str())).collect();
    assert!(unwritten.is_empty(), "docs/metrics.md, {member}: not written: {unwritten:?}");
    let mut unknown: Vec<String> = written.difference(&all).cloned().collect();
    // Objects within have their names in parentheses, or somewhere in the row.
    for object in objects(value) {
        for (name, inner) in object.as_object().expect("an object") {
            for within in objects(inner) {
                unknown.extend(keys(within).difference(&all).map(|key| format!("{name}.{key}")));
                let told = explained.iter().filter(|(_, parents)| parents.last() == Some(name));
                let told: Names = told.map(|(name, _)| name.clone()).collect();
                let more: Vec<&String> = told
                    .iter()
                    .filter(|each| !keys(within).contains(*each) && !values.contains(&each.as_str()))
                    .collect();
                assert!(more.is_empty(), "docs/metrics.md, {member}.{name}: not written: {more:?}");
            }
        }
    }
    assert!(unknown.is_empty(), "docs/metrics.md lacks, of {member}: {unknown:?}");
}

#[test]
fn metrics_page_lists_the_members_of_doctor() {
    let ends = Ends::start();
    let out = ends.run(&["doctor", "--json", &format!("{}@127.0.0.1", me())]);
    let diagnosis: Value = serde_json::from_str(&out).expect("JSON");
    let page = page();
    let rows = rows(section(&page, "What longhaul doctor --json prints"));
    let mut listed: Names = rows.iter().flat_map(|(members, _)| members.iter().cloned()).collect();
    // Only without a diagnosis.
    assert!(listed.remove("error"));
    let (measured, top): (Names, Names) = listed.into_iter().partition(|name| name.starts_with("measured."));
    let mut written = keys(&diagnosis);
    assert!(written.remove("measured"));
    assert_eq!(top, written);
    let written: Names = keys(&diagnosis["measured"]).iter().map(|name| format!("measured.{name}")).collect();
    assert_eq!(measured, written);
    // Programs, and stages of logins, which depend on the login.
    let values = ["ss", "id", "proxy"];
    for (members, explained) in &rows {
        for member in members {
            let value = match member.strip_prefix("measured.") {
                Some(name) => &diagnosis["measured"][name],
                None => &diagnosis[member],
            };
            if member != "measured.logins_seconds" {
                explains(member, explained, value, &values);
            }
        }
    }
}

#[test]
fn metrics_page_lists_the_members_of_bench_and_paths() {
    let ends = Ends::start();
    let host = format!("{}@127.0.0.1", me());
    ends.lab.write("paths.txt", &format!("{host}\n"));
    let out = ends.run(&["bench", "--json", "--hosts", &ends.lab.arg("paths.txt")]);
    let path: Value = serde_json::from_str(&out).expect("JSON");
    let results = &path["run"];
    let page = page();
    let section = section(&page, "What longhaul bench --json prints");
    let intro = section.split("\n|").next().unwrap_or_default();
    let of_paths: Names = names(intro).into_iter().map(|(name, _)| name).collect();
    assert_eq!(of_paths, keys(&path));
    let rows = rows(section);
    let mut listed: Names = rows.iter().flat_map(|(members, _)| members.iter().cloned()).collect();
    assert!(listed.remove("error"));
    assert_eq!(listed, keys(results));
    let values = ["differ", "same", "too_noisy", "too_few_rounds", "ratio", "best"];
    for (members, explained) in rows.iter().filter(|(members, _)| members[0] != "error") {
        for member in members {
            explains(member, explained, &results[member], &values);
        }
    }
    // Units are listed, too.
    let units: Names =
        results["rows"].as_array().expect("rows").iter().map(|row| text(&row["unit"])).collect();
    let listed: Names = names(section).into_iter().map(|(name, _)| name).collect();
    assert!(units.is_subset(&listed), "{units:?}");
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// The members in an example: what stands in quotes before a colon.
fn members_of_example(line: &str) -> Names {
    let mut pieces = line.split('"').peekable();
    let mut found = Names::new();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_some_and(|next| next.starts_with(':')) {
            found.insert(piece.to_owned());
        }
    }
    found
}

#[test]
fn metrics_page_lists_the_members_of_files() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let files = ["m.local", "m.remote"].map(|name| lab.arg(name));
    let mut args = vec!["-o".to_owned(), format!("MetricsPath={}", lab.arg("m"))];
    args.extend(["-o".to_owned(), "MetricsInterval=0.05".to_owned()]);
    args.extend(lab.client_options());
    args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), wait_for_samples(&files, 4)]);
    lab.run(&our("lhssh"), &args).ok("lhssh");
    let page = page();
    let section = section(&page, "Figures of both ends: Metrics");
    let example = |begin: &str| {
        let line = section.lines().find(|line| line.starts_with(begin));
        members_of_example(line.unwrap_or_else(|| panic!("no line {begin}")))
    };
    let (header, sample) = (example("- at the beginning of a run"), example("- for each sample"));
    let listed: Names = names(section).into_iter().map(|(name, _)| name).collect();
    let mut written: BTreeMap<&str, Names> = BTreeMap::new();
    for file in ["m.local", "m.remote"] {
        for line in lab.read(file).lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            let kind = if value.get("longhaul_metrics").is_some() { "header" } else { "sample" };
            written.entry(kind).or_default().extend(keys(&value));
            written.entry("ssh").or_default().extend(keys(&value["ssh"]));
            for thread in value["threads"].as_array().into_iter().flatten() {
                written.entry("thread").or_default().extend(keys(thread));
            }
        }
    }
    assert_eq!((&written["header"], &written["sample"]), (&header, &sample));
    for name in &written["ssh"] {
        assert!(listed.contains(&format!("ssh_{name}")), "docs/metrics.md has no ssh_{name}");
    }
    // They stand beside `ssh` in a file, and a rate limit is there where one was asked for.
    let others = ["congestion_control", "threads", "rate_limit"];
    let sent: Names = rows(section).into_iter().flat_map(|(members, _)| members).collect();
    for name in sent.iter().filter_map(|name| name.strip_prefix("ssh_")) {
        let is_written = others.contains(&name) || written["ssh"].contains(name);
        assert!(is_written, "docs/metrics.md: {name} is not written");
    }
    assert!(written["thread"].is_subset(&listed), "{:?}", written["thread"]);
}
