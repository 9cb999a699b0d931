//! Tests of a build with the feature `fips`, which `cargo xtask fips` runs: the module is in use, and nothing
//! outside of it can be reached even by a caller who has a row that names do not find.

use crate::packet::{Direction, PacketKey};
use crate::registry::{EVERY_CIPHER, EVERY_KEX, EVERY_MAC};
use crate::{
    Cipher, CryptoError, DhGroup, Encryption, EphemeralKey, KexError, KeyType, Mac, PrivateKey, PublicKey,
    kex_respond,
};
use lh_wire::Writer as _;

#[test]
fn the_module_is_in_fips_mode() {
    assert_eq!(aws_lc_rs::try_fips_mode(), Ok(()));
}

#[test]
fn ciphers_and_macs_outside_the_module_are_refused() {
    let hmac = Mac::by_name("hmac-sha2-256").unwrap();
    let new = |cipher: &Cipher, mac: &Mac| {
        let (key, iv, mac_key) = (vec![1; cipher.key_len], vec![2; cipher.iv_len], vec![3; mac.key_len]);
        PacketKey::new(Direction::Seal, cipher, Some(mac), &key, &iv, &mac_key).err()
    };
    for cipher in EVERY_CIPHER.iter().chain([Cipher::NONE, Cipher::INTEGRITY_ONLY]) {
        let refused = new(cipher, hmac);
        assert_eq!(refused.is_none(), cipher.listing.approved, "{} {refused:?}", cipher.name);
    }
    let counter = Cipher::by_name("aes256-ctr").unwrap();
    for mac in EVERY_MAC {
        assert_eq!(new(counter, mac).is_none(), mac.listing.approved, "{}", mac.name);
    }
}

#[test]
fn key_exchanges_outside_the_module_are_refused() {
    for kex in EVERY_KEX {
        let key = EphemeralKey::generate(*kex);
        if kex.listing.approved {
            let key = key.unwrap();
            let (answer, secret) = kex_respond(*kex, key.public()).unwrap();
            assert_eq!(key.agree(&answer).unwrap().encoded(), secret.encoded(), "{}", kex.name);
            continue;
        }
        assert_eq!(key.err(), Some(KexError::NotBuilt), "{}", kex.name);
        assert_eq!(kex_respond(*kex, &[0; 1216]).err(), Some(KexError::NotBuilt), "{}", kex.name);
    }
    let group = DhGroup::group14();
    assert_eq!(EphemeralKey::generate_dh(&group.p, &group.g).err(), Some(KexError::NotBuilt));
}

#[test]
fn keys_outside_the_module_are_refused() {
    let unsupported = |key: Result<PrivateKey, CryptoError>| match key.err() {
        Some(CryptoError::Unsupported { .. }) => true,
        other => panic!("{other:?}"),
    };
    assert!(unsupported(PrivateKey::generate(KeyType::MlDsa44Ed25519, None)));
    assert!(unsupported(PrivateKey::generate(KeyType::Rsa, Some(1024))));
    for (key_type, algorithms) in [
        (KeyType::Ed25519, &["ssh-ed25519"][..]),
        (KeyType::EcdsaP256, &["ecdsa-sha2-nistp256"]),
        (KeyType::EcdsaP384, &["ecdsa-sha2-nistp384"]),
        (KeyType::EcdsaP521, &["ecdsa-sha2-nistp521"]),
        (KeyType::Rsa, &["rsa-sha2-512", "rsa-sha2-256"]),
    ] {
        let key = PrivateKey::generate(key_type, None).unwrap();
        assert_eq!(key.public().signature_algorithms(), algorithms);
        for algorithm in algorithms {
            let signature = key.sign(algorithm, b"data").unwrap();
            assert_eq!(key.public().verify(algorithm, b"data", &signature), Ok(()), "{algorithm}");
        }
        assert!(key.sign("ssh-rsa", b"data").is_err());
    }
    // A public key of 1024 bits can be listed, and verifies nothing.
    let mut blob = Vec::new();
    blob.put_string(b"ssh-rsa");
    blob.put_mpint(&[1, 0, 1]);
    blob.put_mpint(&[0xff; 128]);
    let small = PublicKey::from_blob(&blob).unwrap();
    assert_eq!((small.bits(), small.signature_algorithms().len()), (1024, 0));
}

/// The passphrase of OpenSSH's format goes through bcrypt, outside the module; the format is supported all
/// the same, as on Red Hat's systems (docs/fips.md).
#[test]
fn encrypted_key_files_are_read() {
    let key = PrivateKey::generate(KeyType::EcdsaP256, None).unwrap();
    for cipher in ["aes256-ctr", "aes256-cbc", "aes256-gcm@openssh.com"] {
        let encryption = Encryption { passphrase: b"secret", rounds: 1, cipher };
        let file = key.to_openssh_with("", Some(&encryption)).unwrap();
        let (read, _) = PrivateKey::parse(file.as_bytes(), Some(b"secret")).unwrap();
        assert_eq!(read.public(), key.public(), "{cipher}");
    }
    assert!(!Encryption::is_cipher("chacha20-poly1305@openssh.com"));
}
