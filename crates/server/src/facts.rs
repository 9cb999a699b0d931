//! What `Match` blocks may look at.

use std::net::SocketAddr;

use lh_config::ConnectionFacts;
use lh_sys::users::User;

/// Known as soon as somebody has connected.
pub(crate) fn of_connection(peer: SocketAddr, local: SocketAddr, host: Option<&str>) -> ConnectionFacts {
    ConnectionFacts {
        address: Some(peer.ip()),
        // Without UseDNS a host is known by its address alone.
        host: Some(host.map_or_else(|| peer.ip().to_string(), str::to_owned)),
        local_address: Some(local.ip()),
        local_port: Some(local.port()),
        ..ConnectionFacts::default()
    }
}

/// Known once the client has said who it is.
pub(crate) fn with_user(
    facts: &ConnectionFacts,
    name: &str,
    user: Option<&User>,
    groups: &[String],
) -> ConnectionFacts {
    ConnectionFacts {
        user: Some(name.to_owned()),
        invalid_user: user.is_none(),
        groups: groups.to_vec(),
        ..facts.clone()
    }
}
