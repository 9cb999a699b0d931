//! The user session process's side of the log of transfers and of the counters: measures the connection's
//! rates and reports to the monitor, every few seconds during transfers and at the end.

use std::time::{Duration, Instant};

use lh_driver::{ConnectionStats, ControlCx, Driver, DriverError, LinkError, Traffic};
use lh_metrics::Peak;
use lh_transport::Negotiated;

use super::shared::Shared;
use crate::monitor_ipc::MonitorRequest;
use crate::usage::{ConnectionUsage, FileOperation, Transfer};

/// Time between reports during transfers.
const INTERVAL: Duration = Duration::from_secs(5);

/// Measured rates of the connection, and the state of its reports.
pub(super) struct UsageReporter {
    peak_in: Peak,
    peak_out: Peak,
    /// Bytes received and sent, as last reported to the monitor.
    told: (u64, u64),
    /// Time of the next report.
    due: Option<Instant>,
}

impl UsageReporter {
    /// Begins to count, where usage is recorded.
    pub(super) fn new(shared: &Shared, traffic: Traffic, now: Instant) -> Option<Self> {
        shared.accounts.then(|| Self {
            peak_in: Peak::new(traffic.bytes_in, now),
            peak_out: Peak::new(traffic.bytes_out, now),
            told: (0, 0),
            due: None,
        })
    }

    /// Updates the measurements after each turn of the loop. Cheap.
    pub(super) fn turn(&mut self, traffic: Traffic, now: Instant) {
        let moved = (traffic.bytes_in, traffic.bytes_out);
        self.peak_in.update(moved.0, now);
        self.peak_out.update(moved.1, now);
        if self.due.is_none() && moved != self.told {
            self.due = Some(now + INTERVAL);
        }
    }

    /// Returns when [`tell`](Self::tell) is due.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Reports the connection's statistics to the monitor.
    pub(super) fn tell(&mut self, shared: &Shared, usage: &ConnectionUsage) {
        self.due = None;
        self.told = (usage.bytes_in, usage.bytes_out);
        let (peak_in, peak_out) = (self.peak_in.highest(0), self.peak_out.highest(0));
        shared.account(&MonitorRequest::ConnectionUsage(ConnectionUsage {
            peak_in,
            peak_out,
            ..usage.clone()
        }));
    }
}

/// Returns the connection's final statistics. Must be called before the driver is dropped.
pub(super) fn at_the_end(driver: &mut Driver, end: &Result<i32, DriverError>) -> ConnectionUsage {
    let figures = driver.stats();
    ConnectionUsage { end: words(end), ..usage(&driver.control(), &figures) }
}

/// Returns the connection's statistics, without the peaks, which the [`UsageReporter`] measures.
pub(super) fn usage(cx: &ControlCx<'_>, figures: &ConnectionStats) -> ConnectionUsage {
    let both = |names: &Negotiated, pick: fn(&Negotiated) -> (&String, &String)| {
        let (to_server, to_client) = pick(names);
        if to_server == to_client { to_server.clone() } else { format!("{to_server}/{to_client}") }
    };
    let of = |pick: fn(&Negotiated) -> (&String, &String)| {
        cx.negotiated().map(|names| both(names, pick)).unwrap_or_default()
    };
    ConnectionUsage {
        client: cx.peer_identification().unwrap_or_default().to_owned(),
        kex: cx.negotiated().map(|names| names.kex.clone()).unwrap_or_default(),
        cipher: of(|names| (&names.cipher_c2s, &names.cipher_s2c)),
        mac: of(|names| (&names.mac_c2s, &names.mac_s2c)),
        compression: of(|names| (&names.compression_c2s, &names.compression_s2c)),
        bytes_in: figures.bytes_in,
        bytes_out: figures.bytes_out,
        rekeys: figures.rekeys,
        ..ConnectionUsage::default()
    }
}

/// Returns a text about the end of a connection.
fn words(end: &Result<i32, DriverError>) -> String {
    match end {
        Ok(_) => "closed by server".to_owned(),
        Err(DriverError::Disconnected { .. }) => "disconnected by client".to_owned(),
        Err(DriverError::Link(LinkError::Closed { .. })) => "closed by client".to_owned(),
        Err(DriverError::KeepaliveTimeout) => "client timeout".to_owned(),
        Err(error) => format!("failed: {error}"),
    }
}

impl Shared {
    /// Reports a transfer to the monitor, where usage is recorded.
    pub(super) fn transferred(&self, transfer: Transfer) {
        if self.accounts {
            self.account(&MonitorRequest::Transfer(transfer));
        }
    }

    /// Reports an SFTP request that changed something or was denied.
    pub(super) fn operated(&self, operation: FileOperation) {
        self.account(&MonitorRequest::Operation(operation));
    }

    /// Reports uploads that were not renamed on this connection.
    pub(super) fn end_parts(&self) {
        let left = self.files.parts.borrow_mut().end(self.joined);
        left.into_iter().for_each(|transfer| self.transferred(transfer));
    }

    /// Sends a report to the monitor. An error is ignored: without the monitor the connection ends anyway.
    fn account(&self, request: &MonitorRequest) {
        let _ = self.monitor.borrow().send(&request.encode());
    }
}
