//! `lhscp --sync` works in the order of paths, not in that of the servers' answers.
//!
//! The servers are ours, OpenSSH's, and one that answers the requests that have come together in reverse.

use std::fs;
use std::path::Path;

use lh_interop::lying::Lie;
use lh_interop::lying::copies::liar;
use lh_interop::{Inetd, Lab, Lhsshd, json_lines, our, peers};

/// Numbers of the files and directories, in an order that is not that of their names.
fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |number| number * 7 % count)
}

fn write_tree(top: &Path, prefix: &str) {
    for directory in shuffled(9) {
        let directory = top.join(format!("{prefix}d{directory}"));
        for sub in [directory.clone(), directory.join("sub"), directory.join("sub/sub")] {
            fs::create_dir_all(&sub).unwrap();
            for file in shuffled(15) {
                fs::write(sub.join(format!("{prefix}{file:02}")), "text").unwrap();
            }
        }
    }
}

/// Directories that both ends have, and in each what only one of them has.
fn write_trees(lab: &Lab) {
    for (top, prefix) in [("tree", "new"), ("copy/tree", "old"), ("tree", ""), ("copy/tree", "")] {
        write_tree(&lab.path(top), prefix);
    }
    // They are other files by their time.
    lab.sh("find tree -name 01 -exec touch -d 2001-01-01 {} +").ok("touch");
}

/// The targets of a dry run's events of this kind, in their order.
fn targets(kind: &str, events: &[serde_json::Value]) -> Vec<String> {
    let of_kind = events.iter().filter(|event| event["event"] == kind);
    of_kind.map(|event| event["target"].as_str().unwrap().to_owned()).collect()
}

/// What a dry run with these words says.
fn plan(lab: &Lab, words: &[&str]) -> Vec<serde_json::Value> {
    let all = [&["--sync", "--delete", "--dry-run", "--json"], words].concat();
    json_lines(&lab.run(&our("lhscp"), &all).ok("--sync").text())
}

/// Files of a directory come before its directories.
fn in_order(paths: &[String]) -> bool {
    let key = |path: &String| {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let above = parent.split('/').map(|part| (1, part.to_owned()));
        above.chain([(0, name.to_owned())]).collect::<Vec<_>>()
    };
    paths.is_sorted_by_key(key)
}

/// Covers: lhscp --sync; lhscp --dry-run; lhscp --json
#[test]
fn files_are_reported_by_directory_and_name() {
    let lab = Lab::new();
    write_trees(&lab);
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers("two_runs", ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    let at = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
    for port in [Some(ours.port), theirs.as_ref().map(|server| server.port)].into_iter().flatten() {
        let mut seen = Vec::new();
        for (from, to) in [
            (lab.arg("tree"), at("copy")),
            (at("tree"), lab.arg("copy")),
            (at("tree"), at("copy")),
            (lab.arg("tree"), at("copy")),
        ] {
            let mut words = lab.client_options();
            words.extend(["-P".to_owned(), port.to_string(), from.clone(), to]);
            let events = plan(&lab, &words.iter().map(String::as_str).collect::<Vec<_>>());
            let planned = targets("planned", &events);
            assert!(in_order(&planned), "{from}: {planned:#?}");
            seen.push((planned, targets("planned_delete", &events)));
        }
        let (planned, deleted) = &seen[0];
        assert!(planned.len() > 9 * 45 && deleted.len() >= 9 * 48, "{} {}", planned.len(), deleted.len());
        assert!(seen.iter().all(|each| *each == seen[0]), "{seen:#?}");
    }
}

#[test]
fn order_of_a_servers_answers_changes_nothing() {
    let lab = Lab::new();
    write_trees(&lab);
    lab.sh("ln -s d3 tree/link; ln -s 03 tree/d0/name").ok("links");
    let program = env!("CARGO_BIN_EXE_lh-lying-sftp");
    let servers = [liar(&lab, program, &[]), liar(&lab, program, &[Lie::OutOfOrder])];
    let at = |name: &str| format!("h:{}", lab.arg(name));
    for (from, to) in [(lab.arg("tree"), at("copy")), (at("tree"), lab.arg("copy"))] {
        for flags in [&[][..], &["--checksum"], &["--links"]] {
            let plans = servers.each_ref().map(|server| {
                let events = plan(&lab, &[&["-D", server], flags, &[&from, &to]].concat());
                ["planned", "planned_delete"].map(|kind| targets(kind, &events))
            });
            assert!(plans[0][0].len() > 9 * 45, "{from} {flags:?}: {}", plans[0][0].len());
            assert_eq!(plans[0], plans[1], "{from} {flags:?}");
        }
    }
}

#[test]
fn deletions_up_to_a_limit_are_the_first_ones_in_order() {
    let lab = Lab::new();
    write_trees(&lab);
    let program = env!("CARGO_BIN_EXE_lh-lying-sftp");
    let to = format!("h:{}", lab.arg("copy"));
    let plans = [&[][..], &[Lie::OutOfOrder]].map(|lies| {
        let server = liar(&lab, program, lies);
        let words = ["--sync", "--delete", "--dry-run", "--json", "-D", &server, &lab.arg("tree"), &to];
        let all = targets("planned_delete", &json_lines(&lab.run(&our("lhscp"), &words).ok("all").text()));
        let few = lab.run(&our("lhscp"), &[&["--max-delete", "20"], &words[..]].concat());
        assert_eq!(few.code, 1, "{}", few.err);
        let few = targets("planned_delete", &json_lines(&few.text()));
        assert_eq!(few, all[..20], "{lies:?}");
        few
    });
    assert_eq!(plans[0], plans[1]);
}

/// Covers: lhscp --manifest-out
#[test]
fn manifests_have_files_in_the_order_of_their_paths() {
    let lab = Lab::new();
    write_trees(&lab);
    let program = env!("CARGO_BIN_EXE_lh-lying-sftp");
    let server = liar(&lab, program, &[Lie::OutOfOrder]);
    let manifest = lab.arg("m");
    for (round, flags) in [&["-r"][..], &["--sync"], &["--sync"]].into_iter().enumerate() {
        let (from, to) = (lab.arg("tree"), format!("h:{}", lab.arg("made")));
        fs::create_dir_all(lab.path("made")).unwrap();
        let words = [flags, &["--manifest-out", &manifest, "-D", &server, &from, &to]].concat();
        lab.run(&our("lhscp"), &words).ok("a copy");
        let lines = json_lines(&lab.read("m"));
        let paths: Vec<_> = lines.iter().filter_map(|line| line["path"].as_str()).collect();
        assert!(paths.len() >= 9 * 90 && paths.is_sorted(), "{round} {flags:?}: {paths:#?}");
    }
}
