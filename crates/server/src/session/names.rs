//! Names in log lines, and the algorithm lists of a configuration.

use lh_config::enums::ServerCompression;
use lh_config::server_table::ServerSettings;
use lh_crypto::registry::{End, Kind};
use lh_crypto::{Cipher, KexAlgorithm, Mac, key_algorithms};
use lh_transport::Algorithms;

/// Returns the software part of an identification line: `OpenSSH_9.2p1` of `SSH-2.0-OpenSSH_9.2p1 Debian-2`.
pub(super) fn software(line: &str) -> &str {
    line.splitn(3, '-').nth(2).unwrap_or(line)
}

/// Returns signature algorithms of host keys, in order of preference; those of certificates first.
pub(crate) fn host_key_algorithms() -> Vec<String> {
    Kind::Key.defaults(End::Server).into_iter().map(str::to_owned).collect()
}

/// Returns the offered algorithms: our defaults with the configuration's changes, without those that are not
/// built in (an OpenSSH configuration may name algorithms that we lack).
pub(super) fn algorithms(settings: &ServerSettings) -> Algorithms {
    let default = Algorithms::server_default();
    let kex = settings.kex_algorithms.apply(&default.kex);
    let ciphers = settings.ciphers.apply(&default.cipher_c2s);
    let macs = settings.macs.apply(&default.mac_c2s);
    let host_key = settings.host_key_algorithms.apply(&host_key_algorithms());
    let known = |names: Vec<String>, known: &dyn Fn(&str) -> bool| -> Vec<String> {
        names.into_iter().filter(|name| known(name)).collect()
    };
    let ciphers = known(ciphers, &|name| Cipher::by_name(name).is_some());
    let macs = known(macs, &|name| Mac::by_name(name).is_some());
    let compression = match settings.compression.value {
        ServerCompression::Delayed => default.compression_c2s,
        ServerCompression::No => vec!["none".to_owned()],
    };
    Algorithms {
        kex: known(kex, &|name| KexAlgorithm::by_name(name).is_some()),
        host_key,
        cipher_c2s: ciphers.clone(),
        cipher_s2c: ciphers,
        mac_c2s: macs.clone(),
        mac_s2c: macs,
        compression_c2s: compression.clone(),
        compression_s2c: compression,
    }
}

/// Returns the signature algorithms for `server-sig-algs` (RFC 8308). Where only certificate algorithms are
/// accepted, these are the algorithms that the certified keys sign with.
pub(crate) fn user_key_algorithms(settings: &ServerSettings) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in settings.pubkey_accepted_algorithms.apply(&key_algorithms::DEFAULT) {
        let plain = key_algorithms::plain(&name).into_owned();
        if !names.contains(&plain) {
            names.push(plain);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_edit_the_defaults() {
        let plain = algorithms(&crate::testing::settings(""));
        assert_eq!(plain, Algorithms { host_key: host_key_algorithms(), ..Algorithms::server_default() });
        let edited = crate::testing::settings(
            "Ciphers aes256-ctr,aes128-gcm@openssh.com\nMACs umac-64@openssh.com,hmac-md5\n\
             KexAlgorithms -mlkem*,sntrup*\nCompression no\nHostKeyAlgorithms +ssh-rsa\n",
        );
        let edited = algorithms(&edited);
        assert_eq!(edited.cipher_s2c, ["aes256-ctr", "aes128-gcm@openssh.com"]);
        assert_eq!(edited.mac_c2s, ["umac-64@openssh.com", "hmac-md5"]);
        assert_eq!(edited.kex.first().map(String::as_str), Some("curve25519-sha256"));
        assert_eq!(edited.compression_c2s, ["none"]);
        assert_eq!(edited.host_key.last().map(String::as_str), Some("ssh-rsa"));
        assert_eq!(software("SSH-2.0-OpenSSH_9.2p1 Debian-2"), "OpenSSH_9.2p1 Debian-2");
    }

    #[test]
    fn certificates_alone_announce_what_their_keys_sign_with() {
        let settings = crate::testing::settings(
            "PubkeyAcceptedAlgorithms ssh-ed25519-cert-v01@openssh.com,rsa-sha2-512-cert-v01@openssh.com,\
             sk-ssh-ed25519-cert-v01@openssh.com,ssh-ed25519\n",
        );
        let names = user_key_algorithms(&settings);
        assert_eq!(names, ["ssh-ed25519", "rsa-sha2-512", "sk-ssh-ed25519@openssh.com"]);
    }
}
