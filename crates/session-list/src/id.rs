//! Identifiers of sessions, and the socket addresses of their monitors.

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::str::FromStr;

use lh_sys::unix_sockets::AbstractNames;

/// Prefix of the identifier in a socket address.
const PREFIX: &str = "lhsshd-monitor-";

/// Identifier of a session on this host: eight hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// Returns the identifier with this random number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the abstract socket name at which the session's monitor listens.
    pub(crate) fn address_name(self) -> String {
        format!("{PREFIX}{self}")
    }

    /// Listens at the address of this identifier, with a non-blocking socket.
    ///
    /// # Errors
    /// `AddrInUse`: another session has this identifier.
    pub fn listen(self) -> io::Result<UnixListener> {
        let listening = UnixListener::bind_addr(&SocketAddr::from_abstract_name(self.address_name())?)?;
        listening.set_nonblocking(true)?;
        Ok(listening)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for Id {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let plain = text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !plain {
            return Err(());
        }
        u32::from_str_radix(text, 16).map(Self).map_err(drop)
    }
}

/// Returns the identifiers at which processes listen on this host (in this network namespace). Any process
/// may listen at such an address; its user id is known only after connecting.
///
/// # Errors
/// `/proc/net/unix` cannot be read.
pub fn find() -> io::Result<Vec<Id>> {
    let mut ids = ids_of(&AbstractNames::read()?);
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

fn ids_of(names: &AbstractNames) -> Vec<Id> {
    names.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_eight_small_hexadecimal_digits() {
        assert_eq!("0000beef".parse(), Ok(Id::new(0xbeef)));
        assert_eq!(Id::new(0xbeef).to_string(), "0000beef");
        for text in ["", "beef", "0000BEEF", "+000beef", "0000beefs", "0000bee\u{e4}"] {
            assert_eq!(text.parse::<Id>(), Err(()), "{text}");
        }
    }

    #[test]
    fn only_abstract_addresses_of_monitors_are_found() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 11 @lhsshd-monitor-0000beef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12 lhsshd-monitor-0000beed\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 13 @lhsshd-monitor-nonsense\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 14 @\xff\xfe\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 15\n";
        assert_eq!(ids_of(&AbstractNames::of_table(table)), [Id::new(0xbeef)]);
    }

    #[test]
    fn a_listening_monitor_is_found_until_it_is_gone() {
        let id = Id::new(std::process::id() ^ 0x5a5a_0000);
        let listening = id.listen().unwrap();
        assert!(find().unwrap().contains(&id));
        assert_eq!(id.listen().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listening);
        assert!(!find().unwrap().contains(&id));
    }
}
