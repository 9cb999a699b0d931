//! Configuration of a [`Transport`](crate::Transport).

use std::time::Duration;

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Client,
    /// The side that accepted.
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

/// Key exchange methods of OpenSSH 10.5's client, in its order.
const KEX_CLIENT: &[&str] = &[
    "mlkem768x25519-sha256",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group14-sha256",
];

/// Number of methods that OpenSSH's server offers. It omits the finite-field groups: they cost the server
/// much CPU time and the client none.
const KEX_SERVER_COUNT: usize = 8;

/// Signature algorithms of host and user keys, best first.
const HOST_KEY: &[&str] = &[
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// HPN-SSH's name for chacha20-poly1305@openssh.com (the same bytes), for HPN-SSH peers that offer no other
/// cipher. Listed last, because no peer needs to prefer it.
const CHACHA_HPN: &str = "chacha20-poly1305-mt@hpnssh.org";

const CIPHER: &[&str] = &[
    "chacha20-poly1305@openssh.com",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    CHACHA_HPN,
];

const CIPHER_AES_FIRST: &[&str] = &[
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    CHACHA_HPN,
];

const MAC: &[&str] = &[
    "umac-64-etm@openssh.com",
    "umac-128-etm@openssh.com",
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "umac-64@openssh.com",
    "umac-128@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
];

const COMPRESSION: &[&str] = &["none", "zlib@openssh.com"];

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Algorithms {
    fn with(kex: &[&str], cipher: &[&str]) -> Self {
        Self {
            kex: owned(kex),
            host_key: owned(HOST_KEY),
            cipher_c2s: owned(cipher),
            cipher_s2c: owned(cipher),
            mac_c2s: owned(MAC),
            mac_s2c: owned(MAC),
            compression_c2s: owned(COMPRESSION),
            compression_s2c: owned(COMPRESSION),
        }
    }

    /// Returns our client's default offer. The client's order decides, so AES-GCM comes first when the CPU
    /// has instructions for AES and carry-less multiplication: it is then several times cheaper than
    /// ChaCha20-Poly1305.
    pub fn client_default() -> Self {
        Self::with(KEX_CLIENT, if cpu_has_aes() { CIPHER_AES_FIRST } else { CIPHER })
    }

    /// Returns our server's default offer, in OpenSSH 10.5's order.
    pub fn server_default() -> Self {
        Self::with(KEX_CLIENT.get(..KEX_SERVER_COUNT).unwrap_or(KEX_CLIENT), CIPHER)
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
            server_sig_algs: owned(HOST_KEY),
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
