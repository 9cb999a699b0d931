//! Tests of certificates made by ssh-keygen (`tests/keys`), and of the rules for accepting them.

use lh_crypto::{Certificate, CertificateError, CertificateKind, PrivateKey, PublicKey, VerifyError};
use lh_wire::Writer;

const CA_ALGORITHMS: &[&str] = &["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"];

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/keys/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn public(name: &str) -> PublicKey {
    PublicKey::from_openssh_line(&file(&format!("{name}.pub"))).unwrap().0
}

fn private(name: &str) -> PrivateKey {
    PrivateKey::parse(file(&format!("{name}.key")).as_bytes(), None).unwrap().0
}

fn certificate(key: &PublicKey) -> &Certificate {
    key.certificate().unwrap()
}

const IN_TIME: u64 = 1_800_000_000;

#[test]
fn certificates_of_ssh_keygen_are_read() {
    let key = public("ed25519-cert");
    let cert = certificate(&key);
    assert_eq!(*cert.key(), public("ed25519"));
    assert_eq!(*key.plain(), public("ed25519"));
    assert_eq!(*cert.authority(), public("ca"));
    assert_eq!((cert.serial(), cert.kind(), cert.key_id()), (7, CertificateKind::User, "user certificate"));
    assert_eq!(cert.principals(), ["alice", "bob"]);
    assert_eq!(cert.validity(), (1_577_836_800, 2_208_988_800));
    assert_eq!(
        cert.critical_options(),
        [
            ("force-command".to_owned(), b"/bin/true".to_vec()),
            ("source-address".to_owned(), b"127.0.0.0/8".to_vec())
        ]
    );
    assert_eq!(cert.extensions().len(), 5);
    assert!(cert.extensions().contains(&("permit-pty".to_owned(), Vec::new())));
    assert_eq!(certificate(&public("rsa2048-cert")).validity(), (0, u64::MAX));
    assert_eq!(public("ed25519").certificate().map(|_| ()), None);
}

#[test]
fn authority_signature_is_verified() {
    for name in ["ed25519-cert", "rsa2048-cert", "ecdsa256-cert"] {
        let key = public(name);
        certificate(&key).verify(CA_ALGORITHMS).unwrap();
        assert_eq!(certificate(&key).verify(&["ecdsa-sha2-nistp256"]), Err(VerifyError::WrongAlgorithm));
        // Any changed byte is detected, in the blob or in its signature.
        for at in 0..key.blob().len() {
            let mut blob = key.blob().to_vec();
            blob[at] ^= 1;
            if let Ok(changed) = PublicKey::from_blob(&blob)
                && let Some(cert) = changed.certificate()
            {
                assert!(cert.verify(CA_ALGORITHMS).is_err(), "{name} byte {at}");
            }
        }
    }
}

#[test]
fn certificate_rules_are_enforced() {
    let key = public("ed25519-cert");
    let cert = certificate(&key);
    let understood = &["force-command", "source-address"];
    let user = |name, now| cert.check(CertificateKind::User, name, now, understood);
    assert_eq!(user("alice", IN_TIME), Ok(()));
    assert_eq!(user("bob", IN_TIME), Ok(()));
    assert_eq!(user("carol", IN_TIME), Err(CertificateError::NotAPrincipal));
    assert_eq!(user("ALICE", IN_TIME), Err(CertificateError::NotAPrincipal));
    assert_eq!(user("alice", 1_577_836_799), Err(CertificateError::NotYetValid));
    assert_eq!(user("alice", 1_577_836_800), Ok(()));
    assert_eq!(user("alice", 2_208_988_800), Err(CertificateError::Expired));
    assert_eq!(
        cert.check(CertificateKind::Host, "alice", IN_TIME, understood),
        Err(CertificateError::WrongKind("host"))
    );
    assert_eq!(
        cert.check(CertificateKind::User, "alice", IN_TIME, &["source-address"]),
        Err(CertificateError::CriticalOption("force-command".into()))
    );

    let key = public("ecdsa256-cert");
    let host = |name| certificate(&key).check(CertificateKind::Host, name, IN_TIME, &[]);
    assert_eq!(host("host.example"), Ok(()));
    assert_eq!(host("a.lab.example"), Ok(()));
    assert_eq!(host("a.b.lab.example"), Ok(()));
    assert_eq!(host("lab.example"), Err(CertificateError::NotAPrincipal));
    assert_eq!(host("host.example.org"), Err(CertificateError::NotAPrincipal));
}

#[test]
fn certified_key_signs_under_both_names() {
    for (name, algorithms) in [
        ("ed25519", &["ssh-ed25519-cert-v01@openssh.com"][..]),
        ("ecdsa256", &["ecdsa-sha2-nistp256-cert-v01@openssh.com"]),
        ("rsa2048", &["rsa-sha2-512-cert-v01@openssh.com", "rsa-sha2-256-cert-v01@openssh.com"]),
    ] {
        let cert = public(&format!("{name}-cert"));
        for algorithm in algorithms {
            assert!(cert.signature_algorithms().contains(algorithm));
            let signature = private(name).sign(algorithm, b"data").unwrap();
            cert.verify(algorithm, b"data", &signature).unwrap();
            assert_eq!(cert.verify(algorithm, b"Data", &signature), Err(VerifyError::BadSignature));
            // The plain name was not negotiated.
            assert!(cert.verify("ssh-ed25519", b"data", &signature).is_err());
        }
    }
}

/// Returns an unsigned certificate with these principals and extensions.
fn made_up(principals: &[&str], extensions: &[(&str, &[u8])], authority: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    blob.put_string(b"ssh-ed25519-cert-v01@openssh.com");
    blob.put_string(&[1; 32]);
    blob.put_string(&[2; 32]);
    blob.put_u64(0);
    blob.put_u32(1);
    blob.put_string(b"id");
    blob.nested(|list| principals.iter().for_each(|each| list.put_string(each.as_bytes())));
    blob.put_u64(0);
    blob.put_u64(u64::MAX);
    blob.put_string(b"");
    blob.nested(|list| {
        for (name, value) in extensions {
            list.put_string(name.as_bytes());
            list.put_string(value);
        }
    });
    blob.put_string(b"");
    blob.put_string(authority);
    blob.put_string(b"");
    blob
}

#[test]
fn abusive_certificates_are_refused() {
    let ca = public("ca");
    let parses = |blob: &[u8]| PublicKey::from_blob(blob).is_ok();
    assert!(parses(&made_up(&["a"], &[], ca.blob())));
    assert!(parses(&made_up(&["a"; 256], &[], ca.blob())));
    assert!(!parses(&made_up(&["a"; 257], &[], ca.blob())));
    assert!(!parses(&made_up(&["a"], &[("x", b""), ("x", b"")], ca.blob())));
    assert!(!parses(&made_up(&["a"], &[("force-command", b"\0\0")], ca.blob())));
    // The content of options that OpenSSH does not define is unrestricted.
    let other =
        PublicKey::from_blob(&made_up(&["a"], &[("x", b"\0\0"), ("y", b"\0\0\0\x01z")], ca.blob())).unwrap();
    assert_eq!(
        certificate(&other).extensions(),
        [("x".to_owned(), b"\0\0".to_vec()), ("y".to_owned(), b"z".to_vec())]
    );
    assert_eq!(certificate(&other).raw_extensions()[1].1, b"\0\0\0\x01z");
    // A certificate as authority would cause recursion.
    assert!(!parses(&made_up(&["a"], &[], &made_up(&["a"], &[], ca.blob()))));

    let unnamed = PublicKey::from_blob(&made_up(&[], &[], ca.blob())).unwrap();
    assert_eq!(
        certificate(&unnamed).check(CertificateKind::User, "a", IN_TIME, &[]),
        Err(CertificateError::NoPrincipals)
    );
    assert!(certificate(&unnamed).verify(CA_ALGORITHMS).is_err());
}

/// A certificate with an unknown key type is kept but not decoded.
#[test]
fn unknown_certificates_are_kept() {
    let mut blob = Vec::new();
    blob.put_string(b"ssh-new-cert-v01@openssh.com");
    blob.put_string(b"whatever");
    let key = PublicKey::from_blob(&blob).unwrap();
    assert_eq!((key.blob(), key.key_type()), (&blob[..], "ssh-new-cert-v01@openssh.com"));
    assert!(key.certificate().is_none());
    assert!(key.signature_algorithms().is_empty());
}
