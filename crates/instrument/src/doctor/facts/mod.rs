//! Measurements of a run of the doctor, by subject, and its settings.

mod logins;
mod path;
mod sessions;
mod systems;
mod throughput;

use std::path::PathBuf;

use crate::stats::lowest;

pub(crate) use logins::{Home, Logins, Negotiated};
pub(crate) use path::{JumpHost, PathAtRest};
pub(crate) use sessions::{Idle, IdleEnd, Master, Refusals, Sftp, SharedRate, Shell};
pub(crate) use systems::{Disks, Systems, Unwritable};
pub(crate) use throughput::{
    BelowPolicer, DirectionThroughput, FilledQueue, FullWindow, Losses, Mark, OtherCipher, OtherControl,
    OtherSettings, Throughput,
};

/// Words about a connection that ended before its command.
pub(super) const CLOSED: [&str; 4] =
    ["closed by remote host", "Connection reset", "Connection closed", "Broken pipe"];

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// A directory of this machine, whose disk is measured.
    pub local_directory: PathBuf,
    /// A directory of the server, whose disk is measured.
    pub remote_directory: String,
}

/// Everything measured; what could not be is in `run.missing`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) run: Run,
    pub(crate) negotiated: Negotiated,
    pub(crate) path: PathAtRest,
    /// The way to the last jump host by itself.
    pub(crate) jump_host: Option<JumpHost>,
    pub(crate) logins: Logins,
    pub(crate) shell: Option<Shell>,
    pub(crate) sftp: Sftp,
    pub(crate) systems: Systems,
    pub(crate) disks: Disks,
    pub(crate) throughput: Throughput,
    pub(crate) other_settings: OtherSettings,
    pub(crate) refusals: Refusals,
    /// The shared connection that programs with this configuration use.
    pub(crate) master: Option<Master>,
    /// A session over which nothing was sent for a while.
    pub(crate) idle_session: Option<Idle>,
}

/// The run itself: the host, what was done, and what was not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    /// The host, as the user named it.
    pub(crate) host: String,
    /// Measurements that were not made, and why.
    pub(crate) missing: Vec<String>,
    /// Names of the steps of the measurement, each with its seconds.
    pub(crate) steps: Vec<(String, f64)>,
}

impl Facts {
    /// The path's round trip without load, seconds: where something on the path answers in the server's
    /// place, that of SSH.
    pub(crate) fn round_trip(&self) -> f64 {
        self.path.answered_on_the_way().map_or_else(|| self.least_round_trip(), |(_, of_ssh)| of_ssh)
    }

    fn least_round_trip(&self) -> f64 {
        let of_flows = self.throughput.flows().filter_map(|flow| flow.tcp.least_rtt);
        let of_probe = self.path.reached.iter().map(|reached| reached.connect);
        lowest(of_flows.chain(of_probe).chain(self.path.pings.iter().copied())).unwrap_or(0.0).max(20e-6)
    }

    /// Round trips of the server's TCP during a download and of SSH, seconds, where the server's TCP ends on
    /// the way: under load, a connection that reaches this machine takes a whole round trip and more.
    pub(crate) fn relayed_at_server(&self) -> Option<(f64, f64)> {
        let flow = self.throughput.down.flow.as_ref();
        let flow = flow.filter(|flow| flow.is_significant() && !self.path.is_proxied)?;
        let of_tcp = flow.tcp.sender.as_ref()?.loaded_rtt?;
        self.path.ends_on_the_way(of_tcp)
    }
}
