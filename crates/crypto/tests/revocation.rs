//! Tests of revocation lists against ssh-keygen, in both directions.

use lh_crypto::{Krl, PublicKey};
use std::path::{Path, PathBuf};
use std::process::Command;

struct TestDirectory {
    keygen: PathBuf,
    directory: tempfile::TempDir,
}

impl TestDirectory {
    fn new(test: &str) -> Option<Self> {
        let [keygen] = lh_testkit::peers(test, ["ssh-keygen"])?;
        let directory = Self { keygen, directory: tempfile::tempdir().unwrap() };
        for name in ["ca", "other-ca", "a", "b", "c"] {
            directory.keygen(&["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]);
        }
        Some(directory)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs ssh-keygen; returns true for success.
    fn keygen(&self, arguments: &[&str]) -> bool {
        let run = Command::new(&self.keygen).args(arguments).current_dir(self.path()).output().unwrap();
        run.status.success()
    }

    /// Returns a certificate for the key `a`, and stores it in a separate file.
    fn certify(&self, name: &str, ca: &str, serial: u64, id: &str) -> PublicKey {
        std::fs::copy(self.path().join("a.pub"), self.path().join(format!("{name}.pub"))).unwrap();
        let (serial, file) = (serial.to_string(), format!("{name}.pub"));
        assert!(self.keygen(&["-q", "-s", ca, "-I", id, "-n", "me", "-z", &serial, &file]));
        self.public(&format!("{name}-cert"))
    }

    fn public(&self, name: &str) -> PublicKey {
        let text = std::fs::read_to_string(self.path().join(format!("{name}.pub"))).unwrap();
        PublicKey::from_openssh_line(&text).unwrap().0
    }

    /// Returns ssh-keygen's verdict on a public key and a list.
    fn theirs(&self, list: &str, name: &str) -> bool {
        let file = format!("{name}.pub");
        let run = Command::new(&self.keygen)
            .args(["-Q", "-f", list, &file])
            .current_dir(self.path())
            .output()
            .unwrap();
        let said = String::from_utf8(run.stdout.clone()).unwrap();
        assert!(said.ends_with("REVOKED\n") || said.ends_with("ok\n"), "{said} {run:?}");
        said.ends_with("REVOKED\n")
    }
}

/// Covers: ssh-keygen -k; ssh-keygen -Q; sshd_config RevokedKeys
#[test]
fn ssh_keygen_and_we_agree_on_revocation_lists() {
    let Some(directory) = TestDirectory::new("ssh_keygen_and_we_agree_on_revocation_lists") else { return };
    let mut names = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let serials = [0, 1, 2, 3, 7, 9, 11, 64, 65, 4096, 1 << 33, u64::MAX];
    for serial in serials {
        let name = format!("s{serial}");
        directory.certify(&name, "ca", serial, &format!("id {serial}"));
        names.push(format!("{name}-cert"));
    }
    directory.certify("foreign", "other-ca", 7, "id 7");
    names.push("foreign-cert".into());

    let specs = [
        "",
        "serial: 1\nserial: 7-11\n",
        "serial: 1\nserial: 3\nserial: 7\nserial: 9\nserial: 64\nid: id 0\n",
        "serial: 2-18446744073709551615",
        "id: id 7\nid: id 65\nid: unknown\n",
    ];
    for (at, spec) in specs.iter().enumerate() {
        let wild = at % 2 == 1;
        std::fs::write(directory.path().join("spec"), spec).unwrap();
        let ca = if wild { "NONE" } else { "ca.pub" };
        assert!(directory.keygen(&["-q", "-k", "-f", "theirs", "-s", ca, "-z", "5", "spec"]), "{spec}");
        compare(&directory, &names, spec);
    }
    for spec in ["key: {b}", "sha1: {b}", "sha256: {b}", "{b}", "{c}\nsha1: {a}\nsha256: {b}", "key: {ca}"] {
        let mut text = spec.to_owned();
        for name in ["a", "b", "c", "ca"] {
            text = text.replace(&format!("{{{name}}}"), &directory.public(name).to_openssh_line(""));
        }
        std::fs::write(directory.path().join("spec"), text).unwrap();
        assert!(directory.keygen(&["-q", "-k", "-f", "theirs", "-s", "ca.pub", "spec"]), "{spec}");
        compare(&directory, &names, spec);
    }
}

/// Checks that ssh-keygen's list and our encoding of it get the same verdicts from both implementations.
fn compare(directory: &TestDirectory, names: &[String], spec: &str) {
    let theirs = Krl::read(&std::fs::read(directory.path().join("theirs")).unwrap()).unwrap();
    std::fs::write(directory.path().join("ours"), theirs.to_bytes()).unwrap();
    for name in names {
        let revoked = directory.theirs("theirs", name);
        assert_eq!(theirs.is_revoked(&directory.public(name)), revoked, "their list, {spec:?}, {name}");
        assert_eq!(directory.theirs("ours", name), revoked, "our list, {spec:?}, {name}");
    }
}

/// Covers: sshd_config RevokedKeys; ssh_config RevokedHostKeys
#[test]
fn plain_key_lists_revoke_keys_and_certificates() {
    let key = |name: &str| {
        let path = format!("{}/tests/keys/{name}.pub", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        (PublicKey::from_openssh_line(&text).unwrap().0, text)
    };
    let (certificate, certificate_line) = key("ed25519-cert");
    let (plain, plain_line) = key("ed25519");
    let (authority, authority_line) = key("ca");
    let (other, _) = key("rsa2048");
    let list = |text: &str| Krl::read(text.as_bytes()).unwrap();
    let by_key = list(&format!("# gone\n\n{plain_line}"));
    assert!(by_key.is_revoked(&plain) && by_key.is_revoked(&certificate) && !by_key.is_revoked(&other));
    let by_authority = list(&authority_line);
    assert!(by_authority.is_revoked(&certificate) && by_authority.is_revoked(&authority));
    assert!(!by_authority.is_revoked(&plain));
    let one = list(&certificate_line);
    assert!(one.is_revoked(&certificate) && !one.is_revoked(&plain));
    // An unreadable line may be the one that matters.
    let broken = Krl::read(format!("{plain_line}ssh-ed25519 broken\n").as_bytes());
    assert_eq!(broken.unwrap_err().to_string(), "line 2: not a public key");
}
