//! TUN devices of Linux.
//!
//! A frame of [`open`] starts with the ten bytes of `virtio_net_hdr` (native byte order), then the IP
//! packet. With the offloads on, the kernel passes the segments that its TCP would give a network card: up to
//! 64 KiB in one piece, with the checksum left to do. It accepts such segments too. That makes ten gigabits a
//! second through a user-space program possible.
#![expect(unsafe_code, reason = "rustix has neither TUN requests nor scheduling classes")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Layer;

/// Length of `virtio_net_hdr` in front of each packet, bytes.
pub const VNET_HEADER_LEN: usize = 10;

/// Upper limit of a device name, bytes.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Creates the TUN device `name` in the network namespace of the calling thread and returns its non-blocking
/// descriptor. The device disappears with the last copy of the descriptor.
pub fn open(name: &str) -> io::Result<OwnedFd> {
    if name.is_empty() || name.len() > NAME_MAX || name.contains(['\0', '/', '%']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a valid device name"),
        ));
    }
    let (fd, _) = attach(name, libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR)?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // SAFETY: TUNSETOFFLOAD takes its flags in the argument itself, as an unsigned long, and touches no
    // memory of ours. The descriptor is open.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    crate::fd::set_nonblocking(&fd, true)?;
    Ok(fd)
}

/// Opens the device `tunN` (or `tapN` for frames) for a tunnel and returns its non-blocking descriptor and
/// its name. Each read or write is one packet. `unit` is the number; without one the kernel takes the next
/// free one. A persistent device that belongs to this user is used as it is; any other disappears with the
/// last copy of the descriptor.
///
/// # Errors
/// The system has no such devices, the device is in use, or the user has no permission.
pub fn device(layer: Layer, unit: Option<u32>) -> io::Result<(OwnedFd, String)> {
    let (kind, flag) = match layer {
        Layer::Packets => ("tun", libc::IFF_TUN),
        Layer::Frames => ("tap", libc::IFF_TAP),
    };
    let name = unit.map_or_else(|| format!("{kind}%d"), |unit| format!("{kind}{unit}"));
    let (fd, name) = attach(&name, flag | libc::IFF_NO_PI)?;
    crate::fd::set_nonblocking(&fd, true)?;
    Ok((fd, name))
}

/// Opens the device with this name, creating it where it is missing; `%d` stands for a number that the kernel
/// chooses. Returns the descriptor and the actual name.
fn attach(name: &str, flags: libc::c_int) -> io::Result<(OwnedFd, String)> {
    let fd: OwnedFd = File::options().read(true).write(true).open("/dev/net/tun")?.into();
    // SAFETY: ifreq is plain memory: integers, byte arrays and one raw pointer, all of which may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(NAME_MAX)) {
        *to = from as libc::c_char;
    }
    // The flags are small constants of the kernel's interface and fit.
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is, alive during the call. Its name ends
    // in a NUL because it was zeroed and at most IFNAMSIZ - 1 bytes of it were set. The descriptor is open.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let name = request.ifr_name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte as u8));
    Ok((fd, name.collect()))
}

/// Schedules the calling thread before all ordinary ones (`SCHED_RR` at the lowest priority): a packet that
/// waits for a processor would distort the emulated delay.
pub fn run_before_others() -> io::Result<()> {
    // SAFETY: sched_param is plain memory that may be zero.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = 1;
    // SAFETY: `param` is initialised and alive for the call, which only reads it; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const param) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_device_names_are_refused() {
        for name in ["", "sixteen-bytes-xx", "wan%d", "a/b", "a\0b"] {
            assert_eq!(open(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
