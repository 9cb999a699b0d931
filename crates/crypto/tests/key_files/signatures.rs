//! Signatures by the keys of the files, by ssh-keygen, and by a security key in software.

use super::{file, load, public};
use lh_crypto::{KeyType, PrivateKey, PublicKey, VerifyError};

#[test]
fn signatures_verify_and_nothing_else_does() {
    for name in ["ed25519", "ecdsa256", "ecdsa384", "ecdsa521", "rsa2048", "rsa-PEM", "ed25519-pkcs8"] {
        let key = load(name);
        let other = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        for algorithm in key.public().signature_algorithms() {
            let signature = key.sign(algorithm, b"data").unwrap();
            let verify = |data: &[u8], signature: &[u8]| key.public().verify(algorithm, data, signature);
            assert_eq!(verify(b"data", &signature), Ok(()), "{name} {algorithm}");
            assert_eq!(verify(b"Data", &signature), Err(VerifyError::BadSignature));
            assert!(verify(b"data", &[&signature[..], &[0]].concat()).is_err());
            for at in 0..signature.len() {
                let mut changed = signature.clone();
                changed[at] ^= 1;
                assert!(verify(b"data", &changed).is_err(), "{name} {algorithm} byte {at}");
                assert!(verify(b"data", &signature[..at]).is_err(), "{name} {algorithm} byte {at}");
            }
            assert_eq!(key.public().verify("ssh-dss", b"data", &signature), Err(VerifyError::WrongAlgorithm));
            assert!(other.public().verify("ssh-ed25519", b"data", &signature).is_err());
        }
        assert!(key.sign("ssh-dss", b"data").is_err());
    }
}

/// A client that negotiated SHA-512 must not accept SHA-256, even though the key supports it.
#[test]
fn signature_must_use_the_negotiated_algorithm() {
    let key = load("rsa2048");
    let signature = key.sign("rsa-sha2-256", b"data").unwrap();
    assert!(matches!(
        key.public().verify("rsa-sha2-512", b"data", &signature),
        Err(VerifyError::Malformed { .. })
    ));
}

/// A client that names the signature algorithm where the type of its key belongs logs in to OpenSSH's server.
#[test]
fn rsa_key_named_after_its_algorithm_is_an_rsa_key() {
    let key = load("rsa2048");
    let plain = key.public().blob();
    for name in ["rsa-sha2-256", "rsa-sha2-512"] {
        let length = u32::try_from(name.len()).unwrap().to_be_bytes();
        let named = [&length[..], name.as_bytes(), &plain[4 + "ssh-rsa".len()..]].concat();
        let read = PublicKey::from_blob(&named).unwrap();
        assert_eq!((&read, read.blob(), read.key_type()), (key.public(), plain, "ssh-rsa"), "{name}");
        let signature = key.sign(name, b"data").unwrap();
        assert_eq!(read.verify(name, b"data", &signature), Ok(()));
        assert!(PublicKey::from_blob(&named[..named.len() - 1]).is_err());
        assert!(PublicKey::from_blob(&[&named[..], &[0]].concat()).is_err());
    }
}

#[test]
fn rsa_keys_of_unusual_sizes_work() {
    for (name, bits) in [("rsa1024", 1024), ("rsa10240", 10240)] {
        let (key, _) = PrivateKey::parse(&file(&format!("{name}.key")), None).unwrap();
        assert_eq!(key.public().bits(), bits);
        for algorithm in key.public().signature_algorithms() {
            let signature = key.sign(algorithm, b"x").unwrap();
            key.public().verify(algorithm, b"x", &signature).unwrap();
            assert_eq!(key.public().verify(algorithm, b"y", &signature), Err(VerifyError::BadSignature));
        }
    }
}

/// Returns the key, the signature inside an SSHSIG file (OpenSSH's PROTOCOL.sshsig), and the signed data.
fn open_sshsig(armored: &str, message: &[u8]) -> (PublicKey, Vec<u8>, Vec<u8>) {
    let body: String = armored.lines().filter(|line| !line.starts_with('-')).collect();
    let bytes = <base64ct::Base64 as base64ct::Encoding>::decode_vec(&body).unwrap();
    let mut reader = lh_wire::Reader::new(bytes.strip_prefix(b"SSHSIG").unwrap());
    assert_eq!(reader.u32().unwrap(), 1);
    let key = PublicKey::from_blob(reader.string().unwrap()).unwrap();
    let namespace = reader.string().unwrap();
    reader.string().unwrap();
    assert_eq!(reader.text().unwrap(), "sha512");
    let signature = reader.string().unwrap().to_vec();
    (key, sshsig_data(namespace, message), signature)
}

pub(crate) fn sshsig_data(namespace: &[u8], message: &[u8]) -> Vec<u8> {
    use lh_wire::Writer;
    let mut data = b"SSHSIG".to_vec();
    data.put_string(namespace);
    data.put_string(b"");
    data.put_string(b"sha512");
    data.put_string(lh_crypto::Hash::Sha512.digest(&[message]).as_ref());
    data
}

#[test]
fn signatures_made_by_ssh_keygen_verify() {
    let message = file("signature.data");
    for name in ["ed25519", "ecdsa256", "ecdsa384", "ecdsa521", "rsa2048", "rsa10240"] {
        let armored = String::from_utf8(file(&format!("signature.{name}"))).unwrap();
        let (key, data, signature) = open_sshsig(&armored, &message);
        assert_eq!(key, public(name).0);
        let algorithm = if name.starts_with("rsa") { "rsa-sha2-512" } else { key.signature_algorithms()[0] };
        key.verify(algorithm, &data, &signature).unwrap();
    }
}

#[test]
fn sha1_signatures_of_old_peers_verify() {
    use lh_wire::Writer;
    let mut blob = Vec::new();
    blob.put_string(b"ssh-rsa");
    blob.put_string(&file("signature.rsa-sha1"));
    let (key, _) = public("rsa-PEM");
    assert_eq!(key.signature_algorithms().last(), Some(&"ssh-rsa"));
    key.verify("ssh-rsa", &file("signature.data"), &blob).unwrap();
    assert_eq!(key.verify("ssh-rsa", b"other data", &blob), Err(VerifyError::BadSignature));
}

/// A FIDO key in software: an ordinary key signs what the hardware would sign.
#[test]
fn security_key_signatures_need_a_touch() {
    use lh_wire::{Reader, Writer};
    let sha256 = |data: &[u8]| lh_crypto::Hash::Sha256.digest(&[data]).as_ref().to_vec();
    for (soft, sk_type, plain) in [
        ("ed25519", "sk-ssh-ed25519@openssh.com", "ssh-ed25519"),
        ("ecdsa256", "sk-ecdsa-sha2-nistp256@openssh.com", "ecdsa-sha2-nistp256"),
    ] {
        let soft = load(soft);
        // The same fields, under another type name and followed by the application.
        let fields = &soft.public().blob()[4 + plain.len()..];
        let mut blob = Vec::new();
        blob.put_string(sk_type.as_bytes());
        blob.put_bytes(fields);
        blob.put_string(b"ssh:");
        let key = PublicKey::from_blob(&blob).unwrap();
        assert_eq!((key.key_type(), key.signature_algorithms()), (sk_type, &[sk_type][..]));
        assert!(key.display_type().ends_with("-SK"));

        let sign = |flags: u8| {
            let mut data = sha256(b"ssh:");
            data.put_u8(flags);
            data.put_u32(7);
            data.put_bytes(&sha256(b"data"));
            let made = soft.sign(plain, &data).unwrap();
            let mut reader = Reader::new(&made);
            reader.string().unwrap();
            let mut signature = Vec::new();
            signature.put_string(sk_type.as_bytes());
            signature.put_string(reader.string().unwrap());
            signature.put_u8(flags);
            signature.put_u32(7);
            signature
        };
        let good = sign(1);
        key.verify(sk_type, b"data", &good).unwrap();
        assert_eq!(key.verify(sk_type, b"Data", &good), Err(VerifyError::BadSignature));
        assert_eq!(key.verify(sk_type, b"data", &sign(0)), Err(VerifyError::BadSignature), "no user present");
        assert!(key.verify(sk_type, b"data", &good[..good.len() - 1]).is_err());
        assert!(key.verify(sk_type, b"data", &[&good[..], &[0]].concat()).is_err());
        // The signature covers the counter too.
        let mut other_counter = good.clone();
        *other_counter.last_mut().unwrap() += 1;
        assert_eq!(key.verify(sk_type, b"data", &other_counter), Err(VerifyError::BadSignature));
    }
}
