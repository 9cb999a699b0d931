//! A sample of one end of a connection at one time.

use lh_sys::tcp_info::{FIELDS, TcpInfo};

/// Names of this process's own values; docs/metrics.md has their meaning and units.
pub const SSH_FIELDS: [&str; 11] = [
    "bytes_in",
    "bytes_out",
    "channels",
    "receive_window",
    "send_credit",
    "queued",
    "rekeys",
    "cpu_micros",
    "receive_buffer_limit",
    "send_buffer_limit",
    "rate_limit",
];

/// Counters and queue sizes of the connection: the first of [`SSH_FIELDS`], in their units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "docs/metrics.md has the meaning of the names")]
pub struct Counters {
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub channels: u64,
    pub receive_window: u64,
    pub send_credit: u64,
    pub queued: u64,
    pub rekeys: u64,
}

/// What a sample is taken from.
#[derive(Debug)]
pub struct Source {
    /// Counters of the connection.
    pub counters: Counters,
    /// The kernel's data; `None` where there is no TCP connection (behind a proxy command).
    pub tcp: Option<TcpInfo>,
    /// Name of TCP's congestion control.
    pub congestion_control: Option<String>,
    /// The program's own rate limit, bytes/s.
    pub rate_limit: Option<u64>,
}

/// Named values. Names are those of [`FIELDS`] and [`SSH_FIELDS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The kernel's values; empty where there is no TCP connection (behind a proxy command).
    pub tcp: Vec<(&'static str, u64)>,
    /// The process's own values; empty where the peer does not send them.
    pub ssh: Vec<(&'static str, u64)>,
    /// Name of TCP's congestion control, where it is known.
    pub congestion_control: Option<String>,
}

/// Upper limit of a congestion control's name in Linux, bytes (`TCP_CA_NAME_MAX`).
const LONGEST_NAME: usize = 16;

impl Sample {
    /// The current values of this end, and the version of the kernel's part.
    pub fn of(source: Source) -> (Self, Option<(u8, u8)>) {
        let Source { counters, tcp, congestion_control, rate_limit } = source;
        // Destructured without `..`, so that a new field cannot be forgotten.
        let Counters { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } =
            counters;
        let cpu = u64::try_from(lh_sys::time::process_cpu().as_micros()).unwrap_or(u64::MAX);
        // Without a TCP connection, TCP's buffers are no limit.
        let (receive_limit, send_limit) = match tcp {
            Some(_) => lh_sys::tuning::buffer_limits(),
            None => (None, None),
        };
        let counted =
            [bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys, cpu].map(Some);
        let limits = [receive_limit, send_limit, rate_limit];
        let values = SSH_FIELDS.into_iter().zip(counted.into_iter().chain(limits));
        let sample = Self {
            tcp: tcp.as_ref().map(|info| info.fields().collect()).unwrap_or_default(),
            ssh: values.filter_map(|(name, value)| Some((name, value?))).collect(),
            congestion_control: congestion_control.filter(|_| tcp.is_some()),
        };
        (sample, tcp.map(|tcp| tcp.version()))
    }

    /// Sets the name of a congestion control from a peer or a file. A name that no kernel would use is
    /// ignored.
    pub(crate) fn take_congestion_control(&mut self, name: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.is_empty() && name.len() < LONGEST_NAME && name.chars().all(plain) {
            self.congestion_control = Some(name.to_owned());
        }
    }

    /// Adds a value with a known name; others are ignored.
    pub(crate) fn take(&mut self, tcp: bool, name: &str, value: u64) {
        if tcp {
            if let Some(field) = FIELDS.iter().find(|field| field.name == name) {
                self.tcp.push((field.name, value));
            }
        } else if let Some(known) = SSH_FIELDS.into_iter().find(|known| *known == name) {
            self.ssh.push((known, value));
        }
    }

    /// Value of one of the kernel's fields.
    pub fn tcp(&self, name: &str) -> Option<u64> {
        find(&self.tcp, name)
    }

    /// Value of one of SSH's fields.
    pub fn ssh(&self, name: &str) -> Option<u64> {
        find(&self.ssh, name)
    }
}

fn find(values: &[(&'static str, u64)], name: &str) -> Option<u64> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
