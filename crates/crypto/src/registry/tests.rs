//! Tests of the registry: names, ranks, and which rows a FIPS build contains.

use super::*;

#[test]
fn names_and_ranks_are_unique_and_defaults_rank_first() {
    for kind in Kind::ALL {
        let rows = kind.rows();
        let mut names = kind.names();
        names.extend(kind.foreign());
        for (at, name) in names.iter().enumerate() {
            assert!(!names[at + 1..].contains(name), "{kind:?}: two rows have the name {name}");
        }
        for (at, (name, Listing { rank, .. })) in rows.iter().enumerate() {
            for (other, _) in rows[at + 1..].iter().filter(|(_, other)| other.rank == *rank) {
                // A certificate has its plain key's rank.
                let of_one_key = KEYS.iter().any(|key| key.name == *name && key.certificate == *other);
                assert!(of_one_key, "{kind:?}: {name} and {other} have the same rank, {rank}");
            }
        }
        let last_default = rows
            .iter()
            .filter(|(_, listing)| listing.is_default())
            .max_by_key(|(_, listing)| listing.rank)
            .expect("each kind has a default");
        for (name, listing) in rows.iter().filter(|(_, listing)| !listing.is_default()) {
            let (default, Listing { rank, .. }) = last_default;
            let is_behind = listing.rank > *rank;
            assert!(is_behind, "{kind:?}: {name} ranks before {default}, which is in a default list");
        }
    }
}

#[test]
fn legacy_algorithms_are_those_with_weak_parts() {
    for cipher in CIPHERS {
        let weak = matches!(cipher.kind, CipherKind::AesCbc | CipherKind::TripleDesCbc);
        assert_eq!(cipher.is_legacy(), weak, "{}", cipher.name);
    }
    for mac in MACS {
        assert_eq!(mac.is_legacy(), mac.kind == MacKind::HmacMd5 || mac.tag_len == 12, "{}", mac.name);
    }
    for kex in KEX {
        assert_eq!(kex.is_legacy(), kex.hash == Hash::Sha1, "{}", kex.name);
    }
    for key in KEYS {
        assert_eq!(key.listing.is_legacy(), key.name == "ssh-rsa", "{}", key.name);
    }
}

#[test]
fn unencrypted_ciphers_are_found_by_no_name() {
    for (cipher, mac) in [(Cipher::NONE, Mac::NONE), (Cipher::INTEGRITY_ONLY, Mac::NONE)] {
        assert!(!cipher.encrypts() && Cipher::by_name(cipher.name).is_none());
        assert!(Mac::by_name(mac.name).is_none());
        assert!(!Kind::Cipher.names().contains(&cipher.name) && !Kind::Mac.names().contains(&mac.name));
    }
}

/// Names of the approved rows of a kind, in the order of `ssh -Q`. Unlike `Kind::names`, the same in every
/// build.
fn approved(kind: Kind) -> Vec<&'static str> {
    let rows: Vec<(&str, Listing)> = match kind {
        Kind::Kex => EVERY_KEX.iter().map(|row| (row.name, row.listing)).collect(),
        Kind::Key => EVERY_KEY.iter().map(|row| (row.name, row.listing)).collect(),
        Kind::Cipher => EVERY_CIPHER.iter().map(|row| (row.name, row.listing)).collect(),
        Kind::Mac => EVERY_MAC.iter().map(|row| (row.name, row.listing)).collect(),
        Kind::Compression => Vec::new(),
    };
    rows.into_iter().filter(|(_, listing)| listing.approved).map(|(name, _)| name).collect()
}

#[test]
fn fips_builds_have_what_the_module_computes() {
    assert_eq!(approved(Kind::Kex), ["ecdh-sha2-nistp256", "ecdh-sha2-nistp384", "ecdh-sha2-nistp521"]);
    assert_eq!(
        approved(Kind::Key),
        [
            "ssh-ed25519",
            "sk-ssh-ed25519@openssh.com",
            "ecdsa-sha2-nistp256",
            "ecdsa-sha2-nistp384",
            "ecdsa-sha2-nistp521",
            "sk-ecdsa-sha2-nistp256@openssh.com",
            "rsa-sha2-256",
            "rsa-sha2-512",
        ]
    );
    let gcm = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];
    assert_eq!(approved(Kind::Cipher), ["aes128-ctr", "aes192-ctr", "aes256-ctr", gcm[0], gcm[1]]);
    let etm = ["hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com"];
    assert_eq!(approved(Kind::Mac), ["hmac-sha2-256", "hmac-sha2-512", etm[0], etm[1]]);
}

#[test]
fn approved_algorithms_have_only_approved_parts() {
    for row in EVERY_CIPHER.iter().chain([Cipher::INTEGRITY_ONLY, Cipher::NONE]) {
        let module = matches!(row.kind, CipherKind::AesCtr | CipherKind::AesGcm | CipherKind::AesGmac);
        assert_eq!(row.listing.approved, module, "{}", row.name);
    }
    for row in EVERY_MAC.iter().chain([Mac::NONE]) {
        let module = matches!(row.kind, MacKind::HmacSha256 | MacKind::HmacSha512);
        assert_eq!(row.listing.approved, module, "{}", row.name);
    }
    for row in EVERY_KEX {
        let module = matches!(row.method, Method::Ecdh(Curve::P256 | Curve::P384 | Curve::P521));
        assert_eq!(row.listing.approved, module, "{}", row.name);
    }
    // Each end needs something to offer without a configuration.
    for kind in [Kind::Kex, Kind::Key, Kind::Cipher, Kind::Mac] {
        let defaults = kind.defaults(End::Server);
        assert!(approved(kind).iter().any(|name| defaults.contains(name)), "{kind:?}");
    }
}

#[test]
fn this_build_lists_its_own_rows_only() {
    assert_eq!(KEX.len(), if crate::FIPS { approved(Kind::Kex).len() } else { EVERY_KEX.len() });
    assert_eq!(KEYS.len(), if crate::FIPS { approved(Kind::Key).len() } else { EVERY_KEY.len() });
    assert_eq!(CIPHERS.len(), if crate::FIPS { approved(Kind::Cipher).len() } else { EVERY_CIPHER.len() });
    assert_eq!(MACS.len(), if crate::FIPS { approved(Kind::Mac).len() } else { EVERY_MAC.len() });
    for row in EVERY_CIPHER {
        assert_eq!(Cipher::by_name(row.name).is_some(), row.listing.is_built(), "{}", row.name);
    }
}
