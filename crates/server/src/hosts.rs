//! Addresses of clients as text, and the patterns of `from=`, `AllowUsers user@host` and similar options.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use lh_config::cidr;
use lh_config::pattern::wildcard;

/// Either end of a connection that is not over TCP (`-i` over pipes). No client has this address.
pub(crate) const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 65_535);

/// An address in log lines, variables and patterns: that of [`UNKNOWN`] is the word `UNKNOWN`, as with sshd.
#[derive(Clone, Copy)]
pub(crate) struct ShownIp(IpAddr);

/// Returns the address of one end of a connection, to be shown.
pub(crate) const fn shown_ip(end: SocketAddr) -> ShownIp {
    ShownIp(end.ip())
}

/// One end of a connection in log lines: `ADDRESS port NUMBER`.
#[derive(Clone, Copy)]
pub(crate) struct ShownEndpoint(SocketAddr);

/// Returns one end of a connection, to be shown.
pub(crate) const fn shown_endpoint(end: SocketAddr) -> ShownEndpoint {
    ShownEndpoint(end)
}

impl fmt::Display for ShownEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", shown_ip(self.0), self.0.port())
    }
}

/// Returns the address, unless it is that of [`UNKNOWN`].
pub(crate) fn known_ip(address: IpAddr) -> Option<IpAddr> {
    Some(address).filter(|address| *address != UNKNOWN.ip())
}

impl From<IpAddr> for ShownIp {
    fn from(address: IpAddr) -> Self {
        Self(address)
    }
}

impl fmt::Display for ShownIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match known_ip(self.0) {
            Some(address) => address.fmt(f),
            None => f.pad("UNKNOWN"),
        }
    }
}

/// Returns both ends of a connection on one line, in the form of `SSH_CONNECTION`, for PAM modules and
/// external programs.
pub(crate) fn endpoints(peer: SocketAddr, local: SocketAddr) -> String {
    format!("{} {} {} {}", shown_ip(peer), peer.port(), shown_ip(local), local.port())
}

/// Returns whether a peer matches a list such as `10.0.0.0/8,!10.1.*,*.example.org`: a pattern matches and no
/// negated one does. `name` is the peer's host name where it is known; otherwise only addresses are compared.
///
/// A list with an empty pattern or a malformed network matches nothing, as in OpenSSH, so a typing error
/// grants nothing. For keywords whose match refuses a login, the configuration rejects such lists.
pub(crate) fn matches(list: &str, address: IpAddr, name: Option<&str>) -> bool {
    if !is_list(list) {
        return false;
    }
    let address = address.to_canonical();
    let text = ShownIp(address).to_string().to_ascii_lowercase();
    let mut found = false;
    for entry in list.split(',') {
        let pattern = entry.trim();
        // As in sshd, a pattern with blanks around it permits no host. An exception counts all the same.
        let permits = pattern.len() == entry.len();
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let hit = match pattern.split_once('/') {
            Some((network, bits)) => {
                known_ip(address).is_some_and(|address| in_network(address, network, bits) == Some(true))
            }
            None => {
                // Addresses match in every spelling: `127.1`, `2001:DB8:0::1`.
                let is_address =
                    known_ip(address).is_some_and(|address| cidr::parse_address(pattern) == Some(address));
                let pattern = pattern.to_ascii_lowercase();
                let host_hit = name
                    .is_some_and(|name| wildcard(name.to_ascii_lowercase().as_bytes(), pattern.as_bytes()));
                is_address || host_hit || wildcard(text.as_bytes(), pattern.as_bytes())
            }
        };
        match (hit, negated) {
            (true, true) => return false,
            (true, false) => found |= permits,
            (false, _) => {}
        }
    }
    found
}

/// Returns whether every pattern of the list is non-empty and every network well-formed.
fn is_list(list: &str) -> bool {
    list.split(',').map(str::trim).all(cidr::check_list)
}

/// Returns whether the address is in the network. `None`: the network is malformed, or has bits set beyond
/// its prefix (as OpenSSH refuses it).
fn in_network(address: IpAddr, network: &str, bits: &str) -> Option<bool> {
    let network: IpAddr = network.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    let (network, width) = match network {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let (address, address_width) = match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    if bits > width {
        return None;
    }
    let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    if network & !mask != 0 {
        return None;
    }
    Some(width == address_width && address & mask == network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hit(list: &str, address: &str) -> bool {
        matches(list, address.parse().unwrap(), Some("Build.Example.org"))
    }

    #[test]
    fn patterns_of_all_kinds() {
        assert!(hit("10.0.0.0/8", "10.2.3.4"));
        assert!(!hit("10.0.0.0/8", "11.2.3.4"));
        assert!(!hit("10.0.0.0/8,!10.2.0.0/16", "10.2.3.4"));
        assert!(hit("192.168.1.?", "192.168.1.7"));
        assert!(hit("*.example.org", "1.2.3.4"));
        assert!(!hit("*.example.org,!build.*", "1.2.3.4"));
        assert!(hit("2001:db8::/32", "2001:db8::1"));
        assert!(hit("127.0.0.1/32", "::ffff:127.0.0.1"));
        assert!(hit("0.0.0.0/0", "9.9.9.9"));
        assert!(!hit("0.0.0.0/0", "::1"));
        assert!(hit("::/0", "::1"));
        assert!(!hit("!1.1.1.1", "2.2.2.2"));
        assert!(!hit("", "2.2.2.2"));
    }

    #[test]
    fn blanks_around_a_pattern_permit_no_host() {
        for list in [" 10.0.0.1", "10.0.0.1 ", "10.0.0.2, 10.0.0.1", "9.9.9.9, *", "9.9.9.9, 10.0.0.0/8"] {
            assert!(!hit(list, "10.0.0.1"), "{list:?}");
        }
        assert!(hit("10.0.0.1, 10.0.0.2", "10.0.0.1"));
        // An exception still counts.
        assert!(!hit("*, !10.0.0.1", "10.0.0.1") && hit("*, !10.0.0.1", "10.0.0.2"));
    }

    #[test]
    fn an_exception_holds_in_every_spelling_of_an_address() {
        for list in ["*,!127.1", "*,!0x7f.0.0.1", "*,!2130706433"] {
            assert!(!hit(list, "127.0.0.1") && hit(list, "127.0.0.2"), "{list}");
        }
        for list in ["*,!2001:db8:0:0::1", "*,!2001:DB8::0:1"] {
            assert!(!hit(list, "2001:db8::1") && hit(list, "2001:db8::2"), "{list}");
        }
        // An address that would have a zone is compared without it, so its exception could fail.
        assert!(!hit("*,!fe80::1%eth0", "10.0.0.1"));
    }

    #[test]
    fn an_unknown_address_is_in_no_network() {
        let unknown = |list: &str| matches(list, UNKNOWN.ip(), None);
        assert!(unknown("UNKNOWN") && unknown("*") && unknown("10.0.0.0/8,unknown"));
        assert!(!unknown("0.0.0.0/0") && !unknown("0.0.0.0") && !unknown("*,!unknown"));
        assert_eq!(endpoints(UNKNOWN, UNKNOWN), "UNKNOWN 65535 UNKNOWN 65535");
    }

    #[test]
    fn a_malformed_network_closes() {
        for bad in ["10.0.0.1/8", "10.0.0.0/33", "x/8", "10.0.0.0/x"] {
            assert!(!hit(bad, "10.0.0.1"), "{bad}");
            assert!(!hit(&format!("*,!{bad}"), "10.0.0.1"), "{bad}");
            // The well-formed patterns beside it do not match any more either.
            assert!(!hit(&format!("10.0.0.0/8,{bad}"), "10.0.0.1"), "{bad}");
            assert!(!is_list(&format!("*,!{bad}")), "{bad}");
        }
    }

    #[test]
    fn an_empty_pattern_closes() {
        for bad in ["", ",", "10.0.0.1,", ",10.0.0.1", "10.0.0.1,,*", "*,!", " "] {
            assert!(!hit(bad, "10.0.0.1"), "{bad:?}");
            assert!(!is_list(bad), "{bad:?}");
        }
        assert!(is_list("10.0.0.0/8, !10.1.*,host"));
    }

    proptest! {
        #[test]
        fn any_list_is_answered(list in "\\PC{0,80}", address in any::<std::net::Ipv6Addr>()) {
            matches(&list, address.into(), None);
        }
    }
}
