//! Keeps keys in this process's memory from being swapped, where that is possible.

#[cfg(target_os = "linux")]
use rustix::mm::{MlockAllFlags, mlockall};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, getrlimit};

/// Lower limit of RLIMIT_MEMLOCK for locking all memory, bytes. Below it a later allocation could fail, which
/// would end the agent.
#[cfg(target_os = "linux")]
const LOCKABLE_MEMORY: u64 = 1 << 30;

/// Locks memory against swapping, where the resource limit is high enough.
#[cfg(target_os = "linux")]
pub(crate) fn lock_memory() {
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    if limit >= LOCKABLE_MEMORY {
        // ONFAULT locks only touched pages: thread stacks are reserved by the megabyte.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}

/// Other systems cannot lock touched pages alone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lock_memory() {}
