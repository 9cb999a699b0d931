//! KEXINIT: our offer, and the algorithms that follow from both offers (RFC 4253 section 7.1).

use lh_crypto::registry::Compression;
use lh_crypto::{Cipher, KexAlgorithm, Mac};
use lh_wire::msg::KexInit;
use lh_wire::peer::Peer;
use lh_wire::{Message, NameList, WireError, Writer};

use crate::{Algorithms, Config, Negotiated, Role, TransportError, Unencrypted};

/// Strict key exchange, announced by a client.
const STRICT_CLIENT: &str = "kex-strict-c-v00@openssh.com";
/// Strict key exchange, announced by a server.
const STRICT_SERVER: &str = "kex-strict-s-v00@openssh.com";
/// Marker of a client that accepts EXT_INFO.
const EXT_INFO_CLIENT: &str = "ext-info-c";
/// Marker of a server that accepts EXT_INFO.
const EXT_INFO_SERVER: &str = "ext-info-s";

/// Shown in place of a MAC's name, as in OpenSSH.
const IMPLICIT: &str = "<implicit>";

/// Encodes our KEXINIT. Later ones of a connection contain the marker of strict key exchange, as OpenSSH's
/// do, though it has no meaning there: sshlib (ConnectBot) takes its absence for the end of strict key
/// exchange.
/// `unencrypted`: as for [`agree`].
pub(crate) fn offer(config: &Config, cookie: [u8; 16], first: bool, unencrypted: Unencrypted) -> Vec<u8> {
    let ours = &config.algorithms;
    let markers: &[&str] = match (first, config.role) {
        (false, Role::Client) => &[STRICT_CLIENT],
        (false, Role::Server) => &[STRICT_SERVER],
        (true, Role::Client) => &[EXT_INFO_CLIENT, STRICT_CLIENT],
        (true, Role::Server) => &[EXT_INFO_SERVER, STRICT_SERVER],
    };
    let mut out = Vec::with_capacity(1024);
    out.put_u8(KexInit::NUMBER);
    out.put_bytes(&cookie);
    out.put_name_list(known_kex(ours).chain(markers.iter().copied()));
    out.put_name_list(host_keys(config));
    for list in [&ours.cipher_c2s, &ours.cipher_s2c] {
        out.put_name_list(ciphers(list, unencrypted, config.integrity_only).map(|cipher| cipher.name));
    }
    for list in [&ours.mac_c2s, &ours.mac_s2c] {
        out.put_name_list(macs(list, unencrypted).map(|mac| mac.name));
    }
    out.put_name_list(known(&ours.compression_c2s, |name| Compression::by_name(name).is_some()));
    out.put_name_list(known(&ours.compression_s2c, |name| Compression::by_name(name).is_some()));
    out.put_string(b"");
    out.put_string(b"");
    out.put_bool(false);
    out.put_u32(0);
    out
}

/// Filters a list to the names that we support: the configuration may have been written for another program.
/// This also removes markers that were copied into the list.
fn known(list: &[String], can: fn(&str) -> bool) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str).filter(move |name| can(name))
}

fn known_kex(ours: &Algorithms) -> impl Iterator<Item = &str> {
    known(&ours.kex, |name| KexAlgorithm::by_name(name).is_some())
}

/// Returns the ciphers that may be negotiated: the known ciphers of the list, which all encrypt, plus or
/// replaced by the permitted unencrypted ones.
fn ciphers(
    list: &[String],
    unencrypted: Unencrypted,
    integrity_only: bool,
) -> impl Iterator<Item = &'static Cipher> {
    let integrity = Some(Cipher::INTEGRITY_ONLY).filter(|_| integrity_only);
    // FIPS builds send nothing without a MAC of the module.
    let none = Some(Cipher::NONE).filter(|none| none.is_built());
    let (list, integrity, none) = match unencrypted {
        Unencrypted::Refused => (list, None, None),
        Unencrypted::Allowed { .. } => (list, integrity, none),
        Unencrypted::Wanted { without_mac: false } => (&[][..], integrity, none),
        Unencrypted::Wanted { without_mac: true } => (&[][..], None, none),
    };
    list.iter().filter_map(|name| Cipher::by_name(name)).chain(integrity).chain(none)
}

/// Returns the MACs that may be negotiated.
fn macs(list: &[String], unencrypted: Unencrypted) -> impl Iterator<Item = &'static Mac> {
    let (list, more) = match unencrypted {
        Unencrypted::Allowed { without_mac: true } => (list, Some(Mac::NONE)),
        Unencrypted::Wanted { without_mac: true } => (&[][..], Some(Mac::NONE)),
        _ => (list, None),
    };
    list.iter().filter_map(|name| Mac::by_name(name)).chain(more)
}

/// Returns the host key algorithms that we offer; a server offers only those for which it has a key.
fn host_keys(config: &Config) -> impl Iterator<Item = &str> {
    let usable = |name: &&str| config.role == Role::Client || host_key_index(config, name).is_some();
    config.algorithms.host_key.iter().map(String::as_str).filter(usable)
}

/// Returns the index of the server's first key that supports this signature algorithm.
pub(crate) fn host_key_index(config: &Config, algorithm: &str) -> Option<usize> {
    config.host_keys.iter().position(|key| key.algorithms.iter().any(|each| each == algorithm))
}

/// Result of negotiating two KEXINITs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) names: Negotiated,
    pub(crate) kex: KexAlgorithm,
    pub(crate) cipher_c2s: &'static Cipher,
    pub(crate) cipher_s2c: &'static Cipher,
    pub(crate) mac_c2s: Option<&'static Mac>,
    pub(crate) mac_s2c: Option<&'static Mac>,
    /// The peer accepts EXT_INFO.
    pub(crate) peer_ext_info: bool,
    /// The peer guessed wrongly: its next packet must be ignored.
    pub(crate) skip_guess: bool,
}

/// Identifies the peer's implementation, now that its offer is known.
pub(crate) fn peer_that_offers(identified: Peer, offer: &[u8]) -> Result<Peer, TransportError> {
    let offer = KexInit::decode(offer).map_err(malformed)?;
    Ok(identified.with_ciphers(offer.cipher_c2s).with_ciphers(offer.cipher_s2c))
}

/// Negotiates the algorithms from our offer and the peer's KEXINIT; the client's preference decides.
/// `unencrypted` is the value that our offer was made with, [`Unencrypted::Refused`] before authentication.
pub(crate) fn agree(
    config: &Config,
    peer: &[u8],
    strict: Strict,
    unencrypted: Unencrypted,
) -> Result<Agreement, TransportError> {
    let peer = KexInit::decode(peer).map_err(malformed)?;
    let (strict_marker, ext_marker) = match config.role {
        Role::Client => (STRICT_SERVER, EXT_INFO_SERVER),
        Role::Server => (STRICT_CLIENT, EXT_INFO_CLIENT),
    };
    let first = strict == Strict::AsAnnounced;
    let choose = Chooser { role: config.role, unencrypted, integrity_only: config.integrity_only };
    let ours = &config.algorithms;

    let kex = choose.pick("key exchange method", &mut known_kex(ours), peer.kex)?;
    let algorithm = KexAlgorithm::by_name(&kex).ok_or_else(|| no_match("key exchange method", peer.kex))?;
    let host_key = choose.pick("host key type", &mut host_keys(config), peer.host_key)?;
    let (cipher_c2s, mac_c2s) =
        choose.protection(&ours.cipher_c2s, peer.cipher_c2s, &ours.mac_c2s, peer.mac_c2s)?;
    let (cipher_s2c, mac_s2c) =
        choose.protection(&ours.cipher_s2c, peer.cipher_s2c, &ours.mac_s2c, peer.mac_s2c)?;
    let compression_c2s = choose.pick(
        "compression method",
        &mut known(&ours.compression_c2s, |name| Compression::by_name(name).is_some()),
        peer.compression_c2s,
    )?;
    let compression_s2c = choose.pick(
        "compression method",
        &mut known(&ours.compression_s2c, |name| Compression::by_name(name).is_some()),
        peer.compression_s2c,
    )?;

    // A guess is right when the first choices of both sides are equal (RFC 4253 section 7).
    let guess_right = peer.kex.iter().next() == known_kex(ours).next()
        && peer.host_key.iter().next() == host_keys(config).next();
    let mac_name = |mac: Option<&Mac>| mac.map_or(IMPLICIT, |mac| mac.name).to_owned();
    Ok(Agreement {
        names: Negotiated {
            kex,
            host_key,
            cipher_c2s: cipher_c2s.name.to_owned(),
            cipher_s2c: cipher_s2c.name.to_owned(),
            mac_c2s: mac_name(mac_c2s),
            mac_s2c: mac_name(mac_s2c),
            compression_c2s,
            compression_s2c,
            strict: if first { peer.kex.contains(strict_marker) } else { strict == Strict::On },
        },
        kex: algorithm,
        cipher_c2s,
        cipher_s2c,
        mac_c2s,
        mac_s2c,
        peer_ext_info: first && peer.kex.contains(ext_marker),
        skip_guess: peer.first_kex_packet_follows && !guess_right,
    })
}

/// Source of the strict key exchange decision: the first KEXINIT decides for the whole connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strict {
    /// First exchange: the peer's markers decide.
    AsAnnounced,
    /// Rekey of a strict connection.
    On,
    /// Rekey of a connection that is not strict.
    Off,
}

fn malformed(source: WireError) -> TransportError {
    TransportError::Malformed { message: "KEXINIT", source }
}

fn no_match(what: &'static str, offer: NameList<'_>) -> TransportError {
    TransportError::NoMatch { what, offer: offer.as_str().to_owned() }
}

#[derive(Clone, Copy)]
struct Chooser {
    role: Role,
    unencrypted: Unencrypted,
    integrity_only: bool,
}

impl Chooser {
    /// Returns the first name of the client's list that is also in the server's list.
    fn pick(
        self,
        what: &'static str,
        mut ours: &mut dyn Iterator<Item = &str>,
        peer: NameList<'_>,
    ) -> Result<String, TransportError> {
        let found = match self.role {
            Role::Client => Iterator::find(&mut ours, |name| peer.contains(name)).map(str::to_owned),
            Role::Server => {
                let ours: Vec<&str> = ours.collect();
                peer.iter().find(|name| ours.contains(name)).map(str::to_owned)
            }
        };
        found.ok_or_else(|| no_match(what, peer))
    }

    /// Negotiates cipher and MAC of one direction. With a cipher that authenticates, the MAC lists are
    /// ignored (OpenSSH PROTOCOL 1.6).
    fn protection(
        self,
        ciphers: &[String],
        peer_ciphers: NameList<'_>,
        macs: &[String],
        peer_macs: NameList<'_>,
    ) -> Result<(&'static Cipher, Option<&'static Mac>), TransportError> {
        let ours = || self::ciphers(ciphers, self.unencrypted, self.integrity_only);
        let name = self.pick("cipher", &mut ours().map(|cipher| cipher.name), peer_ciphers)?;
        let cipher = Iterator::find(&mut ours(), |cipher| cipher.name == name)
            .ok_or_else(|| no_match("cipher", peer_ciphers))?;
        if cipher.is_aead() {
            return Ok((cipher, None));
        }
        let ours = || self::macs(macs, self.unencrypted);
        let name = self.pick("MAC", &mut ours().map(|mac| mac.name), peer_macs)?;
        let mac =
            Iterator::find(&mut ours(), |mac| mac.name == name).ok_or_else(|| no_match("MAC", peer_macs))?;
        // Encryption without integrity is weaker than either setting alone, and no option asks for it.
        if mac == Mac::NONE && cipher.encrypts() {
            return Err(TransportError::KeyExchange("no MAC with a cipher that needs one"));
        }
        Ok((cipher, Some(mac)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::HostKey;

    fn server() -> Config {
        Config::server(vec![HostKey { algorithms: vec!["ssh-ed25519".to_owned()], blob: Vec::new() }])
    }

    fn set(list: &mut Vec<String>, names: &[&str]) {
        *list = names.iter().map(|name| (*name).to_owned()).collect();
    }

    fn both(
        client: &Config,
        server: &Config,
    ) -> (Result<Agreement, TransportError>, Result<Agreement, TransportError>) {
        let (c, s) = (
            offer(client, [1; 16], true, Unencrypted::Refused),
            offer(server, [2; 16], true, Unencrypted::Refused),
        );
        (
            agree(client, &s, Strict::AsAnnounced, Unencrypted::Refused),
            agree(server, &c, Strict::AsAnnounced, Unencrypted::Refused),
        )
    }

    #[test]
    fn both_sides_negotiate_equal_algorithms() {
        let (c, s) = both(&Config::client(), &server());
        let (c, s) = (c.unwrap(), s.unwrap());
        assert_eq!(c, s);
        assert!(c.names.strict && c.peer_ext_info && !c.skip_guess);
        assert_eq!(c.names.host_key, "ssh-ed25519");
        assert_eq!(c.names.mac_c2s, "<implicit>");
    }

    #[test]
    fn client_preference_decides() {
        let (mut client, mut server) = (Config::client(), server());
        set(&mut client.algorithms.cipher_c2s, &["aes256-ctr", "aes128-ctr"]);
        set(&mut server.algorithms.cipher_c2s, &["aes128-ctr", "aes256-ctr"]);
        set(&mut client.algorithms.mac_c2s, &["hmac-sha1", "hmac-sha2-256"]);
        let (c, s) = both(&client, &server);
        assert_eq!(c, s);
        let c = c.unwrap();
        assert_eq!((c.names.cipher_c2s.as_str(), c.names.mac_c2s.as_str()), ("aes256-ctr", "hmac-sha1"));
    }

    #[test]
    fn no_match_error_names_the_list_and_the_offer() {
        let (mut client, mut server) = (Config::client(), server());
        set(&mut client.algorithms.cipher_s2c, &["aes128-ctr"]);
        set(&mut client.algorithms.mac_s2c, &["hmac-sha1"]);
        set(&mut server.algorithms.mac_s2c, &["hmac-sha2-512"]);
        let (c, s) = both(&client, &server);
        assert_eq!(s.unwrap_err().to_string(), "no matching MAC found. Their offer: hmac-sha1");
        assert_eq!(c.unwrap_err().to_string(), "no matching MAC found. Their offer: hmac-sha2-512");
    }

    #[test]
    fn unknown_names_are_not_offered() {
        let mut client = Config::client();
        set(&mut client.algorithms.cipher_c2s, &["arcfour", "aes128-ctr"]);
        set(&mut client.algorithms.mac_c2s, &["hmac-ripemd160", "hmac-sha1"]);
        set(&mut client.algorithms.kex, &["kex-strict-c-v00@openssh.com", "curve25519-sha256"]);
        set(&mut client.algorithms.compression_c2s, &["lz4", "none"]);
        let offer = offer(&client, [0; 16], false, Unencrypted::Refused);
        let offer = KexInit::decode(&offer).unwrap();
        assert_eq!(offer.cipher_c2s.as_str(), "aes128-ctr");
        assert_eq!(offer.mac_c2s.as_str(), "hmac-sha1");
        assert_eq!(offer.kex.as_str(), "curve25519-sha256,kex-strict-c-v00@openssh.com");
        assert_eq!(offer.compression_c2s.as_str(), "none");
    }

    #[test]
    fn aead_needs_no_common_mac() {
        let (mut client, server) = (Config::client(), server());
        set(&mut client.algorithms.cipher_c2s, &["aes128-gcm@openssh.com"]);
        set(&mut client.algorithms.cipher_s2c, &["chacha20-poly1305@openssh.com"]);
        set(&mut client.algorithms.mac_c2s, &["x"]);
        set(&mut client.algorithms.mac_s2c, &["y"]);
        let (c, s) = both(&client, &server);
        assert!(c.is_ok() && c == s);
    }

    #[test]
    fn only_a_wrong_guess_is_skipped() {
        let client = Config::client();
        let server = server();
        let mut with_guess = offer(&client, [0; 16], true, Unencrypted::Refused);
        let flag = with_guess.len() - 5;
        with_guess[flag] = 1;
        // Both prefer the same method and, as the server has an Ed25519 key, the same host key type.
        assert!(!agree(&server, &with_guess, Strict::AsAnnounced, Unencrypted::Refused).unwrap().skip_guess);
        let mut other = client;
        set(&mut other.algorithms.kex, &["curve25519-sha256"]);
        let mut with_guess = offer(&other, [0; 16], true, Unencrypted::Refused);
        let flag = with_guess.len() - 5;
        with_guess[flag] = 1;
        assert!(agree(&server, &with_guess, Strict::AsAnnounced, Unencrypted::Refused).unwrap().skip_guess);
    }

    #[test]
    fn markers_count_in_the_first_exchange_only() {
        let (client, server) = (Config::client(), server());
        let marked = offer(&client, [0; 16], true, Unencrypted::Refused);
        let rekey = agree(&server, &marked, Strict::Off, Unencrypted::Refused).unwrap();
        assert!(!rekey.names.strict && !rekey.peer_ext_info);
        let plain = offer(&client, [0; 16], false, Unencrypted::Refused);
        assert!(agree(&server, &plain, Strict::On, Unencrypted::Refused).unwrap().names.strict);
    }

    /// sshlib (ConnectBot) stops resetting its sequence numbers where a later KEXINIT lacks the marker, and
    /// takes the packets behind NEWKEYS for falsified. OpenSSH's KEXINITs all have it.
    #[test]
    fn later_offers_keep_the_strict_marker_alone() {
        for (config, marker, other) in
            [(Config::client(), STRICT_CLIENT, EXT_INFO_CLIENT), (server(), STRICT_SERVER, EXT_INFO_SERVER)]
        {
            let later = offer(&config, [0; 16], false, Unencrypted::Refused);
            let contains = |name: &str| later.windows(name.len()).any(|bytes| bytes == name.as_bytes());
            assert!(contains(marker) && !contains(other));
        }
    }

    #[test]
    fn markers_are_never_negotiated() {
        let (mut client, mut server) = (Config::client(), server());
        set(&mut client.algorithms.kex, &[STRICT_CLIENT, EXT_INFO_CLIENT]);
        set(&mut server.algorithms.kex, &[STRICT_CLIENT, EXT_INFO_CLIENT]);
        let (c, s) = both(&client, &server);
        assert!(c.is_err() && s.is_err());
    }

    proptest! {
        #[test]
        fn negotiating_any_kexinit_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), flip in any::<(usize, u8)>()) {
            bytes.insert(0, 20);
            let _ = agree(&Config::client(), &bytes, Strict::AsAnnounced, Unencrypted::Refused);
            let mut real = offer(&server(), [7; 16], true, Unencrypted::Refused);
            let at = flip.0 % real.len();
            real[at] ^= flip.1;
            let _ = agree(&Config::client(), &real, Strict::AsAnnounced, Unencrypted::Refused);
            real.truncate(at);
            prop_assert!(agree(&Config::client(), &real, Strict::AsAnnounced, Unencrypted::Refused).is_err());
        }
    }
}
