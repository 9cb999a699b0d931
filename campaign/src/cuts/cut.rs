//! The ways in which a path is cut, and how long the session may take to go on.

use std::time::Duration;

use lh_testkit::Seeded;
use rustix::process::Signal;

use super::network::Network;
use crate::faults::signal;

/// Time for which a firewall resets what it sees.
const RESETTING: Duration = Duration::from_millis(150);
/// Time in which a client notices that a path has fallen silent: two seconds without a byte, and one without
/// an answer to its question.
const SILENCE: Duration = Duration::from_secs(3);
/// Time that may be lost beyond the outage. Two round trips of this path are a few milliseconds.
const MARGIN: Duration = Duration::from_secs(1);

/// A way to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut {
    Reset,
    Blackhole,
    LinkDown,
    Address,
    Stop,
    Rebind,
    SilentRebind,
}

impl Cut {
    /// All of these.
    pub(super) const ALL: [Self; 7] = [
        Self::Reset,
        Self::Blackhole,
        Self::LinkDown,
        Self::Address,
        Self::Stop,
        Self::Rebind,
        Self::SilentRebind,
    ];

    /// As in the reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RST",
            Self::Blackhole => "blackhole",
            Self::LinkDown => "link down",
            Self::Address => "another address",
            Self::Stop => "SIGSTOP of the client",
            Self::Rebind => "NAT rebind",
            Self::SilentRebind => "NAT rebind, silent",
        }
    }

    /// True for cuts that no connection survives: the session goes on over another one, or has ended before.
    pub(super) const fn ends_connections(self) -> bool {
        matches!(self, Self::Reset | Self::Address | Self::Rebind | Self::SilentRebind)
    }

    /// A random time without a path. `longest` is for stops and for silence.
    pub(super) fn outage(self, random: &mut Seeded, longest: Duration) -> Duration {
        match self {
            Self::Reset => RESETTING,
            Self::Address | Self::Rebind | Self::SilentRebind => Duration::ZERO,
            Self::Blackhole | Self::LinkDown | Self::Stop => {
                Duration::from_millis(500 + random.next_u64() % 8000).min(longest)
            }
        }
    }

    /// Time that may be lost beyond this outage.
    pub(super) fn allowed(self, outage: Duration) -> Duration {
        match self {
            // Of these the kernel tells.
            Self::Reset | Self::LinkDown | Self::Address | Self::Stop => MARGIN,
            // And of these only silence.
            Self::Blackhole | Self::Rebind | Self::SilentRebind => SILENCE.saturating_sub(outage) + MARGIN,
        }
    }

    /// Cuts the path, and returns when it could be used again.
    ///
    /// # Errors
    /// The network cannot be changed.
    pub(super) fn make(self, network: &mut Network, outage: Duration) -> Result<(), String> {
        let wait = || std::thread::sleep(outage);
        match self {
            Self::Reset => {
                network.set_resetting(true)?;
                wait();
                network.set_resetting(false)
            }
            Self::Blackhole => {
                network.set_dropping(true)?;
                wait();
                network.set_dropping(false)
            }
            Self::LinkDown => {
                network.set_link(false)?;
                wait();
                network.set_link(true)
            }
            Self::Address => network.move_client(),
            Self::Stop => {
                let clients = network.client_processes("lhssh");
                signal(&clients, Signal::STOP);
                wait();
                signal(&clients, Signal::CONT);
                Ok(())
            }
            Self::Rebind => network.rebind(true),
            Self::SilentRebind => network.rebind(false),
        }
    }
}
