//! Systems whose tunnel devices this program cannot open.

use std::io;
use std::os::fd::OwnedFd;

use super::Layer;

/// Opens a tunnel device: nowhere but on Linux.
///
/// # Errors
/// `Unsupported`, always.
pub fn device(_: Layer, _: Option<u32>) -> io::Result<(OwnedFd, String)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "tunnel devices are supported on Linux only"))
}
