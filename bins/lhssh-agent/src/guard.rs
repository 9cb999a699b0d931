//! Keeping keys in this process: no core files, no tracing by other programs of the user, no swapping where that is possible.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Below this, locking all memory could make a later allocation fail, which would end the agent.
const ROOM_TO_LOCK: u64 = 1 << 30;

/// Forbids core files and other programs of the same user to look into this process.
///
/// # Errors
/// The system's. An agent that can be read by any program of the user is not what was asked for.
pub(crate) fn protect() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Keeps memory out of the swap, where the limit leaves room for all of it.
pub(crate) fn lock_memory() {
    let room = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    if room >= ROOM_TO_LOCK {
        // Only what is touched: stacks of threads are reserved by the megabyte.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}
