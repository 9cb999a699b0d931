//! TUN devices: for tunnels ([`device`]), and with segmentation offload for the benchmarks' emulated path
//! (`open`). Linux only.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod missing;

#[cfg(target_os = "linux")]
pub use linux::{VNET_HEADER_LEN, device, open, run_before_others};
#[cfg(not(target_os = "linux"))]
pub use missing::device;

/// Content of a tunnel device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// IP packets (layer 3, `point-to-point`).
    Packets,
    /// Ethernet frames (layer 2, `ethernet`).
    Frames,
}
