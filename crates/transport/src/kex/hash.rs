//! The exchange hash H (RFC 4253 section 8, RFC 5656 section 4, RFC 4419 section 3).

use lh_crypto::{KexFamily, SharedSecret};
use lh_wire::Writer;

use super::step::Exchange;

/// Additional inputs of group exchange: the client's request and the server's group.
pub(super) struct Group {
    pub(super) min: u32,
    pub(super) n: u32,
    pub(super) max: u32,
    pub(super) p: Vec<u8>,
    pub(super) g: Vec<u8>,
}

/// Computes the exchange hash. `client_public` and `server_public` are string contents or mpint magnitudes,
/// depending on the key exchange family.
pub(super) fn exchange_hash(
    exchange: &Exchange,
    host_key: &[u8],
    group: Option<&Group>,
    client_public: &[u8],
    server_public: &[u8],
    secret: &SharedSecret,
) -> Vec<u8> {
    let mut data = Vec::with_capacity(4096);
    data.put_string(&exchange.client_ident);
    data.put_string(&exchange.server_ident);
    data.put_string(&exchange.client_init);
    data.put_string(&exchange.server_init);
    data.put_string(host_key);
    if let Some(group) = group {
        data.put_u32(group.min);
        data.put_u32(group.n);
        data.put_u32(group.max);
        data.put_mpint(&group.p);
        data.put_mpint(&group.g);
    }
    match exchange.kex.family() {
        KexFamily::DhGroup | KexFamily::DhGex => {
            data.put_mpint(client_public);
            data.put_mpint(server_public);
        }
        KexFamily::Ecdh | KexFamily::Hybrid => {
            data.put_string(client_public);
            data.put_string(server_public);
        }
    }
    // The secret is hashed separately, so that no copy of it is left in `data`.
    exchange.kex.hash().digest(&[&data, secret.encoded()]).as_ref().to_vec()
}
