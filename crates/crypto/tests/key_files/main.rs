//! Tests of keys and key files in real formats: files made by ssh-keygen and OpenSSL (the throw-away keys in
//! `tests/keys`) are read here, and files made here are read by the system's ssh-keygen.

mod beside_keygen;
mod signatures;

use lh_crypto::{FingerprintHash, KeyFileError, KeyType, PrivateKey, PublicKey};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const PASSPHRASE: &[u8] = b"throw-away";

fn key_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(key_directory().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn public(name: &str) -> (PublicKey, String) {
    PublicKey::from_openssh_line(&String::from_utf8(file(&format!("{name}.pub"))).unwrap()).unwrap()
}

/// Returns the names of the private keys in the directory.
fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(key_directory())
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().into_string().unwrap().strip_suffix(".key").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() > 25);
    names
}

fn is_encrypted(name: &str) -> bool {
    name.contains("enc") || name.contains("traditional")
}

fn is_openssh_format(name: &str) -> bool {
    String::from_utf8(file(&format!("{name}.key"))).unwrap().contains("BEGIN OPENSSH")
}

fn load(name: &str) -> PrivateKey {
    PrivateKey::parse(&file(&format!("{name}.key")), Some(PASSPHRASE)).unwrap().0
}

#[test]
fn every_key_file_opens_with_its_public_key() {
    for name in names() {
        let bytes = file(&format!("{name}.key"));
        let passphrase = is_encrypted(&name).then_some(PASSPHRASE);
        let (key, comment) = match PrivateKey::parse(&bytes, passphrase) {
            Ok(parsed) => parsed,
            Err(error) => panic!("{name}: {error:?}"),
        };
        if name.contains("pkcs8") {
            // OpenSSL writes no .pub file. The encrypted and the plain file contain the same key.
            assert_eq!(key.public(), load("ed25519-pkcs8").public());
            continue;
        }
        let (expected, expected_comment) = public(&name);
        assert_eq!(*key.public(), expected, "{name}");
        if is_openssh_format(&name) {
            assert_eq!(comment, expected_comment, "{name}");
        }
    }
}

#[test]
fn encrypted_files_need_the_right_passphrase() {
    for name in names().into_iter().filter(|name| is_encrypted(name)) {
        let bytes = file(&format!("{name}.key"));
        let result = |passphrase| PrivateKey::parse(&bytes, passphrase).map(|_| ()).unwrap_err();
        assert_eq!(result(None), KeyFileError::PassphraseNeeded, "{name}");
        assert_eq!(result(Some(b"wrong")), KeyFileError::WrongPassphrase, "{name}");
        assert_eq!(result(Some(b"")), KeyFileError::WrongPassphrase, "{name}");
    }
}

#[test]
fn public_key_is_read_without_a_passphrase() {
    for name in names() {
        let bytes = file(&format!("{name}.key"));
        match PrivateKey::parse_public(&bytes) {
            Ok(key) => assert_eq!(key, *load(&name).public(), "{name}"),
            Err(error) => {
                assert_eq!(error, KeyFileError::PassphraseNeeded, "{name}");
                assert!(is_encrypted(&name) && !is_openssh_format(&name), "{name}");
            }
        }
    }
}

#[test]
fn fingerprints_and_randomart_match_ssh_keygen() {
    let text = String::from_utf8(file("PUBLIC")).unwrap();
    // The pictures contain "==" too, but not at the start of a line.
    for section in format!("\n{text}").split("\n== ").skip(1) {
        let (name, expected) = section.split_once('\n').unwrap();
        let (key, comment) = public(name);
        let line =
            |hash| format!("{} {} {comment} ({})", key.bits(), key.fingerprint(hash), key.display_type());
        let ours = format!(
            "{}\n{}\n{}\n",
            line(FingerprintHash::Sha256),
            line(FingerprintHash::Md5),
            key.randomart(FingerprintHash::Sha256)
        );
        assert_eq!(ours.trim_end(), expected.trim_end(), "{name}");
    }
}

#[test]
fn public_key_lines_round_trip() {
    for name in ["ed25519", "ecdsa256", "ecdsa384", "ecdsa521", "rsa3072", "ed25519-cert", "rsa2048-cert"] {
        let line = String::from_utf8(file(&format!("{name}.pub"))).unwrap();
        let (key, comment) = public(name);
        assert_eq!(key.to_openssh_line(&comment), line.trim_end());
        assert_eq!(PublicKey::from_blob(key.blob()).unwrap(), key);
        assert!(line.starts_with(key.key_type()));
    }
    let (key, _) = public("ed25519");
    let bare = key.to_openssh_line("");
    assert_eq!(bare.split(' ').count(), 2);
    assert_eq!(PublicKey::from_openssh_line(&bare), Some((key.clone(), String::new())));
    assert_eq!(
        PublicKey::from_openssh_line(&format!("  {bare}\t two words \r\n")),
        Some((key.clone(), "two words".to_owned()))
    );
    for bad in [
        "",
        "ssh-ed25519",
        "ssh-ed25519 ",
        "ssh-ed25519 AAAA",
        "ssh-ed25519 !!!!",
        &bare.replace("ssh-ed25519 ", "ssh-rsa "),
    ] {
        assert_eq!(PublicKey::from_openssh_line(bad), None, "{bad}");
    }
}

#[test]
fn written_key_files_are_read_back() {
    for name in ["ed25519", "ecdsa256", "ecdsa384", "ecdsa521", "rsa2048", "rsa10240"] {
        let key = load(name);
        let plain = key.to_openssh("a comment", None).unwrap();
        let (again, comment) = PrivateKey::parse(plain.as_bytes(), None).unwrap();
        assert_eq!((again.public(), comment.as_str()), (key.public(), "a comment"));
        assert!(plain.ends_with("-----\n"));

        let encrypted = key.to_openssh("", Some((b"secret", 1))).unwrap();
        assert_eq!(PrivateKey::parse(encrypted.as_bytes(), None).err(), Some(KeyFileError::PassphraseNeeded));
        assert_eq!(
            PrivateKey::parse(encrypted.as_bytes(), Some(b"Secret")).err(),
            Some(KeyFileError::WrongPassphrase)
        );
        let (again, comment) = PrivateKey::parse(encrypted.as_bytes(), Some(b"secret")).unwrap();
        assert_eq!((again.public(), comment.as_str()), (key.public(), ""));
    }
    assert!(load("ed25519").to_openssh("", Some((b"", 16))).is_err());
}

#[test]
fn every_key_type_can_be_generated() {
    for (kind, bits, name, size) in [
        (KeyType::Ed25519, None, "ssh-ed25519", 256),
        (KeyType::EcdsaP256, None, "ecdsa-sha2-nistp256", 256),
        (KeyType::EcdsaP384, None, "ecdsa-sha2-nistp384", 384),
        (KeyType::EcdsaP521, None, "ecdsa-sha2-nistp521", 521),
        (KeyType::Rsa, Some(2048), "ssh-rsa", 2048),
        // Sizes other than the library's own.
        (KeyType::Rsa, Some(1024), "ssh-rsa", 1024),
        (KeyType::Rsa, Some(2176), "ssh-rsa", 2176),
    ] {
        let key = PrivateKey::generate(kind, bits).unwrap();
        assert_eq!((key.public().key_type(), key.public().bits()), (name, size));
        let algorithm = key.public().signature_algorithms()[0];
        let signature = key.sign(algorithm, b"x").unwrap();
        key.public().verify(algorithm, b"x", &signature).unwrap();
    }
    for bits in [0, 896, 1032, 2047, 16512] {
        assert!(PrivateKey::generate(KeyType::Rsa, Some(bits)).is_err(), "{bits}");
    }
}

#[test]
fn private_key_of_another_public_key_is_refused() {
    use lh_wire::Writer;
    let (one, two) = (load("ecdsa256"), PrivateKey::generate(KeyType::EcdsaP256, None).unwrap());
    let mut mixed = Vec::new();
    mixed.put_string(b"ecdsa-sha2-nistp256");
    mixed.put_string(b"nistp256");
    mixed.put_string(lh_wire::Reader::new(&two.public().blob()[4 + 19 + 4 + 8..]).string().unwrap());
    let wire = one.to_wire();
    let scalar_at = 4 + 19 + 4 + 8 + 4 + 65;
    mixed.put_bytes(&wire[scalar_at..]);
    assert!(matches!(
        PrivateKey::from_wire(&mut lh_wire::Reader::new(&mixed)),
        Err(KeyFileError::InvalidKey { .. })
    ));
    for name in ["ed25519", "rsa2048"] {
        let key = load(name);
        for at in [60, 90] {
            let mut wire = key.to_wire().to_vec();
            wire[at] ^= 1;
            let parsed = PrivateKey::from_wire(&mut lh_wire::Reader::new(&wire));
            assert!(parsed.is_err(), "{name} byte {at}");
        }
        assert!(PrivateKey::from_wire(&mut lh_wire::Reader::new(&key.to_wire())).is_ok());
    }
}

#[test]
fn files_without_a_key_are_refused() {
    for bad in
        [&b""[..], b"hello", b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"\xff\xfe", &vec![b'a'; 2 << 20]]
    {
        assert_eq!(PrivateKey::parse(bad, None).err(), Some(KeyFileError::InvalidFormat));
    }
    let dsa = b"-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n";
    assert!(matches!(PrivateKey::parse(dsa, None), Err(KeyFileError::Unsupported { .. })));
    // A public key where a private one is required.
    assert_eq!(PrivateKey::parse(&file("ed25519.pub"), None).err(), Some(KeyFileError::InvalidFormat));
}

#[test]
fn crlf_and_surrounding_text_are_accepted() {
    for name in ["ed25519", "rsa-PEM", "ecdsa384-PKCS8"] {
        let text = String::from_utf8(file(&format!("{name}.key"))).unwrap();
        let moved = format!("Notes in front\r\n{}\r\nand behind\r\n", text.replace('\n', "\r\n"));
        assert_eq!(PrivateKey::parse(moved.as_bytes(), None).unwrap().0.public(), load(name).public());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_as_public_key_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(key) = PublicKey::from_blob(&bytes) {
            prop_assert_eq!(key.blob(), &bytes[..]);
        }
    }

    #[test]
    fn changed_public_key_is_kept_or_refused(
        name in prop::sample::select(vec!["ed25519", "ecdsa256", "rsa2048", "ed25519-cert", "rsa2048-cert", "ecdsa256-cert"]),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (key, _) = public(name);
        let mut blob = key.blob().to_vec();
        *at.get_mut(&mut blob) = value;
        if let Ok(changed) = PublicKey::from_blob(&blob) {
            prop_assert_eq!(changed.blob(), &blob[..]);
            let _ = changed.randomart(FingerprintHash::Sha256);
            for algorithm in changed.signature_algorithms() {
                prop_assert!(changed.verify(algorithm, b"data", &blob).is_err());
            }
        }
        let kept = cut.index(key.blob().len());
        prop_assert!(PublicKey::from_blob(&key.blob()[..kept]).is_err());
    }

    #[test]
    fn any_bytes_as_signature_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        for name in ["ed25519", "ecdsa521", "rsa2048", "rsa10240"] {
            let (key, _) = public(name);
            for algorithm in key.signature_algorithms() {
                prop_assert!(key.verify(algorithm, b"data", &bytes).is_err());
            }
        }
    }

    /// Reading a damaged file ends without a panic, and never returns a key that differs from its public key.
    #[test]
    fn damaged_private_key_is_refused_or_intact(
        name in prop::sample::select(vec![
            "ed25519", "ecdsa256", "rsa2048", "rsa-PEM", "ecdsa384-PEM", "ecdsa384-PKCS8", "ed25519-pkcs8",
            "ed25519-pkcs8-enc", "rsa-PEM-enc",
        ]),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = file(&format!("{name}.key"));
        *at.get_mut(&mut bytes) = value;
        let _ = PrivateKey::parse(&bytes, None);
        if let Ok((key, _)) = PrivateKey::parse(&bytes, Some(PASSPHRASE)) {
            let algorithm = key.public().signature_algorithms()[0];
            let signature = key.sign(algorithm, b"x").unwrap();
            prop_assert!(key.public().verify(algorithm, b"x", &signature).is_ok());
        }
    }

    #[test]
    fn any_text_as_private_key_never_panics(text in "-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----\n[A-Za-z0-9+/=\n:,]{0,300}\n-----END [A-Z ]{0,20}PRIVATE KEY-----\n") {
        let _ = PrivateKey::parse(text.as_bytes(), None);
        let _ = PrivateKey::parse(text.as_bytes(), Some(b"x"));
    }
}
