//! Changes of this machine's network, as the kernel reports them, and resumption after system suspend. Linux
//! only. Elsewhere watching fails, and a lost path is noticed by the server's silence.

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
        /// Number of the interface.
        index: u32,
        /// True when it is up and has a carrier.
        running: bool,
    },
    /// An interface has an address.
    AddressAdded(IpAddr),
    /// An address was removed from an interface.
    AddressRemoved(IpAddr),
    /// A route for packets to other machines was added, changed or removed, in any table.
    Route {
        /// First address of the destinations; unspecified for a default route.
        to: IpAddr,
        /// Prefix length, bits.
        prefix: u8,
    },
    /// Reports were lost, so anything may have changed.
    Unknown,
}
