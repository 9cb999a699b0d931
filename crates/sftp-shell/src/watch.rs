//! The console and the signals, which wake a [`Carrier`](crate::Carrier).

use std::cell::OnceCell;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use lh_sys::signals::Signals;

/// Events besides the server's replies that end a wait: a line from the console, or ^C.
#[derive(Debug)]
pub struct Watch {
    console: UnixStream,
    signals: OnceCell<Signals>,
}

impl Watch {
    /// Watches a non-blocking socket that becomes readable when the console has something, and the signals.
    pub fn new(console: UnixStream, signals: Option<Signals>) -> Self {
        let watch = Self { console, signals: OnceCell::new() };
        watch.catch(signals);
        watch
    }

    /// Watches the signals too, from now on.
    pub fn catch(&self, signals: Option<Signals>) {
        if let Some(signals) = signals {
            let _ = self.signals.set(signals);
        }
    }

    /// Returns the descriptor by which the console wakes the carrier.
    pub fn console(&self) -> BorrowedFd<'_> {
        self.console.as_fd()
    }

    /// Returns the descriptor that becomes readable on a signal.
    pub fn signals(&self) -> Option<BorrowedFd<'_>> {
        self.signals.get().map(AsFd::as_fd)
    }

    /// Discards wake-up bytes.
    pub(crate) fn drain_console(&self) {
        while let Ok(1..) = (&self.console).read(&mut [0; 64]) {}
    }

    /// Returns true when a signal arrived since the last call.
    pub fn take_signals(&self) -> bool {
        let mut came = false;
        while let Some(Ok(Some(_))) = self.signals.get().map(Signals::take) {
            came = true;
        }
        came
    }
}
