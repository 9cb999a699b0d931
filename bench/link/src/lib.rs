//! An emulated wide-area path: two network namespaces and a link with delay, rate, loss and a bounded queue.
//!
//! Many kernels have no netem, and figures from a machine whose loopback takes no time say nothing about windows.
//! So the link is a program of ours between two TUN devices that pass TCP's 64 KiB segments whole; where the kernel
//! has netem, [`path`] uses that instead, behind the same interface.
//!
//! | module | what |
//! |---|---|
//! | [`shape`] | the arithmetic of rate, delay, queue and loss, in virtual time |
//! | [`packet`] | what a large segment is on the wire, and how to cut pieces out of it |
//! | [`ring`] | the packets under way, in memory allocated beforehand |
//! | [`forward`] | one direction: device to ring to device |
//! | [`netns`] | namespaces |
//! | [`path`] | the whole path, set up and taken down |
//! | [`netem`] | the same link made of the kernel's queueing disciplines |
//! | [`units`] | `50ms`, `2gbit`, `4MiB` |

pub mod forward;
pub mod netem;
pub mod netns;
pub mod packet;
pub mod path;
pub mod ring;
pub mod shape;
pub mod units;
