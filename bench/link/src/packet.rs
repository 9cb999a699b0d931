//! Splitting of large segments into their packets on the wire.
//!
//! TCP passes up to 64 KiB as one packet with one set of headers. On the wire that would be some forty
//! packets with headers each. Rate and queue count those, and loss drops single ones. The rest of a large
//! segment that lost a packet is forwarded as two large segments, before and after the gap.

pub use lh_sys::tun::VNET_HEADER_LEN;

/// Link-layer bytes of a packet that count for the rate: an Ethernet header, as in tc(8).
pub const FRAME_LEN: u64 = 14;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// TCP flags that only the last segment keeps.
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Division of a packet into segments on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Length of the IP packet, without the vnet header.
    ip_len: usize,
    /// Length of IP and TCP headers, repeated in each segment.
    headers: usize,
    /// Offset of the TCP header.
    transport: usize,
    /// Payload bytes of each segment except the last.
    segment: usize,
    /// Number of packets on the wire.
    pub segments: u64,
}

fn u16_at(bytes: &[u8], at: usize, from: fn([u8; 2]) -> u16) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(from)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

impl Layout {
    /// Parses the headers of a packet from the device. A packet that is not a valid large TCP segment counts
    /// as one packet.
    pub fn of(packet: &[u8]) -> Self {
        let ip_len = packet.len().saturating_sub(VNET_HEADER_LEN);
        let whole = Self { ip_len, headers: 0, transport: 0, segment: ip_len, segments: 1 };
        Self::of_large(packet, ip_len).unwrap_or(whole)
    }

    fn of_large(packet: &[u8], ip_len: usize) -> Option<Self> {
        let kind = packet.get(1)? & !GSO_ECN;
        if kind != GSO_TCPV4 && kind != GSO_TCPV6 {
            return None;
        }
        let segment = usize::from(u16_at(packet, 4, u16::from_ne_bytes)?);
        let transport = usize::from(u16_at(packet, 6, u16::from_ne_bytes)?);
        let offset = packet.get(VNET_HEADER_LEN + transport + 12)? >> 4;
        // From here on both headers have at least their fixed lengths.
        let (version, ip_header) = if kind == GSO_TCPV4 { (4, 20) } else { (6, 40) };
        if packet.get(VNET_HEADER_LEN)? >> 4 != version || transport < ip_header || offset < 5 {
            return None;
        }
        let headers = transport + usize::from(offset) * 4;
        let payload = ip_len.checked_sub(headers)?;
        if segment == 0 || payload == 0 {
            return None;
        }
        Some(Self { ip_len, headers, transport, segment, segments: payload.div_ceil(segment) as u64 })
    }

    /// Wire bytes of each segment except the last, or of the only one.
    pub fn full_segment_len(&self) -> u64 {
        self.headers.saturating_add(self.segment).min(self.ip_len) as u64 + FRAME_LEN
    }

    /// Wire bytes of `count` segments from number `first` on.
    pub fn wire_len(&self, first: u64, count: u64) -> u64 {
        let (from, to) = self.payload(first, count);
        (to - from) as u64 + count * (self.headers as u64 + FRAME_LEN)
    }

    /// Start and end of the payload of these segments, relative to the end of the headers.
    fn payload(&self, first: u64, count: u64) -> (usize, usize) {
        let all = self.ip_len - self.headers;
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_mul(self.segment).min(all);
        let from = at(first);
        (from, at(first.saturating_add(count)).max(from))
    }

    /// Writes `count` segments of `packet` from number `first` on to `out` as a packet of their own. Returns
    /// its length with the vnet header.
    pub fn cut(&self, packet: &[u8], first: u64, count: u64, out: &mut [u8]) -> Option<usize> {
        if self.headers == 0 {
            out.get_mut(..packet.len())?.copy_from_slice(packet);
            return Some(packet.len());
        }
        let (from, to) = self.payload(first, count);
        let head = VNET_HEADER_LEN + self.headers;
        let len = head + to - from;
        let out = out.get_mut(..len)?;
        let (new_head, new_payload) = out.split_at_mut_checked(head)?;
        new_head.copy_from_slice(packet.get(..head)?);
        new_payload.copy_from_slice(packet.get(head + from..head + to)?);

        if count <= 1 {
            new_head[1] = GSO_NONE;
            put(new_head, 4, &[0, 0]);
        } else if first > 0 {
            new_head[1] &= !GSO_ECN;
        }
        let last = first + count >= self.segments;
        let ip = new_head.get_mut(VNET_HEADER_LEN..)?;
        let new_len = self.headers + to - from;
        if ip.first()? >> 4 == 4 {
            put(ip, 2, &(new_len as u16).to_be_bytes());
            let id = u16_at(ip, 4, u16::from_be_bytes)?.wrapping_add(first as u16);
            put(ip, 4, &id.to_be_bytes());
            put(ip, 10, &[0, 0]);
            let sum = !ones_sum(ip.get(..self.transport)?);
            put(ip, 10, &sum.to_be_bytes());
        } else {
            put(ip, 4, &((new_len - 40) as u16).to_be_bytes());
        }
        let tcp = ip.get_mut(self.transport..)?;
        let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?).wrapping_add(from as u32);
        put(tcp, 4, &sequence.to_be_bytes());
        if !last {
            tcp[13] &= !FIN_PSH;
        }
        if first > 0 {
            tcp[13] &= !CWR;
        }
        // The kernel computes the checksum later: its field holds the sum of the pseudo header, of which the
        // length changed.
        let old_len = (self.ip_len - self.transport) as u16;
        let tcp_len = (new_len - self.transport) as u16;
        let old = u16_at(tcp, 16, u16::from_be_bytes)?;
        let sum = fold(u32::from(old) + u32::from(!old_len) + u32::from(tcp_len));
        put(tcp, 16, &sum.to_be_bytes());
        Some(len)
    }
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The ones' complement sum (RFC 1071).
fn ones_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    fold(words.sum())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A large TCP segment over IPv4 in the kernel's form, with a TCP header of 32 bytes.
    fn large_v4(payload: usize, gso: u16) -> Vec<u8> {
        let mut packet = vec![1, GSO_TCPV4 | GSO_ECN];
        for field in [52u16, gso, 20, 16] {
            packet.extend(field.to_ne_bytes());
        }
        let total = (52 + payload) as u16;
        let mut ip = vec![0x45, 0];
        ip.extend(total.to_be_bytes());
        ip.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = !ones_sum(&ip);
        put(&mut ip, 10, &sum.to_be_bytes());
        packet.extend(ip);
        let mut tcp = vec![0; 32];
        put(&mut tcp, 4, &0xffff_ff00u32.to_be_bytes());
        tcp[12] = 0x80;
        tcp[13] = 0x10 | FIN_PSH | CWR;
        put(&mut tcp, 16, &pseudo_v4((32 + payload) as u16).to_be_bytes());
        packet.extend(tcp);
        packet.extend((0..payload).map(|n| n as u8));
        packet
    }

    fn pseudo_v4(tcp_len: u16) -> u16 {
        let mut bytes = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 6];
        bytes.extend(tcp_len.to_be_bytes());
        ones_sum(&bytes)
    }

    #[test]
    fn large_segment_counts_headers_of_each_packet() {
        let layout = Layout::of(&large_v4(44 * 1448 + 100, 1448));
        assert_eq!(layout.segments, 45);
        assert_eq!(layout.full_segment_len(), 1500 + 14);
        assert_eq!(layout.wire_len(0, 45), 44 * 1514 + 100 + 52 + 14);
        assert_eq!(layout.wire_len(44, 1), 166);
        assert_eq!(layout.wire_len(0, 10) + layout.wire_len(10, 35), layout.wire_len(0, 45));
    }

    #[test]
    fn small_packet_counts_once() {
        let mut packet = vec![0; VNET_HEADER_LEN];
        packet.extend([0x45; 60]);
        let layout = Layout::of(&packet);
        assert_eq!((layout.segments, layout.full_segment_len(), layout.wire_len(0, 1)), (1, 74, 74));
    }

    #[test]
    fn split_packets_are_valid_tcp() {
        let packet = large_v4(5 * 1000 + 7, 1000);
        let layout = Layout::of(&packet);
        let mut out = vec![0; 70_000];

        let len = layout.cut(&packet, 2, 2, &mut out).unwrap();
        assert_eq!(len, VNET_HEADER_LEN + 52 + 2000);
        assert_eq!(out[1], GSO_TCPV4, "more than one: still large, and no longer the one with CWR");
        let ip = &out[VNET_HEADER_LEN..len];
        assert_eq!(ip[2..4], 2052u16.to_be_bytes());
        assert_eq!(ip[4..6], [0x12, 0x36]);
        assert_eq!(ones_sum(&ip[..20]), 0xffff, "header checksum");
        assert_eq!(ip[24..28], 0xffff_ff00u32.wrapping_add(2000).to_be_bytes());
        assert_eq!(ip[33], 0x10, "neither the first nor the last");
        assert_eq!(ip[36..38], pseudo_v4(2032).to_be_bytes());
        assert_eq!(ip[52..], packet[VNET_HEADER_LEN + 52 + 2000..VNET_HEADER_LEN + 52 + 4000]);

        let len = layout.cut(&packet, 5, 1, &mut out).unwrap();
        assert_eq!(len, VNET_HEADER_LEN + 52 + 7);
        assert_eq!((out[1], out[4], out[5]), (GSO_NONE, 0, 0));
        assert_eq!(out[VNET_HEADER_LEN + 33], 0x10 | FIN_PSH, "the last one ends what was pushed");

        let len = layout.cut(&packet, 0, 1, &mut out).unwrap();
        assert_eq!(out[VNET_HEADER_LEN + 33], 0x10 | CWR);
        assert_eq!(len, VNET_HEADER_LEN + 1052);

        let len = layout.cut(&packet, 0, 6, &mut out).unwrap();
        assert_eq!(out[..len], packet, "cutting all segments returns the packet unchanged");
    }

    proptest! {
        #[test]
        fn arbitrary_packets_do_not_panic(
            mut packet in prop::collection::vec(any::<u8>(), 20..3000),
            kind in prop::sample::select(vec![(GSO_NONE, 0x45), (GSO_TCPV4, 0x45), (GSO_TCPV6 | GSO_ECN, 0x60)]),
            transport in 0u16..100,
            first in 0u64..50,
            count in 1u64..50,
        ) {
            // Makes more random packets pass the first checks.
            (packet[1], packet[VNET_HEADER_LEN]) = kind;
            put(&mut packet, 6, &transport.to_ne_bytes());
            let layout = Layout::of(&packet);
            prop_assert!(layout.segments >= 1);
            layout.wire_len(first, count);
            layout.cut(&packet, first, count, &mut vec![0; 70_000]);
        }
    }
}
