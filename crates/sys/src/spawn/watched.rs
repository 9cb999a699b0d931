//! Starting a program that the caller watches, without copying this process first.
//!
//! A fork copies the page tables, and afterwards each page that either process writes: about 200 µs of 700
//! for a shell that a session starts. Here the new process shares the memory of this one, whose thread waits
//! until the program is executed, as in the C library's `posix_spawn`, which lacks the steps of
//! [`super::in_child`].

#[cfg(target_os = "linux")]
use std::ffi::{CString, c_int, c_void};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicI32, Ordering};

#[cfg(target_os = "linux")]
use rustix::process::{Pid, WaitOptions, waitpid};

use super::Program;
#[cfg(target_os = "linux")]
use super::image::Image;
#[cfg(target_os = "linux")]
use super::{NOT_EXECUTED, Session, in_child, signals_to_reset};
use crate::child::Watched;

/// Stack of the new process until it executes its program, bytes. Its calls need less than 4 KiB.
#[cfg(target_os = "linux")]
const STACK: usize = 64 << 10;

impl Program {
    /// Like [`spawn`](Self::spawn), for a caller that watches the program. Of several ways to start it this
    /// is the cheapest.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn).
    pub fn spawn_watched(self) -> io::Result<Watched> {
        #[cfg(target_os = "linux")]
        if self.may_share_memory() {
            return Watched::of_pid(self.spawn_sharing_memory()?);
        }
        Watched::new(self.spawn()?)
    }

    /// Returns false where the new process must not share this one's memory. One of another user could be
    /// traced by that user before it executes its program; and a preceding program is forked.
    #[cfg(target_os = "linux")]
    const fn may_share_memory(&self) -> bool {
        self.ids.is_none() && self.priority.is_none() && self.before.is_none()
    }

    #[cfg(target_os = "linux")]
    fn spawn_sharing_memory(self) -> io::Result<Pid> {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStrExt as _;
        let arg0 = self.arg0.as_deref().unwrap_or(self.path.as_os_str());
        let words = std::iter::once(arg0).chain(self.args.iter().map(OsString::as_os_str));
        let image = Image::new(self.path.as_os_str(), words, self.env.as_deref())?;
        let dir = self.dir.map(|dir| CString::new(dir.as_os_str().as_bytes())).transpose()?;
        // Above the standard descriptors, so that none is overwritten before it has been copied.
        let above = |fd: Option<OwnedFd>| match fd {
            Some(fd) if fd.as_raw_fd() > 2 => Ok(fd),
            Some(fd) => Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?),
            None => crate::fd::null(),
        };
        let [stdin, stdout, stderr] = self.stdio;
        let stdio = [above(stdin)?, above(stdout)?, above(stderr)?];
        let keep: Vec<RawFd> = self.keep.iter().map(AsRawFd::as_raw_fd).collect();
        let start = Start {
            image,
            dir,
            stdio: [0, 1, 2].map(|number: usize| stdio[number].as_raw_fd()),
            session: self.session,
            reset: signals_to_reset(),
            keep,
            error: AtomicI32::new(0),
        };
        let pid = start.run()?;
        match start.error.load(Ordering::Relaxed) {
            0 => Ok(pid),
            error => {
                let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// What the new process does, with every allocation already made.
#[cfg(target_os = "linux")]
struct Start {
    image: Image,
    dir: Option<CString>,
    stdio: [RawFd; 3],
    session: Session,
    /// Bit N - 1: signal N gets its default action.
    reset: u64,
    keep: Vec<RawFd>,
    /// The error number of the step that failed; 0 when the program has been executed.
    error: AtomicI32,
}

#[cfg(target_os = "linux")]
impl Start {
    /// Creates the process and waits until it has executed its program or has failed.
    fn run(&self) -> io::Result<Pid> {
        let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
        // No handler of ours may run in the new process, where it would write to the memory of this one.
        let blocked = BlockedSignals::new();
        // SAFETY: the stack grows down from its end, which is aligned to 16 bytes; it and `self` outlive the
        // process's use of them, as this thread goes on (CLONE_VFORK) when that has executed a program or has
        // ended. `child` makes system calls only, and writes to nothing but its stack, this thread's `errno`
        // and `self.error`.
        let pid = unsafe {
            libc::clone(
                child,
                stack.as_mut_ptr().add(stack.capacity()).cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                std::ptr::from_ref(self).cast_mut().cast(),
            )
        };
        let error = io::Error::last_os_error();
        drop(blocked);
        Pid::from_raw(pid).filter(|_| pid > 0).ok_or(error)
    }

    /// Runs in the new process: async-signal-safe calls only. Returns only the reason of a failure.
    fn execute(&self) -> io::Error {
        for (fd, number) in self.stdio.iter().zip(0..) {
            // SAFETY: no memory is involved.
            if unsafe { libc::dup2(*fd, number) } < 0 {
                return io::Error::last_os_error();
            }
        }
        if let Some(dir) = &self.dir {
            // SAFETY: the text ends in a null byte and outlives the call.
            if unsafe { libc::chdir(dir.as_ptr()) } < 0 {
                return io::Error::last_os_error();
            }
        }
        // The last step of a child unblocks all signals; those with handlers have their default actions then.
        match in_child(self.session, self.reset, &self.keep) {
            Ok(()) => self.image.execute(),
            Err(error) => error,
        }
    }
}

/// First function of the new process.
#[cfg(target_os = "linux")]
extern "C" fn child(start: *mut c_void) -> c_int {
    // SAFETY: the pointer is that of `Start::run`, whose thread waits.
    let start = unsafe { &*start.cast_const().cast::<Start>() };
    let error = start.execute().raw_os_error().unwrap_or(libc::EINVAL);
    start.error.store(error, Ordering::Relaxed);
    // SAFETY: ends the process without running code of the one whose memory it shares.
    unsafe { libc::_exit(NOT_EXECUTED) }
}

/// Blocks all signals of this thread until it is dropped.
#[cfg(target_os = "linux")]
struct BlockedSignals(libc::sigset_t);

#[cfg(target_os = "linux")]
impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: sigset_t is plain memory that the calls fill; the mask is this thread's own.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self(before)
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the call in `new` filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Ended;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd;

    fn run(program: Program) -> (String, Ended) {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let null = File::open("/dev/null").unwrap();
        let program = program.stdio(null.into(), writer.try_clone().unwrap().into(), writer.into());
        let mut watched = program.spawn_watched().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (text, watched.wait().unwrap())
    }

    #[test]
    fn watched_program_has_its_settings() {
        let program = Program::new("/bin/sh")
            .arg0("-sh")
            .arg("-c")
            .arg(
                "echo $0 $A; pwd; env | grep -c HOME; test $(ps -o sid= -p $$) -eq $$ && echo leader; exit 3",
            )
            .env(vec![("A".into(), "b c".into()), ("PATH".into(), "/bin:/usr/bin".into())])
            .dir("/usr")
            .new_session();
        assert_eq!(run(program), ("-sh b c\n/usr\n0\nleader\n".to_owned(), Ended::Exit(3)));
    }

    #[test]
    fn watched_program_inherits_kept_descriptors_only() {
        let inheritable = File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&inheritable, rustix::io::FdFlags::empty()).unwrap();
        let kept = File::open("/dev/zero").unwrap();
        let list = Program::new("/bin/sh").arg("-c").arg("readlink /proc/$$/fd/*").keep(kept.into());
        let (text, _) = run(list);
        assert_eq!(text.lines().filter(|line| *line == "/dev/zero").count(), 1, "{text}");
        assert_eq!(text.lines().filter(|line| *line == "/dev/null").count(), 1, "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn watched_program_has_default_signals() {
        extern "C" fn handler(_: c_int) {}
        // SAFETY: no test of this process sends itself these signals; the handler does nothing.
        unsafe {
            libc::signal(libc::SIGUSR2, libc::SIG_IGN);
            libc::signal(libc::SIGURG, handler as *const () as libc::sighandler_t);
        }
        assert_ne!(signals_to_reset() & (1 << (libc::SIGURG - 1)), 0);
        let mask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
        };
        let before = mask();
        let (text, _) =
            run(Program::new("/bin/grep").arg("-E").arg("^Sig(Ign|Blk)").arg("/proc/self/status"));
        assert_eq!(mask(), before);
        assert_eq!(text.lines().count(), 2, "{text}");
        for line in text.lines() {
            let (_, mask) = line.split_once('\t').unwrap();
            // The C library reserves signals 32 and 33, so they cannot be changed through it.
            assert_eq!(u64::from_str_radix(mask, 16).unwrap() & !(3 << 31), 0, "{line}");
        }
    }

    #[test]
    fn watched_program_that_cannot_run_fails_to_spawn() {
        let failed = |program: Program| program.new_session().spawn_watched().unwrap_err().kind();
        assert_eq!(failed(Program::new("/no/such/program")), io::ErrorKind::NotFound);
        assert_eq!(failed(Program::new("/bin/sh").dir("/no/such/directory")), io::ErrorKind::NotFound);
        assert_eq!(failed(Program::new("/etc/passwd")), io::ErrorKind::PermissionDenied);
        // Without a terminal as descriptor 0.
        assert!(Program::new("/bin/sh").controlling_terminal().spawn_watched().is_err());
    }

    #[test]
    fn watched_programs_start_from_several_threads() {
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    for _ in 0..25 {
                        let (text, ended) = run(Program::new("/bin/sh")
                            .arg("-c")
                            .arg(format!("echo {number}; exit {number}")));
                        assert_eq!((text, ended), (format!("{number}\n"), Ended::Exit(number)));
                    }
                });
            }
        });
    }

    #[test]
    fn end_of_a_watched_program_is_readable() {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut watched = Program::new("/bin/sh").arg("-c").arg("kill -TERM $$").spawn_watched().unwrap();
        poll(&mut [PollFd::from_borrowed_fd(watched.as_fd(), PollFlags::IN)], None).unwrap();
        assert_eq!(watched.try_wait().unwrap(), Some(Ended::Signal { number: 15, core_dumped: false }));
    }
}
