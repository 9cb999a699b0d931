//! Figures of a connection that runs, for logs and for people who watch.

use lh_sys::tcp_info::TcpInfo;

use crate::core::Core;
use crate::{ControlCx, Driver};

/// What the transport and the channels count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Bytes received over the connection, with everything SSH puts around data.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Channels that exist.
    pub channels: u64,
    /// Our receive windows together, bytes.
    pub receive_window: u64,
    /// What the peer's windows let us send now, bytes.
    pub send_credit: u64,
    /// Output that waits to be written, bytes.
    pub queued: u64,
    /// Key exchanges since the loop began.
    pub rekeys: u64,
}

impl Core {
    fn figures(&self) -> Figures {
        let transport = self.link.transport_ref();
        let totals = self.connection.totals();
        Figures {
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
    /// What has been counted.
    pub fn figures(&self) -> Figures {
        self.core.figures()
    }
}

impl ControlCx<'_> {
    /// What has been counted.
    pub fn figures(&self) -> Figures {
        self.core.figures()
    }

    /// What the kernel says about the connection; `None` where it is no TCP connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        TcpInfo::of(self.core.link.stream().read_fd())
    }

    /// Name of the connection's congestion control; `None` where it is no TCP connection.
    pub fn congestion_control(&self) -> Option<String> {
        lh_sys::tuning::congestion_control(self.core.link.stream().read_fd())
    }
}
