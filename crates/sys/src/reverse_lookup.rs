//! Host names of addresses, through the name service switch.
#![expect(unsafe_code, reason = "getnameinfo exists only in the C library")]

use std::ffi::{CStr, c_char};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;

use rustix::net::addr::SocketAddrArg as _;

/// Upper limit of a name, bytes (`NI_MAXHOST`).
const LONGEST: usize = 1025;

/// Host name of an address, if that name resolves to the address again: the owner of the reverse zone may
/// choose any name. Lower case. May wait many seconds for name servers.
pub fn checked_host_name(address: IpAddr) -> Option<String> {
    let address = address.to_canonical();
    let name = host_name(address)?.to_ascii_lowercase();
    // A name that looks like an address would match patterns for addresses.
    if name.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut forward = (name.as_str(), 0).to_socket_addrs().ok()?;
    forward.any(|found| found.ip().to_canonical() == address).then_some(name)
}

/// Returns the name of the local end of a connection. `ssh-keysign` and its callers must agree on it. For an
/// internet socket it is the name of the local address, if that has one. Otherwise it is this host's name.
pub fn local_name(connection: impl AsFd) -> String {
    let of_address = crate::socket::local_address(connection).and_then(|address| host_name(address.ip()));
    of_address.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The resolver's name for an address, not verified.
fn host_name(address: IpAddr) -> Option<String> {
    let mut name: [c_char; LONGEST] = [0; LONGEST];
    let address = SocketAddr::new(address, 0).as_any();
    // SAFETY: the pointer refers to a socket address of that length, alive until the end of the function. The
    // call writes at most as many bytes as `name` has; the type of their number differs between systems, but
    // the number is small.
    let status = unsafe {
        libc::getnameinfo(
            address.as_ptr().cast(),
            address.addr_len(),
            name.as_mut_ptr(),
            LONGEST as _,
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
    fn loopback_is_named_by_the_hosts_file() {
        let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        if !hosts.lines().any(|line| line.starts_with("127.0.0.1") && line.contains("localhost")) {
            let why = "/etc/hosts does not name 127.0.0.1";
            return lh_testkit::skip_unavailable("loopback_is_named_by_the_hosts_file", why);
        }
        assert!(checked_host_name(IpAddr::from([127, 0, 0, 1])).is_some());
        // Documentation addresses have no names.
        assert_eq!(checked_host_name(IpAddr::from([192, 0, 2, 1])), None);
    }
}
