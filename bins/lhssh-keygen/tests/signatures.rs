//! Signatures of files, compared with the system's ssh-keygen, and `git`'s use of them.

mod common;

use std::process::Command;

use common::{OURS, TestDirectory, Theirs};

fn split(arguments: &str) -> Vec<&str> {
    arguments.split(' ').collect()
}

fn keys(directory: &TestDirectory) {
    for (name, kind) in [("ca", "ed25519"), ("a", "ed25519"), ("e", "ecdsa"), ("r", "rsa")] {
        directory.ours(&["-q", "-t", kind, "-N", "", "-f", name, "-C", name]);
    }
    directory.ours(&[
        "-q",
        "-s",
        "ca",
        "-I",
        "id",
        "-n",
        "me@x,you@x",
        "-V",
        "20200101:20400101",
        "a.pub",
        "r.pub",
    ]);
    directory.write("data", "data\n");
    directory.write("other", "other\n");
}

/// Covers: ssh-keygen -Y; ssh-keygen -n
#[test]
fn signatures_verify_in_both_programs() {
    let Some(theirs) = Theirs::find("signatures_verify_in_both_programs") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    for key in ["a", "e", "r", "a-cert.pub", "r-cert.pub", "e.pub"] {
        let public = if key.ends_with(".pub") { key.to_owned() } else { format!("{key}.pub") };
        directory.write("allowed", format!("me@x,*@y {}", directory.text(&public)));
        for hash in ["", "-O hashalg=sha256", "-O hashalg=sha512"] {
            let sign = format!("-Y sign -n file -f {key} {hash}");
            for program in [OURS, "ssh-keygen"] {
                let said = directory.run(program, &split(sign.trim_end()), "data\n");
                assert_eq!(
                    (said.status, said.err.as_str()),
                    (0, "Signing data on standard input\n"),
                    "{sign}"
                );
                directory.write("sig", said.out);
                for check in [
                    "-Y check-novalidate -n file -s sig",
                    "-Y check-novalidate -n file -s sig -O print-pubkey",
                    "-q -Y check-novalidate -n file -s sig",
                    "-Y check-novalidate -n other -s sig",
                    "-Y verify -n file -I me@x -f allowed -s sig",
                    "-Y verify -n file -I me@x -f allowed -s sig -O print-pubkey",
                    "-Y verify -n file -I who@y -f allowed -s sig",
                    "-Y verify -n file -I who@z -f allowed -s sig",
                    "-Y find-principals -s sig -f allowed",
                ] {
                    for input in ["data\n", "date\n"] {
                        theirs.same_with(&directory, &split(check), input);
                    }
                }
            }
        }
    }
}

/// Covers: ssh-keygen -Y; ssh-keygen -q
#[test]
fn file_signing_matches_ssh_keygen() {
    let Some(theirs) = Theirs::find("file_signing_matches_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    let mut said = Vec::new();
    for program in ["ssh-keygen", OURS] {
        for name in ["data.sig", "other.sig"] {
            let _ = std::fs::remove_file(directory.path(name));
        }
        for (arguments, input) in [
            ("-Y sign -n file -f a data", ""),
            ("-Y sign -n file -f a data other", "n\n"),
            ("-Y sign -n file -f a data other", "y\ny\n"),
            ("-Y sign -n file -f a data", ""),
            ("-q -Y sign -n file -f a data", "y\n"),
        ] {
            said.push(directory.run(program, &split(arguments), input));
        }
        assert_eq!(directory.mode("data.sig") & 0o600, 0o600);
    }
    let (theirs_said, ours_said) = said.split_at(said.len() / 2);
    assert_eq!(theirs_said, ours_said);
    directory.ours(&["-q", "-t", "ed25519", "-N", "secret", "-a", "2", "-f", "locked", "-C", "x"]);
    std::fs::copy(directory.path("e.pub"), directory.path("stray.pub")).expect("copied");
    std::fs::copy(directory.path("a"), directory.path("stray")).expect("copied");
    for arguments in [
        "-Y sign",
        "-Y sign -f a",
        "-Y sign -n file",
        "-Y sign -n file -f missing data",
        "-Y sign -n file -f a missing",
        "-Y sign -n file -f a -O hashalg=sha1 data",
        "-Y sign -n file -f a -O foo data",
        "-Y sign -n file -f locked -P wrong data",
        "-Y sign -n file -f stray.pub data",
    ] {
        let said = theirs.same(&directory, &split(arguments));
        assert_ne!(said.status, 0, "{arguments}");
    }
}

/// Covers: ssh-keygen -Y; ssh-keygen -I; ssh-keygen -O; ssh-keygen -r
#[test]
fn allowed_signers_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("allowed_signers_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    let key = |name: &str| directory.text(&format!("{name}.pub")).trim_end().to_owned();
    let (a, e, ca, cert) = (key("a"), key("e"), key("ca"), key("a-cert"));
    for (name, with) in [("plain", "a"), ("cert", "a-cert.pub")] {
        let said = directory.run(OURS, &["-Y", "sign", "-n", "file", "-f", with], "data\n");
        directory.write(name, said.out);
    }
    let lists = [
        format!("me@x {a}\n"),
        format!("me@x,*@y,!bad@y namespaces=\"a,file\" {a} note\nother,me@x {e}\n"),
        format!("*@x {e}\nme@x {a}\n# note\nyou@x {a}\n"),
        format!("me@x octopus {a}\nme@x {a}\n"),
        format!("me@x {a}\nme@x octopus {a}\n"),
        format!("me@x\nme@x x\njunk\nme@x namespaces=\"file\" x\nyou@x {a}\n"),
        format!("me@x namespaces=\"git\" {a}\n"),
        format!("me@x namespaces=\"a\",namespaces=\"file\" {a}\n"),
        format!("me@x valid-before=\"x\" {a}\nme@x valid-after=\"2020\" {a}\n"),
        format!("me@x valid-after=\"20200101\",valid-before=\"20190101\" {a}\n"),
        format!("me@x valid-after=\"20250101\",valid-before=\"20300101\" {a}\n"),
        format!("me@x valid-before=\"202001011230Z\" {a}\nyou@x valid-after=\"20200101Z\" {a}\n"),
        format!("me@x cert-authority {a}\n"),
        format!("me@x {ca}\n"),
        format!("me@x cert-authority {ca}\n"),
        format!("*@x CERT-AUTHORITY,namespaces=\"file\" {ca}\n"),
        format!("nobody@x cert-authority {ca}\nyou@x cert-authority {ca}\n"),
        format!("me@x {cert}\n"),
        format!("\"me@x\" {a}\n"),
        String::new(),
    ];
    for list in &lists {
        directory.write("allowed", list);
        for sig in ["plain", "cert"] {
            for time in ["", "20190201", "20260101Z", "20350101", "20500101"] {
                let time = if time.is_empty() { String::new() } else { format!(" -O verify-time={time}") };
                // Without an explicit time, messages would name the current one; with one, it must matter.
                if time.is_empty() == list.contains("valid-") && sig == "plain" {
                    continue;
                }
                if time.is_empty() && list.contains("valid-") {
                    continue;
                }
                for who in ["me@x", "you@x", "who@y", "bad@y"] {
                    let verify = format!("-Y verify -n file -f allowed -s {sig} -I {who}{time}");
                    theirs.same_with(&directory, &split(&verify), "data\n");
                }
                theirs.same(&directory, &split(&format!("-Y find-principals -f allowed -s {sig}{time}")));
            }
        }
        for who in ["me@x", "who@y", "bad@y", "other", "nothing"] {
            theirs.same(&directory, &["-Y", "match-principals", "-f", "allowed", "-I", who]);
        }
    }
}

/// Covers: ssh-keygen -Y; ssh-keygen -r
#[test]
fn revoked_keys_are_refused_like_ssh_keygen() {
    let Some(theirs) = Theirs::find("revoked_keys_are_refused_like_ssh_keygen") else {
        return;
    };
    let directory = TestDirectory::new();
    keys(&directory);
    directory.write("allowed", format!("me {}me {}", directory.text("a.pub"), directory.text("a-cert.pub")));
    for (name, with) in [("plain", "a"), ("cert", "a-cert.pub")] {
        let said = directory.run(OURS, &["-Y", "sign", "-n", "file", "-f", with], "data\n");
        directory.write(name, said.out);
    }
    directory.ours(&["-q", "-k", "-f", "list", "a.pub"]);
    directory.ours(&["-q", "-k", "-f", "list-cert", "a-cert.pub"]);
    directory.ours(&["-q", "-k", "-f", "list-ca", "ca.pub"]);
    directory.ours(&["-q", "-k", "-f", "list-empty"]);
    directory.write("junk", "junk\n");
    for sig in ["plain", "cert"] {
        for revoked in ["a.pub", "e.pub", "list", "list-cert", "list-ca", "list-empty", "missing"] {
            let verify = format!("-Y verify -n file -I me -f allowed -s {sig} -r {revoked}");
            theirs.same_with(&directory, &split(&verify), "data\n");
        }
        // An unreadable list might contain the key.
        let verify = format!("-Y verify -n file -I me -f allowed -s {sig} -r junk");
        assert_eq!(directory.run(OURS, &split(&verify), "data\n").status, 255);
    }
    for arguments in [
        "-Y verify -n file -s plain -f allowed",
        "-Y verify -n file -I me -f allowed",
        "-Y verify -n file -I me -s plain",
        "-Y verify -I me -s plain -f allowed",
        "-Y verify -n file -I me -s missing -f allowed",
        "-Y verify -n file -I me -s plain -f missing",
        "-Y verify -n file -I me -s junk -f allowed",
        "-Y verify -n file -I me -s plain -f allowed -O foo",
        "-Y verify -n file -I me -s plain -f allowed -O verify-time=foo",
        "-Y check-novalidate -s plain",
        "-Y check-novalidate -n file",
        "-Y check-novalidate -n file -s plain -O bar",
        "-Y find-principals -f allowed",
        "-Y find-principals -s plain",
        "-Y find-principals -s plain -f missing",
        "-Y find-principals -s missing -f allowed",
        "-Y match-principals -f allowed",
        "-Y match-principals -I me",
        "-Y match-principals -I me -f missing",
    ] {
        theirs.same_with(&directory, &split(arguments), "data\n");
    }
    let said = directory.run(OURS, &["-Y", "dance"], "");
    assert_eq!(said.status, 1);
    assert!(said.err.starts_with("Unsupported operation for -Y: \"dance\"\nusage: "), "{said:?}");
}

/// A certificate with a forged authority signature is refused by every check.
///
/// Covers: ssh-keygen -Y
#[test]
fn signature_with_forged_certificate_is_refused() {
    use lh_crypto::{Hash, PrivateKey, PublicKey, SshSignature, signed_data};
    let directory = TestDirectory::new();
    keys(&directory);
    directory.write("allowed", format!("me@x cert-authority {}", directory.text("ca.pub")));
    let (key, _) = PrivateKey::parse(directory.text("a").as_bytes(), None).expect("a key");
    let (certificate, _) =
        PublicKey::from_openssh_line(&directory.text("a-cert.pub")).expect("a certificate");
    let sign = |certificate: PublicKey| {
        let digest = Hash::Sha512.digest(&[b"data\n"]);
        let signed = signed_data("file", Hash::Sha512, digest.as_ref());
        let signature = key.sign("ssh-ed25519", &signed).expect("signed");
        SshSignature { key: certificate, namespace: "file".into(), hash: "sha512".into(), signature }
            .to_armor()
    };
    let verify = ["-Y", "verify", "-n", "file", "-I", "me@x", "-f", "allowed", "-s", "sig"];
    directory.write("sig", sign(certificate.clone()));
    assert_eq!(directory.run(OURS, &verify, "data\n").status, 0);
    let mut blob = certificate.blob().to_vec();
    let last = blob.len() - 1;
    blob[last] ^= 1;
    directory.write("sig", sign(PublicKey::from_blob(&blob).expect("still parses")));
    for arguments in [&verify[..], &["-Y", "find-principals", "-s", "sig", "-f", "allowed"]] {
        let said = directory.run(OURS, arguments, "data\n");
        assert_eq!(said.status, 255, "{said:?}");
    }
}

/// Covers: ssh-keygen -Y
#[test]
fn git_signs_and_verifies_commits() {
    if lh_interop::peers("git_signs_and_verifies_commits", ["git"]).is_none() {
        return;
    }
    let directory = TestDirectory::new();
    keys(&directory);
    directory.write("allowed", format!("me@x {}", directory.text("a.pub")));
    let git = |arguments: &[&str]| {
        let run = Command::new("git")
            .args(["-c", "gpg.format=ssh", "-c", &format!("gpg.ssh.program={OURS}")])
            .args(["-c", &format!("user.signingkey={}", directory.path("a.pub").display())])
            .args(["-c", &format!("gpg.ssh.allowedSignersFile={}", directory.path("allowed").display())])
            .args(["-c", "user.name=Me", "-c", "user.email=me@x"])
            .args(arguments)
            .current_dir(directory.path(""))
            .env_remove("SSH_AUTH_SOCK")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", directory.path(""))
            .output()
            .expect("git runs");
        let text = [run.stdout, run.stderr].concat();
        (run.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (done, text) = git(&["init", "-q", "."]);
    assert!(done, "{text}");
    let (done, text) = git(&["commit", "-q", "--allow-empty", "-S", "-m", "signed"]);
    assert!(done, "{text}");
    let (done, text) = git(&["verify-commit", "HEAD"]);
    assert!(done && text.contains("Good \"git\" signature for me@x with ED25519 key SHA256:"), "{text}");
    let (done, text) = git(&["tag", "-s", "-m", "signed", "v1"]);
    assert!(done, "{text}");
    assert!(git(&["verify-tag", "v1"]).0);
    directory.write("allowed", format!("me@x {}", directory.text("e.pub")));
    let (done, text) = git(&["verify-commit", "HEAD"]);
    assert!(!done, "another key is allowed: {text}");
}
