//! Protection of keys in this process's memory: no core files, no tracing by other programs of the user, and
//! no swapping where that is possible.

use std::io;

#[cfg(target_os = "linux")]
use rustix::mm::{MlockAllFlags, mlockall};
#[cfg(target_os = "linux")]
use rustix::process::getrlimit;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Lower limit of RLIMIT_MEMLOCK for locking all memory, bytes. Below it a later allocation could fail, which
/// would end the agent.
#[cfg(target_os = "linux")]
const ROOM_TO_LOCK: u64 = 1 << 30;

/// Forbids core files of this process, and access to its memory by other programs of the user.
///
/// # Errors
/// The system's error. The agent must not run then, because any program of the user could read its keys.
pub(crate) fn protect() -> io::Result<()> {
    lh_cli::helper::forbid_debuggers()?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Locks memory against swapping, where the resource limit is high enough.
#[cfg(target_os = "linux")]
pub(crate) fn lock_memory() {
    let room = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    if room >= ROOM_TO_LOCK {
        // ONFAULT locks only touched pages: thread stacks are reserved by the megabyte.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}

/// Other systems cannot lock touched pages alone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lock_memory() {}
