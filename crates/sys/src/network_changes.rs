//! Changes of this machine's network, as the kernel reports them, and the end of its sleep. Linux only: elsewhere
//! watching fails, and a lost path is noticed by the server's silence.

use std::net::IpAddr;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod missing;

#[cfg(target_os = "linux")]
pub use linux::{NetworkChanges, Sleeps};
#[cfg(not(target_os = "linux"))]
pub use missing::{NetworkChanges, Sleeps};

/// A change that the kernel reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkChange {
    /// An interface was changed or removed.
    Link {
        /// Its number.
        index: u32,
        /// True when it is up and has a carrier.
        running: bool,
    },
    /// An interface has an address.
    AddressAdded(IpAddr),
    /// An interface has lost an address.
    AddressRemoved(IpAddr),
    /// A route of the main or another table for packets to other machines was added, changed or removed.
    Route {
        /// The destinations' first address; unspecified for a default route.
        to: IpAddr,
        /// Number of bits that the destinations have in common.
        prefix: u8,
    },
    /// Reports were lost: anything may have changed.
    Unknown,
}
