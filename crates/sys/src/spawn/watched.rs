//! Starting a program that the caller watches, without copying this process first.
//!
//! A fork copies the page tables, and afterwards each page that either process writes: about 200 µs of 700
//! for a shell that a session starts. Here the new process shares the memory of this one, whose thread waits
//! until the program is executed, as in the C library's `posix_spawn`, which lacks the steps of
//! [`super::child_setup::in_child`].

#[cfg(target_os = "linux")]
mod start;

use std::io;

use super::Program;
use crate::child::Watched;

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
        use std::ffi::c_int;

        use crate::spawn::child_setup::signals_to_reset;

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
