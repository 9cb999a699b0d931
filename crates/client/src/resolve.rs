//! Looks up the addresses of a host, for programs that connect before they run an event loop.
//!
//! Inside a loop, [`lh_driver::Resolver`] looks up names without blocking.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use lh_config::enums::AddressFamily;
pub use lh_driver::Family;
use lh_sys::errno_text;

/// Why a host has no address to connect to. `Display` has OpenSSH's words.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The host is an address of a family that `AddressFamily` excludes.
    #[error("Address family for hostname not supported")]
    Family,
    /// The resolver failed; its text is such as "Name or service not known".
    #[error("{}", errno_text(.0))]
    Resolver(io::Error),
    /// The host has addresses of the other family only.
    #[error("No address associated with hostname")]
    NoAddress,
}

/// Returns all addresses of `host` that `family` allows, in the resolver's order and without duplicates.
/// Blocks.
///
/// # Errors
/// The host has no such address.
pub fn resolve(host: &str, port: u16, family: Family) -> Result<Vec<SocketAddr>, ResolveError> {
    // Literal addresses skip the resolver, which would read several files first.
    if let Ok(ip) = host.parse::<IpAddr>() {
        let address = SocketAddr::new(ip, port);
        return if family.allows(&address) { Ok(vec![address]) } else { Err(ResolveError::Family) };
    }
    let all = (host, port).to_socket_addrs().map_err(ResolveError::Resolver)?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in all {
        if family.allows(&address) && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(ResolveError::NoAddress) } else { Ok(addresses) }
}

/// Returns the address family that `AddressFamily` permits.
pub(crate) const fn family(configured: AddressFamily) -> Family {
    match configured {
        AddressFamily::Any => Family::Any,
        AddressFamily::Inet => Family::Inet,
        AddressFamily::Inet6 => Family::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_addresses_obey_the_family() {
        let v4: SocketAddr = "127.0.0.1:22".parse().expect("address");
        assert_eq!(resolve("127.0.0.1", 22, Family::Any).expect("an address"), [v4]);
        for (address, family) in [("127.0.0.1", Family::Inet6), ("::1", Family::Inet)] {
            let refused = resolve(address, 22, family).expect_err("the other family");
            assert_eq!(refused.to_string(), "Address family for hostname not supported");
        }
    }
}
