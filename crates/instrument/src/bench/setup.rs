//! The ways to set up a session that are compared.

use std::path::Path;

use lh_client::{Options, SystemEnvironment};
use lh_crypto::PublicKey;

use super::offer::Offer;

/// A way to set up a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) kind: Kind,
    /// Name of its row.
    pub(super) name: String,
    pub(super) keywords: Vec<(&'static str, String)>,
}

/// Algorithms that a set-up measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    KeyExchange,
    HostKey,
    UserKey,
}

impl Kind {
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
/// that both ends have.
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
];
const HOST_KEYS: &[&str] =
    &["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512"];

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
        let known = [name, older].into_iter().find(|name| !name.is_empty() && offer.has_kex(name))?;
        let keywords = vec![("KexAlgorithms", known.to_owned())];
        Some(Setup { kind: Kind::KeyExchange, name: known.to_owned(), keywords })
    });
    let mut all: Vec<Setup> = kex.take(if quick { 2 } else { KEX.len() }).collect();
    if quick {
        return all;
    }
    all.extend(HOST_KEYS.iter().filter(|name| offer.has_host_key(name)).map(|name| Setup {
        kind: Kind::HostKey,
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
            kind: Kind::UserKey,
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
    fn methods_of_both_ends_are_tried_by_the_name_that_the_server_knows() {
        let offer = Offer::new(
            &["sntrup761x25519-sha512@openssh.com", "curve25519-sha256", "diffie-hellman-group14-sha256"],
            &["rsa-sha2-512", "ssh-ed25519"],
        );
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
        // A server that does not tell is tried with all.
        assert_eq!(names(&Offer::default(), false).len(), KEX.len() + HOST_KEYS.len());
    }
}
