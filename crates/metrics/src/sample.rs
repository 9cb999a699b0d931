//! What one end of a connection looks like at one time.

use lh_driver::{ControlCx, Figures};
use lh_sys::tcp_info::{FIELDS, TcpInfo};

/// Names of SSH's own figures: bytes of the transport each way (after encryption), channels, the sum of our receive windows, what
/// the peer's windows let us send now, output that waits to be written, and key exchanges after the first.
pub const SSH_FIELDS: [&str; 7] =
    ["bytes_in", "bytes_out", "channels", "receive_window", "send_credit", "queued", "rekeys"];

/// Names and values. Names are those of [`FIELDS`] and of [`SSH_FIELDS`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The kernel's, empty where there is no TCP connection (behind a proxy command).
    pub tcp: Vec<(&'static str, u64)>,
    /// SSH's own, empty where the other end does not send them.
    pub ssh: Vec<(&'static str, u64)>,
}

impl Sample {
    /// What is known here, and the version of the kernel's part.
    pub fn of(cx: &ControlCx<'_>) -> (Self, Option<(u8, u8)>) {
        let tcp = cx.tcp_info();
        (Self::new(tcp.as_ref(), &cx.figures()), tcp.map(|tcp| tcp.version()))
    }

    /// From what was asked before.
    pub fn new(tcp: Option<&TcpInfo>, figures: &Figures) -> Self {
        let tcp = tcp.map(|info| info.fields().collect()).unwrap_or_default();
        // By name, so that none gets lost.
        let Figures { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } = *figures;
        let ssh = [bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys];
        Self { tcp, ssh: SSH_FIELDS.into_iter().zip(ssh).collect() }
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
