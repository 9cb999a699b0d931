use lh_crypto::{KeyType, PrivateKey, PublicKey};
use lh_wire::{Reader, Writer};
use proptest::prelude::*;

use super::*;

fn key(key_type: KeyType) -> PrivateKey {
    PrivateKey::generate(key_type, Some(2048)).expect("a key")
}

/// Returns an unsigned certificate: sufficient where it is not verified.
fn certificate(key: &PublicKey) -> PublicKey {
    let mut fields = Reader::new(key.blob());
    let plain = fields.text().expect("a type");
    let mut blob = Vec::new();
    blob.put_string(lh_crypto::key_algorithms::certified(plain).as_bytes());
    blob.put_string(b"nonce");
    blob.put_bytes(fields.rest());
    blob.put_u64(7);
    blob.put_u32(1);
    blob.put_string(b"id");
    blob.nested(|list| list.put_string(b"me"));
    blob.put_u64(0);
    blob.put_u64(u64::MAX);
    for _ in 0..3 {
        blob.put_string(b"");
    }
    blob.put_string(self::key(KeyType::Ed25519).public().blob());
    blob.put_string(b"signature");
    PublicKey::from_blob(&blob).expect("a certificate")
}

fn security_key(ecdsa: bool) -> SecurityKey {
    let mut blob = Vec::new();
    if ecdsa {
        let ordinary = key(KeyType::EcdsaP256);
        let mut fields = Reader::new(ordinary.public().blob());
        fields.text().expect("type");
        blob.put_string(b"sk-ecdsa-sha2-nistp256@openssh.com");
        blob.put_bytes(fields.rest());
    } else {
        blob.put_string(b"sk-ssh-ed25519@openssh.com");
        blob.put_string(&[7; 32]);
    }
    blob.put_string(b"ssh:");
    let public = PublicKey::from_blob(&blob).expect("a key");
    SecurityKey { public, flags: 1, handle: b"handle".to_vec().into(), reserved: Vec::new() }
}

fn constraints() -> Constraints {
    let hop = |user: &str, host: &str, ca: bool| Hop {
        user: user.to_owned(),
        host: host.to_owned(),
        keys: vec![HopKey { key: key(KeyType::Ed25519).public().clone(), is_ca: ca }],
    };
    Constraints {
        lifetime: Some(60),
        confirm: true,
        destinations: vec![
            Destination { from: Hop::default(), to: hop("me", "a.example", false) },
            Destination { from: hop("", "a.example", false), to: hop("", "b.example", true) },
        ],
        sk_provider: Some("internal".to_owned()),
        associated_certs: None,
    }
}

/// Keys of every type, plain and with a certificate, are preserved by a request.
#[test]
fn keys_of_every_type_round_trip() {
    let types = [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::EcdsaP521, KeyType::Rsa];
    let mut keys: Vec<AddedKey> = Vec::new();
    for key in types.map(key) {
        keys.push(AddedKey::new(key.clone(), None).expect("plain"));
        let certificate = certificate(key.public());
        keys.push(AddedKey::new(key, Some(certificate)).expect("certified"));
    }
    for key in [security_key(false), security_key(true)] {
        let certified = key.with_certificate(certificate(&key.public)).expect("certified");
        keys.extend([AddedKey::Security(key), AddedKey::Security(certified)]);
    }
    for key in keys {
        for constraints in [Constraints::default(), constraints()] {
            let public = key.public().clone();
            let request = Request::Add {
                key: Box::new(key.clone()),
                comment: "me@host".to_owned(),
                constraints: constraints.clone(),
            };
            let body = request.encode();
            let Ok(Request::Add { key, comment, constraints: found }) = Request::parse(&body) else {
                panic!("{}: not read back", public.key_type())
            };
            assert_eq!((key.public(), comment.as_str(), &found), (&public, "me@host", &constraints));
            if let AddedKey::Plain(key) | AddedKey::Certified { key, .. } = &*key {
                let signature = key.sign(public.plain().signature_algorithms()[0], b"data").expect("signs");
                let algorithm = public.plain().signature_algorithms()[0];
                assert_eq!(public.plain().verify(algorithm, b"data", &signature), Ok(()));
            }
            let again = Request::Add { key, comment, constraints: found };
            assert_eq!(*again.encode(), *body);
        }
    }
}

#[test]
fn certificate_for_another_key_is_refused() {
    let (mine, other) = (key(KeyType::Ed25519), key(KeyType::Ed25519));
    let wrong = certificate(other.public());
    assert!(matches!(
        AddedKey::new(mine.clone(), Some(wrong.clone())),
        Err(ProtocolError::CertificateMismatch)
    ));
    let body = Request::Add {
        key: Box::new(AddedKey::Certified { key: mine, certificate: wrong }),
        comment: String::new(),
        constraints: Constraints::default(),
    }
    .encode();
    assert!(Request::parse(&body).is_err());
}

/// An unknown constraint must not leave a key less restricted than intended.
#[test]
fn unknown_or_repeated_constraints_are_refused() {
    let base = || {
        let key = Box::new(AddedKey::Plain(key(KeyType::Ed25519)));
        let constraints = Constraints { confirm: true, ..Constraints::default() };
        Request::Add { key, comment: "c".to_owned(), constraints }.encode()
    };
    let with = |more: &dyn Fn(&mut Vec<u8>)| {
        let mut body = base();
        more(&mut body);
        Request::parse(&body).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with(&|_| {}), Ok(()));
    assert_eq!(with(&|b| b.put_u8(2)), Err("constraint confirm is not valid here".to_owned()));
    assert_eq!(
        with(&|b| {
            b.put_u8(3);
            b.put_u32(5);
        }),
        Err("unsupported constraint maxsign".to_owned())
    );
    assert_eq!(with(&|b| b.put_u8(77)), Err("unsupported constraint 77".to_owned()));
    assert_eq!(
        with(&|b| {
            b.put_u8(255);
            b.put_string(b"new@example");
        }),
        Err("unsupported constraint new@example".to_owned())
    );
    // An empty restriction would not restrict anything.
    assert_eq!(
        with(&|b| {
            b.put_u8(255);
            b.put_string(names::RESTRICT_DESTINATION.as_bytes());
            b.put_string(b"");
        }),
        Err("inconsistent destination constraint".to_owned())
    );
    assert_eq!(
        with(&|b| {
            b.put_u8(255);
            b.put_string(names::ASSOCIATED_CERTS.as_bytes());
            b.put_u8(1);
            b.put_string(b"");
        }),
        Err(format!("constraint {} is not valid here", names::ASSOCIATED_CERTS))
    );
}

#[test]
fn requests_without_keys_round_trip() {
    let certs =
        AssociatedCerts { certs_only: true, certificates: vec![certificate(key(KeyType::Ed25519).public())] };
    let bind = SessionBind { host_key: b"k", session_id: b"s", signature: b"g", forwarding: true };
    let requests = [
        Request::Identities,
        Request::Sign { key: b"k", data: b"data", flags: SignFlags::RSA_SHA2_512 },
        Request::Remove { key: b"k" },
        Request::RemoveAll,
        Request::AddToken {
            provider: "/lib/p.so",
            pin: b"1234",
            constraints: Constraints { associated_certs: Some(certs), ..Constraints::default() },
        },
        Request::RemoveToken { provider: "/lib/p.so", pin: b"" },
        Request::Lock(b"secret"),
        Request::Unlock(b"secret"),
        Request::Extension(Extension::Query),
        Request::Extension(Extension::SessionBind(bind)),
        Request::Extension(Extension::Other { name: "x@example", body: b"fields" }),
    ];
    for request in requests {
        let body = request.encode();
        let again = Request::parse(&body).expect("read back");
        assert_eq!(*again.encode(), *body);
        // Trailing bytes are refused, except in an extension's own fields.
        let open = matches!(request, Request::Extension(Extension::Other { .. }) | Request::AddToken { .. });
        let mut longer = body.to_vec();
        longer.push(0);
        assert!(open || Request::parse(&longer).is_err());
    }
    assert!(matches!(Request::parse(&[99, 1, 2]), Ok(Request::Unknown(99))));
    assert!(Request::parse(&[]).is_err());
}

#[test]
fn replies_round_trip() {
    let entry = IdentityEntry { blob: b"blob".to_vec(), comment: "me@host".to_owned() };
    for reply in [
        Reply::Failure,
        Reply::Success,
        Reply::ExtensionFailure,
        Reply::Identities(vec![entry.clone(), entry]),
        Reply::Signature(b"signature".to_vec()),
        Reply::extensions(&[names::QUERY, names::SESSION_BIND]),
    ] {
        assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
    }
    assert_eq!(Reply::parse(&[30]), Ok(Reply::Failure));
    let mut many = vec![number::IDENTITIES_ANSWER];
    many.put_u32(u32::MAX);
    assert_eq!(Reply::parse(&many), Err(ProtocolError::TooMany("identities")));
}

#[test]
fn flags_select_the_hash_of_rsa_keys() {
    assert_eq!(flags_for("rsa-sha2-512-cert-v01@openssh.com"), SignFlags::RSA_SHA2_512);
    assert_eq!(flags_for("rsa-sha2-256"), SignFlags::RSA_SHA2_256);
    assert_eq!(flags_for("ssh-ed25519"), SignFlags(0));
    assert_eq!(algorithm_for("ssh-rsa", SignFlags(6)), "rsa-sha2-256");
    assert_eq!(algorithm_for("ssh-rsa", SignFlags(4)), "rsa-sha2-512");
    assert_eq!(algorithm_for("ssh-rsa", SignFlags(0)), "ssh-rsa");
    assert_eq!(algorithm_for("ssh-ed25519", SignFlags(4)), "ssh-ed25519");
}

#[test]
fn messages_are_extracted_from_any_pieces() {
    let bodies: [&[u8]; 3] = [b"a", b"second", &[9; 5000]];
    let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body).to_vec()).collect();
    for size in [1, 3, 7, stream.len()] {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in stream.chunks(size) {
            frames.push(piece);
            while let Some(body) = frames.next_body().expect("valid lengths") {
                found.push(body.to_vec());
            }
        }
        assert_eq!(found, bodies);
        assert_eq!(frames.held(), 0);
    }
    for length in [0, MAX_MESSAGE as u32 + 1, u32::MAX] {
        let mut frames = Frames::default();
        frames.push(&length.to_be_bytes());
        assert_eq!(frames.next_body().map(|_| ()), Err(ProtocolError::Length(length)));
    }
}

proptest! {
    #[test]
    fn parsing_any_message_never_panics(mut body in proptest::collection::vec(any::<u8>(), 0..300), number in 0u8..32) {
        let _ = Reply::parse(&body);
        let _ = Request::parse(&body).map(|request| request.encode());
        if let Some(first) = body.first_mut() {
            *first = number;
        }
        let _ = Reply::parse(&body);
        let _ = Request::parse(&body).map(|request| request.encode());
    }

    #[test]
    fn damaged_requests_never_panic(at in 0usize..400, value: u8, cut in 0usize..400) {
        let key = Box::new(AddedKey::Security(security_key(false)));
        let mut body = Request::Add { key, comment: "c".to_owned(), constraints: constraints() }.encode().to_vec();
        if let Some(byte) = body.get_mut(at) {
            *byte = value;
        }
        let _ = Request::parse(&body);
        let cut = cut.min(body.len());
        let _ = Request::parse(&body[..cut]);
    }
}

#[test]
fn users_of_destinations_are_limited() {
    let with_user = |length: usize| {
        let mut constraints = constraints();
        constraints.destinations.truncate(1);
        constraints.destinations[0].to.user = "u".repeat(length);
        let key = Box::new(AddedKey::Plain(key(KeyType::Ed25519)));
        Request::Add { key, comment: String::new(), constraints }.encode()
    };
    assert!(Request::parse(&with_user(256)).is_ok());
    assert!(matches!(Request::parse(&with_user(257)), Err(ProtocolError::BadDestination)));
}
