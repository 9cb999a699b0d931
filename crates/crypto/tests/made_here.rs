//! Tests of certificates and key files made here: read by us and by the system's ssh-keygen.

use lh_crypto::{
    CertificateFields, CertificateKind, CryptoError, Encryption, KeyFileError, KeyType, PemFormat,
    PrivateKey, PublicKey, SystemRandom,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const TYPES: [KeyType; 5] =
    [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::EcdsaP521, KeyType::Rsa];

fn key(key_type: KeyType) -> PrivateKey {
    PrivateKey::generate(key_type, Some(2048)).unwrap()
}

fn keygen(test: &str) -> Option<PathBuf> {
    lh_testkit::peers(test, ["ssh-keygen"]).map(|[path]| path)
}

fn output(program: &Path, arguments: &[&str], file: &Path) -> String {
    let run = Command::new(program).args(arguments).arg("-f").arg(file).output().unwrap();
    assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn fields() -> CertificateFields {
    CertificateFields {
        serial: 42,
        kind: CertificateKind::User,
        key_id: "the \"id\"".into(),
        principals: vec!["alice".into(), "bob".into()],
        valid_after: 1_000_000_000,
        valid_before: 2_000_000_000,
        critical_options: vec![
            ("verify-required".into(), None),
            ("force-command".into(), Some(b"/bin/true".to_vec())),
        ],
        extensions: vec![
            ("permit-pty".into(), None),
            ("login@example.com".into(), Some(b"alice".to_vec())),
            ("empty@example.com".into(), Some(Vec::new())),
        ],
    }
}

fn certify(fields: &CertificateFields, key: &PublicKey, authority: &PrivateKey) -> PublicKey {
    let signed = fields.to_be_signed(key, authority.public(), &mut SystemRandom).unwrap();
    let algorithm = authority.public().signature_algorithms()[0];
    let signature = authority.sign(algorithm, &signed).unwrap();
    CertificateFields::finish(signed, &signature).unwrap()
}

#[test]
fn created_certificates_contain_their_fields() {
    let fields = fields();
    for authority in TYPES {
        let authority = key(authority);
        for subject in TYPES {
            let subject = key(subject);
            let made = certify(&fields, subject.public(), &authority);
            let certificate = made.certificate().unwrap();
            assert_eq!(certificate.key(), subject.public());
            assert_eq!(certificate.authority(), authority.public());
            assert_eq!((certificate.serial(), certificate.kind()), (42, CertificateKind::User));
            assert_eq!(certificate.key_id(), fields.key_id);
            assert_eq!(certificate.principals(), fields.principals);
            assert_eq!(certificate.validity(), (1_000_000_000, 2_000_000_000));
            let names = |options: &[(String, Vec<u8>)]| {
                options.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(certificate.critical_options()), ["force-command", "verify-required"]);
            assert_eq!(
                names(certificate.extensions()),
                ["empty@example.com", "login@example.com", "permit-pty"]
            );
            assert_eq!(certificate.raw_extensions()[0].1, [0; 4]);
            assert!(certificate.raw_extensions()[2].1.is_empty());
        }
    }
}

#[test]
fn invalid_certificate_fields_are_refused() {
    let (subject, authority, other_authority) =
        (key(KeyType::Ed25519), key(KeyType::Ed25519), key(KeyType::Ed25519));
    let certificate = certify(&fields(), subject.public(), &authority);
    let chained = fields().to_be_signed(&certificate, authority.public(), &mut SystemRandom);
    assert!(matches!(chained, Err(CryptoError::Unsupported { .. })));
    let chained = fields().to_be_signed(subject.public(), &certificate, &mut SystemRandom);
    assert!(matches!(chained, Err(CryptoError::Unsupported { .. })));
    let mut twice = fields();
    twice.extensions.push(("permit-pty".into(), None));
    let signed = twice.to_be_signed(subject.public(), authority.public(), &mut SystemRandom).unwrap();
    let signature = authority.sign("ssh-ed25519", &signed).unwrap();
    assert!(matches!(CertificateFields::finish(signed, &signature), Err(CryptoError::Unsupported { .. })));
    let signed = fields().to_be_signed(subject.public(), authority.public(), &mut SystemRandom).unwrap();
    let foreign = other_authority.sign("ssh-ed25519", &signed).unwrap();
    assert!(matches!(CertificateFields::finish(signed, &foreign), Err(CryptoError::Library { .. })));
}

/// Covers: ssh-keygen -L
#[test]
fn ssh_keygen_reads_our_certificates() {
    let Some(program) = keygen("ssh_keygen_reads_our_certificates") else { return };
    let directory = tempfile::tempdir().unwrap();
    for key_type in TYPES {
        let (subject, authority) = (key(key_type), key(key_type));
        let file = directory.path().join("cert.pub");
        let made = certify(&fields(), subject.public(), &authority);
        fs::write(&file, made.to_openssh_line("c") + "\n").unwrap();
        let printed = output(&program, &["-L"], &file);
        for text in [
            "Key ID: \"the \\\"id\\\"\"",
            "Serial: 42",
            "force-command /bin/true",
            "verify-required",
            "login@example.com UNKNOWN OPTION: 00000005616c696365",
            "permit-pty",
        ] {
            assert!(printed.contains(text) || printed.contains(&text.replace('\\', "")), "{text}: {printed}");
        }
    }
}

/// Covers: ssh-keygen -m; ssh-keygen -p
#[test]
fn private_keys_in_pem_are_read_by_us_and_ssh_keygen() {
    let program = keygen("private_keys_in_pem_are_read_by_us_and_ssh_keygen");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    for key_type in TYPES {
        let key = key(key_type);
        for format in [PemFormat::Traditional, PemFormat::Pkcs8] {
            for passphrase in [None, Some(&b"secret"[..])] {
                let text = match key.to_pem(format, passphrase) {
                    Ok(text) => text,
                    Err(_) if key_type == KeyType::Ed25519 && format == PemFormat::Traditional => continue,
                    Err(other) => panic!("{key_type:?} {format:?}: {other}"),
                };
                assert_eq!(text.contains("ENCRYPTED"), passphrase.is_some());
                let (again, _) = PrivateKey::parse(text.as_bytes(), passphrase).unwrap();
                assert_eq!(again.public(), key.public());
                if passphrase.is_some() {
                    let why = |with| PrivateKey::parse(text.as_bytes(), with).map(drop).unwrap_err();
                    assert_eq!(why(None), KeyFileError::PassphraseNeeded);
                    assert_eq!(why(Some(b"wrong")), KeyFileError::WrongPassphrase);
                }
                // Debian's ssh-keygen reads Ed25519 in its own format only.
                if let Some(program) = program.as_ref().filter(|_| key_type != KeyType::Ed25519) {
                    fs::write(&file, text.as_bytes()).unwrap();
                    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
                    let printed = output(program, &["-y", "-P", "secret"], &file);
                    assert!(printed.starts_with(&key.public().to_openssh_line("")), "{printed}");
                }
            }
        }
        assert!(key.to_pem(PemFormat::Pkcs8, Some(b"")).is_err());
    }
}

/// Covers: ssh-keygen -e; ssh-keygen -i
#[test]
fn public_keys_in_pem_round_trip() {
    for key_type in TYPES {
        let key = key(key_type).public().clone();
        let text = key.to_spki_pem().unwrap();
        assert_eq!(PublicKey::from_public_pem(&text), Some(key.clone()), "{text}");
        match key.to_pkcs1_pem() {
            Some(text) => assert_eq!(PublicKey::from_public_pem(&text), Some(key)),
            None => assert_ne!(key_type, KeyType::Rsa),
        }
    }
    assert_eq!(
        PublicKey::from_public_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
        None
    );
    assert_eq!(PublicKey::from_public_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n"), None);
}

/// Covers: ssh-keygen -Z
#[test]
fn private_keys_are_written_with_every_cipher() {
    let program = keygen("private_keys_are_written_with_every_cipher");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let key = key(KeyType::Ed25519);
    for cipher in [
        "aes128-ctr",
        "aes192-ctr",
        "aes256-ctr",
        "aes128-cbc",
        "aes192-cbc",
        "aes256-cbc",
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
    ] {
        assert!(Encryption::is_cipher(cipher));
        let encryption = Encryption { passphrase: b"secret", rounds: 2, cipher };
        let text = key.to_openssh_with("note", Some(&encryption)).unwrap();
        let (again, comment) = PrivateKey::parse(text.as_bytes(), Some(b"secret")).unwrap();
        assert_eq!((again.public(), comment.as_str()), (key.public(), "note"), "{cipher}");
        if let Some(program) = &program {
            fs::write(&file, text.as_bytes()).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let printed = output(program, &["-y", "-P", "secret"], &file);
            assert_eq!(printed.trim_end(), key.public().to_openssh_line("note"), "{cipher}");
        }
    }
    let other = Encryption { passphrase: b"secret", rounds: 2, cipher: "rot13" };
    assert!(key.to_openssh_with("", Some(&other)).is_err() && !Encryption::is_cipher("rot13"));
}

/// Covers: ssh-keygen -B
#[test]
fn bubblebabble_and_other_hashes_match_ssh_keygen() {
    let Some(program) = keygen("bubblebabble_and_other_hashes_match_ssh_keygen") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key.pub");
    for key_type in TYPES {
        let key = key(key_type).public().clone();
        fs::write(&file, key.to_openssh_line("note") + "\n").unwrap();
        assert!(output(&program, &["-B"], &file).contains(&format!(" {} ", key.bubblebabble())));
        use lh_crypto::FingerprintHash::{Md5, Sha1, Sha256, Sha384, Sha512};
        for hash in [Md5, Sha1, Sha256, Sha384, Sha512] {
            let printed = output(&program, &["-lv", "-E", hash.name()], &file);
            assert!(printed.contains(&format!(" {} ", key.fingerprint(hash))), "{printed}");
            assert!(printed.contains(&key.randomart(hash)), "{printed}{}", key.randomart(hash));
        }
    }
}
