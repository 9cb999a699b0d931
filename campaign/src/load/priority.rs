//! Low priority for threads and processes that must not take CPU time from the server and from honest logins.

/// The largest nice value (sched(7)).
const LOWEST: i32 = 19;

/// Gives this thread the lowest priority among those of this process.
pub(super) fn yield_to_other_threads() {
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

/// Gives this process the lowest priority. If the kernel schedules by session (autogroups, sched(7)), nice
/// values apply only within a session. So the process starts a new session and lowers that session's priority
/// as well.
pub(super) fn yield_processor() {
    yield_to_other_threads();
    if rustix::process::setsid().is_ok() {
        // Without that feature the file does not exist.
        let _ = std::fs::write("/proc/self/autogroup", LOWEST.to_string());
    }
}
