//! Key files exchanged with the system's ssh-keygen.

use super::PASSPHRASE;
use super::signatures::sshsig_data;
use lh_crypto::{KeyType, PrivateKey};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the system's ssh-keygen; reports when it is missing.
fn ssh_keygen(test: &str) -> Option<PathBuf> {
    lh_testkit::peers(test, ["ssh-keygen"]).map(|[program]| program)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn write_private(path: &Path, text: &str) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn ssh_keygen_reads_our_key_files() {
    let Some(ssh_keygen) = ssh_keygen("ssh_keygen_reads_our_key_files") else { return };
    let directory = tempfile::tempdir().unwrap();
    for (kind, bits) in [
        (KeyType::Ed25519, None),
        (KeyType::EcdsaP256, None),
        (KeyType::EcdsaP384, None),
        (KeyType::EcdsaP521, None),
        (KeyType::Rsa, Some(2048)),
    ] {
        let key = PrivateKey::generate(kind, bits).unwrap();
        for encrypted in [false, true] {
            let path = directory.path().join(format!("{}-{encrypted}", key.public().key_type()));
            let encrypt = encrypted.then_some((PASSPHRASE, 4));
            write_private(&path, &key.to_openssh("made here", encrypt).unwrap());
            let passphrase = if encrypted { "throw-away" } else { "" };
            let line = run(Command::new(&ssh_keygen).args(["-y", "-P", passphrase, "-f"]).arg(&path));
            assert_eq!(line.trim_end(), key.public().to_openssh_line("made here"));
        }
        // ssh-keygen accepts the key's signatures too.
        let message = b"a message";
        let algorithm = key.public().signature_algorithms()[0];
        let signature = key.sign(algorithm, &sshsig_data(b"file", message)).unwrap();
        let path = directory.path().join("signature");
        std::fs::write(&path, armor_sshsig(&key, &signature)).unwrap();
        let input = directory.path().join("message");
        std::fs::write(&input, message).unwrap();
        run(Command::new(&ssh_keygen)
            .args(["-Y", "check-novalidate", "-n", "file", "-s"])
            .arg(&path)
            .stdin(std::fs::File::open(&input).unwrap()));
    }
}

fn armor_sshsig(key: &PrivateKey, signature: &[u8]) -> String {
    use lh_wire::Writer;
    let mut bytes = b"SSHSIG".to_vec();
    bytes.put_u32(1);
    bytes.put_string(key.public().blob());
    bytes.put_string(b"file");
    bytes.put_string(b"");
    bytes.put_string(b"sha512");
    bytes.put_string(signature);
    let text = <base64ct::Base64 as base64ct::Encoding>::encode_string(&bytes);
    let lines: Vec<&str> =
        text.as_bytes().chunks(70).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", lines.join("\n"))
}

#[test]
fn new_keys_of_ssh_keygen_are_read() {
    let Some(ssh_keygen) = ssh_keygen("new_keys_of_ssh_keygen_are_read") else { return };
    let directory = tempfile::tempdir().unwrap();
    for (kind, bits) in
        [("ed25519", "256"), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521"), ("rsa", "2048")]
    {
        for passphrase in ["", "throw-away"] {
            let path = directory.path().join(format!("{kind}{bits}{passphrase}"));
            run(Command::new(&ssh_keygen)
                .args(["-q", "-t", kind, "-b", bits, "-C", "fresh", "-a", "2", "-N", passphrase, "-f"])
                .arg(&path));
            let bytes = std::fs::read(&path).unwrap();
            let given = (!passphrase.is_empty()).then_some(passphrase.as_bytes());
            let (key, comment) = PrivateKey::parse(&bytes, given).unwrap();
            let line = std::fs::read_to_string(path.with_extension("pub")).unwrap();
            assert_eq!(key.public().to_openssh_line(&comment), line.trim_end());
        }
    }
}
