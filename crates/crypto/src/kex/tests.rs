//! Tests of key agreement, and of refused values that would make the secret guessable.

use super::*;
use crate::Random;

/// Returns 0, 1, 2, …, so that choices are reproducible.
struct Counter(u8);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            *byte = self.0;
            self.0 = self.0.wrapping_add(1);
        }
    }
}

fn named(name: &str) -> KexAlgorithm {
    KexAlgorithm::by_name(name).unwrap()
}

fn fixed() -> impl Iterator<Item = KexAlgorithm> {
    KexAlgorithm::ALL.iter().copied().filter(|each| each.family() != KexFamily::DhGex)
}

#[test]
fn both_sides_agree_with_every_method() {
    for algorithm in fixed() {
        let client = EphemeralKey::generate(algorithm).unwrap();
        let (server_public, server_secret) = kex_respond(algorithm, client.public()).unwrap();
        let client_secret = client.agree(&server_public).unwrap();
        assert_eq!(client_secret.encoded(), server_secret.encoded(), "{}", algorithm.name());
        let length = u32::from_be_bytes(*client_secret.encoded().first_chunk().unwrap()) as usize;
        assert_eq!(length + 4, client_secret.encoded().len(), "{}", algorithm.name());
        if algorithm.family() == KexFamily::Hybrid {
            assert_eq!(length, algorithm.hash().output_len(), "{}", algorithm.name());
        }
    }
}

#[test]
fn public_values_have_the_specified_sizes() {
    for (name, client_len, server_len) in [
        ("mlkem768x25519-sha256", 1184 + 32, 1088 + 32),
        ("sntrup761x25519-sha512", 1158 + 32, 1039 + 32),
        ("sntrup761x25519-sha512@openssh.com", 1158 + 32, 1039 + 32),
        ("curve25519-sha256", 32, 32),
        ("curve25519-sha256@libssh.org", 32, 32),
        ("ecdh-sha2-nistp256", 65, 65),
        ("ecdh-sha2-nistp384", 97, 97),
        ("ecdh-sha2-nistp521", 133, 133),
    ] {
        let algorithm = KexAlgorithm::by_name(name).unwrap();
        let client = EphemeralKey::generate(algorithm).unwrap();
        assert_eq!(client.public().len(), client_len, "{name}");
        let (server_public, _) = kex_respond(algorithm, client.public()).unwrap();
        assert_eq!(server_public.len(), server_len, "{name}");
    }
}

#[test]
fn values_of_the_wrong_size_are_refused() {
    for algorithm in fixed().filter(|each| each.family() != KexFamily::DhGroup) {
        let good = EphemeralKey::generate(algorithm).unwrap();
        let short = &good.public()[..good.public().len() - 1];
        let long = [good.public(), &[0]].concat();
        for bad in [&[][..], short, &long] {
            assert!(
                matches!(kex_respond(algorithm, bad), Err(KexError::BadPublicValue { .. })),
                "{} takes {} bytes",
                algorithm.name(),
                bad.len()
            );
            let client = EphemeralKey::generate(algorithm).unwrap();
            assert!(client.agree(bad).is_err(), "{}", algorithm.name());
        }
    }
}

#[test]
fn all_zero_x25519_secret_is_refused() {
    // Points of small order: zero, one, and one of order 8 (RFC 7748 section 6.1).
    let order_8 = [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ];
    let mut one = [0; 32];
    one[0] = 1;
    for point in [[0; 32], one, order_8] {
        for algorithm in [named("curve25519-sha256"), named("mlkem768x25519-sha256")] {
            let mut value = EphemeralKey::generate(algorithm).unwrap().public().to_vec();
            let at = value.len() - 32;
            value[at..].copy_from_slice(&point);
            assert!(kex_respond(algorithm, &value).is_err(), "{}", algorithm.name());
        }
    }
}

#[test]
fn points_off_the_curve_and_compressed_points_are_refused() {
    for algorithm in [named("ecdh-sha2-nistp256"), named("ecdh-sha2-nistp384"), named("ecdh-sha2-nistp521")] {
        let good = EphemeralKey::generate(algorithm).unwrap();
        let mut off = good.public().to_vec();
        *off.last_mut().unwrap() ^= 1;
        assert!(kex_respond(algorithm, &off).is_err());
        let mut compressed_mark = good.public().to_vec();
        compressed_mark[0] = 2;
        assert!(kex_respond(algorithm, &compressed_mark).is_err());
    }
}

#[test]
fn unreduced_ml_kem_key_is_refused() {
    let mut value = EphemeralKey::generate(named("mlkem768x25519-sha256")).unwrap().public().to_vec();
    // Twelve-bit coefficients above the modulus 3329 (FIPS 203 section 7.2).
    value[..300].fill(0xff);
    assert!(kex_respond(named("mlkem768x25519-sha256"), &value).is_err());
}

#[test]
fn dh_values_outside_2_to_p_minus_2_are_refused() {
    let group = DhGroup::group14();
    let mut p_minus_1 = group.p.clone();
    *p_minus_1.last_mut().unwrap() -= 1;
    let mut p_minus_2 = group.p.clone();
    *p_minus_2.last_mut().unwrap() -= 2;
    let mut p_plus_2 = group.p.clone();
    // The last byte of every RFC 3526 prime is ff: carry.
    for byte in p_plus_2.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    let longer = [&[1][..], &group.p].concat();
    for bad in [&[][..], &[0], &[1], &[0, 1], &group.p, &p_minus_1, &p_plus_2, &longer] {
        assert!(kex_respond(named("diffie-hellman-group14-sha256"), bad).is_err(), "{bad:02x?}");
        let key = EphemeralKey::generate_dh(&group.p, &group.g).unwrap();
        assert!(key.agree(bad).is_err(), "{bad:02x?}");
    }
    for good in [&[2][..], &[0, 2], &p_minus_2] {
        assert!(kex_respond(named("diffie-hellman-group14-sha256"), good).is_ok(), "{good:02x?}");
    }
}

#[test]
fn group_exchange_agrees_and_refuses_bad_groups() {
    let group = DhGroup::group14();
    let server = EphemeralKey::generate_dh(&group.p, &group.g).unwrap();
    let client = EphemeralKey::generate_dh(&[&[0][..], &group.p].concat(), &group.g).unwrap();
    let (server_public, client_public) = (server.public().to_vec(), client.public().to_vec());
    assert_eq!(
        server.agree(&client_public).unwrap().encoded(),
        client.agree(&server_public).unwrap().encoded()
    );

    let mut even = group.p.clone();
    *even.last_mut().unwrap() &= 0xfe;
    let too_large = [group.p.as_slice(); 5].concat();
    for (p, g) in [
        (&even[..], &[2][..]),
        (&group.p[1..], &[2]),
        (&too_large, &[2]),
        (&[], &[2]),
        (&group.p, &[]),
        (&group.p, &[1]),
        (&group.p, &group.p),
    ] {
        assert!(matches!(EphemeralKey::generate_dh(p, g), Err(KexError::BadGroup { .. })));
    }
    assert!(EphemeralKey::generate(named("diffie-hellman-group-exchange-sha256")).is_err());
    assert!(kex_respond(named("diffie-hellman-group-exchange-sha256"), &[2]).is_err());
}

#[test]
fn server_picks_the_smallest_sufficient_group() {
    let mut rng = Counter(0);
    let mut pick = |min, n, max, moduli: Option<&str>| {
        DhGroup::choose(min, n, max, moduli, &mut rng).map(|group| group.bits())
    };
    assert_eq!(pick(2048, 3072, 8192, None), Some(4096));
    assert_eq!(pick(2048, 2048, 8192, None), Some(2048));
    assert_eq!(pick(1024, 1024, 8192, None), Some(2048));
    assert_eq!(pick(2048, 8192, 8192, None), Some(8192));
    assert_eq!(pick(2048, 8192, 4096, None), Some(4096));
    assert_eq!(pick(1024, 1024, 1536, None), None);
    assert_eq!(pick(4096, 4096, 2048, None), None);

    // A file with a 3072-bit number (not a prime; it is not used for computation here) and lines that must be
    // skipped.
    let of_size = |bits: usize| format!("C{}F", "5".repeat(bits / 4 - 2));
    let moduli = format!(
        "# time type tests tries size generator modulus\n\
         20200101000000 2 6 100 3071 2 {}\n\
         20200101000000 2 6 100 2559 2 {}\n\
         20200101000000 2 5 100 3071 5 {}\n\
         20200101000000 4 6 100 2047 2 {}\n\
         garbage\n20200101000000 2 6 100 99999999999999999999 2 FF\n",
        of_size(3072),
        of_size(2048),
        of_size(3072),
        of_size(2048)
    );
    assert_eq!(pick(2048, 3072, 8192, Some(&moduli)), Some(3072));
    // The line states 2560 bits but has 2048, so it is not used.
    assert_eq!(pick(2048, 2500, 2600, Some(&moduli)), Some(2048));
    assert_eq!(DhGroup::choose(2048, 3072, 8192, Some(&moduli), &mut Counter(9)).unwrap().g, [2]);
}

/// K of RFC 8731 for the vector of RFC 7748 section 6.1, as an mpint, and the derived keys.
#[test]
fn secrets_are_encoded_as_mpints_and_strings() {
    assert_eq!(SharedSecret::from_magnitude(&[0, 0, 0x4a]).encoded(), [0, 0, 0, 1, 0x4a]);
    assert_eq!(SharedSecret::from_magnitude(&[0x80]).encoded(), [0, 0, 0, 2, 0, 0x80]);
    assert_eq!(SharedSecret::from_string(&[0, 0x80]).encoded(), [0, 0, 0, 2, 0, 0x80]);
}

#[test]
fn longer_derived_keys_extend_shorter_ones() {
    let key = |len| derive_key(Hash::Sha256, b"\0\0\0\x01k", b"h", b'A', b"session", len);
    assert_eq!(key(64)[..16], key(16)[..]);
    assert_eq!(key(100)[..64], key(64)[..]);
    let first = Hash::Sha256.digest(&[b"\0\0\0\x01k", b"h", b"A", b"session"]);
    let second = Hash::Sha256.digest(&[b"\0\0\0\x01k", b"h", first.as_ref()]);
    assert_eq!(key(64)[..], [first.as_ref(), second.as_ref()].concat());
}

#[test]
fn kex_names_round_trip() {
    for each in KexAlgorithm::ALL {
        assert_eq!(KexAlgorithm::by_name(each.name()), Some(*each));
    }
    assert_eq!(KexAlgorithm::by_name("diffie-hellman-group2-sha1"), None);
}
