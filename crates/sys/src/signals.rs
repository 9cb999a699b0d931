//! Signal names of SSH, and signals as a readable descriptor for the loop.
#![expect(unsafe_code, reason = "signal masks and handlers exist only in the C library")]

use std::io;
use std::os::fd::IntoRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::process::Signal;

/// Names of RFC 4254 section 6.10, without `SIG`. Linux has no signal for OpenSSH's additional
/// `INFO@openssh.com`.
const NAMES: [(&str, Signal); 13] = [
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("FPE", Signal::FPE),
    ("HUP", Signal::HUP),
    ("ILL", Signal::ILL),
    ("INT", Signal::INT),
    ("KILL", Signal::KILL),
    ("PIPE", Signal::PIPE),
    ("QUIT", Signal::QUIT),
    ("SEGV", Signal::SEGV),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// The signal of an SSH name (without `SIG`); `None` for an unknown one.
pub fn by_name(name: &str) -> Option<Signal> {
    NAMES.iter().find(|(each, _)| *each == name).map(|&(_, signal)| signal)
}

/// SSH name of a signal number. The RFC allows others only in the form `name@domain`; OpenSSH sends
/// `SIG@openssh.com` for them.
pub fn name_of(number: i32) -> &'static str {
    NAMES.iter().find(|(_, signal)| signal.as_raw() == number).map_or("SIG@openssh.com", |&(name, _)| name)
}

#[cfg(any(test, not(target_os = "linux")))]
mod by_handler;
#[cfg(target_os = "linux")]
mod by_signalfd;
#[cfg(target_os = "linux")]
mod descriptor;

#[cfg(not(target_os = "linux"))]
pub use by_handler::Signals;
#[cfg(target_os = "linux")]
pub use by_signalfd::Signals;

/// Signals that are blocked for this thread and for threads that it starts, and the previous mask.
struct Blocked {
    #[cfg(target_os = "linux")]
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl std::fmt::Debug for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocked")
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain memory that sigemptyset fills and sigaddset changes.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, signal.as_raw());
        }
        set
    }
}

impl Blocked {
    fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = set_of(signals);
        // SAFETY: sigset_t is plain memory, filled by the call below.
        let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is initialised, `before` is ours to write to.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) } {
            0 => Ok(Self {
                #[cfg(target_os = "linux")]
                set,
                before,
            }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Restores the mask. Signals that are pending take effect now.
    fn release(self) {
        // SAFETY: the mask came from the kernel, so the call cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// The first signal of [`on_first`] that has arrived. `NOTIFY` is the pipe to which the handler writes it.
static CAME: AtomicI32 = AtomicI32::new(0);
static NOTIFY: AtomicI32 = AtomicI32::new(-1);

/// Whether the signal in `CAME` reached no handler; see [`is_hung`].
static HUNG: AtomicBool = AtomicBool::new(false);

/// Returns the address of this thread's errno.
fn errno() -> *mut libc::c_int {
    // SAFETY: the function returns an address that is valid for as long as the thread runs.
    unsafe {
        #[cfg(target_os = "linux")]
        return libc::__errno_location();
        #[cfg(not(target_os = "linux"))]
        return libc::__error();
    }
}

extern "C" fn notify(signal: libc::c_int) {
    let _ = CAME.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    let byte = [0_u8];
    // SAFETY: write(2) may be called in a handler; the byte lives during the call, and the pipe is never
    // closed. The handler restores errno, because the interrupted code may be about to read it.
    unsafe {
        let errno = errno();
        let before = *errno;
        libc::write(NOTIFY.load(Ordering::SeqCst), byte.as_ptr().cast(), 1);
        *errno = before;
    }
}

/// Calls `act` on a new thread when the first of `signals` arrives that no [`Signals`] collects. Signals that
/// this process ignores stay ignored. Call it once per process. Programs that the process starts have the
/// default actions.
///
/// The kernel runs a handler on the first thread if it can. Where that thread hangs in a system call that
/// only a fatal signal ends (files on NFS or FUSE), Linux lets the new thread take the signal instead.
///
/// # Errors
/// No pipe or no thread is available.
pub fn on_first(signals: &[Signal], act: impl FnOnce(Signal) + Send + 'static) -> io::Result<()> {
    let (reader, writer) = crate::fd::pipe()?;
    // The handler uses the pipe for the rest of the process's life.
    NOTIFY.store(writer.into_raw_fd(), Ordering::SeqCst);
    // The new thread must not receive signals that another thread collects.
    let blocked = Blocked::new(signals)?;
    #[cfg(target_os = "linux")]
    let pending = descriptor::Pending::of(&set_of(&not_ignored(signals)))?;
    let waits = move || {
        #[cfg(target_os = "linux")]
        if let Some(signal) = pending.wait_for_handler(&reader, has_come) {
            let came = CAME.compare_exchange(0, signal.as_raw(), Ordering::SeqCst, Ordering::SeqCst);
            HUNG.store(came.is_ok(), Ordering::SeqCst);
        }
        #[cfg(not(target_os = "linux"))]
        while rustix::io::retry_on_intr(|| rustix::io::read(&reader, &mut [0; 1])) == Ok(0) {}
        if let Some(signal) = Signal::from_named_raw(CAME.load(Ordering::SeqCst)) {
            act(signal);
        }
    };
    let started = std::thread::Builder::new().name("signals".to_owned()).spawn(waits);
    if started.is_ok() {
        for signal in signals {
            install(signal.as_raw(), notify);
        }
    }
    blocked.release();
    started.map(drop)
}

/// Returns true when a signal of [`on_first`] has arrived.
pub fn has_come() -> bool {
    CAME.load(Ordering::SeqCst) != 0
}

/// Returns true when a signal of [`on_first`] has arrived and the thread that should have handled it hangs in
/// a system call.
pub fn is_hung() -> bool {
    HUNG.load(Ordering::SeqCst)
}

/// A thread of this process is about to take a signal that ends the program.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Records, before a thread takes a pending signal, that it ends the program. From then on it is not pending,
/// and other threads may learn of it later.
pub fn note_end() {
    ENDS.store(true, Ordering::SeqCst);
}

/// Returns true after [`note_end`].
pub fn is_ending() -> bool {
    ENDS.load(Ordering::SeqCst)
}

/// Returns true when one of `signals`, which this thread blocks, has arrived and was not collected yet.
pub fn are_pending(signals: &[Signal]) -> bool {
    // SAFETY: sigset_t is plain memory that sigpending fills.
    let mut pending: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `pending` is ours to write to.
    if unsafe { libc::sigpending(&mut pending) } != 0 {
        return false;
    }
    // SAFETY: the call above has initialised the set.
    signals.iter().any(|signal| unsafe { libc::sigismember(&pending, signal.as_raw()) } == 1)
}

/// Returns those of `signals` that this process does not ignore (`nohup`). A signal that is collected arrives
/// although it is ignored.
pub fn not_ignored(signals: &[Signal]) -> Vec<Signal> {
    let is_ignored = |signal: &Signal| {
        // SAFETY: sigaction is plain memory; without a new action the call only reads.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal.as_raw(), std::ptr::null(), &mut action) == 0;
            known && action.sa_sigaction == libc::SIG_IGN
        }
    };
    signals.iter().copied().filter(|signal| !is_ignored(signal)).collect()
}

/// Gives `signals` their default actions again, unless this process ignores them: after [`on_first`], a
/// second signal ends the process at once.
pub fn restore_defaults(signals: &[Signal]) {
    for signal in signals {
        // SAFETY: sigaction is plain memory; the default action installs no handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal.as_raw(), std::ptr::null(), &mut action) == 0;
            if known && action.sa_sigaction != libc::SIG_IGN {
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal.as_raw(), &action, std::ptr::null_mut());
            }
        }
    }
}

/// Ends this process by `signal`, as if it had not been handled.
pub fn end_by(signal: Signal) -> ! {
    restore_defaults(&[signal]);
    // SAFETY: sigset_t is plain memory that sigemptyset fills and sigaddset changes; raise(3) takes any
    // number.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal.as_raw());
        libc::raise(signal.as_raw());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    std::process::exit(128 + signal.as_raw())
}

/// Sets the handler of a signal and returns the previous action. `None` if this process ignores the signal,
/// or the kernel refuses.
fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Option<libc::sigaction> {
    // SAFETY: sigaction is plain memory; the handler keeps to what a handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(signal, std::ptr::null(), &mut action) == 0;
        if !known || action.sa_sigaction == libc::SIG_IGN {
            return None;
        }
        let before = action;
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        (libc::sigaction(signal, &action, std::ptr::null_mut()) == 0).then_some(before)
    }
}

/// Makes writes that are not possible fail instead of ending the process: to a closed pipe or socket
/// (`EPIPE`), and beyond the limit of file sizes (`ulimit -f`, `EFBIG`).
///
/// Rust programs start with the first setting, but a program started by exec from another one may not.
/// Programs that this process starts have the default action for the limit again: it has a handler here,
/// which exec resets.
pub fn ignore_write_signals() {
    extern "C" fn do_nothing(_: libc::c_int) {}
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let _ = install(libc::SIGXFSZ, do_nothing);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: wire INFO@openssh.com
    #[test]
    fn signal_names_round_trip() {
        assert_eq!(by_name("TERM"), Some(Signal::TERM));
        assert_eq!(by_name("SIGTERM"), None);
        assert_eq!(by_name("INFO@openssh.com"), None);
        assert_eq!(name_of(9), "KILL");
        assert_eq!(name_of(31), "SIG@openssh.com");
        for (name, signal) in NAMES {
            assert_eq!(name_of(signal.as_raw()), name);
        }
    }
}
