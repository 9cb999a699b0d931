//! `longhaul verify` finds planted faults on every kind of server, and reports no others.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::Path;

use lh_interop::{Inetd, Lab, Lhsshd, Ran, json_lines, make_blob, make_tree, our, peers};
use serde_json::Value;

fn scp(lab: &Lab, port: u16, words: &[&str]) -> Ran {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string(), "-q".to_owned()]);
    all.extend(words.iter().map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &all)
}

fn verify(lab: &Lab, words: &[&str]) -> Ran {
    let mut all = vec!["verify".to_owned()];
    all.extend(lab.client_options());
    all.extend(words.iter().map(|&word| word.to_owned()));
    lab.run(&our("longhaul"), &all)
}

/// The lines of a run but for the last, sorted.
fn found(ran: &Ran) -> Vec<String> {
    let mut lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    lines.pop();
    lines.sort();
    lines
}

/// Changes one byte; size and times stay.
fn change_a_byte(path: &Path, at: u64) {
    let meta = path.metadata().unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.set_modified(meta.modified().unwrap()).unwrap();
    assert_eq!(
        (path.metadata().unwrap().len(), path.metadata().unwrap().mtime_nsec()),
        (meta.len(), meta.mtime_nsec())
    );
}

/// Covers: longhaul --extra; longhaul --json; wire check-file-name
#[test]
fn planted_faults_are_found_wherever_the_copy_is() {
    let Some([sshd]) = peers("planted_faults_are_found_wherever_the_copy_is", ["sshd"]) else { return };
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = Inetd::openssh(&lab, &sshd, "");
    for (algorithm, port) in
        [("sha256", ours.port), ("xxh3", ours.port), ("sha256", theirs.port), ("xxh3", theirs.port)]
    {
        let (tree, copy) = (lab.path("tree"), lab.path("copy"));
        make_tree(&tree, 80);
        make_blob(&tree.join("big"), 3_000_001);
        symlink("big", tree.join("link")).unwrap();
        fs::create_dir(&copy).unwrap();
        let remote = format!("127.0.0.1:{}", copy.display());
        let words = ["-r", "--links", "--manifest-out", "m", "--manifest-sum", algorithm, "tree", &remote];
        scp(&lab, port, &words).ok("the copy");
        let copied = copy.join("tree");
        let uri = format!("scp://127.0.0.1:{port}/{}", copy.display());
        let port_arg = port.to_string();
        let places: [&[&str]; 4] = [&["m"], &["m", &uri], &["-P", &port_arg, "m", &remote], &["m", "copy"]];
        for place in places {
            let ran = verify(&lab, &[&["--extra"], place].concat()).ok("nothing is wrong");
            assert_eq!(found(&ran), Vec::<String>::new(), "{place:?}");
        }
        // Beside the tree nothing is looked at.
        fs::write(copy.join("beside"), "no part of the copy").unwrap();
        change_a_byte(&copied.join("big"), 2_999_999);
        change_a_byte(&copied.join("many/00001.dat"), 0);
        fs::OpenOptions::new().write(true).open(copied.join("many/00002.dat")).unwrap().set_len(3).unwrap();
        fs::remove_file(copied.join("many/00003.dat")).unwrap();
        fs::rename(copied.join("many/00004.dat"), copied.join("many/renamed")).unwrap();
        fs::remove_file(copied.join("many/00005.dat")).unwrap();
        fs::create_dir(copied.join("many/00005.dat")).unwrap();
        fs::remove_file(copied.join("link")).unwrap();
        symlink("empty", copied.join("link")).unwrap();
        let size = tree.join("many/00002.dat").metadata().unwrap().len();
        let wrong = [
            "content: tree/big: differs".to_owned(),
            "content: tree/link: differs".to_owned(),
            "content: tree/many/00001.dat: differs".to_owned(),
            "kind: tree/many/00005.dat: is no file".to_owned(),
            "missing: tree/many/00003.dat".to_owned(),
            "missing: tree/many/00004.dat".to_owned(),
            format!("size: tree/many/00002.dat: 3 bytes, {size} in the manifest"),
        ];
        for place in places {
            let ran = verify(&lab, place);
            assert_eq!(ran.code, 1, "{}", ran.err);
            assert_eq!(found(&ran), wrong, "{place:?}");
            let ran = verify(&lab, &[&["--extra"], place].concat());
            let with_extra = [&wrong[..3], &["extra: tree/many/renamed".to_owned()], &wrong[3..]].concat();
            assert_eq!(found(&ran), with_extra, "{place:?}");
            let ran = verify(&lab, &[&["--json"], place].concat());
            assert_eq!(ran.code, 1);
            let events = json_lines(&ran.text());
            let end = events.last().unwrap();
            assert_eq!(events[0]["event"], "start");
            assert_eq!((&end["outcome"], &end["status"]), (&"different".into(), &1.into()));
            let counts =
                ["missing", "size", "content", "kind", "extra", "unchecked", "error"].map(|name| &end[name]);
            assert_eq!(counts, [2, 1, 3, 1, 0, 0, 0]);
            assert_eq!(events.iter().filter(|event| event["event"] == "missing").count(), 2);
        }
        fs::remove_dir_all(&tree).unwrap();
        fs::remove_dir_all(&copy).unwrap();
    }
}

/// Covers: longhaul --in; longhaul --extra; longhaul --json
#[test]
fn the_manifests_of_all_shares_are_checked_together() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 80);
    fs::create_dir(lab.path("copy")).unwrap();
    let (remote, port) = (format!("127.0.0.1:{}", lab.arg("copy")), server.port_arg());
    for share in 1..=4 {
        let (share, manifest) = (format!("{share}/4"), format!("m{share}"));
        scp(&lab, server.port, &["-r", "--shard", &share, "--manifest-out", &manifest, "tree", &remote])
            .ok("a share");
    }
    let all = ["m1", "m2", "m3", "m4"];
    for place in [&["--in", "copy"][..], &["-P", &port, "--in", &remote]] {
        let ran = verify(&lab, &[&["--extra"], place, &all].concat()).ok("all shares");
        assert_eq!(found(&ran), Vec::<String>::new());
        let good = ran.text().split(' ').next().and_then(|number| number.parse::<usize>().ok());
        assert_eq!(good, Some(lab.sh("find tree -type f -o -type l | wc -l").text().trim().parse().unwrap()));
        // One is missing, and what it has copied is extra.
        let ran = verify(&lab, &[place, &["m1", "m4", "m2"]].concat());
        assert_eq!((ran.code, found(&ran)), (1, vec!["share: 3/4: no manifest of it".to_owned()]));
        let ran = verify(&lab, &[&["--extra", "--json"], place, &["m1", "m4", "m2"]].concat());
        let events = json_lines(&ran.text());
        assert_eq!(events[0]["manifests"], serde_json::json!(["m1", "m4", "m2"]));
        assert_eq!(
            events[1],
            serde_json::json!({"event": "share", "share": "3/4", "message": "no manifest of it"})
        );
        let end = events.last().unwrap();
        assert_eq!(
            (ran.code, end["share"].as_u64(), end["outcome"].as_str()),
            (1, Some(1), Some("different"))
        );
        assert!(end["extra"].as_u64().unwrap() > 5, "{end}");
    }
    // The manifest of one share is as good as any other.
    verify(&lab, &["m3", "copy"]).ok("one share");
    // A share that came only in part.
    let partial = lab.read("m2").replace("\"outcome\":\"complete\"", "\"outcome\":\"partial\"");
    lab.write("m2", &partial);
    let ran = verify(&lab, &[&["--in", "copy"][..], &all].concat());
    assert_eq!(
        (ran.code, found(&ran)),
        (1, vec!["share: 2/4: its copy is not complete (partial)".to_owned()])
    );
    lab.write("m2", &lab.read("m2").replace("2/4", "2/5"));
    let ran = verify(&lab, &[&["--in", "copy"][..], &all].concat());
    assert!(ran.code == 2 && ran.err.contains("copies in 4 and in 5 shares"), "{}", ran.err);
}

/// Covers: longhaul -F; longhaul -i; longhaul -o; longhaul -P
#[test]
fn manifests_that_cannot_be_checked_have_status_2() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 5);
    let remote = format!("127.0.0.1:{}", lab.arg("copy"));
    scp(&lab, server.port, &["-r", "--manifest-out", "m", "tree", &remote]).ok("the copy");
    let text = lab.read("m");
    lab.write("cut", &text[..text.len() - 20]);
    lab.write("other", "{\"event\":\"start\"}\n");
    let closed = lh_interop::tunnel::free_port().to_string();
    let port = server.port_arg();
    for (words, said) in [
        (&["none"][..], "none: No such file or directory"),
        (&["other", "copy"], "is not a manifest"),
        (&["cut", "copy"], "line"),
        (&["m", "nowhere"], "nowhere: No such file or directory"),
        (&["-P", &port, "m", "127.0.0.1:/none/such"], "/none/such: No such file"),
        (&["-P", &closed, "m", &remote], "Connection refused"),
        (&["-o", "PreferredAuthentications=none", "-P", &port, "m", &remote], "Permission denied"),
        (&[], "no manifest"),
        (&["m", "copy", "third"], "more than"),
        (&["--csv", "m"], "has no flag --csv"),
    ] {
        let ran = verify(&lab, words);
        assert_eq!(ran.code, 2, "{words:?}: {} {}", ran.text(), ran.err);
        assert!(ran.err.contains(said), "{words:?}: {}", ran.err);
    }
    let no_sum: Vec<String> = text
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["path"] == "empty" {
                line["sum"] = Value::Null;
            }
            line.to_string()
        })
        .collect();
    lab.write("unsummed", &(no_sum.join("\n") + "\n"));
    for words in [&["unsummed", "copy"][..], &["-P", &port, "unsummed", &remote]] {
        let ran = verify(&lab, words);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert_eq!(found(&ran), ["unchecked: empty: no sum in the manifest"]);
    }
    let report = lab.run(&our("longhaul"), &["report", "--extra", "m"].map(str::to_owned));
    assert!(report.code == 2 && report.err.contains("report: has no flag --extra"), "{}", report.err);
}

/// Covers: wire check-file-name
#[test]
fn a_server_without_the_subsystem_is_named() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem sftp /bin/false\nLonghaulSftp external\n");
    make_tree(&lab.path("tree"), 5);
    let other = Lhsshd::start(&lab, "");
    let remote = format!("127.0.0.1:{}", lab.arg("copy"));
    scp(&lab, other.port, &["-r", "--manifest-out", "m", "tree", &remote]).ok("the copy");
    let ran = verify(&lab, &["-P", &server.port_arg(), "m", &remote]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    // Which of the two it is depends on whether the request was still unread.
    let ended = ["Connection closed", "Connection reset"];
    assert!(ended.iter().any(|text| ran.err.contains(text)), "{}", ran.err);
}

/// Covers: longhaul -4; longhaul -6; longhaul -B; longhaul -C; longhaul -c; longhaul -J; longhaul -q; longhaul -v
#[test]
fn flags_of_the_connection_are_those_of_lhscp() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Ciphers aes256-ctr\n");
    make_tree(&lab.path("tree"), 5);
    let remote = format!("127.0.0.1:{}", lab.arg("copy"));
    scp(&lab, server.port, &["-r", "--manifest-out", "m", "tree", &remote]).ok("the copy");
    let port = server.port_arg();
    let with = |flags: &[&str]| verify(&lab, &[flags, &["-P", &port, "m", &remote]].concat());
    let ran = with(&["-v", "-4", "-B", "-C", "-c", "aes256-ctr"]).ok("all of them");
    assert!(ran.err.contains("debug1: ") && ran.err.contains("compression"), "{}", ran.err);
    let ran = with(&["-c", "aes128-ctr"]);
    assert!(ran.code == 2 && ran.err.contains("no matching cipher"), "{}", ran.err);
    let quiet = with(&["-q", "-c", "aes128-ctr"]);
    assert!(quiet.code == 2 && !quiet.err.contains("no matching cipher"), "{}", quiet.err);
    assert_eq!(with(&["-6"]).code, 2, "no IPv6 address");
    let common = format!(
        "HostName 127.0.0.1\n UserKnownHostsFile {}\n IdentityFile {}\n Port",
        lab.arg("known_hosts"),
        lab.arg("user_ed25519")
    );
    let closed = lh_interop::tunnel::free_port();
    lab.write(
        "config",
        &format!("Host jump 127.0.0.1\n {common} {port}\nHost nowhere\n {common} {closed}\n"),
    );
    for (jump, code) in [("jump", 0), ("nowhere", 2)] {
        let words = ["verify", "-F", "config", "-J", jump, "m", &remote].map(str::to_owned);
        let ran = lab.run(&our("longhaul"), &words);
        assert_eq!(ran.code, code, "{jump}: {}", ran.err);
    }
}
