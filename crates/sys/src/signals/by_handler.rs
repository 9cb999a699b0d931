//! Collecting signals on systems without signalfd(2): a handler writes each signal's number into a pipe.
#![cfg_attr(target_os = "linux", expect(unreachable_pub, reason = "here it is only tested"))]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use rustix::process::Signal;

/// Upper limit of signal numbers, exclusive: FreeBSD has 128, the others fewer.
const NUMBERS: usize = 129;

/// Pipe to which each signal's number is written; -1: none.
static PIPES: [AtomicI32; NUMBERS] = [const { AtomicI32::new(-1) }; NUMBERS];

/// Number of handlers that may be about to write.
static WRITING: AtomicUsize = AtomicUsize::new(0);

extern "C" fn forward(signal: libc::c_int) {
    WRITING.fetch_add(1, Ordering::SeqCst);
    let pipe = usize::try_from(signal).ok().and_then(|number| PIPES.get(number));
    let (pipe, number) = (pipe.map_or(-1, |pipe| pipe.load(Ordering::SeqCst)), signal.cast_unsigned() as u8);
    if pipe >= 0 {
        // SAFETY: write(2) may be called in a handler, the byte lives during the call, and the pipe is open:
        // its owner waits until no handler is writing. A full pipe loses the byte, just as pending signals of
        // one kind merge. The handler restores errno, because the interrupted code may be about to read it.
        unsafe {
            let errno = super::errno();
            let before = *errno;
            libc::write(pipe, (&raw const number).cast(), 1);
            *errno = before;
        }
    }
    WRITING.fetch_sub(1, Ordering::SeqCst);
}

/// Signals that wait to be read from a descriptor instead of ending this process. Blocking system calls may
/// return `EINTR` when a signal arrives.
///
/// A second value for a signal collects it instead of the first one, until the second one is dropped. Signals
/// that this process ignores stay ignored. Programs that this process starts have the default actions.
#[derive(Debug)]
pub struct Signals {
    reader: OwnedFd,
    writer: OwnedFd,
    collected: Vec<Collected>,
}

/// A signal with its previous action and previous pipe.
struct Collected {
    signal: Signal,
    action: libc::sigaction,
    pipe: libc::c_int,
}

impl std::fmt::Debug for Collected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collected").field("signal", &self.signal).field("pipe", &self.pipe).finish()
    }
}

impl Signals {
    /// Collects these signals from now on.
    pub fn collect(signals: &[Signal]) -> io::Result<Self> {
        let (reader, writer) = crate::fd::pipe()?;
        crate::fd::set_nonblocking(&reader, true)?;
        crate::fd::set_nonblocking(&writer, true)?;
        let mut all = Self { reader, writer, collected: Vec::new() };
        for &signal in signals {
            let Some(pipe) = slot(signal) else { return Err(io::ErrorKind::InvalidInput.into()) };
            let before = pipe.swap(all.writer.as_raw_fd(), Ordering::SeqCst);
            match super::install(signal.as_raw(), forward) {
                Some(action) => all.collected.push(Collected { signal, action, pipe: before }),
                None => pipe.store(before, Ordering::SeqCst),
            }
        }
        Ok(all)
    }

    /// Stops collecting and restores the previous actions. Signals that arrived but were not read are sent to
    /// this process again.
    pub fn release(self) {
        for each in &self.collected {
            // SAFETY: the action came from the kernel.
            unsafe { libc::sigaction(each.signal.as_raw(), &each.action, std::ptr::null_mut()) };
        }
        while let Ok(Some(signal)) = self.take() {
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
    }

    /// Returns the next signal that has arrived; `None` when there is none.
    pub fn take(&self) -> io::Result<Option<Signal>> {
        let mut number = [0];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.reader, &mut number)) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Ok(_) => Ok(Signal::from_named_raw(number[0].into())),
            Err(error) => Err(error.into()),
        }
    }
}

fn slot(signal: Signal) -> Option<&'static AtomicI32> {
    PIPES.get(usize::try_from(signal.as_raw()).ok()?)
}

impl Drop for Signals {
    /// Without [`release`](Self::release), signals have no effect from now on.
    fn drop(&mut self) {
        let own = self.writer.as_raw_fd();
        for each in self.collected.iter().rev() {
            if let Some(pipe) = slot(each.signal) {
                // A later value may have taken the signal over.
                let _ = pipe.compare_exchange(own, each.pipe, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        // A handler in another thread may still write to this number, so it must not be reused for another
        // file yet.
        while WRITING.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn raise(signal: Signal) {
        // SAFETY: no memory is involved; the handler runs in this thread before the call returns.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal.as_raw()) };
    }

    /// Handlers are process-wide and tests share a process, so this is one test, with signals that no other
    /// test uses.
    #[test]
    fn signals_are_read_and_actions_restored() {
        let outer = Signals::collect(&[Signal::WINCH, Signal::URG]).unwrap();
        assert_eq!(outer.take().unwrap(), None);
        raise(Signal::URG);
        raise(Signal::WINCH);
        poll(&mut [PollFd::new(&outer, PollFlags::IN)], None).unwrap();
        assert_eq!(outer.take().unwrap(), Some(Signal::URG));
        assert_eq!(outer.take().unwrap(), Some(Signal::WINCH));
        assert_eq!(outer.take().unwrap(), None);
        let inner = Signals::collect(&[Signal::WINCH]).unwrap();
        raise(Signal::WINCH);
        raise(Signal::URG);
        assert_eq!(outer.take().unwrap(), Some(Signal::URG), "the inner one has not taken this");
        assert_eq!((inner.take().unwrap(), outer.take().unwrap()), (Some(Signal::WINCH), None));
        inner.release();
        raise(Signal::WINCH);
        assert_eq!(outer.take().unwrap(), Some(Signal::WINCH), "it is the outer one's again");
        drop(outer);
        raise(Signal::WINCH);
        assert!(PIPES.iter().all(|pipe| pipe.load(Ordering::SeqCst) == -1));
    }
}
