//! `lhssh-keygen`, `lhssh-agent` and `lhssh-add` compared with ssh-keygen, ssh-agent and ssh-add: same
//! output, messages and exit status. The command lines are those for which a test campaign found differences.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use lh_interop::{Agent, Lab, Ran, our, peers};

/// A directory, and one program of OpenSSH with ours.
struct Pair {
    lab: Lab,
    theirs: PathBuf,
    ours: PathBuf,
}

impl Pair {
    fn new(test: &str, name: &str) -> Option<Self> {
        let [theirs] = peers(test, [name])?;
        Some(Self { lab: Lab::new(), theirs, ours: our(&format!("lh{name}")) })
    }

    /// Runs OpenSSH's program for what a test needs.
    #[track_caller]
    fn make(&self, args: &[&str]) {
        self.lab.run(&self.theirs, args).ok("OpenSSH's program");
    }

    /// Runs both programs, which must print the same. Returns what OpenSSH's has printed.
    #[track_caller]
    fn same(&self, args: &[&str]) -> Said {
        self.same_after(|| (), args, None)
    }

    /// Like [`same`](Self::same), with `prepare` before each of them, and a file for standard input.
    #[track_caller]
    fn same_after(&self, prepare: impl Fn(), args: &[&str], input: Option<&str>) -> Said {
        let run = |program: &Path| {
            prepare();
            let input = input.map_or(Stdio::null(), |name| File::open(self.lab.path(name)).unwrap().into());
            Said::of(&self.lab.run_with(program, args, input))
        };
        let theirs = run(&self.theirs);
        assert_eq!(run(&self.ours), theirs, "{args:?}");
        theirs
    }
}

/// Exit status and output.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    status: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(ran: &Ran) -> Self {
        Self { status: ran.code, out: ran.text(), err: ran.err.replace('\r', "").replace("lhssh-", "ssh-") }
    }
}

/// Covers: ssh-keygen -e; ssh-keygen -m
#[test]
fn encrypted_keys_are_exported_without_passphrase() {
    let Some(pair) = Pair::new("encrypted_keys_are_exported_without_passphrase", "ssh-keygen") else {
        return;
    };
    let (new, pem) = (pair.lab.arg("new"), pair.lab.arg("pem"));
    pair.make(&["-q", "-t", "rsa", "-b", "2048", "-N", "secret", "-f", &new]);
    pair.make(&["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "secret", "-f", &pem]);
    // The first format stores the public key unencrypted; the other one has it in the file beside only.
    fs::remove_file(pair.lab.path("new.pub")).unwrap();
    for file in [&new, &pem] {
        for format in ["RFC4716", "PKCS8", "PEM"] {
            let said = pair.same(&["-e", "-m", format, "-f", file]);
            assert_eq!((said.status, said.err.as_str()), (0, ""), "{file} {format}");
        }
    }
    fs::remove_file(pair.lab.path("pem.pub")).unwrap();
    assert_eq!(pair.same(&["-e", "-f", &pem]).status, 255);
}

/// Covers: ssh-keygen -e; ssh-keygen -m; ssh-keygen -r
#[test]
fn keys_that_cannot_be_written_are_named() {
    let Some(pair) = Pair::new("keys_that_cannot_be_written_are_named", "ssh-keygen") else { return };
    let key = pair.lab.arg("user_ed25519.pub");
    pair.make(&["-q", "-s", &pair.lab.arg("user_rsa"), "-I", "me", &key]);
    let said = pair.same(&["-e", "-m", "PEM", "-f", &pair.lab.arg("user_ed25519-cert.pub")]);
    assert!(said.err.contains("unsupported key type ED25519-CERT"), "{said:?}");
    pair.lab.write("garbage", "garbage\n");
    assert_eq!(pair.same(&["-r", "host", "-f", &pair.lab.arg("garbage")]).status, 255);
    assert_eq!(pair.same(&["-r", "host", "-f", &pair.lab.arg("missing")]).status, 255);
}

/// Covers: ssh-keygen -s; ssh-keygen -O
#[test]
fn source_addresses_of_certificates_are_checked() {
    let Some(pair) = Pair::new("source_addresses_of_certificates_are_checked", "ssh-keygen") else { return };
    let (authority, key) = (pair.lab.arg("user_ed25519"), pair.lab.arg("user_rsa.pub"));
    let certificate = pair.lab.path("user_rsa-cert.pub");
    let sign = |list: &str| {
        let option = format!("source-address={list}");
        let forget = || drop(fs::remove_file(&certificate));
        pair.same_after(forget, &["-s", &authority, "-I", "me", "-O", &option, &key], None)
    };
    for list in ["192.0.2.0/24", "192.0.2.1,2001:db8::/32"] {
        assert_eq!(sign(list).status, 0, "{list}");
        assert!(certificate.exists(), "{list}");
    }
    // Letters of hexadecimal numbers alone make no address.
    for list in
        ["bad", "192.0.2.1,face", "192.0.2.1/24", "2001:db8::1/32", "192.0.2.0/33", "192.0.2.0/129", ""]
    {
        assert_eq!(sign(list).status, 255, "{list}");
        assert!(!certificate.exists(), "{list}");
    }
    // Of a character that no address has, OpenSSH tells twice.
    let refused = Said::of(
        &pair.lab.run(&pair.ours, &["-s", &authority, "-I", "me", "-O", "source-address=!192.0.2.1", &key]),
    );
    assert_eq!(refused.status, 255);
    assert_eq!(refused.err, "Invalid network entry \"!192.0.2.1\"\nInvalid source-address list\n");
}

/// Covers: ssh-keygen -Y
#[test]
fn standard_input_is_signed_by_its_name() {
    let Some(pair) = Pair::new("standard_input_is_signed_by_its_name", "ssh-keygen") else { return };
    let key = pair.lab.arg("user_ed25519");
    pair.lab.write("data", "data\n");
    let data = pair.lab.arg("data");
    let sign = ["-Y", "sign", "-f", &key, "-n", "file"];
    // Ed25519 signatures of the same data are equal.
    let signed = pair.same_after(|| (), &[&sign[..], &["-"]].concat(), Some("data"));
    assert!(signed.status == 0 && signed.out.starts_with("-----BEGIN SSH SIGNATURE-----"), "{signed:?}");
    assert_eq!(pair.same_after(|| (), &sign, Some("data")).out, signed.out);
    assert_eq!(pair.same_after(|| (), &[&sign[..], &["-", &data]].concat(), Some("data")).status, 255);
}

/// Covers: ssh-keygen -Y; ssh-keygen -O
#[test]
fn files_that_are_no_signatures_are_described() {
    let Some(pair) = Pair::new("files_that_are_no_signatures_are_described", "ssh-keygen") else { return };
    let (lab, key) = (&pair.lab, pair.lab.arg("user_ed25519"));
    lab.write("data", "data\n");
    pair.make(&["-q", "-Y", "sign", "-f", &key, "-n", "file", &lab.arg("data")]);
    let signature = lab.read("data.sig");
    lab.write("allowed", &format!("me {}", lab.read("user_ed25519.pub")));
    let allowed = lab.arg("allowed");
    for (text, words) in [
        ("", "missing header"),
        ("short\n", "incomplete message"),
        (lab.read("user_ed25519.pub").as_str(), "invalid format"),
        (signature.replace("BEGIN", "BEGN").as_str(), "missing header"),
        (&signature[..100], "missing footer"),
        (signature.replace("-----END SSH SIGNATURE-----", "").as_str(), "missing footer"),
    ] {
        lab.write("bad.sig", text);
        let bad = lab.arg("bad.sig");
        let found = pair.same(&["-Y", "find-principals", "-s", &bad, "-f", &allowed]);
        assert!(found.status == 255 && found.err.contains(words), "{words}: {found:?}");
        pair.same_after(|| (), &["-Y", "check-novalidate", "-n", "file", "-s", &bad], Some("data"));
    }
    // An option of verifying only.
    let find = ["-Y", "find-principals", "-s", &lab.arg("data.sig"), "-f", &allowed];
    assert_eq!(pair.same(&find).out, "me\n");
    assert_eq!(pair.same(&[&find[..], &["-O", "print-pubkey"]].concat()).status, 255);
}

/// Covers: ssh-keygen -c; ssh-keygen -C
#[test]
fn removed_comments_are_reported() {
    let Some(pair) = Pair::new("removed_comments_are_reported", "ssh-keygen") else { return };
    pair.make(&["-q", "-t", "ed25519", "-N", "", "-C", "old", "-f", &pair.lab.arg("before")]);
    let restore = || {
        for (from, to) in [("before", "key"), ("before.pub", "key.pub")] {
            fs::copy(pair.lab.path(from), pair.lab.path(to)).unwrap();
        }
    };
    let said = pair.same_after(restore, &["-c", "-C", "", "-f", &pair.lab.arg("key")], None);
    assert_eq!(said.out, "Old comment: old\nComment removed\n");
}

/// Covers: ssh-keygen -H
#[test]
fn hashing_reports_lines_in_their_order() {
    let Some(pair) = Pair::new("hashing_reports_lines_in_their_order", "ssh-keygen") else { return };
    let key = pair.lab.read("user_ed25519.pub");
    let text = format!("a {key}no entry\n*.b {key}nor this\n*.c,!x.c {key}");
    pair.lab.write("hosts", &text);
    let said = pair.same(&["-H", "-f", &pair.lab.arg("hosts")]);
    assert_eq!(said.status, 1);
    assert_eq!(pair.lab.read("hosts"), text);
}

/// Covers: ssh-agent -E; ssh-agent -O; ssh-agent -P; ssh-agent -k; ssh-agent -t
#[test]
fn invalid_agent_options_have_the_same_status() {
    let Some(pair) = Pair::new("invalid_agent_options_have_the_same_status", "ssh-agent") else { return };
    for (args, status) in [
        (&["-E", "rot13", "true"][..], 255),
        (&["-O", "unknown", "true"], 255),
        (&["-P", "a", "-P", "b", "true"], 255),
        (&["-E", "SHA512", "true"], 0),
        (&["-E", "sha1", "true"], 0),
    ] {
        assert_eq!(pair.same(args).status, status, "{args:?}");
    }
    for pid in ["", "x", "7x", "-1", "1", "99999999999"] {
        let run =
            |program: &Path| Said::of(&pair.lab.run_env(&[format!("SSH_AGENT_PID={pid}")], program, &["-k"]));
        let theirs = run(&pair.theirs);
        assert_eq!(run(&pair.ours), theirs, "{pid}");
        assert!(theirs.status == 1 && theirs.err.contains("not a good PID"), "{pid}: {theirs:?}");
    }
}

/// A command that ends before the agent has looked for it.
///
/// Covers: ssh-agent -a
#[test]
fn short_commands_leave_no_message_and_no_socket() {
    let lab = Lab::new();
    let socket = lab.path("socket");
    for _ in 0..20 {
        let ran = lab.run(&our("lhssh-agent"), &["-a", &lab.arg("socket"), "true"]);
        assert_eq!((ran.code, ran.text().as_str(), ran.err.as_str()), (0, "", ""));
        // The agent may end after its command.
        let gone = (0..6000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !socket.exists()
        });
        assert!(gone, "{} is left", socket.display());
    }
}

/// Covers: ssh-add -E; ssh-add -L; ssh-add -h; ssh-add -H
#[test]
fn add_flags_are_checked_alike() {
    let Some(pair) = Pair::new("add_flags_are_checked_alike", "ssh-add") else { return };
    let lab = &pair.lab;
    let agent = Agent::ours(lab, "agent", &[]);
    let key = lab.arg("user_ed25519");
    lab.write("known", &format!("here {}", lab.read("user_rsa.pub")));
    let known = lab.arg("known");
    agent.run(lab, &pair.ours, &[&key]).ok("lhssh-add");
    for (args, status) in [
        (&["-l", "-E", "sha1"][..], 0),
        (&["-l", "-E", "SHA512"], 0),
        (&["-l", "-E", "rot13"], 255),
        (&["-l", "-L"], 255),
        (&["-h", "", "-H", &known, &key], 255),
        (&["-h", "here>", "-H", &known, &key], 255),
        (&["-h", "me@here>here", "-H", &known, &key], 255),
        (&["-h", "nowhere", "-H", &known, &key], 255),
        (&["-h", "me@here", "-H", &known, &key], 0),
    ] {
        let run = |program: &Path| Said::of(&agent.run(lab, program, args));
        let theirs = run(&pair.theirs);
        assert_eq!(run(&pair.ours), theirs, "{args:?}");
        assert_eq!(theirs.status, status, "{args:?}");
    }
}
