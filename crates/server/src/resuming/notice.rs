//! Notices from the monitor of a resumable session to the listener, which limits the sessions that wait for
//! their clients.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use lh_resume::Handle;
use lh_wire::Writer;

/// First byte of [`Notice::Waits`].
pub(crate) const WAITS: u8 = b'W';
/// First byte of [`Notice::GoesOn`].
pub(crate) const GOES_ON: u8 = b'G';
/// First byte of [`Notice::Keeps`].
pub(crate) const KEEPS: u8 = b'M';

/// First byte of [`Notice::Connected`].
pub(crate) const CONNECTED: u8 = b'A';

/// Message of a listener to a session that it has adopted: too many sessions wait, so this one must end.
pub(crate) const END: u8 = b'E';

/// Longest user name in a notice, bytes.
const LONGEST: usize = 1024;

/// A change in the state of a resumable session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The session waits: for how long it has, and for how long it may in all. Its last connection came from
    /// `address`.
    Waits { handle: Handle, user: String, address: IpAddr, waited: Duration, grace: Duration },
    /// The session has been resumed.
    GoesOn(Handle),
    /// The session waits, and keeps this many bytes that its client has not acknowledged. Separate from
    /// [`Notice::Waits`], which sessions of earlier versions send as well.
    Keeps { handle: Handle, bytes: u64 },
    /// The session has a connection from `address`: after a login or after [`Notice::GoesOn`].
    Connected(IpAddr),
}

impl Notice {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Waits { handle, user, address, waited, grace } => {
                out.put_u8(WAITS);
                out.put_bytes(&handle.0);
                out.put_bytes(&octets(*address));
                out.put_u64(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
                out.put_u64(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
                // Cut at a character boundary: a name that is not UTF-8 would be refused.
                let end = (0..=LONGEST.min(user.len())).rev().find(|&at| user.is_char_boundary(at));
                out.put_string(user.get(..end.unwrap_or(0)).unwrap_or_default().as_bytes());
            }
            Self::GoesOn(handle) => {
                out.put_u8(GOES_ON);
                out.put_bytes(&handle.0);
            }
            Self::Keeps { handle, bytes } => {
                out.put_u8(KEEPS);
                out.put_bytes(&handle.0);
                out.put_u64(*bytes);
            }
            Self::Connected(address) => {
                out.put_u8(CONNECTED);
                out.put_bytes(&octets(*address));
            }
        }
        out
    }

    /// Decodes the notice at the beginning of `inbox` and returns its length; `None` while it is incomplete.
    pub(crate) fn read(inbox: &[u8]) -> Result<Option<(Self, usize)>, ()> {
        let Some((head, rest)) = inbox.split_first_chunk::<17>() else { return Ok(None) };
        let [kind, handle @ ..] = *head;
        if kind == CONNECTED {
            return Ok(Some((Self::Connected(Ipv6Addr::from(handle).to_canonical()), 17)));
        }
        let handle = Handle(handle);
        if kind == GOES_ON {
            return Ok(Some((Self::GoesOn(handle), 17)));
        }
        if kind == KEEPS {
            let bytes = rest.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
            return Ok(bytes.map(|bytes| (Self::Keeps { handle, bytes }, 25)));
        }
        let Some((address, rest)) = rest.split_first_chunk::<16>() else { return Ok(None) };
        let address = Ipv6Addr::from(*address).to_canonical();
        let Some((waited, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let Some((grace, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if kind != WAITS || length > LONGEST {
            return Err(());
        }
        let [waited, grace] = [waited, grace].map(|time| Duration::from_millis(u64::from_be_bytes(*time)));
        let Some(user) = rest.get(..length) else { return Ok(None) };
        let user = String::from_utf8(user.to_vec()).map_err(drop)?;
        Ok(Some((Self::Waits { handle, user, address, waited, grace }, 53 + length)))
    }
}

/// Returns an address of either family in the form of IPv6.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_arrive_in_pieces() {
        let (handle, waited, grace) = (Handle([7; 16]), Duration::from_millis(5), Duration::from_secs(600));
        let addresses = ["192.0.2.7", "2001:db8::7"].map(|address| address.parse().unwrap());
        let waits = addresses.map(|address: IpAddr| Notice::Waits {
            handle,
            user: "ada".into(),
            address,
            waited,
            grace,
        });
        let others = [Notice::GoesOn(handle), Notice::Keeps { handle, bytes: 1 << 40 }];
        for notice in waits.into_iter().chain(others).chain(addresses.map(Notice::Connected)) {
            let bytes = notice.encode();
            for end in 0..bytes.len() {
                assert_eq!(Notice::read(&bytes[..end]), Ok(None));
            }
            let more = [&bytes[..], b"more"].concat();
            assert_eq!(Notice::read(&more), Ok(Some((notice, bytes.len()))));
        }
        assert!(Notice::read(&[WAITS; 60]).is_err(), "a name of gigabytes");
        assert!(Notice::read(&[0; 60]).is_err());
    }

    #[test]
    fn long_names_are_cut_between_characters_and_odd_ones_refused() {
        let (handle, waited, grace) = (Handle([7; 16]), Duration::ZERO, Duration::ZERO);
        let user = format!("a{}", "é".repeat(LONGEST));
        let address = IpAddr::from([127, 0, 0, 1]);
        let bytes = Notice::Waits { handle, user, address, waited, grace }.encode();
        let Ok(Some((Notice::Waits { user, .. }, length))) = Notice::read(&bytes) else {
            panic!("no notice")
        };
        assert_eq!((user.len(), length), (LONGEST - 1, bytes.len()));
        let mut odd = bytes;
        odd[56] = 0xff;
        assert_eq!(Notice::read(&odd), Err(()));
    }
}
