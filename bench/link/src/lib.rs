//! An emulated wide-area path: two network namespaces and a link with delay, rate, loss and a bounded queue.
//!
//! Many kernels have no netem, and on loopback without delay window sizes do not matter. So the link is our
//! own program between two TUN devices, which pass TCP's 64 KiB segments whole. If the kernel has netem,
//! [`path`] uses that instead, behind the same interface.
//!
//! | module | purpose |
//! |---|---|
//! | [`shape`] | the arithmetic of rate, delay, queue and loss, in virtual time |
//! | [`packet`] | the wire size of a large segment, and splitting it |
//! | [`ring`] | packets in flight, in preallocated memory |
//! | [`forward`] | one direction: device to ring to device |
//! | [`netns`] | network namespaces |
//! | [`path`] | setup and removal of the whole path |
//! | [`netem`] | the same link from the kernel's queueing disciplines |
//! | [`units`] | parsing of `50ms`, `2gbit`, `4MiB` |

pub mod forward;
pub mod netem;
pub mod netns;
pub mod packet;
pub mod path;
pub mod ring;
pub mod shape;
pub mod units;
