//! Configuration of a [`Transport`](crate::Transport).

use std::time::Duration;

use lh_crypto::registry::{End, Kind};
use lh_crypto::{Cipher, key_algorithms};

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Client,
    /// The side that accepted the connection.
    Server,
}

/// The name-lists of KEXINIT (RFC 4253 section 7.1), best first. They do not contain the markers
/// (`ext-info-c`, `kex-strict-c-v00@openssh.com`, …), which the transport adds itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Algorithms {
    /// Key exchange methods.
    pub kex: Vec<String>,
    /// Signature algorithms of host keys. A server offers only those that one of its keys supports.
    pub host_key: Vec<String>,
    /// Ciphers from client to server.
    pub cipher_c2s: Vec<String>,
    /// Ciphers from server to client.
    pub cipher_s2c: Vec<String>,
    /// MACs from client to server. Ignored when the cipher authenticates.
    pub mac_c2s: Vec<String>,
    /// MACs from server to client. Ignored when the cipher authenticates.
    pub mac_s2c: Vec<String>,
    /// Compression from client to server: `none`, `zlib@openssh.com`, `zlib`.
    pub compression_c2s: Vec<String>,
    /// Compression from server to client.
    pub compression_s2c: Vec<String>,
}

/// Returns the signature algorithms of plain keys that servers have, best first.
fn plain_keys() -> Vec<String> {
    let names = Kind::Key.defaults(End::Server).into_iter();
    names.filter(|name| !key_algorithms::is_certificate(name)).map(str::to_owned).collect()
}

impl Algorithms {
    fn defaults(end: End) -> Self {
        let list = |kind: Kind| -> Vec<String> {
            kind.defaults(end).iter().map(|name| (*name).to_owned()).collect()
        };
        let (cipher, mac, compression) = (list(Kind::Cipher), list(Kind::Mac), list(Kind::Compression));
        Self {
            kex: list(Kind::Kex),
            host_key: plain_keys(),
            cipher_c2s: cipher.clone(),
            cipher_s2c: cipher,
            mac_c2s: mac.clone(),
            mac_s2c: mac,
            compression_c2s: compression.clone(),
            compression_s2c: compression,
        }
    }

    /// Returns our client's default offer: that of OpenSSH 10.5's client, in its order. The client's order
    /// decides, so AES-GCM comes first when the CPU has instructions for AES and carry-less multiplication:
    /// it is then several times cheaper than ChaCha20-Poly1305.
    pub fn client_default() -> Self {
        let mut algorithms = Self::defaults(End::Client);
        if cpu_has_aes() {
            for list in [&mut algorithms.cipher_c2s, &mut algorithms.cipher_s2c] {
                list.sort_by_key(|name| !Cipher::by_name(name).is_some_and(Cipher::is_aes_gcm));
            }
        }
        algorithms
    }

    /// Returns our server's default offer, in OpenSSH 10.5's order.
    pub fn server_default() -> Self {
        Self::defaults(End::Server)
    }
}

/// Returns true when the CPU has the instructions that AES-GCM needs to be fast.
pub fn cpu_has_aes() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    false
}

/// Whether ciphers that do not encrypt may be negotiated (HPN-SSH's `NoneEnabled`, `NoneSwitch` and
/// `NoneMacEnabled`).
///
/// The setting applies only to key exchanges that begin after authentication. Before it, none of these names
/// is offered or accepted, regardless of this setting and of the peer. It then holds for every later
/// exchange, so that a rekey changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unencrypted {
    /// Only ciphers that encrypt.
    #[default]
    Refused,
    /// Server: accept unencrypted ciphers that the client asks for; they rank after all ciphers that encrypt.
    Allowed {
        /// Allow `none` as the MAC too.
        without_mac: bool,
    },
    /// Client: offer only unencrypted ciphers. Integrity without encryption is preferred if the peer supports
    /// it, else `none` with one of the MACs of [`Algorithms`].
    Wanted {
        /// Ask for `none` as both cipher and MAC.
        without_mac: bool,
    },
}

/// When to renew the keys (`RekeyLimit`). The cipher's own limit always applies as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RekeyLimit {
    /// Bytes in one direction under one key, at most.
    pub bytes: Option<u64>,
    /// Time since the last key exchange.
    pub interval: Option<Duration>,
}

/// A host key with which the server can sign. The private key stays with the caller, which answers
/// [`Event::SignExchangeHash`](crate::Event::SignExchangeHash).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKey {
    /// Signature algorithms of this key, best first (`rsa-sha2-512`, `rsa-sha2-256` for an RSA key).
    pub algorithms: Vec<String>,
    /// The public key (or certificate) blob sent to the client.
    pub blob: Vec<u8>,
}

/// Configuration of a [`Transport`](crate::Transport).
#[derive(Debug, Clone)]
pub struct Config {
    /// Client or server.
    pub role: Role,
    /// Software version in our identification, such as `Longhaul_0.1`. Hyphens, spaces and unprintable
    /// characters are replaced by `_` (RFC 4253 section 4.2).
    pub software: String,
    /// Comment after the software version, separated by a space (`VersionAddendum`); empty for none.
    /// Unprintable characters are replaced by `_`.
    pub comments: String,
    /// The algorithms that we offer.
    pub algorithms: Algorithms,
    /// When to renew keys.
    pub rekey: RekeyLimit,
    /// The server's host keys, in order of preference. Empty for a client.
    pub host_keys: Vec<HostKey>,
    /// Text of a moduli(5) file for `diffie-hellman-group-exchange-*` on a server.
    pub moduli: Option<String>,
    /// Content of the server's `server-sig-algs` (RFC 8308): signature algorithms accepted from users' keys.
    pub server_sig_algs: Vec<String>,
    /// Extensions to announce in EXT_INFO in addition to the transport's own (such as `agent-forward`).
    pub extensions: Vec<(String, Vec<u8>)>,
    /// Offer Longhaul's own cipher that authenticates without encrypting, if [`Unencrypted`] permits
    /// unencrypted ciphers. When false, this end behaves like HPN-SSH.
    pub integrity_only: bool,
    /// Longest `packet_length` accepted from the peer, bytes. OpenSSH's limit is 256 KiB.
    pub max_packet: u32,
}

/// OpenSSH's limit for `packet_length`, bytes. RFC 4253 section 6.1 requires at least 35,000.
pub const DEFAULT_MAX_PACKET: u32 = 256 * 1024;

impl Config {
    /// Returns a client configuration with default algorithms.
    pub fn client() -> Self {
        Self {
            role: Role::Client,
            software: concat!("Longhaul_", env!("CARGO_PKG_VERSION")).to_owned(),
            comments: String::new(),
            algorithms: Algorithms::client_default(),
            rekey: RekeyLimit::default(),
            host_keys: Vec::new(),
            moduli: None,
            server_sig_algs: plain_keys(),
            extensions: Vec::new(),
            integrity_only: true,
            max_packet: DEFAULT_MAX_PACKET,
        }
    }

    /// Returns a server configuration with default algorithms and these host keys.
    pub fn server(host_keys: Vec<HostKey>) -> Self {
        Self { role: Role::Server, algorithms: Algorithms::server_default(), host_keys, ..Self::client() }
    }
}
