//! Statistics of a running connection, for logs and status displays.

use lh_sys::tcp_info::TcpInfo;

use crate::Driver;
use crate::handler::{ControlCx, Core};

/// Counters and queue sizes of the transport and the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionStats {
    /// Bytes received over the connection, including SSH's overhead.
    pub bytes_in: u64,
    /// Bytes sent, including SSH's overhead.
    pub bytes_out: u64,
    /// Number of channels.
    pub channels: u64,
    /// Sum of our receive windows, bytes.
    pub receive_window: u64,
    /// Bytes that the peer's windows let us send now.
    pub send_credit: u64,
    /// Output that waits to be written, bytes.
    pub queued: u64,
    /// Key exchanges since the loop began.
    pub rekeys: u64,
}

impl Core {
    fn stats(&self) -> ConnectionStats {
        let transport = self.link.transport_ref();
        let totals = self.connection.totals();
        ConnectionStats {
            bytes_in: transport.bytes_in(),
            bytes_out: transport.bytes_out(),
            channels: totals.channels,
            receive_window: totals.receive_window,
            send_credit: totals.send_credit,
            queued: transport.queued_bytes() as u64,
            rekeys: self.rekeys,
        }
    }
}

impl Driver {
    /// Current statistics.
    pub fn stats(&self) -> ConnectionStats {
        self.core.stats()
    }
}

impl ControlCx<'_> {
    /// Current statistics.
    pub fn stats(&self) -> ConnectionStats {
        self.core.stats()
    }

    /// The kernel's TCP_INFO; `None` where the connection is not a TCP socket.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        TcpInfo::of(self.core.link.stream().read_fd())
    }

    /// Name of the connection's congestion control; `None` where it is not a TCP socket.
    pub fn congestion_control(&self) -> Option<String> {
        lh_sys::tuning::congestion_control(self.core.link.stream().read_fd())
    }
}
