//! Tests of `ssh-mldsa44-ed25519`: the draft's own signature, and keys in all their encodings.

use base64ct::{Base64, Base64Unpadded, Encoding as _};
use lh_crypto::{
    CertificateFields, CertificateKind, KeyFileError, KeyType, PemFormat, PrivateKey, PublicKey,
    SystemRandom, VerifyError,
};
use lh_wire::{Reader, Writer as _};

const NAME: &str = "ssh-mldsa44-ed25519";

/// Returns the draft's seeds and signature.
fn vector() -> (Vec<u8>, Vec<u8>) {
    let text = include_str!("vectors/composite.txt");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let seeds = Base64::decode_vec(lines.next().unwrap()).unwrap();
    (seeds, Base64Unpadded::decode_vec(&lines.collect::<String>()).unwrap())
}

/// Returns type, public key and seeds, as stored in key files.
fn wire(public: &[u8], seeds: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    wire.put_string(NAME.as_bytes());
    wire.put_string(public);
    wire.put_string(seeds);
    wire
}

fn blob(algorithm: &str, signature: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    blob.put_string(algorithm.as_bytes());
    blob.put_string(signature);
    blob
}

/// Returns the public key of seeds, assembled from the two schemes' keys.
fn public_of(seeds: &[u8]) -> Vec<u8> {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, ML_DSA_44_SIGNING, PqdsaKeyPair};
    let lattice = PqdsaKeyPair::from_seed(&ML_DSA_44_SIGNING, &seeds[..32]).unwrap();
    let curve = Ed25519KeyPair::from_seed_unchecked(&seeds[32..]).unwrap();
    [lattice.public_key().as_ref(), curve.public_key().as_ref()].concat()
}

#[test]
fn only_the_drafts_signature_verifies() {
    const MESSAGE: &[u8] = b"The quick brown fox jumps over the lazy dog.";
    let (seeds, signature) = vector();
    let wire = wire(&public_of(&seeds), &seeds);
    let key = PrivateKey::from_wire(&mut Reader::new(&wire)).unwrap();
    let public = key.public();
    public.verify(NAME, MESSAGE, &blob(NAME, &signature)).unwrap();
    // Each half is verified.
    for at in [0, 2419, 2420, 2483] {
        let mut wrong = signature.clone();
        wrong[at] ^= 1;
        assert_eq!(public.verify(NAME, MESSAGE, &blob(NAME, &wrong)), Err(VerifyError::BadSignature), "{at}");
    }
    for signature in [&signature[1..], &signature[..2420], &[], &[&signature[..], &[0]].concat()] {
        let wrong = public.verify(NAME, MESSAGE, &blob(NAME, signature));
        assert!(matches!(wrong, Err(VerifyError::Malformed { .. })), "{wrong:?}");
    }
    assert_eq!(public.verify(NAME, b"", &blob(NAME, &signature)), Err(VerifyError::BadSignature));
    // Neither half is a valid signature of a simple key.
    let curve =
        PublicKey::from_blob(&blob("ssh-ed25519", &public.blob()[public.blob().len() - 32..])).unwrap();
    let half = blob("ssh-ed25519", &signature[2420..]);
    assert_eq!(curve.verify("ssh-ed25519", MESSAGE, &half), Err(VerifyError::BadSignature));
}

#[test]
fn composite_key_round_trips_in_every_encoding() {
    let key = PrivateKey::generate(KeyType::MlDsa44Ed25519, None).unwrap();
    assert_eq!((key.public().key_type(), key.public().bits()), (NAME, 512));
    assert_eq!(key.public().display_type(), "MLDSA44-ED25519");
    assert_eq!(key.public().blob().len(), 4 + NAME.len() + 4 + 1344);
    for passphrase in [None, Some((&b"secret"[..], 1))] {
        let file = key.to_openssh("comment", passphrase).unwrap();
        let (again, comment) = PrivateKey::parse(file.as_bytes(), Some(b"secret")).unwrap();
        assert_eq!((again.public(), comment.as_str()), (key.public(), "comment"));
        assert_eq!(PrivateKey::parse_public(file.as_bytes()).unwrap(), *key.public());
        let signature = again.sign(NAME, b"data").unwrap();
        key.public().verify(NAME, b"data", &signature).unwrap();
        assert!(key.public().verify(NAME, b"date", &signature).is_err());
    }
    let line = key.public().to_openssh_line("c");
    assert_eq!(PublicKey::from_openssh_line(&line), Some((key.public().clone(), "c".to_owned())));
    assert!(key.to_pem(PemFormat::Pkcs8, None).is_err());
}

#[test]
fn mismatched_halves_are_refused() {
    let (seeds, _) = vector();
    let public = public_of(&seeds);
    let read =
        |public: &[u8], seeds: &[u8]| PrivateKey::from_wire(&mut Reader::new(&wire(public, seeds))).err();
    assert_eq!(read(&public, &seeds), None);
    for (public, seeds) in [(&public[..], &seeds[1..]), (&public, &[])] {
        assert!(matches!(read(public, seeds), Some(KeyFileError::InvalidFormat)));
    }
    let mut other = seeds.clone();
    other[40] ^= 1;
    for (public, seeds) in [(&public[..], &other[..]), (&public[1..], &seeds)] {
        assert!(matches!(read(public, seeds), Some(KeyFileError::InvalidKey { .. })));
    }
    assert!(PublicKey::from_blob(&blob(NAME, &public[1..])).is_err());
}

#[test]
fn composite_keys_certify_and_are_certified() {
    let authority = PrivateKey::generate(KeyType::MlDsa44Ed25519, None).unwrap();
    let key = PrivateKey::generate(KeyType::MlDsa44Ed25519, None).unwrap();
    let fields = CertificateFields {
        serial: 1,
        kind: CertificateKind::User,
        key_id: "me".to_owned(),
        principals: vec!["me".to_owned()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let unsigned = fields.to_be_signed(key.public(), authority.public(), &mut SystemRandom).unwrap();
    let signature = authority.sign(NAME, &unsigned).unwrap();
    let certified = CertificateFields::finish(unsigned, &signature).unwrap();
    assert_eq!(certified.key_type(), "ssh-mldsa44-ed25519-cert");
    assert_eq!(certified.display_type(), "MLDSA44-ED25519-CERT");
    let certificate = certified.certificate().unwrap();
    assert_eq!(certificate.key(), key.public());
    certificate.verify(&[NAME]).unwrap();
    let signature = key.sign(certified.key_type(), b"data").unwrap();
    certified.verify(certified.key_type(), b"data", &signature).unwrap();
}
