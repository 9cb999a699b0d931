//! The computations of a key exchange that both ends share.

use lh_crypto::{Cipher, Direction, Hash, PacketKey, SharedSecret, derive_key};
use lh_wire::Writer;

/// The cipher of both directions.
pub(crate) const CIPHER: &str = "chacha20-poly1305@openssh.com";

/// The hash of an exchange, and the keys that follow from it.
pub(crate) struct Agreed {
    /// The exchange hash, which the server signs; the first one is the session identifier.
    pub(crate) hash: Vec<u8>,
    /// Key for sending.
    pub(crate) seal: PacketKey,
    /// Key for receiving.
    pub(crate) open: PacketKey,
}

/// Computes hash and keys (RFC 4253 section 7.2). `fields` are the fields of the exchange hash in front of
/// the secret. `session` is set to the session identifier if it has none. `letters` are those of the keys for
/// sending and for receiving.
pub(crate) fn agreed(
    fields: [&[u8]; 7],
    secret: &SharedSecret,
    session: &mut Option<Vec<u8>>,
    letters: [u8; 2],
) -> Agreed {
    let mut hashed = Vec::new();
    fields.iter().for_each(|field| hashed.put_string(field));
    hashed.put_bytes(secret.encoded());
    let hash = Hash::Sha256.digest(&[&hashed]);
    let session = session.get_or_insert_with(|| hash.as_ref().to_vec());
    let cipher = Cipher::by_name(CIPHER).expect("a cipher");
    let key = |direction, letter| {
        let bytes =
            derive_key(Hash::Sha256, secret.encoded(), hash.as_ref(), letter, session, cipher.key_len);
        PacketKey::new(direction, cipher, None, &bytes, &[], &[]).expect("keys of the right length")
    };
    let [seal, open] = letters;
    Agreed {
        seal: key(Direction::Seal, seal),
        open: key(Direction::Open, open),
        hash: hash.as_ref().to_vec(),
    }
}
