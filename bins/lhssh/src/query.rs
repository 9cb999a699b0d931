//! `-Q`: the algorithms of this build. Scripts and test suites depend on names and order.

use lh_config::table::find;
use lh_crypto::registry::{CIPHERS, KEYS, KeyAlgorithm, Kind};

/// Produces the lines of an answer.
type List = fn() -> Vec<&'static str>;

/// The queries and their lists, in OpenSSH's order.
const QUERIES: &[(&str, List)] = &[
    ("cipher", || Kind::Cipher.names()),
    ("cipher-auth", || CIPHERS.iter().filter(|cipher| cipher.is_aead()).map(|cipher| cipher.name).collect()),
    ("compression", || Kind::Compression.names()),
    ("kex", || Kind::Kex.names()),
    ("kex-gss", Vec::new),
    ("key", || keys(is_key_type, &[PLAIN, CERTIFICATE])),
    ("key-ca-sign", || keys(|row| !row.listing.is_legacy(), &[PLAIN])),
    ("key-cert", || keys(is_key_type, &[CERTIFICATE])),
    ("key-plain", || keys(is_key_type, &[PLAIN])),
    ("key-sig", || Kind::Key.names()),
    ("mac", || Kind::Mac.names()),
    ("protocol-version", || vec!["2"]),
    ("sig", || keys(|_| true, &[PLAIN])),
];

/// Takes one of a signature algorithm's names.
type Name = fn(&KeyAlgorithm) -> &'static str;

const PLAIN: Name = |row| row.name;
const CERTIFICATE: Name = |row| row.certificate;

/// Returns the names of the chosen signature algorithms.
fn keys(chosen: fn(&KeyAlgorithm) -> bool, names: &[Name]) -> Vec<&'static str> {
    KEYS.iter().filter(|row| chosen(row)).flat_map(|row| names.iter().map(|name| name(row))).collect()
}

/// Returns whether the name is a key type, too, and not only a signature algorithm.
fn is_key_type(row: &KeyAlgorithm) -> bool {
    row.name == row.key_type
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
    use lh_crypto::{Cipher, KexAlgorithm, Mac};

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
        assert!(listed("key-cert").iter().all(|name| name.contains("-cert")));
        assert!(!listed("key-ca-sign").contains(&"ssh-rsa") && listed("sig").contains(&"ssh-rsa"));
    }
}
