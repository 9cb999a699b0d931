//! What reading a configuration needs from this host.

use std::path::PathBuf;

use lh_config::Environment;
use lh_config::algorithms::AlgorithmKind;
use lh_config::pattern::{ListMatch, match_list};
use lh_crypto::{Cipher, Hash, KexAlgorithm, Mac, key_algorithms};
use lh_transport::Algorithms;

/// This host, as [`Environment`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

/// What an algorithm keyword of `sshd_config` means when nobody sets it, for dumps.
pub fn default_algorithms(keyword: &str) -> Vec<String> {
    let default = Algorithms::server_default();
    match keyword {
        "Ciphers" => default.cipher_c2s,
        "MACs" => default.mac_c2s,
        "KexAlgorithms" => default.kex,
        "HostKeyAlgorithms" => crate::session::names::host_key_algorithms(),
        "CASignatureAlgorithms" => key_algorithms::PLAIN.map(str::to_owned).to_vec(),
        _ => key_algorithms::DEFAULT.map(str::to_owned).to_vec(),
    }
}

/// A name that OpenSSH's configurations may hold and that is left out when algorithms are negotiated.
const FOREIGN_KEX: [&str; 1] = ["mlkem768nistp256-sha256"];

impl Environment for Host {
    /// `sshd_config` has no `Match exec`.
    fn run(&self, _command: &str) -> bool {
        false
    }

    fn sha1(&self, data: &[u8]) -> [u8; 20] {
        Hash::Sha1.digest(&[data]).as_ref().try_into().unwrap_or([0; 20])
    }

    fn home_of(&self, user: &str) -> Option<PathBuf> {
        crate::account::look_up(user).map(|user| user.home)
    }

    fn knows_algorithm(&self, kind: AlgorithmKind, name: &str, pattern: bool) -> bool {
        let is = |known: &&str| if pattern { fits(known, name) } else { *known == name };
        // Stock configurations name what cannot be used here, too.
        let foreign: &[&str] = match kind {
            AlgorithmKind::Key => &key_algorithms::FOREIGN,
            AlgorithmKind::Kex => &FOREIGN_KEX,
            _ => &[],
        };
        usable(kind).iter().chain(foreign).any(is)
    }

    fn matching_algorithms(&self, kind: AlgorithmKind, pattern: &str) -> Vec<&'static str> {
        usable(kind).into_iter().filter(|name| fits(name, pattern)).collect()
    }
}

fn fits(name: &str, pattern: &str) -> bool {
    match_list(name, pattern, false) == ListMatch::Yes
}

/// The names of everything that can be used.
fn usable(kind: AlgorithmKind) -> Vec<&'static str> {
    match kind {
        AlgorithmKind::Key => key_algorithms::ALL.to_vec(),
        AlgorithmKind::Kex => KexAlgorithm::ALL.iter().map(|kex| kex.name()).collect(),
        AlgorithmKind::Cipher => Cipher::ALL.iter().map(|cipher| cipher.name).collect(),
        AlgorithmKind::Mac => Mac::ALL.iter().map(|mac| mac.name).collect(),
    }
}
