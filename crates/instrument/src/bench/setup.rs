//! The ways to set up a session that are compared.

use std::path::Path;

use lh_client::{Options, SystemEnvironment};
use lh_crypto::registry::Kind;
use lh_crypto::{KexAlgorithm, PublicKey};

use super::offer::Offer;

/// A way to set up a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) kind: SetupKind,
    /// Name of its row.
    pub(super) name: String,
    pub(super) keywords: Vec<(&'static str, String)>,
}

/// Algorithms that a set-up measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetupKind {
    KeyExchange,
    HostKey,
    UserKey,
}

impl SetupKind {
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::KeyExchange => "session set-up by key exchange",
            Self::HostKey => "session set-up by host key",
            Self::UserKey => "session set-up by user key",
        }
    }

    /// Returns whether other clients are asked for these algorithms by name, too.
    pub(super) const fn is_for_peers(self) -> bool {
        !matches!(self, Self::UserKey)
    }
}

/// Key exchange methods, each with another name that older peers know it by. A quick run takes the first two
/// that both ends have. Methods that our clients do not offer by default are tried where the server surely
/// permits them.
const KEX: &[(&str, &str)] = &[
    ("mlkem768x25519-sha256", ""),
    ("curve25519-sha256", "curve25519-sha256@libssh.org"),
    ("sntrup761x25519-sha512", "sntrup761x25519-sha512@openssh.com"),
    ("ecdh-sha2-nistp256", ""),
    ("ecdh-sha2-nistp384", ""),
    ("ecdh-sha2-nistp521", ""),
    ("diffie-hellman-group-exchange-sha256", ""),
    ("diffie-hellman-group14-sha256", ""),
    ("diffie-hellman-group16-sha512", ""),
    ("diffie-hellman-group18-sha512", ""),
    ("diffie-hellman-group-exchange-sha1", ""),
    ("diffie-hellman-group14-sha1", ""),
    ("diffie-hellman-group1-sha1", ""),
];
/// An algorithm for each type of host keys.
const HOST_KEYS: &[&str] = &[
    "ssh-ed25519",
    "ssh-mldsa44-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
];

/// The set-ups of a run: everything that both ends have.
pub(super) fn setups(options: &Options, offer: &Offer, quick: bool) -> Vec<Setup> {
    let mut all = of_algorithms(offer, quick);
    if !quick {
        all.extend(of_user_keys(options));
    }
    all
}

fn of_algorithms(offer: &Offer, quick: bool) -> Vec<Setup> {
    let kex = KEX.iter().filter_map(|&(name, older)| {
        let is_permitted = |name: &&str| {
            KexAlgorithm::by_name(name).is_some_and(|method| match method.listing().is_default() {
                true => offer.kex.may_have(name),
                false => offer.kex.surely_has(name),
            })
        };
        let known = [name, older].into_iter().find(is_permitted)?;
        let keywords = vec![("KexAlgorithms", known.to_owned())];
        Some(Setup { kind: SetupKind::KeyExchange, name: known.to_owned(), keywords })
    });
    let mut all: Vec<Setup> = kex.take(if quick { 2 } else { KEX.len() }).collect();
    if quick {
        return all;
    }
    let is_ours = |name: &&&str| Kind::Key.names().contains(*name);
    let host_keys = HOST_KEYS.iter().filter(is_ours).filter(|name| offer.host_keys.may_have(name));
    all.extend(host_keys.map(|name| Setup {
        kind: SetupKind::HostKey,
        name: (*name).to_owned(),
        // A key of a type that is not known yet is not a question to ask now.
        keywords: vec![
            ("HostKeyAlgorithms", (*name).to_owned()),
            ("StrictHostKeyChecking", "yes".to_owned()),
            ("UpdateHostKeys", "no".to_owned()),
        ],
    }));
    all
}

/// The configured keys that exist.
fn of_user_keys(options: &Options) -> Vec<Setup> {
    let files = options.config.identity_files(&SystemEnvironment).unwrap_or_default();
    let setup = |path: &Path| {
        Some(Setup {
            kind: SetupKind::UserKey,
            name: user_key(path)?,
            keywords: vec![
                ("IdentityFile", path.display().to_string()),
                ("IdentitiesOnly", "yes".to_owned()),
                ("PreferredAuthentications", "publickey".to_owned()),
            ],
        })
    };
    files.iter().filter_map(|file| setup(&file.path)).collect()
}

/// Type of a key that exists, from its public file, with the file's name.
fn user_key(path: &Path) -> Option<String> {
    if !path.exists() {
        return None;
    }
    let mut public = path.as_os_str().to_owned();
    public.push(".pub");
    let text = std::fs::read_to_string(public).unwrap_or_default();
    let kind = text.split_whitespace().next().unwrap_or("key");
    let key = PublicKey::from_openssh_line(text.trim()).map(|(key, _)| key);
    Some(format!("{} ({})", with_bits(kind, key.as_ref()), path.file_name()?.to_string_lossy()))
}

/// The name of an algorithm, with the size of the key where the algorithm allows several.
pub(super) fn with_bits(name: &str, key: Option<&PublicKey>) -> String {
    match key {
        Some(key) if name.contains("rsa") => format!("{name}, {} bits", key.bits()),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use lh_crypto::registry::KEYS;

    use super::super::offer::Offered;
    use super::*;

    /// A key of 2048 bits, whose numbers are of no use.
    fn rsa_line() -> String {
        let field = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
        let mut modulus = vec![0, 0xc1];
        modulus.resize(257, 0x5b);
        let blob = [field(b"ssh-rsa"), field(&[1, 0, 1]), field(&modulus)].concat();
        PublicKey::from_blob(&blob).unwrap().to_openssh_line("a comment")
    }

    #[test]
    fn keys_of_several_sizes_have_their_size_in_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("id_rsa");
        assert_eq!(user_key(&file), None);
        std::fs::write(&file, "").unwrap();
        assert_eq!(user_key(&file).as_deref(), Some("key (id_rsa)"));
        std::fs::write(directory.path().join("id_rsa.pub"), rsa_line()).unwrap();
        assert_eq!(user_key(&file).as_deref(), Some("ssh-rsa, 2048 bits (id_rsa)"));
        assert_eq!(with_bits("ssh-ed25519", None), "ssh-ed25519");
    }

    #[test]
    fn key_exchanges_are_tried_by_the_server_s_names() {
        let kex =
            ["sntrup761x25519-sha512@openssh.com", "curve25519-sha256", "diffie-hellman-group14-sha256"];
        let offer = Offer {
            kex: Offered::all(&kex),
            host_keys: Offered::all(&["rsa-sha2-512", "ssh-ed25519"]),
            ..Offer::default()
        };
        let names = |offer: &Offer, quick| -> Vec<String> {
            of_algorithms(offer, quick).into_iter().map(|setup| setup.name).collect()
        };
        let expected = [
            "curve25519-sha256",
            "sntrup761x25519-sha512@openssh.com",
            "diffie-hellman-group14-sha256",
            "ssh-ed25519",
            "rsa-sha2-512",
        ];
        assert_eq!(names(&offer, false), expected);
        assert_eq!(names(&offer, true), expected[..2]);
        // A server that does not tell is tried with what our clients offer by default.
        let names = names(&Offer::default(), false);
        let has = |name: &str| names.iter().any(|each| each == name);
        assert!(has("ssh-mldsa44-ed25519") && has("diffie-hellman-group18-sha512"), "{names:?}");
        assert!(!has("diffie-hellman-group1-sha1"), "{names:?}");
    }

    #[test]
    fn each_method_and_type_of_the_registry_has_a_row() {
        let methods: Vec<&str> = KEX.iter().flat_map(|(name, older)| [*name, *older]).collect();
        for method in Kind::Kex.names() {
            assert!(methods.contains(&method), "{method}");
        }
        let type_of = |name: &str| KEYS.iter().find(|row| row.name == name).map(|row| row.key_type);
        let types: Vec<&str> = HOST_KEYS.iter().filter_map(|name| type_of(name)).collect();
        // Servers have no keys in tokens.
        for row in KEYS.iter().filter(|row| !row.key_type.starts_with("sk-")) {
            assert!(types.contains(&row.key_type), "{}", row.key_type);
        }
        let permitted = of_algorithms(
            &Offer { kex: Offered::all(&["diffie-hellman-group1-sha1"]), ..Offer::default() },
            false,
        );
        assert_eq!(permitted[0].name, "diffie-hellman-group1-sha1");
    }
}
