//! The name of an address, through the name service switch.
#![expect(unsafe_code, reason = "getnameinfo exists only in the C library")]

use std::ffi::{CStr, c_char};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;

use rustix::net::addr::SocketAddrArg as _;

/// Longest name that is taken (`NI_MAXHOST`).
const LONGEST: usize = 1025;

/// The host name of an address, if that name leads back to the address: whoever owns the reverse zone may write any name there.
/// Lower case. May wait for name servers for many seconds.
pub fn checked_host_name(address: IpAddr) -> Option<String> {
    let address = address.to_canonical();
    let name = host_name(address)?.to_ascii_lowercase();
    // A name that is an address would match patterns of addresses.
    if name.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut forward = (name.as_str(), 0).to_socket_addrs().ok()?;
    forward.any(|found| found.ip().to_canonical() == address).then_some(name)
}

/// The name of this end of a connection, as `ssh-keysign` and those who ask it agree on it: the local address's name where
/// the descriptor is an internet socket and the address has one, otherwise this host's.
pub fn local_name(connection: impl AsFd) -> String {
    let of_address = crate::socket::local_address(connection).and_then(|address| host_name(address.ip()));
    of_address.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The name that the resolver has for an address, which nobody has checked.
fn host_name(address: IpAddr) -> Option<String> {
    let mut name: [c_char; LONGEST] = [0; LONGEST];
    let room = libc::socklen_t::try_from(name.len()).ok()?;
    let address = SocketAddr::new(address, 0).as_any();
    // SAFETY: the pointer leads to a socket address of that many bytes that lives until the end of the function, and at most
    // `room` bytes, the length of `name`, are written.
    let status = unsafe {
        libc::getnameinfo(
            address.as_ptr().cast(),
            address.addr_len(),
            name.as_mut_ptr(),
            room,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    if status != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so the buffer holds a C string.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(name.to_str().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_name_where_the_hosts_file_says_so() {
        let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        if !hosts.lines().any(|line| line.starts_with("127.0.0.1") && line.contains("localhost")) {
            eprintln!("SKIPPED: /etc/hosts does not name 127.0.0.1");
            return;
        }
        assert!(checked_host_name(IpAddr::from([127, 0, 0, 1])).is_some());
        // Documentation addresses have no names.
        assert_eq!(checked_host_name(IpAddr::from([192, 0, 2, 1])), None);
    }
}
