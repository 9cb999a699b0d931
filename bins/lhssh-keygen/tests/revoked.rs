//! Key revocation lists, compared with the system's ssh-keygen.

mod common;

use common::{OURS, TestDirectory, Theirs};

fn split(arguments: &str) -> Vec<&str> {
    arguments.split(' ').collect()
}

fn keys(directory: &TestDirectory) {
    for (name, kind) in [("ca", "ed25519"), ("a", "ed25519"), ("e", "ecdsa"), ("r", "rsa")] {
        directory.ours(&["-q", "-t", kind, "-N", "", "-f", name, "-C", name]);
    }
    for (serial, file) in [("0", "a"), ("7", "e"), ("70", "r")] {
        directory.ours(&[
            "-q",
            "-s",
            "ca",
            "-I",
            &format!("id {serial}"),
            "-z",
            serial,
            &format!("{file}.pub"),
        ]);
    }
}

/// The text without the line of the generation time.
fn undated(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("# Generated at ")).map(|line| format!("{line}\n")).collect()
}

const FILES: [&str; 7] = ["a.pub", "e.pub", "r.pub", "ca.pub", "a-cert.pub", "e-cert.pub", "r-cert.pub"];

/// Covers: ssh-keygen -k; ssh-keygen -u; ssh-keygen -Q; ssh-keygen -z; ssh-keygen -C
#[test]
fn revocation_lists_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("revocation_lists_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    let public = |name: &str| directory.text(&format!("{name}.pub")).trim_end().to_owned();
    let hash = directory.ours(&["-l", "-f", "r.pub"]);
    let hash = hash.split(' ').nth(1).expect("a fingerprint");
    directory.write(
        "spec",
        format!(
            "# note\n\n  serial: 1-4\nSERIAL:0x46 # seventy\nserial: 010\nserial: 7\nserial: 9\nid: id 0\nid:  a b  # c\nkey: {}\n\
             sha1: {}\nsha256: {}\nhash: {hash}\n",
            public("a"),
            public("e"),
            public("e"),
        ),
    );
    directory.write("plain", format!("{}\n{}\n", public("e"), public("r-cert")));
    for arguments in [
        "-k -f list",
        "-q -k -f list",
        "-k -f list a.pub",
        "-k -f list a-cert.pub e-cert.pub",
        "-k -f list -s ca.pub spec",
        "-k -f list -s ca -z 9 -C remark spec plain",
        "-k -f list -s NONE -z 9 spec",
        "-k -f list plain -",
        "-k -u -f list ca.pub",
        "-k -u -f list -s ca -z 12 spec",
    ] {
        let arguments = split(arguments);
        let before = std::fs::read(directory.path("list")).ok();
        let their_list = {
            let said = directory.run("ssh-keygen", &arguments, "");
            (said, std::fs::read(directory.path("list")).expect("a list"))
        };
        match before.filter(|_| arguments.contains(&"-u")) {
            Some(before) => directory.write("list", before),
            None => std::fs::remove_file(directory.path("list")).expect("removed"),
        }
        let said = directory.run(OURS, &arguments, "");
        assert_eq!(said, their_list.0, "{arguments:?}");
        // Our list stays in its place, ssh-keygen's is written beside it.
        directory.write("theirs", their_list.1);
        let mut shown = Vec::new();
        for list in ["list", "theirs"] {
            shown.push(undated(&theirs.same(&directory, &["-Q", "-l", "-f", list]).out));
            let mut ask = vec!["-Q", "-f", list];
            ask.extend(FILES);
            shown.push(theirs.same(&directory, &ask).out);
        }
        assert_eq!(shown[..2], shown[2..], "{arguments:?}");
    }
    theirs.same(&directory, &["-q", "-Q", "-f", "list", "a.pub"]);
    theirs.same(&directory, &["-Q", "-f", "list"]);
    assert_eq!(directory.mode("list") & 0o600, 0o600);
}

/// Covers: ssh-keygen -k; ssh-keygen -Q
#[test]
fn error_messages_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("error_messages_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    directory.ours(&["-q", "-k", "-f", "list"]);
    let specs = [
        "serial: x",
        "serial:",
        "serial: 1x",
        "serial: 5-",
        "serial: 5-3",
        "serial: 5-5",
        "serial: 0",
        "serial: 99999999999999999999999",
        "serial: 1-99999999999999999999999",
        "hash: foo",
        "hash: MD5:aa",
        "hash: SHA256:aa",
        "hash: SHA256:!",
        "junk",
        "key: junk",
        "sha1: ssh-ed25519 AAAA",
        "sha256:",
    ];
    for spec in specs {
        directory.write("spec", format!("\n{spec}\n"));
        let said = theirs.same(&directory, &["-k", "-q", "-f", "out", "-s", "ca", "spec"]);
        assert_eq!((said.status, said.out.as_str()), (255, ""), "{spec}");
        assert!(!directory.path("out").exists(), "{spec}");
    }
    directory.write("serial", "serial: 1\n");
    directory.write("id", "id: x\n");
    for arguments in [
        "-k",
        "-Q",
        "-k -q -f out serial",
        "-k -q -f out id",
        "-k -q -f out missing",
        "-k -u -f missing a.pub",
        "-k -f out -s missing serial",
        "-k -f out -z foo",
        "-k -q -f missing/out a.pub",
        "-Q -f a.pub a.pub",
        "-Q -f list missing",
    ] {
        let said = theirs.same(&directory, &split(arguments));
        assert_eq!(said.status, 255, "{arguments}: {said:?}");
    }
    let said = directory.run(OURS, &["-Q", "-f", "missing", "a.pub"], "");
    assert_eq!((said.status, said.out.as_str()), (255, ""));
    assert_eq!(said.err, "Unable to load KRL missing: No such file or directory\n");
}
