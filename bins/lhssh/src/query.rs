//! `-Q`: which algorithms this build has. Scripts and test suites depend on names and order.

use lh_config::table::find;
use lh_crypto::{Cipher, KexAlgorithm, Mac};

/// Makes the lines of an answer.
type List = fn() -> Vec<&'static str>;

/// The queries, each with what it lists.
const QUERIES: &[(&str, List)] = &[
    ("cipher", ciphers),
    ("cipher-auth", authenticating_ciphers),
    ("compression", || vec!["none", "zlib@openssh.com"]),
    ("kex", kex),
    ("key", keys),
    ("key-ca-sign", plain_signatures),
    ("key-cert", Vec::new),
    ("key-plain", keys),
    ("key-sig", signatures),
    ("mac", macs),
    ("protocol-version", || vec!["2"]),
    ("sig", signatures),
];

/// Keywords that may be asked for instead of a query.
const KEYWORDS: &[(&str, &str)] = &[
    ("CASignatureAlgorithms", "key-ca-sign"),
    ("Ciphers", "cipher"),
    ("HostKeyAlgorithms", "key-sig"),
    ("HostbasedAcceptedAlgorithms", "key-sig"),
    ("KexAlgorithms", "kex"),
    ("MACs", "mac"),
    ("PubkeyAcceptedAlgorithms", "key-sig"),
];

/// The lines that answer a query; `None` for one that does not exist.
pub(crate) fn answer(query: &str) -> Option<Vec<&'static str>> {
    if query == "help" {
        return Some(QUERIES.iter().map(|(name, _)| *name).collect());
    }
    // Keywords may be written as in a configuration file: any case, old spellings too.
    let name = find(lh_config::client_table::CLIENT_KEYWORDS, query)
        .and_then(|row| lh_config::client_table::CLIENT_KEYWORDS.get(row))
        .and_then(|keyword| KEYWORDS.iter().find(|(name, _)| *name == keyword.name))
        .map_or(query, |(_, query)| query);
    QUERIES.iter().find(|(each, _)| *each == name).map(|(_, list)| list())
}

fn ciphers() -> Vec<&'static str> {
    Cipher::ALL.iter().map(|cipher| cipher.name).collect()
}

fn authenticating_ciphers() -> Vec<&'static str> {
    Cipher::ALL.iter().filter(|cipher| cipher.is_aead()).map(|cipher| cipher.name).collect()
}

fn kex() -> Vec<&'static str> {
    KexAlgorithm::ALL.iter().map(|kex| kex.name()).collect()
}

fn macs() -> Vec<&'static str> {
    Mac::ALL.iter().map(|mac| mac.name).collect()
}

fn keys() -> Vec<&'static str> {
    vec!["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"]
}

fn plain_signatures() -> Vec<&'static str> {
    signatures().into_iter().filter(|name| *name != "ssh-rsa").collect()
}

fn signatures() -> Vec<&'static str> {
    let mut all = keys();
    all.extend(["rsa-sha2-256", "rsa-sha2-512"]);
    all
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
}
