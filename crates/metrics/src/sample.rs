//! What one end of a connection looks like at one time.

use lh_driver::{ControlCx, Figures};
use lh_sys::tcp_info::FIELDS;

/// Names of the values that this process counts itself; docs/metrics.md has their meaning and units.
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

/// Names and values. Names are those of [`FIELDS`] and of [`SSH_FIELDS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The kernel's, empty where there is no TCP connection (behind a proxy command).
    pub tcp: Vec<(&'static str, u64)>,
    /// This process's own, empty where the other end does not send them.
    pub ssh: Vec<(&'static str, u64)>,
    /// Name of TCP's congestion control, where it is known.
    pub congestion_control: Option<String>,
}

/// Length of the longest name that Linux gives a congestion control (`TCP_CA_NAME_MAX`), bytes.
const LONGEST_NAME: usize = 16;

impl Sample {
    /// The values of this end now, and the version of the kernel's part. `rate_limit` is the limit that the program keeps to
    /// by itself, bytes/s.
    pub fn of(cx: &ControlCx<'_>, rate_limit: Option<u64>) -> (Self, Option<(u8, u8)>) {
        let tcp = cx.tcp_info();
        // By name, so that none gets lost.
        let Figures { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } =
            cx.figures();
        let cpu = u64::try_from(lh_sys::time::process_cpu().as_micros()).unwrap_or(u64::MAX);
        // Without a TCP connection the buffers of TCP limit nothing.
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
            congestion_control: tcp.as_ref().and_then(|_| cx.congestion_control()),
        };
        (sample, tcp.map(|tcp| tcp.version()))
    }

    /// Takes the name of a congestion control that a peer or a file tells. What no kernel would call one is ignored.
    pub(crate) fn take_congestion_control(&mut self, name: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.is_empty() && name.len() < LONGEST_NAME && name.chars().all(plain) {
            self.congestion_control = Some(name.to_owned());
        }
    }

    /// Takes a value under a name that is known; others say nothing.
    pub(crate) fn take(&mut self, tcp: bool, name: &str, value: u64) {
        if tcp {
            if let Some(field) = FIELDS.iter().find(|field| field.name == name) {
                self.tcp.push((field.name, value));
            }
        } else if let Some(known) = SSH_FIELDS.into_iter().find(|known| *known == name) {
            self.ssh.push((known, value));
        }
    }

    /// One of the kernel's values.
    pub fn tcp(&self, name: &str) -> Option<u64> {
        find(&self.tcp, name)
    }

    /// One of SSH's.
    pub fn ssh(&self, name: &str) -> Option<u64> {
        find(&self.ssh, name)
    }
}

fn find(values: &[(&'static str, u64)], name: &str) -> Option<u64> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
