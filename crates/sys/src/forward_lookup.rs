//! Resolver queries that the standard library does not offer.
#![expect(unsafe_code, reason = "the resolver lives in the C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ptr;

/// Upper limit of an answer, bytes: the largest UDP datagram or TCP message.
const LONGEST: usize = 65_535;

/// Permitted address families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Either, in the resolver's order.
    #[default]
    Any,
    /// IPv4 only.
    Inet,
    /// IPv6 only.
    Inet6,
}

impl Family {
    /// True when this address is permitted.
    pub const fn allows(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Inet => address.is_ipv4(),
            Self::Inet6 => address.is_ipv6(),
        }
    }
}

/// Canonical name of `host` as the resolver spells it (its own name, or the one it is an alias of); `None`
/// when it has no address of this family.
pub fn canonical_name(host: &str, family: Family) -> Option<String> {
    if host.parse::<IpAddr>().is_ok() {
        return Some(host.to_owned());
    }
    let name = CString::new(host).ok()?;
    // SAFETY: all fields of addrinfo may be zero; the ones that matter are set.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_flags = libc::AI_CANONNAME;
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_family = match family {
        Family::Any => libc::AF_UNSPEC,
        Family::Inet => libc::AF_INET,
        Family::Inet6 => libc::AF_INET6,
    };
    let mut list: *mut libc::addrinfo = ptr::null_mut();
    // SAFETY: name and hints outlive the call, which fills `list` when it returns 0.
    if unsafe { libc::getaddrinfo(name.as_ptr(), ptr::null(), &hints, &mut list) } != 0 || list.is_null() {
        return None;
    }
    // SAFETY: the list is that of the call above and has at least one node.
    let canonical = unsafe { (*list).ai_canonname };
    let found = if canonical.is_null() {
        host.to_owned()
    } else {
        // SAFETY: a canonical name is a NUL-terminated string that lives as long as the list.
        unsafe { CStr::from_ptr(canonical) }.to_string_lossy().into_owned()
    };
    // SAFETY: the list came from `getaddrinfo`, and no reference to it is left.
    unsafe { libc::freeaddrinfo(list) };
    Some(found)
}

#[cfg_attr(target_os = "macos", link(name = "resolv"))]
unsafe extern "C" {
    /// resolver(3). On macOS and FreeBSD the name in `<resolv.h>` is a macro for the actual function.
    #[cfg_attr(target_os = "macos", link_name = "res_9_query")]
    #[cfg_attr(target_os = "freebsd", link_name = "__res_query")]
    fn res_query(
        name: *const c_char,
        class: c_int,
        kind: c_int,
        answer: *mut c_uchar,
        length: c_int,
    ) -> c_int;
}

/// Queries the domain name system for `name` (class IN, records of type `kind`) and returns the raw answer
/// (RFC 1035 section 4). The answer's AD bit says whether it is authentic: the C library clears it unless the
/// administrator trusts the name server (`options trust-ad` in `resolv.conf`).
///
/// # Errors
/// There is no such name or record, or no server answers.
pub fn query(name: &str, kind: u16) -> io::Result<Vec<u8>> {
    const CLASS_IN: c_int = 1;
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut answer = vec![0; LONGEST];
    let room = c_int::try_from(answer.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: name and answer outlive the call, which writes at most `room` bytes, the length of `answer`.
    let length = unsafe { res_query(name.as_ptr(), CLASS_IN, kind.into(), answer.as_mut_ptr(), room) };
    let Ok(length) = usize::try_from(length) else {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    };
    // The resolver may report more than it wrote.
    answer.truncate(length);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_invalid_names_are_not_found() {
        assert!(canonical_name("localhost", Family::Any).is_some());
        assert_eq!(canonical_name("127.0.0.1", Family::Inet).as_deref(), Some("127.0.0.1"));
        assert_eq!(canonical_name("with\0zero", Family::Any), None);
        // RFC 6761 reserves this name: it never exists. Without a network no server answers at all.
        assert_eq!(canonical_name("no-such-host.invalid", Family::Any), None);
        assert!(query("no-such-host.invalid", 44).is_err());
        assert!(query("with\0zero", 44).is_err());
    }
}
