//! Running a program the way a login does: own session, given descriptors, maybe a controlling terminal.
//!
//! The standard library forks and executes; what it lacks runs between the two, where only async-signal-safe
//! calls are allowed. All of those are in this file, so that nobody else has to think about that place.
#![expect(unsafe_code, reason = "code between fork and exec")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What to run and how; made with [`Program::new`], started with [`Program::spawn`].
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    arg0: Option<OsString>,
    args: Vec<OsString>,
    env: Option<Vec<(OsString, OsString)>>,
    dir: Option<PathBuf>,
    stdio: [Option<OwnedFd>; 3],
    session: Session,
    keep: Vec<OwnedFd>,
}

/// Which session and terminal the new process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Inherited,
    New,
    NewWithTerminal,
}

impl Program {
    /// Runs `path` (not searched in `PATH`), with the path as argument 0, an inherited environment, and the
    /// standard descriptors on `/dev/null`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arg0: None,
            args: Vec::new(),
            env: None,
            dir: None,
            stdio: [None, None, None],
            session: Session::Inherited,
            keep: Vec::new(),
        }
    }

    /// Sets argument 0; a login shell gets `-bash`.
    #[must_use]
    pub fn arg0(mut self, arg0: impl Into<OsString>) -> Self {
        self.arg0 = Some(arg0.into());
        self
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Replaces the whole environment.
    #[must_use]
    pub fn env(mut self, env: Vec<(OsString, OsString)>) -> Self {
        self.env = Some(env);
        self
    }

    /// Starts in this directory; where that is impossible, the spawn fails.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Sets descriptors 0, 1 and 2.
    #[must_use]
    pub fn stdio(mut self, stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> Self {
        self.stdio = [Some(stdin), Some(stdout), Some(stderr)];
        self
    }

    /// Starts a session of its own: no controlling terminal, signals to the old one's group do not reach it.
    #[must_use]
    pub fn new_session(mut self) -> Self {
        self.session = Session::New;
        self
    }

    /// Starts a session of its own whose controlling terminal is descriptor 0.
    #[must_use]
    pub fn controlling_terminal(mut self) -> Self {
        self.session = Session::NewWithTerminal;
        self
    }

    /// Leaves one more descriptor open in the program, under the same number.
    #[must_use]
    pub fn keep(mut self, fd: OwnedFd) -> Self {
        self.keep.push(fd);
        self
    }

    /// Starts it. Every descriptor from 3 up is closed in the program but those of [`keep`](Self::keep); its
    /// signals have their default actions and none is blocked.
    pub fn spawn(self) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.args(&self.args);
        if let Some(arg0) = &self.arg0 {
            command.arg0(arg0);
        }
        if let Some(env) = self.env {
            command.env_clear().envs(env);
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let [stdin, stdout, stderr] = self.stdio.map(|fd| fd.map_or_else(Stdio::null, Stdio::from));
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let session = self.session;
        let keep: Vec<RawFd> = self.keep.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: `in_child` makes system calls only (no allocation, no lock), and it reads the two captured
        // values, which the fork has copied.
        unsafe { command.pre_exec(move || in_child(session, &keep)) };
        let child = command.spawn();
        // The kept descriptors stay open here until the child has its copies.
        drop(self.keep);
        child
    }
}

/// Runs between fork and exec: async-signal-safe calls only.
fn in_child(session: Session, keep: &[RawFd]) -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: setting a default action touches no memory of ours. Numbers the C library keeps for
            // itself are refused, which is fine.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // SAFETY: sigset_t is plain memory that sigemptyset fills; the mask is this process's own.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    if session != Session::Inherited {
        // SAFETY: no memory is involved. Fails only for a group leader, which a new child is not.
        if unsafe { libc::setsid() } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if session == Session::NewWithTerminal {
        // SAFETY: the request takes an integer argument; descriptor 0 is in place by now.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // Marking instead of closing leaves the pipe open over which the standard library reports a failed exec.
    // Kernels before 5.11 lack it; there the descriptors' own close-on-exec flags, which Rust always sets, do.
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    for &fd in keep {
        // SAFETY: no memory is involved; the descriptor is open, for its owner lives in the parent's stack.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;

    fn run(program: Program) -> (String, std::process::ExitStatus) {
        let (reader, writer) = std::io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let mut child =
            program.stdio(null.into(), writer.try_clone().unwrap().into(), writer.into()).spawn().unwrap();
        let mut text = String::new();
        let mut reader = reader;
        reader.read_to_string(&mut text).unwrap();
        (text, child.wait().unwrap())
    }

    #[test]
    fn arguments_environment_and_directory_arrive() {
        let program = Program::new("/bin/sh")
            .arg0("-sh")
            .arg("-c")
            .arg("echo $0 $A; pwd; env | grep -c HOME; exit 3")
            .env(vec![("A".into(), "b c".into()), ("PATH".into(), "/bin:/usr/bin".into())])
            .dir("/usr");
        let (text, status) = run(program);
        assert_eq!(text, "-sh b c\n/usr\n0\n");
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn no_descriptor_leaks_but_the_kept_one() {
        let inheritable = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&inheritable, rustix::io::FdFlags::empty()).unwrap();
        let kept: OwnedFd = std::fs::File::open("/dev/zero").unwrap().into();
        let number = kept.as_raw_fd();
        let program = Program::new("/bin/sh").arg("-c").arg("readlink /proc/$$/fd/*").keep(kept);
        let (text, _) = run(program);
        assert_eq!(text.lines().filter(|line| *line == "/dev/zero").count(), 1, "fd {number}: {text}");
        assert_eq!(text.lines().filter(|line| *line == "/dev/null").count(), 1, "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    #[test]
    fn signals_are_reset_and_the_session_is_new() {
        let (text, _) = run(Program::new("/bin/sh")
            .arg("-c")
            .arg("test $(ps -o sid= -p $$) -eq $$ && echo leader; exec grep -E '^Sig(Ign|Blk)' /proc/self/status")
            .new_session());
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, "leader");
        for line in rest.lines() {
            let (_, mask) = line.split_once('\t').unwrap();
            // Signals 32 and 33 belong to the C library and cannot be changed through it.
            let mask = u64::from_str_radix(mask, 16).unwrap() & !(3 << 31);
            assert_eq!(mask, 0, "{line}");
        }
        let (_, status) = run(Program::new("/bin/sh").arg("-c").arg("kill -PIPE $$"));
        assert_eq!(status.signal(), Some(libc::SIGPIPE));
    }

    #[test]
    fn a_missing_program_is_an_error_here() {
        let error = Program::new("/no/such/program").new_session().spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
