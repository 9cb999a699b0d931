//! Stubs for systems whose tunnel devices this program does not support.

use std::io;
use std::os::fd::OwnedFd;

use super::Layer;

/// Always fails: tunnel devices are supported on Linux only.
///
/// # Errors
/// `Unsupported`.
pub fn device(_: Layer, _: Option<u32>) -> io::Result<(OwnedFd, String)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "tunnel devices are supported on Linux only"))
}
