//! `lhscp --sync` looks at the entries of a directory in the order of their names, one directory's at a time.

use std::fs;
use std::path::Path;

use lh_interop::{Inetd, Lab, Lhsshd, json_lines, our, peers};

/// Numbers of the files and directories, in an order that is not that of their names.
fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |number| number * 7 % count)
}

fn write_tree(top: &Path, prefix: &str) {
    for directory in shuffled(9) {
        let directory = top.join(format!("d{directory}"));
        fs::create_dir_all(&directory).unwrap();
        for file in shuffled(90) {
            fs::write(directory.join(format!("{prefix}{file:02}")), "text").unwrap();
        }
    }
}

/// Covers: lhscp --sync; lhscp --dry-run; lhscp --json
#[test]
fn files_are_reported_by_directory_and_name() {
    let lab = Lab::new();
    write_tree(&lab.path("tree"), "new");
    write_tree(&lab.path("copy/tree"), "old");
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers("two_runs", ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    let at = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
    for port in [Some(ours.port), theirs.as_ref().map(|server| server.port)].into_iter().flatten() {
        for (from, to) in [(lab.arg("tree"), at("copy")), (at("tree"), lab.arg("copy"))] {
            let plan = || {
                let mut words = lab.client_options();
                words.extend(["-P".to_owned(), port.to_string()]);
                words.extend(["--sync", "--delete", "--dry-run", "--json"].map(str::to_owned));
                let ran =
                    lab.run(&our("lhscp"), &[words, vec![from.clone(), to.clone()]].concat()).ok("--sync");
                json_lines(&ran.text())
            };
            let targets = |kind: &str, events: &[serde_json::Value]| -> Vec<String> {
                let of_kind = events.iter().filter(|event| event["event"] == kind);
                of_kind.map(|event| event["target"].as_str().unwrap().to_owned()).collect()
            };
            let (first, second) = (plan(), plan());
            for kind in ["planned", "planned_delete"] {
                // Directories come in the order in which their listings arrive.
                let by_directory = |events: &[serde_json::Value]| {
                    let seen = targets(kind, events);
                    assert_eq!(seen.len(), 9 * 90, "{kind}, {from}");
                    let parent = |path: &String| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
                    let mut parts: Vec<Vec<String>> =
                        seen.chunk_by(|one, other| parent(one) == parent(other)).map(<[_]>::to_vec).collect();
                    assert_eq!(parts.len(), 9, "{kind}, {from}: one directory's at a time: {seen:#?}");
                    assert!(parts.iter().all(|part| part.is_sorted()), "{kind}, {from}: {seen:#?}");
                    parts.sort();
                    parts
                };
                assert_eq!(by_directory(&first), by_directory(&second), "{kind}, {from}");
            }
        }
    }
}
