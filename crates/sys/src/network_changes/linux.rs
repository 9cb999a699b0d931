//! Reports of Linux: rtnetlink(7), and timers of the calendar clock for system suspend.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::NetworkChange;

/// Multicast groups: RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR,
/// RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// The kernel's reports, on a descriptor that becomes readable with each.
#[derive(Debug)]
pub struct NetworkChanges {
    socket: OwnedFd,
}

impl NetworkChanges {
    /// Subscribes to reports from now on, about the network namespace of this thread.
    ///
    /// # Errors
    /// The kernel or a sandbox has no such sockets.
    pub fn watch() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The default protocol is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Reads the pending reports. After an error the socket is unusable.
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn read(&self) -> io::Result<Vec<NetworkChange>> {
        let mut changes = Vec::new();
        let mut buffer = vec![0; 32 << 10];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC) {
                Ok((_, real)) if real > buffer.len() => changes.push(NetworkChange::Unknown),
                Ok((0, _)) => return Ok(changes),
                Ok((_, real)) => parse(&buffer[..real], &mut changes),
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::NOBUFS) => changes.push(NetworkChange::Unknown),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for NetworkChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Length of a message header, bytes. Messages are aligned to 4 bytes.
const HEADER: usize = 16;

fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Parses the messages of a datagram. Skips messages of other types and malformed ones.
fn parse(mut bytes: &[u8], changes: &mut Vec<NetworkChange>) {
    while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let len = len as usize;
        let Some(body) = bytes.get(HEADER..len) else { return };
        changes.extend(message(kind, body));
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
    }
}

fn message(kind: u16, body: &[u8]) -> Option<NetworkChange> {
    match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => {
            // struct ifinfomsg: family, padding, type, index, flags, change.
            let running = (libc::IFF_UP | libc::IFF_RUNNING).cast_unsigned();
            let running = kind == libc::RTM_NEWLINK && u32_at(body, 8)? & running == running;
            Some(NetworkChange::Link { index: u32_at(body, 4)?, running })
        }
        libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            // struct ifaddrmsg: family, length of the prefix, flags, scope, index.
            let family = *body.first()?;
            let own =
                attribute(body, 8, libc::IFA_LOCAL).or_else(|| attribute(body, 8, libc::IFA_ADDRESS))?;
            let address = address(family, own)?;
            Some(match kind {
                libc::RTM_NEWADDR => NetworkChange::AddressAdded(address),
                _ => NetworkChange::AddressRemoved(address),
            })
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            // struct rtmsg: family, length of both prefixes, tos, table, protocol, scope, type, flags.
            let (family, prefix, table) = (*body.first()?, *body.get(1)?, *body.get(4)?);
            let to_others = matches!(*body.get(7)?, libc::RTN_UNICAST | libc::RTN_UNREACHABLE);
            let cached = u32_at(body, 8)? & libc::RTM_F_CLONED != 0;
            if table == libc::RT_TABLE_LOCAL || !to_others || cached {
                return None;
            }
            let to = match attribute(body, 12, libc::RTA_DST) {
                Some(bytes) => address(family, bytes)?,
                None => address(family, &[0; 16])?,
            };
            Some(NetworkChange::Route { to, prefix })
        }
        _ => None,
    }
}

/// Returns the value of the first attribute of a type, behind a header of `start` bytes.
fn attribute(body: &[u8], start: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = body.get(start..)?;
    loop {
        let (len, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(aligned(len)..)?;
    }
}

fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(..16)?).ok()?).into()),
        _ => None,
    }
}

/// Detects that the machine was suspended: its descriptor becomes readable after the resumption.
///
/// The kernel wakes timers of the calendar clock when that clock jumps, as it does after a suspension. The
/// suspended time is the difference between a clock that includes it and one that does not.
#[derive(Debug)]
pub struct Sleeps {
    timer: OwnedFd,
    /// Total time for which the machine has been suspended since it was booted.
    slept: Duration,
}

impl Sleeps {
    /// Suspended time that is ignored: the two clocks are read one after the other, so their difference
    /// varies.
    const SHORT: Duration = Duration::from_millis(500);

    /// Starts watching.
    ///
    /// # Errors
    /// The kernel or a sandbox has no such timers.
    pub fn watch() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let sleeps = Self { timer, slept: slept() };
        sleeps.arm()?;
        Ok(sleeps)
    }

    /// Sets the timer to the latest possible time.
    fn arm(&self) -> io::Result<()> {
        let never = Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.timer, flags, &Itimerspec { it_interval: zero, it_value: never })?;
        Ok(())
    }

    /// True if the machine was suspended since the last call. After an error the timer is unusable.
    ///
    /// # Errors
    /// Those of timerfd_settime(2).
    pub fn read(&mut self) -> io::Result<bool> {
        // The value of the timer is not needed, nor is the error that reports the jump of the clock.
        let _ = rustix::io::read(&self.timer, &mut [0; 8][..]);
        self.arm()?;
        let before = std::mem::replace(&mut self.slept, slept());
        Ok(self.slept.saturating_sub(before) > Self::SHORT)
    }
}

impl AsFd for Sleeps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Returns the total time for which the machine has been suspended since it was booted.
fn slept() -> Duration {
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn with_attribute(mut body: Vec<u8>, kind: u16, value: &[u8]) -> Vec<u8> {
        body.extend(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
        body.resize(aligned(body.len()), 0);
        body
    }

    fn parsed(bytes: &[u8]) -> Vec<NetworkChange> {
        let mut changes = Vec::new();
        parse(bytes, &mut changes);
        changes
    }

    const INET: u8 = libc::AF_INET as u8;
    const INET6: u8 = libc::AF_INET6 as u8;

    #[test]
    fn addresses_are_parsed_behind_other_attributes() {
        let body = with_attribute(vec![INET, 24, 0, 0, 2, 0, 0, 0], 3, b"eth0\0");
        let body = with_attribute(body, libc::IFA_ADDRESS, &[10, 0, 0, 255]);
        let body = with_attribute(body, libc::IFA_LOCAL, &[10, 0, 0, 2]);
        let six = with_attribute(vec![INET6, 64, 0, 0, 2, 0, 0, 0], libc::IFA_ADDRESS, &[0xfd; 16]);
        let both = [frame(libc::RTM_DELADDR, &body), frame(libc::RTM_NEWADDR, &six)].concat();
        assert_eq!(
            parsed(&both),
            [
                NetworkChange::AddressRemoved("10.0.0.2".parse().unwrap()),
                NetworkChange::AddressAdded(Ipv6Addr::from([0xfd; 16]).into())
            ]
        );
    }

    #[test]
    fn links_run_when_they_are_up_and_have_a_carrier() {
        let link = |kind, flags: i32| {
            let mut body = vec![0, 0, 1, 0];
            body.extend(7_u32.to_ne_bytes());
            body.extend(flags.to_ne_bytes());
            body.extend([0; 4]);
            parsed(&frame(kind, &body))
        };
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        assert_eq!(link(libc::RTM_NEWLINK, both), [NetworkChange::Link { index: 7, running: true }]);
        let gone = [NetworkChange::Link { index: 7, running: false }];
        assert_eq!(link(libc::RTM_NEWLINK, libc::IFF_UP), gone);
        assert_eq!(link(libc::RTM_DELLINK, both), gone);
    }

    #[test]
    fn routes_of_this_machine_and_its_cache_are_passed_over() {
        let route = |table: u8, kind: u8, flags: u32, to: Option<&[u8]>| {
            let mut body = vec![INET, if to.is_some() { 16 } else { 0 }, 0, 0, table, 3, 0, kind];
            body.extend(flags.to_ne_bytes());
            let body = match to {
                Some(to) => with_attribute(body, libc::RTA_DST, to),
                None => body,
            };
            parsed(&frame(libc::RTM_DELROUTE, &body))
        };
        let unicast = libc::RTN_UNICAST;
        let to = |text: &str, prefix| [NetworkChange::Route { to: text.parse().unwrap(), prefix }];
        assert_eq!(route(libc::RT_TABLE_MAIN, unicast, 0, None), to("0.0.0.0", 0));
        assert_eq!(route(libc::RT_TABLE_MAIN, unicast, 0, Some(&[10, 1, 0, 0])), to("10.1.0.0", 16));
        assert_eq!(route(libc::RT_TABLE_LOCAL, unicast, 0, None), []);
        assert_eq!(route(libc::RT_TABLE_MAIN, libc::RTN_MULTICAST, 0, None), []);
        assert_eq!(route(libc::RT_TABLE_MAIN, unicast, libc::RTM_F_CLONED, None), []);
    }

    #[test]
    fn watches_can_be_read_when_nothing_has_changed() {
        let Ok(mut sleeps) = Sleeps::watch() else {
            return lh_testkit::skip_unavailable(
                "watches_of_network_changes",
                "no timers as descriptors here",
            );
        };
        assert!(!sleeps.read().unwrap());
        let Ok(changes) = NetworkChanges::watch() else {
            return lh_testkit::skip_unavailable("watches_of_network_changes", "no netlink sockets here");
        };
        // Another program may change the network meanwhile.
        changes.read().unwrap();
    }

    proptest! {
        #[test]
        fn malformed_messages_are_passed_over(
            kind in 16_u16..27,
            len in 0_u32..80,
            body in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = frame(kind, &body);
            parsed(&bytes);
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            prop_assert!(parsed(&bytes).len() <= bytes.len());
            parsed(&body);
        }
    }
}
