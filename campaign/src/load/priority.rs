//! Priority of what should not take processor time from the server and from honest logins.

/// The largest nice value (sched(7)).
const LOWEST: i32 = 19;

/// Gives this thread the lowest priority among those of this process.
pub(super) fn yield_to_other_threads() {
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

/// Gives this process the lowest priority. Where the kernel schedules by session (sched(7)) nice values count only
/// within one, so the process begins a session and lowers that as well.
pub(super) fn yield_processor() {
    yield_to_other_threads();
    if rustix::process::setsid().is_ok() {
        // There is no such file without that feature.
        let _ = std::fs::write("/proc/self/autogroup", LOWEST.to_string());
    }
}
