//! `lhssh-keygen` compared with the system's ssh-keygen: equal keys, equal output.

mod common;

use std::fs;

use common::{OURS, TestDirectory, Theirs, known_hosts};

const KINDS: [(&str, &str); 6] = [
    ("ed25519", "256"),
    ("ecdsa", "256"),
    ("ecdsa", "384"),
    ("ecdsa", "521"),
    ("rsa", "2048"),
    ("rsa", "3072"),
];

/// Type and key of a line, without the comment.
fn key_of(line: &str) -> Vec<&str> {
    line.split_whitespace().take(2).collect()
}

/// Covers: ssh-keygen -t; ssh-keygen -b; ssh-keygen -a; ssh-keygen -y; ssh-keygen -q
#[test]
fn ssh_keygen_reads_our_keys() {
    let Some(theirs) = Theirs::find("ssh_keygen_reads_our_keys") else { return };
    let directory = TestDirectory::new();
    for (kind, bits) in KINDS {
        for passphrase in ["", "open sesame"] {
            let name = &format!("{kind}-{bits}-{}", passphrase.len());
            let public = &format!("{name}.pub");
            directory.ours(&[
                "-q", "-t", kind, "-b", bits, "-N", passphrase, "-f", name, "-C", "from us", "-a", "4",
            ]);
            let shown = theirs.run(&directory, &["-y", "-P", passphrase, "-f", name]);
            assert_eq!(shown, directory.text(public), "{name}");
            for file in [name, public] {
                for extra in ["-l", "-lv", "-lEmd5", "-lvEmd5"] {
                    theirs.same(&directory, &[extra, "-f", file]);
                }
            }
            fs::remove_file(directory.path(public)).expect("removed");
            theirs.same(&directory, &["-l", "-f", name]);
            theirs.run(&directory, &["-p", "-P", passphrase, "-N", "from them", "-a", "4", "-f", name]);
            assert_eq!(directory.ours(&["-y", "-P", "from them", "-f", name]), shown);
        }
    }
}

/// Covers: ssh-keygen -y; ssh-keygen -p
#[test]
fn ssh_keygen_keys_are_read_in_every_format() {
    let Some(theirs) = Theirs::find("ssh_keygen_keys_are_read_in_every_format") else { return };
    let directory = TestDirectory::new();
    for (kind, bits) in KINDS {
        for format in ["RFC4716", "PEM", "PKCS8"] {
            // Ed25519 has no traditional PEM form; ssh-keygen 9 then writes its own format.
            if kind == "ed25519" && format == "PEM" {
                continue;
            }
            for passphrase in ["", "open sesame"] {
                let name = &format!("{kind}-{bits}-{format}-{}", passphrase.len());
                theirs.run(
                    &directory,
                    &["-qt", kind, "-b", bits, "-m", format, "-N", passphrase, "-f", name, "-C", "me"],
                );
                let ours = directory.ours(&["-y", "-P", passphrase, "-f", name]);
                let public = directory.text(&format!("{name}.pub"));
                assert_eq!(key_of(&ours), key_of(&public), "{name}");
                theirs.same(&directory, &["-l", "-f", name]);
                // Rewritten by us, ssh-keygen still reads it.
                directory.ours(&["-p", "-P", passphrase, "-N", "other one", "-f", name, "-a", "2"]);
                let shown = theirs.run(&directory, &["-y", "-P", "other one", "-f", name]);
                assert_eq!(key_of(&shown), key_of(&public), "{name}");
            }
        }
    }
}

/// Covers: ssh-keygen -e; ssh-keygen -i
#[test]
fn rfc4716_keys_are_exchanged_with_ssh_keygen() {
    let Some(theirs) = Theirs::find("rfc4716_keys_are_exchanged_with_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "key", "-C", ""]);
    let exported = theirs.same(&directory, &["-e", "-f", "key.pub"]).out;
    theirs.same(&directory, &["-e", "-f", "key"]);
    directory.write("exported", &exported);
    assert_eq!(theirs.same(&directory, &["-i", "-f", "exported"]).out, directory.text("key.pub"));
}

/// Covers: ssh-keygen -F; ssh-keygen -l; ssh-keygen -v
#[test]
fn host_search_matches_ssh_keygen() {
    let Some(theirs) = Theirs::find("host_search_matches_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    known_hosts(&directory);
    let hosts = [
        "host1",
        "192.0.2.1",
        "host2",
        "[host2]:2222",
        "y.bad",
        "y.lab",
        "x.lab",
        "HOST2",
        "upper",
        "nobody",
    ];
    for host in hosts {
        for flags in ["-F", "-lF", "-lvF", "-lEmd5", "-qF"] {
            let split = if flags.ends_with('F') { vec![flags, host] } else { vec![flags, "-F", host] };
            theirs.same(&directory, &[&split[..], &["-f", "known"]].concat());
        }
    }
    for flags in ["-l", "-lEmd5"] {
        theirs.same(&directory, &[flags, "-f", "known"]);
    }
    theirs.same(&directory, &["-F", "host1", "-f", "missing"]);
}

/// Covers: ssh-keygen -R
#[test]
fn host_removal_matches_ssh_keygen() {
    let Some(theirs) = Theirs::find("host_removal_matches_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    known_hosts(&directory);
    let before = directory.text("known");
    // With the last contents, an invalid line makes both programs refuse to change the file.
    let broken = format!("{before}what is this\n@what host1 ssh-ed25519 AAAA\n");
    for contents in [before.clone(), before.trim_end().to_owned(), broken] {
        for host in ["host1", "host2", "[host2]:2222", "y.bad", "y.lab", "UPPER", "nobody"] {
            for flags in ["-R", "-qR"] {
                let mut results = Vec::new();
                for program in ["ssh-keygen", OURS] {
                    directory.write("known", &contents);
                    let _ = fs::remove_file(directory.path("known.old"));
                    let said = directory.run(program, &[flags, host, "-f", "known"], "");
                    let old = fs::read_to_string(directory.path("known.old")).ok();
                    results.push((said, directory.text("known"), old));
                }
                assert_eq!(results[0], results[1], "{flags} {host}");
            }
        }
    }
    theirs.same(&directory, &["-R", "nobody", "-f", "known"]);
}

/// Covers: ssh-keygen -H; ssh-keygen -F
#[test]
fn hashed_files_are_read_by_both_programs() {
    let Some(theirs) = Theirs::find("hashed_files_are_read_by_both_programs") else { return };
    let directory = TestDirectory::new();
    known_hosts(&directory);
    let before = directory.text("known");
    let lines = |text: &str| -> Vec<String> {
        // Salts are random, so of hashed lines all but the hash is compared.
        let line = |line: &str| match line.split_once(' ') {
            Some((hash, rest)) if hash.starts_with("|1|") => format!("|1| {rest}"),
            _ => line.to_owned(),
        };
        text.lines().map(line).collect()
    };
    let mut results = Vec::new();
    for program in ["ssh-keygen", OURS] {
        directory.write("known", &before);
        let said = directory.run(program, &["-H", "-f", "known"], "");
        assert_eq!(directory.text("known.old"), before);
        for host in ["host1", "192.0.2.1", "host2", "[host2]:2222", "y.lab", "upper", "nobody"] {
            theirs.same(&directory, &["-F", host, "-f", "known"]);
            theirs.same(&directory, &["-lF", host, "-f", "known"]);
        }
        let again = directory.run(program, &["-H", "-f", "known"], "");
        results.push((said, lines(&directory.text("known")), again));
        directory.ours(&["-qR", "host2", "-f", "known"]);
        assert_eq!(theirs.same(&directory, &["-F", "host2", "-f", "known"]).status, 1);
    }
    assert_eq!(results[0], results[1]);
    // With -HF, both programs print the matches hashed.
    directory.write("known", &before);
    let found = directory.ours(&["-HF", "host2", "-f", "known"]);
    assert_eq!(lines(&found), lines(&theirs.run(&directory, &["-HF", "host2", "-f", "known"])));
}

/// A damaged hash can match no host and hides no name: the line stays, and the others are hashed.
///
/// Covers: ssh-keygen -H
#[test]
fn damaged_hashes_stay_while_others_are_hashed() {
    if Theirs::find("damaged_hashes_stay_while_others_are_hashed").is_none() {
        return;
    }
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "k"]);
    let key = directory.text("k.pub");
    let damaged: Vec<String> =
        ["|1|damaged", "|1|AAAA|BBBB", "|2|AAAA|BBBB"].iter().map(|hash| format!("{hash} {key}")).collect();
    for before in [format!("{}host {key}", damaged.concat()), damaged.concat()] {
        let mut results = Vec::new();
        for program in ["ssh-keygen", OURS] {
            directory.write("known", &before);
            let said = directory.run(program, &["-H", "-f", "known"], "");
            let text = directory.text("known");
            assert_eq!(text.lines().count(), before.lines().count(), "{program}");
            assert!(text.starts_with(&damaged.concat()), "{program}: {text}");
            assert!(!text.contains("host "), "{program}: {text}");
            results.push(said);
        }
        assert_eq!(results[0], results[1]);
    }
}

/// Covers: ssh-keygen -l; ssh-keygen -v
#[test]
fn key_list_fingerprints_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("key_list_fingerprints_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    for (name, kind, comment) in [("k", "ed25519", "a b"), ("r", "rsa", ""), ("e", "ecdsa", "#x")] {
        directory.ours(&["-q", "-t", kind, "-N", "", "-f", name, "-C", comment]);
        for flags in ["-l", "-lv"] {
            theirs.same(&directory, &[flags, "-f", name]);
            theirs.same(&directory, &[flags, "-f", &format!("{name}.pub")]);
        }
    }
    // Lines with a bare key without a comment are left out: ssh-keygen 9 shows stale memory for those.
    let (k, r) = (directory.text("k.pub"), directory.text("r.pub"));
    directory.write(
        "authorized",
        format!(
            "# note\n\nrestrict,command=\"a \\\"b\\\" c\" {k}{k}   {k}from=\"*.x\",restrict {r}ssh-rsa AAAA x\n\
             ssh-future AAAACnNzaC1mdXR1cmU= new\n\tno-pty {k}"
        ),
    );
    theirs.same(&directory, &["-l", "-f", "authorized"]);
    let ours = directory.run(OURS, &["-l", "-f", "-"], &directory.text("authorized"));
    assert_eq!(ours, directory.run("ssh-keygen", &["-l", "-f", "-"], &directory.text("authorized")));
    assert_eq!(ours.out, directory.ours(&["-l", "-f", "authorized"]));
    for input in ["", "junk\n"] {
        let ours = directory.run(OURS, &["-l", "-f", "-"], input);
        assert_eq!(ours, directory.run("ssh-keygen", &["-l", "-f", "-"], input));
    }
}

/// Covers: ssh-keygen -L
#[test]
fn certificate_listing_matches_ssh_keygen() {
    let Some(theirs) = Theirs::find("certificate_listing_matches_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    for (name, kind) in [("ca", "ed25519"), ("user", "ecdsa"), ("host", "rsa"), ("late", "ed25519")] {
        directory.ours(&["-q", "-t", kind, "-N", "", "-f", name, "-C", name]);
    }
    let options =
        ["clear", "permit-pty", "force-command=ls -l", "source-address=192.0.2.0/24", "extension:x@y=z"];
    let mut arguments =
        vec!["-q", "-s", "ca", "-I", "an id", "-n", "me,you", "-V", "20200101:20300701", "-z", "7"];
    arguments.extend(options.iter().flat_map(|option| ["-O", option]));
    arguments.push("user.pub");
    theirs.run(&directory, &arguments);
    theirs.run(&directory, &["-q", "-s", "ca", "-I", "host", "-h", "host.pub"]);
    theirs.run(&directory, &["-q", "-s", "ca", "-I", "late", "-V", "always:20300101", "late.pub"]);
    let all: String = ["user-cert.pub", "ca.pub", "host-cert.pub", "late-cert.pub"]
        .map(|name| directory.text(name))
        .concat();
    directory.write("all", format!("{all}junk\n"));
    for file in ["user-cert.pub", "host-cert.pub", "late-cert.pub", "all", "ca.pub", "missing"] {
        theirs.same(&directory, &["-L", "-f", file]);
    }
    for flags in ["-l", "-lv"] {
        theirs.same(&directory, &[flags, "-f", "user-cert.pub"]);
    }
}

#[test]
fn error_messages_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("error_messages_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "open", "-C", "x"]);
    directory.ours(&["-q", "-t", "ed25519", "-N", "secret", "-a", "2", "-f", "locked", "-C", "x"]);
    directory.set_mode("open", 0o640);
    directory.write("junk", "junk\n");
    for arguments in [
        "-y -f open",
        "-p -N x -f open",
        "-c -C x -f open",
        "-l -f open",
        "-y -P wrong -f locked",
        "-p -P wrong -N x -f locked",
        "-c -P wrong -C x -f locked",
        "-y -f missing",
        "-p -N x -f missing",
        "-c -C x -f missing",
        "-l -f missing",
        "-e -f missing",
        "-i -f missing",
        "-l -f junk",
        "-t foo",
        "-t rsa -b 512",
        "-t rsa -b 1023 -N x -f k",
        "-t rsa -b 16385 -N x -f k",
        "-t rsa -b abc",
        "-t rsa -b -5",
        "-t ecdsa -b 255",
        "-a 0",
        "-a 99999999999",
        "-a x",
        "-E foo -l",
        "-m foo",
        "-q -t ed25519 -N x -f missing/key",
        "-R host -f missing",
        "-H -f missing",
    ] {
        let said = theirs.same(&directory, &arguments.split(' ').collect::<Vec<_>>());
        assert!(said.status != 0 || arguments == "-l -f open", "{arguments}");
    }
}
