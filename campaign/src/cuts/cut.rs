//! The ways in which a path is cut, and how long the session may take to go on.

use std::time::{Duration, Instant};

use lh_testkit::Seeded;
use rustix::process::Signal;

use super::network::Network;
use crate::faults::signal;

/// Time for which a firewall resets what it sees.
const RESETTING: Duration = Duration::from_millis(150);
/// Cuts of attempts, one after the other.
const ATTEMPTS: u32 = 3;
/// Bytes of an attempt, of which a random part passes before it is cut: identification, key exchange and claim.
const HANDSHAKE: u64 = 8 << 10;
/// Time in which an attempt begins.
const BEGINNING: Duration = Duration::from_secs(3);
/// Longest pause of a client between attempts, in the first two minutes.
const PAUSE: Duration = Duration::from_secs(1);
/// Time that may be lost beyond the outage. Two round trips of this path are a few milliseconds.
const MARGIN: Duration = Duration::from_secs(1);

/// The same where the path still carries a little, and another connection has to prove that it is faster.
const PROOF: Duration = Duration::from_secs(25);

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
    Attempts,
    Police,
}

impl Cut {
    /// All of these.
    pub(super) const ALL: [Self; 9] = [
        Self::Reset,
        Self::Blackhole,
        Self::LinkDown,
        Self::Address,
        Self::Stop,
        Self::Rebind,
        Self::SilentRebind,
        Self::Attempts,
        Self::Police,
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
            Self::Attempts => "RST, and of attempts",
            Self::Police => "policed",
        }
    }

    /// True for cuts that no connection survives: the session goes on over another one, or has ended before.
    pub(super) const fn ends_connections(self) -> bool {
        !matches!(self, Self::Blackhole | Self::LinkDown | Self::Stop)
    }

    /// A random time without a path. `longest` is for stops and for silence.
    pub(super) fn outage(self, random: &mut Seeded, longest: Duration) -> Duration {
        match self {
            Self::Reset | Self::Attempts => RESETTING,
            Self::Address | Self::Rebind | Self::SilentRebind | Self::Police => Duration::ZERO,
            Self::Blackhole | Self::LinkDown | Self::Stop => {
                Duration::from_millis(500 + random.next_u64() % 8000).min(longest)
            }
        }
    }

    /// Time that may be lost beyond the outage.
    pub(super) fn allowed(self) -> Duration {
        match self {
            // A client that has failed some times does not try at once.
            Self::Attempts => PAUSE + MARGIN,
            Self::Police => PROOF,
            _ => MARGIN,
        }
    }

    /// Cuts the path, and returns when it could be used again.
    ///
    /// # Errors
    /// The network cannot be changed.
    pub(super) fn make(
        self,
        network: &mut Network,
        outage: Duration,
        random: &mut Seeded,
    ) -> Result<(), String> {
        network.heal()?;
        let wait = || std::thread::sleep(outage);
        let reset = |network: &Network| {
            network.set_resetting(true)?;
            wait();
            network.set_resetting(false)
        };
        match self {
            Self::Reset => reset(network),
            Self::Attempts => {
                reset(network)?;
                for _ in 0..ATTEMPTS {
                    let until = network.passed() + 1 + random.next_u64() % HANDSHAKE;
                    let began = Instant::now();
                    while network.passed() < until && began.elapsed() < BEGINNING {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    reset(network)?;
                }
                Ok(())
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
            Self::Police => network.throttle(),
        }
    }
}
