//! Programs that end by a signal tell the servers that keep sessions (`ResumeGrace`).

use lh_client::farewell;
use lh_sys::signals;
use rustix::process::Signal;

/// From now on a signal that nothing else waits for ends the program as it would without this, but first the
/// servers that keep sessions hear of it, and `and_then` is called. A second signal ends it at once, but for
/// SIGHUP: a terminal that is closed sends it twice, itself and by the shell. Only the first call has an
/// effect; make it before any connection.
pub fn take_leave(and_then: impl FnOnce(Signal) + Send + 'static) {
    static TAKEN: std::sync::Once = std::sync::Once::new();
    TAKEN.call_once(|| {
        farewell::prepare();
        // Without such a thread a signal ends the program as it ends any other.
        let _ = signals::on_first(&farewell::END_SIGNALS, move |signal| {
            signals::restore_defaults(&[Signal::INT, Signal::TERM, Signal::QUIT]);
            // A connection whose thread hangs says nothing any more.
            if !signals::is_hung() {
                farewell::leave_all();
            }
            and_then(signal);
            signals::end_by(signal);
        });
    });
}
