//! Kinds of cuts of a path, and the time within which the session must continue.

use std::time::{Duration, Instant};

use lh_testkit::Seeded;
use rustix::process::Signal;

use super::network::Network;
use crate::faults::signal;

/// Time for which a firewall resets all packets.
const RESETTING: Duration = Duration::from_millis(150);
/// Number of consecutive attempts that are cut.
const ATTEMPTS: u32 = 3;
/// Length of an attempt's identification, key exchange and claim, bytes. The cut comes after a random part of
/// it.
const HANDSHAKE: u64 = 8 << 10;
/// Time limit for the start of an attempt.
const BEGINNING: Duration = Duration::from_secs(3);
/// Longest pause of a client between attempts, in the first two minutes.
const PAUSE: Duration = Duration::from_secs(1);
/// Time that may be lost beyond the outage. Two round trips of this path are a few milliseconds.
const MARGIN: Duration = Duration::from_secs(1);

/// Value of [`MARGIN`] for a path that still carries little data, when another connection must prove that it
/// is faster.
const PROOF: Duration = Duration::from_secs(25);

/// Kind of cut.
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
    /// All kinds.
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

    /// Name in reports.
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

    /// True for cuts that no connection survives: the session continues over another connection, or has ended
    /// before.
    pub(super) const fn ends_connections(self) -> bool {
        !matches!(self, Self::Blackhole | Self::LinkDown | Self::Stop)
    }

    /// Returns a random duration of the outage. `longest` applies to stops and to silence.
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
            // After several failures a client does not try again at once.
            Self::Attempts => PAUSE + MARGIN,
            Self::Police => PROOF,
            _ => MARGIN,
        }
    }

    /// Cuts the path, and returns the time from which it was usable again.
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
