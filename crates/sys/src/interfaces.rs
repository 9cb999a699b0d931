//! Addresses of this machine's network interfaces.
#![expect(unsafe_code, reason = "getifaddrs and its relatives exist only in the C library")]

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// The address, with the scope for link-local ones, and port 0.
    pub address: SocketAddr,
    /// True when the interface is up.
    pub up: bool,
}

impl InterfaceAddress {
    /// True when the address is usable only on this machine or link.
    pub fn is_local(&self) -> bool {
        match self.address.ip() {
            IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
        }
    }
}

/// All IPv4 and IPv6 addresses of all interfaces.
///
/// # Errors
/// Those of `getifaddrs(3)`.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call fills the pointer with a list that lives until `freeifaddrs` below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is a node of the list, which has not been freed.
        let node = unsafe { &*next };
        next = node.ifa_next;
        // SAFETY: the address of a node is null or a socket address in the list, as the function requires.
        let Some(address) = (unsafe { address(node.ifa_addr) }) else { continue };
        // SAFETY: the name of a node is a NUL-terminated string.
        let name = unsafe { CStr::from_ptr(node.ifa_name) }.to_string_lossy().into_owned();
        let up = node.ifa_flags & libc::IFF_UP.cast_unsigned() != 0;
        found.push(InterfaceAddress { name, address, up });
    }
    // SAFETY: the list came from `getifaddrs`, and no reference to it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Returns the number of the interface with this name.
pub fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// Returns the name of the interface with this number.
fn name_of(index: u32) -> Option<String> {
    let mut name: [c_char; libc::IF_NAMESIZE] = [0; libc::IF_NAMESIZE];
    // SAFETY: the call writes at most IF_NAMESIZE bytes, the length of `name`, with a final NUL.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    // SAFETY: where the call succeeded, the array holds a C string.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// Returns the IP address as getnameinfo(3) writes it. A link-local address includes its interface:
/// `fe80::1%eth0`.
pub fn numeric_host(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            format!("{}%{}", v6.ip(), name_of(v6.scope_id()).unwrap_or_else(|| v6.scope_id().to_string()))
        }
        other => other.ip().to_string(),
    }
}

/// # Safety
/// `address` is null or points to a socket address of the length of its family.
unsafe fn address(address: *const libc::sockaddr) -> Option<SocketAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { ptr::addr_of!((*address).sa_family).read_unaligned() }) {
        libc::AF_INET => {
            // SAFETY: this family's addresses are of this type; alignment is not assumed.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), 0))
        }
        libc::AF_INET6 => {
            // SAFETY: this family's addresses are of this type; alignment is not assumed.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, 0, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn link_local_addresses_are_written_with_interface() {
        let host = |text: &str| super::numeric_host(&text.parse().unwrap());
        assert_eq!(host("10.0.0.1:22"), "10.0.0.1");
        assert_eq!(host("[fd00::1]:22"), "fd00::1");
        assert_eq!(host("[fe80::1%4000000]:22"), "fe80::1%4000000", "no such interface");
        if let Some(first) = super::addresses().unwrap().iter().find(|each| each.name == "lo") {
            assert_eq!(host("[fe80::1%1]:22"), format!("fe80::1%{}", first.name));
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "socket addresses as the kernel writes them")]
    fn socket_addresses_are_read_at_any_alignment() {
        // SAFETY: all-zero bytes are valid socket addresses.
        let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { std::mem::zeroed() };
        v4.sin_family = libc::AF_INET as _;
        v4.sin_addr.s_addr = u32::from_ne_bytes([192, 0, 2, 7]);
        v6.sin6_family = libc::AF_INET6 as _;
        v6.sin6_addr.s6_addr = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        v6.sin6_scope_id = 3;
        let mut bytes = [0_u8; size_of::<libc::sockaddr_in6>() + 1];
        let at = bytes.as_mut_ptr().wrapping_add(1);
        // SAFETY: behind its first byte, to which `at` points, the array has space for the larger of the two
        // structures. It contains one of them when it is read.
        unsafe {
            at.cast::<libc::sockaddr_in>().write_unaligned(v4);
            assert_eq!(super::address(at.cast()), Some("192.0.2.7:0".parse().unwrap()));
            at.cast::<libc::sockaddr_in6>().write_unaligned(v6);
            let six = super::address(at.cast()).unwrap();
            assert_eq!(six.to_string(), "[fe80::9%3]:0");
            assert_eq!(super::address(std::ptr::null()), None);
        }
    }

    #[test]
    fn interfaces_have_numbers() {
        let Some(first) = super::addresses().unwrap().into_iter().next() else {
            return lh_testkit::skip_unavailable("interfaces_have_numbers", "no interface here");
        };
        assert!(super::index_of(&first.name).is_some_and(|index| index > 0), "{first:?}");
        assert_eq!(super::index_of("no such one"), None);
    }

    #[test]
    fn loopback_interface_is_listed() {
        let all = super::addresses().unwrap();
        let Some(loopback) = all.iter().find(|each| each.address.ip().is_loopback()) else {
            return lh_testkit::skip_unavailable(
                "loopback_interface_is_listed",
                "no loopback interface here",
            );
        };
        assert!(loopback.is_local(), "{loopback:?}");
        assert!(loopback.name.starts_with("lo"), "{loopback:?}");
    }
}
