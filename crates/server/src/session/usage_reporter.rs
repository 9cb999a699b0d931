//! The user session process's side of the log of transfers and of the counters: it looks how fast the
//! connection is and tells the monitor, every few seconds while something moves, and at its end.

use std::time::{Duration, Instant};

use lh_driver::{ConnectionStats, ControlCx, Driver, DriverError, LinkError, Traffic};
use lh_metrics::Peak;
use lh_transport::Negotiated;

use super::shared::Shared;
use crate::monitor_ipc::MonitorRequest;
use crate::usage::{Conduct, FileOperation, Transfer};

/// How often counters grow while something moves.
const INTERVAL: Duration = Duration::from_secs(5);

/// What is known about the speed of the connection.
pub(super) struct UsageReporter {
    peak_in: Peak,
    peak_out: Peak,
    /// What the monitor knows.
    told: (u64, u64),
    /// When it is told more.
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

    /// A turn of the loop is over. Cheap.
    pub(super) fn turn(&mut self, traffic: Traffic, now: Instant) {
        let moved = (traffic.bytes_in, traffic.bytes_out);
        self.peak_in.update(moved.0, now);
        self.peak_out.update(moved.1, now);
        if self.due.is_none() && moved != self.told {
            self.due = Some(now + INTERVAL);
        }
    }

    /// When [`tell`](Self::tell) is due.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Tells the monitor how it goes, or has gone.
    pub(super) fn tell(&mut self, shared: &Shared, conduct: &Conduct) {
        self.due = None;
        self.told = (conduct.bytes_in, conduct.bytes_out);
        let (peak_in, peak_out) = (self.peak_in.highest(0), self.peak_out.highest(0));
        shared.account(&MonitorRequest::Conduct(Conduct { peak_in, peak_out, ..conduct.clone() }));
    }
}

/// How a connection has gone, to be looked at before its driver is gone.
pub(super) fn at_the_end(driver: &mut Driver, end: &Result<i32, DriverError>) -> Conduct {
    let figures = driver.stats();
    Conduct { end: words(end), ..conduct(&driver.control(), &figures) }
}

/// How a connection goes. The peaks are the [`UsageReporter`]'s to know.
pub(super) fn conduct(cx: &ControlCx<'_>, figures: &ConnectionStats) -> Conduct {
    let both = |names: &Negotiated, pick: fn(&Negotiated) -> (&String, &String)| {
        let (to_server, to_client) = pick(names);
        if to_server == to_client { to_server.clone() } else { format!("{to_server}/{to_client}") }
    };
    let of = |pick: fn(&Negotiated) -> (&String, &String)| {
        cx.negotiated().map(|names| both(names, pick)).unwrap_or_default()
    };
    Conduct {
        client: cx.peer_identification().unwrap_or_default().to_owned(),
        kex: cx.negotiated().map(|names| names.kex.clone()).unwrap_or_default(),
        cipher: of(|names| (&names.cipher_c2s, &names.cipher_s2c)),
        mac: of(|names| (&names.mac_c2s, &names.mac_s2c)),
        compression: of(|names| (&names.compression_c2s, &names.compression_s2c)),
        bytes_in: figures.bytes_in,
        bytes_out: figures.bytes_out,
        rekeys: figures.rekeys,
        ..Conduct::default()
    }
}

/// How a connection ended.
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
    /// Tells the monitor about a transfer, where usage is recorded.
    pub(super) fn transferred(&self, transfer: Transfer) {
        if self.accounts {
            self.account(&MonitorRequest::Transfer(transfer));
        }
    }

    /// Tells the monitor about a request that changed something or was denied.
    pub(super) fn operated(&self, operation: FileOperation) {
        self.account(&MonitorRequest::Operation(operation));
    }

    /// Tells the monitor about uploads that were not renamed on this connection.
    pub(super) fn end_parts(&self) {
        let left = self.files.parts.borrow_mut().end(self.joined);
        left.into_iter().for_each(|transfer| self.transferred(transfer));
    }

    /// Tells the monitor. When it is gone so is the connection, and nothing is left to be done here.
    fn account(&self, request: &MonitorRequest) {
        let _ = self.monitor.borrow().send(&request.encode());
    }
}
