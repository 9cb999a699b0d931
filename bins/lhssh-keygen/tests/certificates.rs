//! Certificates compared with the system's ssh-keygen: equal output, equal certificates.

mod common;

use std::process::{Command, Stdio};

use common::{OURS, TestDirectory, Theirs};

fn keys(directory: &TestDirectory) {
    for (name, kind) in [("ca", "ed25519"), ("rsa-ca", "rsa"), ("e", "ecdsa"), ("a", "ed25519"), ("r", "rsa")]
    {
        directory.ours(&["-q", "-t", kind, "-N", "", "-f", name, "-C", name]);
    }
}

fn split(arguments: &str) -> Vec<&str> {
    arguments.split(' ').collect()
}

/// Covers: ssh-keygen -s; ssh-keygen -I; ssh-keygen -n; ssh-keygen -h; ssh-keygen -O; ssh-keygen -V; ssh-keygen -z; ssh-keygen -L
#[test]
fn certificates_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("certificates_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    for arguments in [
        "-s ca -I id a.pub",
        "-s ca -I id -n u1,u2 -z 5 a.pub r.pub e.pub",
        "-s ca -I id -z +7 a.pub r.pub e.pub",
        "-s ca -I id -z 010 a.pub",
        "-s rsa-ca -I id -h -n h,*.example a.pub",
        "-s rsa-ca -t rsa-sha2-256 -I id a.pub",
        "-s rsa-ca -t rsa-sha2-512 -I id a.pub",
        "-s e -I id a.pub",
        "-s ca -h -I id -O clear -O force-command=x a.pub",
        "-s ca -h -I id -O permit-pty a.pub",
        "-s ca -I id -O clear -O permit-pty -O permit-x11-forwarding a.pub",
        "-s ca -I id -O no-pty -O no-X11-forwarding -O no-user-rc -O no-port-forwarding -O no-agent-forwarding a.pub",
        "-s ca -I id -O force-command=ls -O source-address=192.0.2.0/24,2001:db8::/32 a.pub",
        "-s ca -I id -O verify-required -O no-touch-required a.pub",
        "-s ca -I id -O extension:x@y=1 -O extension:flag@y -O critical:z@y -O extension:empty@y= a.pub",
        "-s ca -I id -O critical:permit-pty -O extension:force-command=x -O extension:verify-required a.pub",
        // Dates in winter, because ssh-keygen 9 is off by an hour in summer.
        "-s ca -I id -V 20200101:20300201 a.pub",
        "-s ca -I id -V 202001011230:20300201123045 a.pub",
        "-s ca -I id -V 202001011230Z:20300201123045Z a.pub",
        "-s ca -I id -V always:20300101 a.pub",
        "-s ca -I id -V 20200101:forever a.pub",
        "-s ca -I id -V 0x10:0x20 a.pub",
        "-s ca -I id -V always:forever a.pub",
        "-q -s ca -I id a.pub",
        "-s ca -I id a",
        "-s ca -P ignored -I id a.pub",
    ] {
        let said = theirs.same(&directory, &split(arguments));
        assert_eq!(said.status, 0, "{arguments}: {said:?}");
        for name in ["a", "r", "e"].iter().filter(|name| arguments.contains(&format!("{name}.pub"))) {
            let file = format!("{name}-cert.pub");
            assert_eq!(directory.mode(&file), 0o644);
            // Created by us, listed by both programs.
            let ours = theirs.same(&directory, &["-L", "-f", &file]).out;
            theirs.run(&directory, &split(arguments));
            let made = theirs.same(&directory, &["-L", "-f", &file]).out;
            assert_eq!(ours, made, "{arguments}");
            directory.ours(&["-q", "-s", "ca", "-I", "x", &format!("{name}.pub")]);
        }
    }
    // Relative times change while the test runs, so only acceptance and listing are compared.
    for validity in ["+1w", "-1h:+1d2h", "-1w:forever", "always:+52w"] {
        let said = directory.run(OURS, &["-s", "ca", "-I", "id", "-V", validity, "a.pub"], "");
        assert_eq!(said.status, 0, "{validity}: {said:?}");
        theirs.same(&directory, &["-L", "-f", "a-cert.pub"]);
    }
}

/// Covers: ssh-keygen -s
#[test]
fn error_messages_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("error_messages_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    keys(&directory);
    directory.ours(&["-q", "-s", "ca", "-I", "id", "a.pub"]);
    directory.ours(&["-q", "-t", "ed25519", "-N", "secret", "-a", "2", "-f", "locked", "-C", "x"]);
    directory.write("junk.pub", "junk\n");
    directory.set_mode("ca.pub", 0o644);
    let many = (1..=300).map(|each| each.to_string()).collect::<Vec<_>>().join(",");
    let many = format!("-s ca -I id -n {many} a.pub");
    for arguments in [
        many.as_str(),
        "-s ca a.pub",
        "-s missing -I id a.pub",
        "-s ca -I id missing.pub",
        "-s ca -I id junk.pub",
        "-s ca -I id a-cert.pub",
        "-s ca.pub -I id a.pub",
        "-s locked -P wrong -I id a.pub",
        "-s ca -I id -O foo a.pub",
        "-s ca -I id -O force-command= a.pub",
        "-s ca -I id -O source-address= a.pub",
        "-s ca -I id -O force-command=a -O force-command=b a.pub",
        "-s ca -I id -V foo a.pub",
        "-s ca -I id -V :forever a.pub",
        "-s ca -I id -V always: a.pub",
        "-s ca -I id -V -1d a.pub",
        "-s ca -I id -V +1x a.pub",
        "-s ca -I id -V -1x:+1d a.pub",
        "-s ca -I id -V foo:20200101 a.pub",
        "-s ca -I id -V always:foo a.pub",
        "-s ca -I id -V 2020010112:forever a.pub",
        "-s ca -I id -V 0xzz:forever a.pub",
        "-s ca -I id -V 20200101:20190101 a.pub",
        "-s ca -I id -z foo a.pub",
        "-s ca -I id -z 0x20 a.pub",
        "-s ca -I id -n a,,b a.pub",
        "-s ca -t rsa -I id a.pub",
        "-s rsa-ca -t foo -I id a.pub",
        "-U -s ca.pub -I id a.pub",
        "-U -s missing.pub -I id a.pub",
        "-s ca -I id missing/a.pub",
    ] {
        let said = theirs.same(&directory, &split(arguments));
        assert_eq!(said.status, 255, "{arguments}: {said:?}");
    }
    for arguments in ["-s ca -I id", "-s ca -I id -f a.pub"] {
        let said = directory.run(OURS, &split(arguments), "");
        assert_eq!(said.status, 1);
        assert!(said.err.starts_with("Too few arguments.\nusage: "), "{said:?}");
        assert!(said.err.contains("ssh-keygen -e "), "scripts match this text: {said:?}");
    }
    for list in ["foo", "10.0.0.1/8", "192.0.2.1,*"] {
        let option = format!("source-address={list}");
        let said = directory.run(OURS, &["-s", "ca", "-I", "id", "-O", &option, "a.pub"], "");
        assert_eq!(said.status, 255, "{list}");
        assert!(said.err.ends_with("Invalid source-address list\n"), "{list}: {said:?}");
    }
}

/// Covers: ssh-keygen -L
#[test]
fn certificate_with_bad_signature_is_not_listed() {
    let directory = TestDirectory::new();
    keys(&directory);
    directory.ours(&["-q", "-s", "ca", "-I", "id", "a.pub"]);
    let line = directory.text("a-cert.pub");
    let (head, tail) = line.rsplit_once(' ').expect("a comment");
    // The last base64 characters belong to the signature.
    let at = head.len() - 6;
    let other = if &head[at..=at] == "A" { "B" } else { "A" };
    directory.write("bad", format!("{}{other}{} {tail}", &head[..at], &head[at + 1..]));
    let said = directory.run(OURS, &["-L", "-f", "bad"], "");
    assert_eq!((said.status, said.out.as_str()), (1, ""));
    assert_eq!(said.err, "bad:1: invalid key: incorrect signature\n");
}

/// The system's ssh-agent, stopped on drop.
struct Agent {
    child: std::process::Child,
    socket: String,
}

impl Agent {
    fn start(directory: &TestDirectory) -> Self {
        let socket = directory.path("agent").to_string_lossy().into_owned();
        let child = Command::new("ssh-agent").args(["-D", "-a", &socket]).stdout(Stdio::null()).spawn();
        let child = child.expect("ssh-agent starts");
        while !directory.path("agent").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Self { child, socket }
    }

    fn run(&self, directory: &TestDirectory, program: &str, arguments: &[&str], input: &str) -> common::Said {
        directory.run_with(program, arguments, input, &[("SSH_AUTH_SOCK", &self.socket)])
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Covers: ssh-keygen -U; ssh-keygen -Y
#[test]
fn agent_signs_certificates_and_files() {
    let name = "agent_signs_certificates_and_files";
    if lh_interop::peers(name, ["ssh-agent", "ssh-add"]).is_none() {
        return;
    }
    let directory = TestDirectory::new();
    keys(&directory);
    let agent = Agent::start(&directory);
    let certify =
        |ca: &str| agent.run(&directory, OURS, &["-U", "-s", ca, "-I", "id", "-n", "me", "a.pub"], "");
    assert_eq!(certify("ca.pub").err, "CA key ca.pub not found in agent\n");
    for ca in ["ca", "rsa-ca", "e"] {
        assert_eq!(agent.run(&directory, "ssh-add", &[ca], "").status, 0);
        let said = certify(&format!("{ca}.pub"));
        assert_eq!((said.status, said.out.as_str()), (0, ""), "{said:?}");
        let said = directory.ours(&["-L", "-f", "a-cert.pub"]);
        assert!(said.contains("Key ID: \"id\""), "{said}");
        // For files, the private key is moved away, so only the agent can sign.
        std::fs::rename(directory.path(ca), directory.path("away")).expect("moved");
        let public = format!("{ca}.pub");
        for extra in [&[][..], &["-U"]] {
            let arguments = [&["-Y", "sign", "-n", "file", "-f", &public], extra].concat();
            let signed = agent.run(&directory, OURS, &arguments, "data");
            assert_eq!(signed.status, 0, "{signed:?}");
            directory.write("sig", &signed.out);
            let check = ["-Y", "check-novalidate", "-n", "file", "-s", "sig"];
            assert_eq!(directory.run("ssh-keygen", &check, "data").status, 0);
        }
        std::fs::rename(directory.path("away"), directory.path(ca)).expect("moved back");
    }
    let said = agent.run(&directory, OURS, &["-Y", "sign", "-U", "-n", "file", "-f", "a.pub"], "data");
    assert_eq!((said.status, said.err.as_str()), (255, "Couldn't find key in agent\n"));
    let said = directory.run(OURS, &["-Y", "sign", "-U", "-n", "file", "-f", "a.pub"], "data");
    assert_eq!((said.status, said.err.as_str()), (255, "Couldn't get agent socket\n"));
}
