//! The first and the last event of `--json`. The last one is written on every exit, also where a signal ends
//! the program.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use lh_ssh_transfer::take_leave;
use lh_sys::signals;

use crate::durable::INTERRUPTED;
use crate::record::RunRecord;
use crate::retry::STOP;
use crate::{events, show};

/// Whether the last event has been written, or is just being written.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The record of the command, where the first event has been written.
static BEGUN: OnceLock<RunRecord> = OnceLock::new();

/// Ends the process from another thread than the one that carries out the command, which hangs.
pub(crate) fn end_now(status: u8) -> ! {
    let end = |record: &RunRecord| Frame { record: record.clone() }.end(status);
    std::process::exit(BEGUN.get().map_or(status, end).into());
}

/// State of a command between its first and its last event.
pub(crate) struct Frame {
    pub(crate) record: RunRecord,
}

impl Frame {
    /// Writes the first event. From now on, a signal ends the program after the last event, unless something
    /// else waits for signals. Nothing does while the program connects, for example.
    pub(crate) fn begin() -> Self {
        let record = RunRecord::new();
        show::print(&events::start(&record));
        let stopped = Self { record: record.clone() };
        let _ = BEGUN.set(record.clone());
        take_leave(move |signal| {
            if STOP.contains(&signal)
                && let Some(status) = stopped.write_end(INTERRUPTED)
            {
                std::process::exit(status.into());
            }
        });
        Self { record }
    }

    /// Writes the last event. Returns `status`.
    pub(crate) fn end(self, status: u8) -> u8 {
        if signals::has_come() || self.write_end(status).is_none() {
            // The thread that has the signal ends the program.
            loop {
                std::thread::park();
            }
        }
        status
    }

    fn write_end(&self, status: u8) -> Option<u8> {
        (!ENDED.swap(true, Ordering::SeqCst)).then(|| {
            show::print(&events::end(&self.record, status));
            status
        })
    }
}
