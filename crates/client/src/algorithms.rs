//! The algorithms that are offered to the server, from the configuration's lists.

use lh_config::algorithms::{AlgorithmKind, AlgorithmList};
use lh_config::client_table::ClientSettings;
use lh_crypto::key_algorithms;
use lh_crypto::registry::Kind;
use lh_transport::Algorithms;

use crate::error::ClientError;

/// Returns the lists for KEXINIT. `known_types` are the types of the host's keys in known_hosts. Unless the
/// user has set the order, their algorithms come first, so that the server presents a key that can be
/// checked.
///
/// # Errors
/// [`ClientError::Config`] when no name in a list is supported.
pub(crate) fn offered(
    settings: &ClientSettings,
    known_types: &[String],
    known_authority: bool,
) -> Result<Algorithms, ClientError> {
    let default = Algorithms::client_default();
    let kex = list("KexAlgorithms", &settings.kex_algorithms, &default.kex, &|name| {
        lh_crypto::KexAlgorithm::by_name(name).is_some()
    })?;
    let mut host_key =
        list("HostKeyAlgorithms", &settings.host_key_algorithms, &key_algorithms::DEFAULT, &known_key)?;
    if !ordered_by_user(settings) {
        // A certificate helps only where a certificate authority is known; there it ranks with the known
        // plain keys.
        host_key.sort_by_key(|name| {
            let certified = known_authority && key_algorithms::is_certificate(name);
            !certified && !known_types.iter().any(|known| *known == key_type_of(name))
        });
    }
    let cipher = list("Ciphers", &settings.ciphers, &default.cipher_c2s, &|name| {
        lh_crypto::Cipher::by_name(name).is_some()
    })?;
    let mac =
        list("MACs", &settings.macs, &default.mac_c2s, &|name| lh_crypto::Mac::by_name(name).is_some())?;
    let mut compression = default.compression_c2s;
    if *settings.compression {
        // Preferred, but a server without compression is still accepted. Old equipment only knows `zlib`,
        // which begins before authentication.
        compression = Kind::Compression.usable().into_iter().map(str::to_owned).collect();
        compression.sort_by_key(|name| name == "none");
    }
    Ok(Algorithms {
        kex,
        host_key,
        cipher_c2s: cipher.clone(),
        cipher_s2c: cipher,
        mac_c2s: mac.clone(),
        mac_s2c: mac,
        compression_c2s: compression.clone(),
        compression_s2c: compression,
    })
}

/// Returns true if the user fixed the order of host key algorithms, which is kept; `+` and `-` only edit the
/// default.
pub(crate) fn ordered_by_user(settings: &ClientSettings) -> bool {
    settings.host_key_algorithms.0.as_deref().is_some_and(|text| !text.starts_with(['+', '-']))
}

/// Returns the signature algorithms accepted for users' keys.
///
/// # Errors
/// [`ClientError::Config`] when no name in the list is supported.
pub(crate) fn user_keys(settings: &ClientSettings) -> Result<Vec<String>, ClientError> {
    list(
        "PubkeyAcceptedAlgorithms",
        &settings.pubkey_accepted_algorithms,
        &key_algorithms::DEFAULT,
        &known_key,
    )
}

/// Returns the signature algorithms accepted for this host's own keys.
///
/// # Errors
/// [`ClientError::Config`] when no name in the list is supported.
pub(crate) fn host_based(settings: &ClientSettings) -> Result<Vec<String>, ClientError> {
    list(
        "HostbasedAcceptedAlgorithms",
        &settings.hostbased_accepted_algorithms,
        &key_algorithms::DEFAULT,
        &known_key,
    )
}

/// True for signature algorithms of users' keys that this build knows.
pub(crate) fn known_key(name: &str) -> bool {
    key_algorithms::ALL.contains(&name)
}

/// Returns the signature algorithms accepted from certificate authorities.
///
/// # Errors
/// [`ClientError::Config`] when no name in the list is supported.
pub(crate) fn authorities(settings: &ClientSettings) -> Result<Vec<String>, ClientError> {
    list("CASignatureAlgorithms", &settings.ca_signature_algorithms, &key_algorithms::AUTHORITY, &known_key)
}

/// Returns the key type of a signature algorithm, as known_hosts spells it; for a certificate, the type of
/// its plain key.
pub(crate) fn key_type_of(algorithm: &str) -> String {
    let plain = key_algorithms::plain(algorithm);
    if plain.starts_with("rsa-sha2-") { "ssh-rsa".to_owned() } else { plain.into_owned() }
}

/// Returns the default list of an algorithm keyword, for `-G`; an empty list for every other keyword.
pub fn default_algorithms(keyword: &str) -> Vec<String> {
    let all = Algorithms::client_default();
    let owned = |name: &&str| (*name).to_owned();
    match keyword {
        "Ciphers" => all.cipher_c2s,
        "MACs" => all.mac_c2s,
        "KexAlgorithms" => all.kex,
        "HostKeyAlgorithms" | "PubkeyAcceptedAlgorithms" | "HostbasedAcceptedAlgorithms" => {
            key_algorithms::DEFAULT.iter().map(owned).collect()
        }
        "CASignatureAlgorithms" => key_algorithms::AUTHORITY.iter().map(owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the registry's kind for a keyword's type of algorithms.
const fn registered(kind: AlgorithmKind) -> Kind {
    match kind {
        AlgorithmKind::Cipher => Kind::Cipher,
        AlgorithmKind::Mac => Kind::Mac,
        AlgorithmKind::Kex => Kind::Kex,
        AlgorithmKind::Key => Kind::Key,
    }
}

/// Returns the supported algorithms that match a pattern.
pub(crate) fn matching(kind: AlgorithmKind, pattern: &str) -> Vec<&'static str> {
    let fits = |name: &&str| lh_config::pattern::wildcard(name.as_bytes(), pattern.as_bytes());
    registered(kind).usable().into_iter().filter(fits).collect()
}

/// Returns true if a configuration may name this algorithm (with `pattern`: if the pattern matches one).
pub(crate) fn exists(kind: AlgorithmKind, name: &str, pattern: bool) -> bool {
    let kind = registered(kind);
    // A configuration file shared with OpenSSH may name algorithms that this build lacks; they are not
    // offered.
    kind.usable().iter().chain(kind.foreign()).any(|known| {
        if pattern { lh_config::pattern::wildcard(known.as_bytes(), name.as_bytes()) } else { *known == name }
    })
}

/// Applies a configured list to its default. Names that OpenSSH knows and this build lacks are left out
/// silently: a configuration file for both programs must work with both.
fn list<S: AsRef<str>>(
    keyword: &str,
    configured: &AlgorithmList,
    default: &[S],
    known: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, ClientError> {
    let mut names = configured.apply(default);
    names.retain(|name| known(name));
    if names.is_empty() {
        let text = configured.0.as_deref().unwrap_or("");
        return Err(ClientError::Config(format!("{keyword} '{text}': none of these is supported")));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_only_openssh_has_are_accepted_but_not_offered() {
        assert!(exists(AlgorithmKind::Key, "webauthn-sk-ecdsa-sha2-nistp256@openssh.com", false));
        assert!(exists(AlgorithmKind::Mac, "hmac-md5-etm@openssh.com", false));
        assert!(exists(AlgorithmKind::Cipher, "aes*-cbc", true));
        assert!(!exists(AlgorithmKind::Cipher, "rot13", false));
        assert!(!exists(AlgorithmKind::Kex, "rot*", true));
        assert_eq!(
            matching(AlgorithmKind::Key, "ssh-ed25519*"),
            ["ssh-ed25519", "ssh-ed25519-cert-v01@openssh.com"]
        );
        let list = AlgorithmList(Some("mlkem768nistp256-sha256,curve25519-sha256".to_owned()));
        let default = default_algorithms("KexAlgorithms");
        let names = list_of(&list, &default);
        assert_eq!(names.ok(), Some(vec!["curve25519-sha256".to_owned()]));
        assert!(list_of(&AlgorithmList(Some("mlkem768nistp256-sha256".to_owned())), &default).is_err());
    }

    fn list_of(configured: &AlgorithmList, default: &[String]) -> Result<Vec<String>, ClientError> {
        list("KexAlgorithms", configured, default, &|name| lh_crypto::KexAlgorithm::by_name(name).is_some())
    }

    #[test]
    fn legacy_algorithms_are_in_no_default_list() {
        use lh_crypto::{Cipher, KexAlgorithm, Mac};
        for all in [Algorithms::client_default(), Algorithms::server_default()] {
            let ciphers =
                all.cipher_c2s.iter().chain(&all.cipher_s2c).filter_map(|name| Cipher::by_name(name));
            assert!(ciphers.clone().count() > 0 && !ciphers.into_iter().any(Cipher::is_legacy));
            let macs = all.mac_c2s.iter().chain(&all.mac_s2c).filter_map(|name| Mac::by_name(name));
            assert!(macs.clone().count() > 0 && !macs.into_iter().any(Mac::is_legacy));
            let mut kex = all.kex.iter().filter_map(|name| KexAlgorithm::by_name(name));
            assert!(!kex.any(KexAlgorithm::is_legacy));
            assert!(!all.host_key.iter().any(|name| name == "ssh-rsa"));
        }
        assert!(!key_algorithms::DEFAULT.iter().any(|name| name.starts_with("ssh-rsa")));
    }
}
