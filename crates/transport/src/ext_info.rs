//! EXT_INFO (RFC 8308): the extensions that each side supports.

use lh_wire::msg::ExtInfo;
use lh_wire::{Message, Reader, Writer};

use crate::{Config, Role, TransportError};

/// Limit of entries in one message: OpenSSH's.
const MAX_ENTRIES: u32 = 1024;

/// Encodes our EXT_INFO.
pub(crate) fn ours(config: &Config) -> Vec<u8> {
    let own: &[(&str, &str)] = match config.role {
        Role::Client => &[(IN_AUTH, "0"), (PING, "0")],
        Role::Server => &[("publickey-hostbound@openssh.com", "0"), (PING, "0")],
    };
    let sig_algs = config.server_sig_algs.join(",");
    let with_sig_algs = config.role == Role::Server;
    let count = own.len() + config.extensions.len() + usize::from(with_sig_algs);
    let mut out = Vec::with_capacity(512);
    out.put_u8(ExtInfo::NUMBER);
    out.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
    if with_sig_algs {
        out.put_string(b"server-sig-algs");
        out.put_string(sig_algs.as_bytes());
    }
    for (name, value) in own {
        out.put_string(name.as_bytes());
        out.put_string(value.as_bytes());
    }
    for (name, value) in &config.extensions {
        out.put_string(name.as_bytes());
        out.put_string(value);
    }
    out
}

/// Extension of a side that answers PING. Our clients announce it; OpenSSH's do not.
pub(crate) const PING: &str = "ping@openssh.com";

/// Extension of a client that accepts a second EXT_INFO during authentication.
pub(crate) const IN_AUTH: &str = "ext-info-in-auth@openssh.com";

/// Encodes a server's second EXT_INFO: the signature algorithms accepted from this user.
pub(crate) fn for_user(algorithms: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u8(ExtInfo::NUMBER);
    out.put_u32(1);
    out.put_string(b"server-sig-algs");
    out.put_string(algorithms.join(",").as_bytes());
    out
}

/// Limit of EXT_INFO messages accepted over a whole connection. A server may send a second one for the user
/// who is being authenticated (`ext-info-in-auth@openssh.com`).
pub(crate) const fn most(role: Role) -> u32 {
    match role {
        Role::Client => 2,
        Role::Server => 1,
    }
}

/// Decodes the peer's EXT_INFO. Names that are not UTF-8 are skipped: no known extension has such a name.
pub(crate) fn parse(payload: &[u8]) -> Result<Vec<(String, Vec<u8>)>, TransportError> {
    let malformed = |source| TransportError::Malformed { message: "EXT_INFO", source };
    let message = ExtInfo::decode(payload).map_err(malformed)?;
    if message.count >= MAX_ENTRIES {
        return Err(TransportError::TooMany("extensions"));
    }
    let mut reader = Reader::new(message.extensions.0);
    let mut entries = Vec::new();
    for _ in 0..message.count {
        let name = reader.string().map_err(malformed)?;
        let value = reader.string().map_err(malformed)?;
        if let Ok(name) = core::str::from_utf8(name) {
            entries.push((name.to_owned(), value.to_vec()));
        }
    }
    reader.finish().map_err(malformed)?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn server_announces_its_signature_algorithms() {
        let entries = parse(&ours(&Config::server(Vec::new()))).unwrap();
        assert_eq!(entries[0].0, "server-sig-algs");
        assert!(entries[0].1.starts_with(b"ssh-ed25519,"));
        assert!(entries.iter().any(|(name, value)| name == "ping@openssh.com" && value == b"0"));
        let client = parse(&ours(&Config::client())).unwrap();
        assert_eq!(client.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [IN_AUTH, PING]);
    }

    #[test]
    fn too_many_extensions_are_refused() {
        let mut payload = vec![7];
        payload.put_u32(u32::MAX);
        assert_eq!(parse(&payload), Err(TransportError::TooMany("extensions")));
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), count in 0u32..8) {
            let _ = parse(&bytes);
            let mut framed = vec![7];
            framed.put_u32(count);
            framed.append(&mut bytes);
            let _ = parse(&framed);
        }
    }
}
