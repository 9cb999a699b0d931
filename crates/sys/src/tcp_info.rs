//! The kernel's data about a TCP connection (`TCP_INFO`, tcp(7)).
//!
//! The kernel's structure only grows at its end, and the kernel returns the length that it filled: a field
//! exists when the filled part includes it. [`FIELDS`] has the offset of each field, under the kernel's name
//! without `tcpi_`.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the option is offered by the C library alone")
)]

use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;

/// Storage of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Byte,
    /// Bits of a byte: the first bit's number, then how many.
    Bits(u8, u8),
    Word,
    Long,
}

/// One field of the kernel's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The kernel's name, without `tcpi_`.
    pub name: &'static str,
    offset: usize,
    form: Form,
    /// First kernel that has the field (major, minor).
    pub since: (u8, u8),
}

impl Field {
    const fn end(&self) -> usize {
        self.offset
            + match self.form {
                Form::Byte | Form::Bits(..) => 1,
                Form::Word => 4,
                Form::Long => 8,
            }
    }
}

const fn field(name: &'static str, offset: usize, form: Form, since: (u8, u8)) -> Field {
    Field { name, offset, form, since }
}

/// Fields of Linux 2.6 and earlier.
const OLD: (u8, u8) = (2, 6);

/// Every field, grouped by kernel version, older ones first. Times are in microseconds, those whose names
/// begin with `last_` in milliseconds. Windows and counts are in segments (`snd_cwnd`, `unacked`) or bytes,
/// as in the kernel.
pub static FIELDS: &[Field] = &[
    field("state", 0, Form::Byte, OLD),
    field("ca_state", 1, Form::Byte, OLD),
    field("retransmits", 2, Form::Byte, OLD),
    field("probes", 3, Form::Byte, OLD),
    field("backoff", 4, Form::Byte, OLD),
    field("options", 5, Form::Byte, OLD),
    field("snd_wscale", 6, Form::Bits(0, 4), OLD),
    field("rcv_wscale", 6, Form::Bits(4, 4), OLD),
    field("rto", 8, Form::Word, OLD),
    field("ato", 12, Form::Word, OLD),
    field("snd_mss", 16, Form::Word, OLD),
    field("rcv_mss", 20, Form::Word, OLD),
    field("unacked", 24, Form::Word, OLD),
    field("sacked", 28, Form::Word, OLD),
    field("lost", 32, Form::Word, OLD),
    field("retrans", 36, Form::Word, OLD),
    field("fackets", 40, Form::Word, OLD),
    field("last_data_sent", 44, Form::Word, OLD),
    field("last_ack_sent", 48, Form::Word, OLD),
    field("last_data_recv", 52, Form::Word, OLD),
    field("last_ack_recv", 56, Form::Word, OLD),
    field("pmtu", 60, Form::Word, OLD),
    field("rcv_ssthresh", 64, Form::Word, OLD),
    field("rtt", 68, Form::Word, OLD),
    field("rttvar", 72, Form::Word, OLD),
    field("snd_ssthresh", 76, Form::Word, OLD),
    field("snd_cwnd", 80, Form::Word, OLD),
    field("advmss", 84, Form::Word, OLD),
    field("reordering", 88, Form::Word, OLD),
    field("rcv_rtt", 92, Form::Word, OLD),
    field("rcv_space", 96, Form::Word, OLD),
    field("total_retrans", 100, Form::Word, OLD),
    field("max_pacing_rate", 112, Form::Long, (3, 15)),
    field("pacing_rate", 104, Form::Long, (3, 15)),
    field("bytes_acked", 120, Form::Long, (4, 1)),
    field("bytes_received", 128, Form::Long, (4, 1)),
    field("segs_in", 140, Form::Word, (4, 2)),
    field("segs_out", 136, Form::Word, (4, 2)),
    field("notsent_bytes", 144, Form::Word, (4, 6)),
    field("min_rtt", 148, Form::Word, (4, 6)),
    field("data_segs_in", 152, Form::Word, (4, 6)),
    field("data_segs_out", 156, Form::Word, (4, 6)),
    field("delivery_rate_app_limited", 7, Form::Bits(0, 1), (4, 9)),
    field("delivery_rate", 160, Form::Long, (4, 9)),
    field("busy_time", 168, Form::Long, (4, 10)),
    field("sndbuf_limited", 184, Form::Long, (4, 10)),
    field("rwnd_limited", 176, Form::Long, (4, 10)),
    field("delivered", 192, Form::Word, (4, 18)),
    field("delivered_ce", 196, Form::Word, (4, 18)),
    field("bytes_sent", 200, Form::Long, (4, 19)),
    field("bytes_retrans", 208, Form::Long, (4, 19)),
    field("dsack_dups", 216, Form::Word, (4, 19)),
    field("reord_seen", 220, Form::Word, (4, 19)),
    field("snd_wnd", 228, Form::Word, (5, 4)),
    field("rcv_ooopack", 224, Form::Word, (5, 4)),
    field("fastopen_client_fail", 7, Form::Bits(1, 2), (5, 5)),
];

/// The kernel's data about one connection at one time.
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    bytes: [u8; 256],
    length: usize,
}

impl TcpInfo {
    /// Queries a socket; `None` where it is not a TCP socket.
    #[cfg(target_os = "linux")]
    pub fn of(socket: impl AsFd) -> Option<Self> {
        let mut info = Self { bytes: [0; 256], length: 0 };
        let mut length = libc::socklen_t::try_from(info.bytes.len()).ok()?;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open during the call, and the kernel writes at most `length` bytes, the
        // buffer's size.
        let status = unsafe {
            libc::getsockopt(
                fd,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        info.length = (length as usize).min(info.bytes.len());
        (status == 0 && info.length > 0).then_some(info)
    }

    /// `None`: other systems have an option of this name, with other fields at other offsets.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_: impl AsFd) -> Option<Self> {
        None
    }

    /// Value of a field; `None` where this kernel does not have it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.value(FIELDS.iter().find(|field| field.name == name)?)
    }

    /// All fields that this kernel has, in the order of [`FIELDS`].
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FIELDS.iter().filter_map(|field| Some((field.name, self.value(field)?)))
    }

    /// Newest kernel version (major, minor) of [`FIELDS`] all of whose fields are present.
    pub fn version(&self) -> (u8, u8) {
        let missing =
            FIELDS.iter().filter(|field| self.value(field).is_none()).map(|field| field.since).min();
        FIELDS
            .iter()
            .map(|field| field.since)
            .filter(|since| missing.is_none_or(|missing| *since < missing))
            .max()
            .unwrap_or(OLD)
    }

    fn value(&self, field: &Field) -> Option<u64> {
        // The bits in byte 7 were padding in older kernels: fields of the same kernel version show whether
        // they are valid.
        let needed = match field.since {
            (4, 9) => 168,
            (5, 5) => 232,
            _ => field.end(),
        };
        if self.length < needed {
            return None;
        }
        let bytes = self.bytes.get(field.offset..field.end())?;
        Some(match field.form {
            Form::Byte => u64::from(*bytes.first()?),
            Form::Bits(from, count) => u64::from((bytes.first()? >> from) & ((1 << count) - 1)),
            Form::Word => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            Form::Long => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn received_bytes_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 50_000]).unwrap();
        server.read_exact(&mut [0; 50_000]).unwrap();
        let info = TcpInfo::of(&server).unwrap();
        // 1 is TCP_ESTABLISHED.
        assert_eq!(info.get("state"), Some(1));
        assert!(info.get("rcv_mss").unwrap() > 0);
        if info.version() >= (4, 1) {
            assert_eq!(info.get("bytes_received"), Some(50_000));
        }
        assert!(info.fields().count() >= 32);
        assert_eq!(info.get("nonsense"), None);
        assert!(TcpInfo::of(crate::fd::null().unwrap()).is_none());
    }

    #[test]
    fn older_kernel_has_fewer_fields() {
        let mut info = TcpInfo { bytes: [9; 256], length: 104 };
        assert_eq!((info.version(), info.fields().count()), ((2, 6), 32));
        assert_eq!((info.get("min_rtt"), info.get("delivery_rate_app_limited")), (None, None));
        info.length = 160;
        assert_eq!(info.version(), (4, 6));
        info.length = 232;
        assert_eq!((info.version(), info.fields().count()), ((5, 5), FIELDS.len()));
        assert_eq!((info.get("snd_wscale"), info.get("rcv_wscale")), (Some(9), Some(0)));
    }
}
