//! Addresses and networks (`192.0.2.0/24`) in pattern lists.

use std::net::IpAddr;

use crate::pattern::{ListMatch, wildcard};

/// An address and its number of network bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

fn mask(width: u32, ones: u32) -> u128 {
    let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    if ones == 0 { 0 } else { all & (all << (width - ones)) }
}

/// Parses `address/bits`. Returns `Ok(None)` for text without a slash (a name or a wildcard).
///
/// # Errors
/// A network with too many bits or with host bits set, which OpenSSH refuses too.
fn network(text: &str) -> Result<Option<Network>, ()> {
    let Some((address, length)) = text.split_once('/') else {
        return Ok(text.parse().ok().map(|address| Network { address, bits: bits(address).1 }));
    };
    let address: IpAddr = address.parse().map_err(|_| ())?;
    let (value, width) = bits(address);
    let ones: u32 = length.parse().map_err(|_| ())?;
    if ones > width || value & !mask(width, ones) != 0 {
        return Err(());
    }
    Ok(Some(Network { address, bits: ones }))
}

/// Returns whether [`match_list`] accepts the list. As in OpenSSH, an empty entry is invalid.
pub fn check_list(list: &str) -> bool {
    list.split(',')
        .map(|item| item.strip_prefix('!').unwrap_or(item))
        .all(|item| !item.is_empty() && network(item).is_ok())
}

/// Returns whether the list consists of networks and addresses, each with or without `!`.
pub fn is_network_list(list: &str) -> bool {
    list.split(',').all(|item| matches!(network(item.strip_prefix('!').unwrap_or(item)), Ok(Some(_))))
}

/// Matches an address against a comma-separated list of networks, addresses and wildcards; `!` marks
/// exceptions.
///
/// # Errors
/// `()` for a list with a malformed network.
#[expect(clippy::result_unit_err, reason = "there is one way to be wrong, and callers word it differently")]
pub fn match_list(address: IpAddr, list: &str) -> Result<ListMatch, ()> {
    let address = address.to_canonical();
    let (value, width) = bits(address);
    let text = address.to_string();
    let mut found = ListMatch::No;
    for item in list.split(',') {
        let (negated, item) = match item.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, item),
        };
        let hit = match network(item)? {
            Some(network) => {
                let (base, base_width) = bits(network.address);
                base_width == width && (value ^ base) & mask(width, network.bits) == 0
            }
            None => wildcard(text.as_bytes(), item.as_bytes()),
        };
        if hit && negated {
            found = ListMatch::Negated;
        } else if hit && found == ListMatch::No {
            found = ListMatch::Yes;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(address: &str, list: &str) -> Result<ListMatch, ()> {
        match_list(address.parse().expect("an address"), list)
    }

    #[test]
    fn networks_match_by_their_bits() {
        assert_eq!(m("192.0.2.7", "192.0.2.0/24"), Ok(ListMatch::Yes));
        assert_eq!(m("192.0.3.7", "192.0.2.0/24"), Ok(ListMatch::No));
        assert_eq!(m("192.0.2.7", "0.0.0.0/0"), Ok(ListMatch::Yes));
        assert_eq!(m("2001:db8::1", "2001:db8::/32,!2001:db8::1"), Ok(ListMatch::Negated));
        assert_eq!(m("::1", "0.0.0.0/0"), Ok(ListMatch::No));
        assert_eq!(m("::ffff:192.0.2.7", "192.0.2.0/24"), Ok(ListMatch::Yes));
        assert_eq!(m("192.0.2.7", "192.0.2.*"), Ok(ListMatch::Yes));
    }

    #[test]
    fn host_bits_and_too_many_bits_are_refused() {
        for list in ["192.0.2.1/24", "192.0.2.0/33", "::/129", "1.2.3/8", "x/8", "192.0.2.0/"] {
            assert!(m("192.0.2.7", list).is_err(), "{list}");
            assert!(!check_list(list), "{list}");
        }
        assert!(check_list("192.0.2.0/24,!::1,host*"));
        assert!(is_network_list("192.0.2.0/24,!::1"));
        for list in ["", "192.0.2.0/24,", "192.0.2.*", "host", "192.0.2.1/24"] {
            assert!(!is_network_list(list), "{list}");
        }
    }
}
