//! Addresses and networks (`192.0.2.0/24`) in pattern lists.

use std::net::{IpAddr, Ipv4Addr};

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

/// Parses an address as sshd does, by getaddrinfo(3): IPv6 in any spelling, IPv4 also in the short forms of
/// inet_aton(3), such as `127.1` and `0x7f.1`. `None` for names and wildcards.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| short_ipv4(text).map(IpAddr::V4))
}

/// Parses IPv4 addresses of one to four parts, each decimal, octal (`0`) or hexadecimal (`0x`). The last part
/// fills the bytes that are left.
fn short_ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = text.split('.').map(c_number).collect::<Option<_>>()?;
    let (last, bytes) = parts.split_last()?;
    let left = 4usize.checked_sub(bytes.len()).filter(|left| *left > 0)?;
    let fits = left == 4 || *last < 1 << (8 * left);
    if !fits || bytes.iter().any(|byte| *byte > 255) {
        return None;
    }
    let head = bytes.iter().zip([24, 16, 8]).map(|(byte, shift)| byte << shift).sum::<u32>();
    Some(Ipv4Addr::from(head | last))
}

/// Parses a number as C's `strtoul` does with base 0, without signs and blanks.
fn c_number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let are_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    if are_digits { u32::from_str_radix(digits, radix).ok() } else { None }
}

/// Parses `address/bits`. Returns `Ok(None)` for text without a slash that is no address (a name or a
/// wildcard).
///
/// # Errors
/// A network with too many bits or with host bits set, which OpenSSH refuses too; an address with a zone
/// (`fe80::1%eth0`), because addresses are compared without one here, and an exception would except nothing.
fn network(text: &str) -> Result<Option<Network>, ()> {
    if text.contains('%') {
        return Err(());
    }
    let Some((address, length)) = text.split_once('/') else {
        return Ok(parse_address(text).map(|address| Network { address, bits: bits(address).1 }));
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
    fn addresses_match_in_every_spelling() {
        // `sshd -T -C addr=...` of OpenSSH 9.2 takes each of these for the address.
        for text in ["127.1", "127.0.1", "0x7f.1", "0177.0.0.1", "2130706433", "0X7F000001", "127.0.0.01"] {
            assert_eq!(m("127.0.0.1", text), Ok(ListMatch::Yes), "{text}");
            assert_eq!(m("127.0.0.1", &format!("*,!{text}")), Ok(ListMatch::Negated), "{text}");
            assert_eq!(m("127.0.0.2", text), Ok(ListMatch::No), "{text}");
        }
        assert_eq!(m("8.0.0.1", "010.1"), Ok(ListMatch::Yes));
        assert_eq!(m("2001:db8::1", "*,!2001:DB8:0::1"), Ok(ListMatch::Negated));
        for text in
            ["127.0.0.256", "127.0.0.0.1", "127..1", "256.1", "127.0x", "08.1", "4294967296", "127.+1", ""]
        {
            assert_eq!(parse_address(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_with_a_zone_are_refused() {
        for list in ["fe80::1%eth0", "*,!fe80::1%eth0", "fe80::*%2"] {
            assert!(m("fe80::1", list).is_err() && !check_list(list), "{list}");
        }
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
