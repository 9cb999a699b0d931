//! Facts about this host that reading a configuration needs.

use std::path::PathBuf;

use lh_config::Environment;
use lh_config::algorithms::AlgorithmKind;
use lh_config::pattern::{ListMatch, match_list};
use lh_crypto::registry::Kind;
use lh_crypto::{Hash, key_algorithms};
use lh_transport::Algorithms;

/// This host, as an [`Environment`] for the configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

/// Returns the default of an algorithm keyword of `sshd_config`, for dumps.
pub fn default_algorithms(keyword: &str) -> Vec<String> {
    let default = Algorithms::server_default();
    match keyword {
        "Ciphers" => default.cipher_c2s,
        "MACs" => default.mac_c2s,
        "KexAlgorithms" => default.kex,
        "HostKeyAlgorithms" => crate::session::names::host_key_algorithms(),
        "CASignatureAlgorithms" => key_algorithms::AUTHORITY.map(str::to_owned).to_vec(),
        _ => key_algorithms::DEFAULT.map(str::to_owned).to_vec(),
    }
}

impl Environment for Host {
    fn sha1(&self, data: &[u8]) -> [u8; 20] {
        Hash::Sha1.digest(&[data]).as_ref().try_into().unwrap_or([0; 20])
    }

    fn home_of(&self, user: &str) -> Option<PathBuf> {
        crate::account::look_up(user).map(|user| user.home)
    }

    fn own_home(&self) -> Option<PathBuf> {
        lh_sys::users::by_uid(rustix::process::getuid().as_raw()).ok().flatten().map(|user| user.home)
    }

    fn knows_algorithm(&self, kind: AlgorithmKind, name: &str, pattern: bool) -> bool {
        let is = |known: &&str| if pattern { fits(known, name) } else { *known == name };
        let kind = registered(kind);
        // OpenSSH configurations also name algorithms that cannot be used here.
        kind.usable().iter().chain(kind.foreign()).any(is)
    }

    fn matching_algorithms(&self, kind: AlgorithmKind, pattern: &str) -> Vec<&'static str> {
        registered(kind).usable().into_iter().filter(|name| fits(name, pattern)).collect()
    }
}

fn fits(name: &str, pattern: &str) -> bool {
    match_list(name, pattern, false) == ListMatch::Yes
}

/// Returns the registry's kind for a keyword's type of algorithms.
const fn registered(kind: AlgorithmKind) -> Kind {
    match kind {
        AlgorithmKind::Key => Kind::Key,
        AlgorithmKind::Kex => Kind::Kex,
        AlgorithmKind::Cipher => Kind::Cipher,
        AlgorithmKind::Mac => Kind::Mac,
    }
}
