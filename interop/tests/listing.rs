//! `ls` in a large directory: number of requests, and output.

use std::fs;

use lh_interop::{Lab, Ran, find, our, skip};

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// Runs `lhsftp -b` with a local server that logs its requests to standard error.
fn batch(lab: &Lab, server: &str, script: &str) -> Ran {
    lab.write("script", script);
    let server = format!("{server} -e -l DEBUG3");
    lab.run(&our("lhsftp"), &["-b", "script", "-D", &server]).ok(script)
}

fn make_entries(lab: &Lab, count: usize) {
    fs::create_dir(lab.path("many")).unwrap();
    for n in 0..count {
        fs::write(lab.path(&format!("many/{n:06}.dat")), b"").unwrap();
    }
    fs::write(lab.path("many/.77.dat"), b"").unwrap();
}

/// Returns the output of the commands without prompts.
fn shown(ran: &Ran) -> Vec<String> {
    ran.text()
        .lines()
        .filter(|line| !line.starts_with("sftp>"))
        .map(|line| line.trim_end().to_owned())
        .collect()
}

fn lines_with(ran: &Ran, what: &str) -> usize {
    ran.err.lines().filter(|line| line.contains(what)).count()
}

/// Covers: sftp ls
#[test]
fn openssh_s_server_is_not_asked_for_each_entry() {
    if find(SFTP_SERVER.trim_start_matches('/')).is_none() && !std::path::Path::new(SFTP_SERVER).exists() {
        return skip("listings of OpenSSH's server", "no sftp-server");
    }
    let lab = Lab::new();
    make_entries(&lab, 10_000);
    let ran = batch(&lab, SFTP_SERVER, "ls -1 many/*77.dat\n");
    let names = shown(&ran);
    assert_eq!(names.len(), 100, "{names:?}");
    assert_eq!((names[0].as_str(), names[99].as_str()), ("many/000077.dat", "many/009977.dat"));
    assert_eq!(lines_with(&ran, "lstat name"), 0, "attributes came with the listing");
    // Bulk commands too fetch matching files without a request about each.
    let ran = batch(&lab, SFTP_SERVER, "lmkdir got\nget many/*77.dat got\n");
    assert_eq!(fs::read_dir(lab.path("got")).unwrap().count(), 100);
    assert_eq!(lines_with(&ran, "lstat name") + lines_with(&ran, ": stat name"), 0);
}

/// Covers: sftp ls; wire list-dir@longhaul
#[test]
fn our_server_matches_by_itself() {
    let lab = Lab::new();
    make_entries(&lab, 10_000);
    let server = our("lhsftp-server").display().to_string();
    for (command, count) in [
        ("ls -1 many/*77.dat", 100),
        ("ls -1f many/*77.dat", 100),
        ("ls -l many/*77.dat", 100),
        ("ls -1 many/.7*", 1),
        ("ls -1a many", 10_003),
        ("ls -1f many", 10_000),
        ("ls -lf many", 10_000),
    ] {
        let ran = batch(&lab, &server, &format!("{command}\n"));
        assert_eq!(shown(&ran).len(), count, "{command}");
        assert_eq!(lines_with(&ran, ": list-dir"), 1, "{command}");
        // A name without a pattern is checked with one request: it may be a directory. Matches come with
        // their attributes.
        let looked_at = usize::from(!command.contains('*'));
        assert_eq!(lines_with(&ran, ": opendir") + lines_with(&ran, "stat name"), looked_at, "{command}");
        // Names without attributes fit into one reply.
        let more = count > 100 && command.contains(" -l");
        assert_eq!(lines_with(&ran, ": readdir") > 0, more, "{command}");
    }
    // A single match that is a directory is listed itself, also unsorted.
    let ran = batch(&lab, &server, "ls -1f ma*\n");
    assert_eq!(shown(&ran).len(), 10_000);
    assert!(shown(&ran).iter().all(|name| name.starts_with("many/")));
    let ran = lab.run(&our("lhsftp"), &["-b", "script", "-D", &server]);
    lab.write("script", "ls -1f nothing*\n");
    let none = lab.run(&our("lhsftp"), &["-b", "script", "-D", &server]);
    assert_eq!((ran.code, none.code), (0, 1));
    assert!(none.err.contains("Can't ls:") && none.err.contains("nothing*\" not found"), "{}", none.err);
}
