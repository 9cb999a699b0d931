//! What is offered to the server, from the configuration's lists.

use lh_config::algorithms::AlgorithmList;
use lh_config::client_table::ClientSettings;
use lh_transport::Algorithms;

use crate::error::ClientError;

/// Signature algorithms users' keys may make when `PubkeyAcceptedAlgorithms` says nothing.
pub(crate) const KEY_DEFAULT: &[&str] = &[
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// Names that exist here but are offered only on request.
pub(crate) const KEY_ON_REQUEST: &[&str] = &["ssh-rsa"];

/// The lists for KEXINIT. `known_types` are the types of the keys known_hosts has for the host: where the
/// configuration leaves the order to us, their algorithms come first, so that the server shows a key that can be checked.
///
/// # Errors
/// [`ClientError::Config`] when a list names nothing that exists here.
pub(crate) fn offered(settings: &ClientSettings, known_types: &[String]) -> Result<Algorithms, ClientError> {
    let default = Algorithms::client_default();
    let kex = list("KexAlgorithms", &settings.kex_algorithms, &default.kex, &|name| {
        lh_crypto::KexAlgorithm::by_name(name).is_some()
    })?;
    let mut host_key =
        list("HostKeyAlgorithms", &settings.host_key_algorithms, &default.host_key, &known_key)?;
    // An order the user wrote down is kept; `+` and `-` only edit ours.
    let ordered_by_user =
        settings.host_key_algorithms.0.as_deref().is_some_and(|text| !text.starts_with(['+', '-']));
    if !ordered_by_user {
        host_key.sort_by_key(|name| !known_types.iter().any(|known| *known == key_type_of(name)));
    }
    let cipher = list("Ciphers", &settings.ciphers, &default.cipher_c2s, &|name| {
        lh_crypto::Cipher::by_name(name).is_some()
    })?;
    let mac =
        list("MACs", &settings.macs, &default.mac_c2s, &|name| lh_crypto::Mac::by_name(name).is_some())?;
    let mut compression = default.compression_c2s;
    if *settings.compression {
        // Wanted first, but a server without it is still good enough.
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

/// Signature algorithms that users' keys may make.
///
/// # Errors
/// [`ClientError::Config`] when the list names nothing that exists here.
pub(crate) fn user_keys(settings: &ClientSettings) -> Result<Vec<String>, ClientError> {
    list("PubkeyAcceptedAlgorithms", &settings.pubkey_accepted_algorithms, KEY_DEFAULT, &known_key)
}

/// True for signature algorithms this build can check and make.
pub(crate) fn known_key(name: &str) -> bool {
    KEY_DEFAULT.contains(&name) || KEY_ON_REQUEST.contains(&name)
}

/// The key type behind a signature algorithm, as known_hosts lists it.
pub(crate) fn key_type_of(algorithm: &str) -> &str {
    match algorithm {
        "rsa-sha2-512" | "rsa-sha2-256" => "ssh-rsa",
        other => other,
    }
}

/// Applies a configured list to its default. Names that OpenSSH knows and this build does not are left out
/// quietly: a configuration made for both must work with both.
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
