//! `-Q`: the algorithms of this build. Scripts and test suites depend on names and order.

use lh_config::table::find;
use lh_crypto::{Cipher, KexAlgorithm, Mac, key_algorithms};

/// Produces the lines of an answer.
type List = fn() -> Vec<&'static str>;

/// The queries and their lists, in OpenSSH's order.
const QUERIES: &[(&str, List)] = &[
    ("cipher", || known(CIPHERS, |name| Cipher::by_name(name).is_some())),
    ("cipher-auth", || known(CIPHERS, |name| Cipher::by_name(name).is_some_and(Cipher::is_aead))),
    ("compression", || vec!["none", "zlib@openssh.com", "zlib"]),
    ("kex", || known(KEX, |name| KexAlgorithm::by_name(name).is_some())),
    ("kex-gss", Vec::new),
    ("key", || known(&key_algorithms::ALL, |name| !is_hash_of_rsa(name))),
    ("key-ca-sign", || {
        known(&key_algorithms::ALL, |name| !key_algorithms::is_certificate(name) && name != "ssh-rsa")
    }),
    ("key-cert", || {
        known(&key_algorithms::ALL, |name| key_algorithms::is_certificate(name) && !is_hash_of_rsa(name))
    }),
    ("key-plain", || {
        known(&key_algorithms::ALL, |name| !key_algorithms::is_certificate(name) && !is_hash_of_rsa(name))
    }),
    ("key-sig", || key_algorithms::ALL.to_vec()),
    ("mac", || known(MACS, |name| Mac::by_name(name).is_some())),
    ("protocol-version", || vec!["2"]),
    ("sig", || known(&key_algorithms::ALL, |name| !key_algorithms::is_certificate(name))),
];

/// Names in OpenSSH's order; algorithms that this build lacks are left out of an answer.
const CIPHERS: &[&str] = &[
    "3des-cbc",
    "aes128-cbc",
    "aes192-cbc",
    "aes256-cbc",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "chacha20-poly1305-mt@hpnssh.org",
];

const MACS: &[&str] = &[
    "hmac-sha1",
    "hmac-sha1-96",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-md5",
    "hmac-md5-96",
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "hmac-sha1-96-etm@openssh.com",
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-md5-etm@openssh.com",
    "hmac-md5-96-etm@openssh.com",
    "umac-64-etm@openssh.com",
    "umac-128-etm@openssh.com",
];

const KEX: &[&str] = &[
    "diffie-hellman-group1-sha1",
    "diffie-hellman-group14-sha1",
    "diffie-hellman-group14-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group-exchange-sha1",
    "diffie-hellman-group-exchange-sha256",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "mlkem768x25519-sha256",
];

fn known(names: &[&'static str], is: impl Fn(&str) -> bool) -> Vec<&'static str> {
    names.iter().copied().filter(|name| is(name)).collect()
}

/// True for a signature algorithm that is not a key type.
fn is_hash_of_rsa(name: &str) -> bool {
    name.starts_with("rsa-sha2-")
}

/// Configuration keywords that are accepted as queries.
const KEYWORDS: &[(&str, &str)] = &[
    ("CASignatureAlgorithms", "key-ca-sign"),
    ("Ciphers", "cipher"),
    ("HostKeyAlgorithms", "key-sig"),
    ("HostbasedAcceptedAlgorithms", "key-sig"),
    ("KexAlgorithms", "kex"),
    ("MACs", "mac"),
    ("PubkeyAcceptedAlgorithms", "key-sig"),
];

/// Lines of the answer to a query; `None` for an unknown query.
pub(crate) fn answer(query: &str) -> Option<Vec<&'static str>> {
    if query == "help" {
        return Some(QUERIES.iter().map(|(name, _)| *name).collect());
    }
    // Keywords are accepted as in a configuration file: any case, old spellings too.
    let name = find(lh_config::client_table::CLIENT_KEYWORDS, query)
        .and_then(|row| lh_config::client_table::CLIENT_KEYWORDS.get(row))
        .and_then(|keyword| KEYWORDS.iter().find(|(name, _)| *name == keyword.name))
        .map_or(query, |(_, query)| query);
    QUERIES.iter().find(|(each, _)| *each == name).map(|(_, list)| list())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_by_name_and_by_keyword() {
        assert!(answer("cipher").is_some_and(|list| list.contains(&"aes128-gcm@openssh.com")));
        assert_eq!(answer("ciphers"), answer("cipher"));
        assert_eq!(answer("PubkeyAcceptedKeyTypes"), answer("key-sig"));
        assert_eq!(answer("protocol-version"), Some(vec!["2"]));
        assert!(answer("help").is_some_and(|list| list.contains(&"kex")));
        assert_eq!(answer("nonsense"), None);
    }

    #[test]
    fn every_algorithm_is_listed_by_a_query() {
        let listed = |query: &str| answer(query).unwrap_or_default();
        assert_eq!(listed("cipher").len(), Cipher::ALL.len());
        assert_eq!(listed("mac").len(), Mac::ALL.len());
        assert_eq!(listed("kex").len(), KexAlgorithm::ALL.len());
        assert!(listed("cipher").contains(&"3des-cbc") && !listed("cipher-auth").contains(&"3des-cbc"));
        assert!(listed("key-sig").contains(&"rsa-sha2-512") && !listed("key").contains(&"rsa-sha2-512"));
        assert!(listed("key-cert").iter().all(|name| name.contains("-cert-")));
        assert!(!listed("key-ca-sign").contains(&"ssh-rsa") && listed("sig").contains(&"ssh-rsa"));
    }
}
