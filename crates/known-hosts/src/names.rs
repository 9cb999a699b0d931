//! The hosts field of a line: names, patterns and hashes.

use base64ct::{Base64, Encoding as _};
use lh_config::pattern::{ListMatch, match_list};
use lh_crypto::{Hash, Random};

/// Prefix of a hashed name; OpenSSH defines one kind.
pub(crate) const HASH_MAGIC: &str = "|1|";
/// Length of a SHA-1 hash and of a salt, bytes.
pub(crate) const SALT: usize = 20;

/// Returns true when the hosts field of a line applies to this name: by hash, or by pattern with `!`
/// exceptions. A malformed hash applies to no name.
pub fn hosts_match(hosts: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if hosts.starts_with(HASH_MAGIC) {
        return hash_of(hosts).is_some_and(|(salt, hash)| hmac_sha1(&salt, name.as_bytes()) == hash);
    }
    match_list(&name, hosts, true) == ListMatch::Yes
}

/// Returns true when a hosts field is a well-formed hash.
pub fn is_hash(hosts: &str) -> bool {
    hash_of(hosts).is_some()
}

/// Returns salt and hash of a hosts field.
pub(crate) fn hash_of(hosts: &str) -> Option<([u8; SALT], [u8; SALT])> {
    let (salt, hash) = hosts.strip_prefix(HASH_MAGIC)?.split_once('|')?;
    let decode = |text: &str| {
        let mut out = [0; SALT];
        (Base64::decode(text, &mut out).ok()?.len() == SALT).then_some(out)
    };
    Some((decode(salt)?, decode(hash)?))
}

/// Returns the name of `host` in known_hosts: lower case, and `[host]:port` unless the port is 22.
pub fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// Returns a name hashed with a new salt.
pub fn hash_name(name: &str, random: &mut dyn Random) -> String {
    let mut salt = [0; SALT];
    random.fill(&mut salt);
    let hash = hmac_sha1(&salt, name.to_ascii_lowercase().as_bytes());
    format!("{HASH_MAGIC}{}|{}", Base64::encode_string(&salt), Base64::encode_string(&hash))
}

/// Computes HMAC-SHA1 (RFC 2104) with a key no longer than a block. It only hides names in a file from casual
/// readers, so its speed and the age of SHA-1 do not matter.
pub(crate) fn hmac_sha1(key: &[u8; SALT], data: &[u8]) -> [u8; SALT] {
    const BLOCK: usize = 64;
    let pad = |with: u8| {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Hash::Sha1.digest(&[&pad(0x36), data]);
    let outer = Hash::Sha1.digest(&[&pad(0x5c), inner.as_ref()]);
    let mut out = [0; SALT];
    for (byte, from) in out.iter_mut().zip(outer.as_ref()) {
        *byte = *from;
    }
    out
}
