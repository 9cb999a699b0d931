//! The result of a flow, by subject.

use lh_metrics::drops::Drops;
use lh_metrics::threads::Usage;

use super::devices::DeviceRate;
use super::pauses::Pauses;
use super::scheduling::Scheduling;
use super::sender::Sender;
use super::shapers::Shaper;
use super::stopped::{Stopped, Tracer};
use super::turns::Turns;
use crate::memory::{MemoryGroup, MemoryGroups};
use crate::quota::Quota;

/// Part of a flow that is not counted: TCP's slow start.
pub(crate) const WARM_UP: f64 = 0.3;
/// Part of the samples in which the server's SSH window has to be closed for the command to set the rate.
pub(crate) const USED_UP: f64 = 0.5;
/// Samples behind the warm-up that suffice for a verdict.
pub(super) const SAMPLES: usize = 10;
/// Key exchanges in a flow from which it is compared with one without.
pub(crate) const MANY_REKEYS: u64 = 3;

/// The result of a flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    /// Bytes per second behind the warm-up.
    pub(crate) rate: f64,
    /// Rate of all connections of a comparison, bytes/s, at the time when all of them moved data.
    pub(crate) together: Option<f64>,
    /// Length of the flow, seconds.
    pub(crate) seconds: f64,
    /// Samples behind the warm-up.
    pub(crate) samples: usize,
    /// Bytes that this process or the server's SSH process moved in all.
    pub(crate) moved: f64,
    /// Median round trip of a small SSH message beside the flow, seconds.
    pub(crate) ping: Option<f64>,
    /// Times without progress.
    pub(crate) pauses: Pauses,
    pub(crate) rekeys: Rekeys,
    pub(crate) windows: SshWindows,
    pub(crate) application: Application,
    pub(crate) tcp: Tcp,
    pub(crate) packets: Packets,
    /// Processors, memory and devices of this machine.
    pub(crate) client: EndUsage,
    /// Processors, memory and devices of the server.
    pub(crate) server: EndUsage,
    /// Why there is no result, or half of one.
    pub(crate) failure: Option<String>,
}

/// Key exchanges behind the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rekeys {
    pub(crate) count: u64,
    /// Bytes of the flow between two of them.
    pub(crate) bytes_each: f64,
}

/// Windows of the SSH channel (RFC 4254, section 5.2).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SshWindows {
    /// Share of samples in which the server's window was closed; upload only.
    pub(crate) closed: f64,
    /// The server's window, bytes; upload only.
    pub(crate) server: Option<f64>,
    /// That window, bytes, where it was used up and of one size throughout; upload only.
    pub(crate) constant: Option<f64>,
    /// The largest window that this end has granted the server, bytes; download only.
    pub(crate) granted: Option<f64>,
}

/// What the programs above TCP gave it to send and took from it: SSH at both ends, and the server's command.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Application {
    /// Part of the looks at the sending end's TCP at which SSH had given it too little to send
    /// (`app_limited`).
    pub(crate) starved: Option<f64>,
    /// Part of the looks at the server's TCP at which SSH had left much in its receive queue; upload only.
    pub(crate) unread: Option<f64>,
    /// Bytes per second that the command at the server has read behind the warm-up; upload only.
    pub(crate) taken: Option<f64>,
}

/// TCP of the flow's connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tcp {
    /// Lowest round trip, seconds.
    pub(crate) least_rtt: Option<f64>,
    /// Counters of the sending end.
    pub(crate) sender: Option<Sender>,
    /// The course of the sending end's losses.
    pub(crate) drops: Option<Drops>,
    /// Those of the flows whose losses were added.
    pub(crate) added_drops: Vec<Drops>,
    /// Whether windows may exceed 64 KiB: both ends have offered to scale them (RFC 7323 section 2).
    pub(crate) scales_windows: Option<bool>,
    /// Whether the receiver tells which segments arrived behind a lost one (RFC 2018).
    pub(crate) acknowledges_selectively: Option<bool>,
}

/// Marks of the flow's packets, and the queues that they wait in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packets {
    /// The type-of-service byte that the server's socket marks its packets with; download only.
    pub(crate) mark: Option<u8>,
    /// Part of the packets at the receiving system that arrived with a congestion mark (ECN).
    pub(crate) marked: Option<f64>,
    /// Shapers of the sending end's devices, with what they counted during the transfer.
    pub(crate) shapers: Vec<Shaper>,
}

/// What an end used during the flow, and what kept its SSH process from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndUsage {
    /// Cores used by the SSH process.
    pub(crate) cpu: Option<f64>,
    /// The busiest thread of the process: how it shared a processor.
    pub(crate) turns: Option<Turns>,
    /// Its priority, and the processors that it shares.
    pub(crate) scheduling: Scheduling,
    /// The threads of the process, where its samples have them.
    pub(crate) threads: Option<Usage>,
    /// The limit of a control group that stopped the process longest.
    pub(crate) quota: Option<Quota>,
    /// The memory group of the process whose limit cost most.
    pub(crate) memory: Option<MemoryGroup>,
    /// The memory groups of the process with a limit, at the end; server only.
    pub(crate) memory_groups: MemoryGroups,
    /// Part of the busy time of the processors that the hypervisor took.
    pub(crate) stolen: Option<f64>,
    /// Part of the time of the processors in which they had nothing to do, where the process may use all of
    /// them.
    pub(crate) idle: Option<f64>,
    /// How often the process was found stopped; server only.
    pub(crate) stopped: Option<Stopped>,
    /// What traces the process; server only.
    pub(crate) tracer: Option<Tracer>,
    /// Traffic of the network devices during the transfer.
    pub(crate) devices: Vec<DeviceRate>,
}

impl Flow {
    /// Both ends, with their names.
    pub(crate) const fn ends(&self) -> [(&'static str, &EndUsage); 2] {
        [("this machine", &self.client), ("the server", &self.server)]
    }

    /// Returns whether the samples suffice for a verdict.
    pub(crate) fn is_significant(&self) -> bool {
        self.samples >= SAMPLES && self.rate > 0.0
    }

    /// Segments that were sent again.
    pub(crate) fn resent(&self) -> f64 {
        self.tcp.sender.as_ref().map_or(0.0, |sender| sender.resent)
    }

    /// Adds what another flow in this direction lost. The rate becomes that of both, in the time of both.
    pub(crate) fn add_losses(&mut self, other: &Self) {
        let (Some(mine), Some(others)) = (self.tcp.sender.as_mut(), other.tcp.sender.as_ref()) else {
            return;
        };
        if !other.is_significant() {
            return;
        }
        self.tcp.added_drops.extend(other.tcp.drops.clone());
        mine.segments += others.segments;
        mine.resent += others.resent;
        mine.spurious += others.spurious;
        mine.reordered += others.reordered;
        let seconds = self.seconds + other.seconds;
        self.rate = (self.rate * self.seconds + other.rate * other.seconds) / seconds;
        self.seconds = seconds;
        self.samples += other.samples;
        self.rekeys.count += other.rekeys.count;
    }

    /// Share of segments that were sent again.
    pub(crate) fn loss(&self) -> Option<f64> {
        let sender = self.tcp.sender.as_ref()?;
        (sender.segments > 0.0).then(|| sender.resent / sender.segments)
    }
}
