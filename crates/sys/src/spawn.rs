//! Starting a program as a login does: new session, given descriptors, optionally a controlling terminal.
//!
//! The standard library forks and executes. The steps that it lacks run between the two, where only
//! async-signal-safe calls are allowed: `child_setup` has those of the process's attributes, `image`
//! executes.
#![expect(unsafe_code, reason = "code between fork and exec")]

mod child_setup;
mod image;
mod watched;

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

#[cfg(target_os = "linux")]
use crate::ids::Ids;
#[cfg(target_os = "linux")]
use crate::scheduling::{Prepared, Priority};
#[cfg(target_os = "linux")]
use child_setup::change_ids;
use child_setup::{Session, in_child, signals_to_reset, start_session, unblock_all};
use image::{First, Image};

/// Exit status of a process whose program could not be executed ([`Program::start`]). Shells use the same.
pub const NOT_EXECUTED: i32 = 127;

/// A program and its settings; built with [`Program::new`], started with [`Program::spawn`].
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
    #[cfg(target_os = "linux")]
    ids: Option<Ids>,
    #[cfg(target_os = "linux")]
    priority: Option<Priority>,
    before: Option<PrecedingProgram>,
}

/// A program that runs to its end before the main one starts, with the same directory, environment, terminal
/// and output. Only its standard input differs.
#[derive(Debug)]
pub struct PrecedingProgram {
    /// The command with all arguments; the first is both path and argument 0.
    pub words: Vec<CString>,
    /// Its standard input: a pipe that holds all its data.
    pub stdin: OwnedFd,
}

impl Program {
    /// A program at `path` (not searched in `PATH`), with the path as argument 0, an inherited environment,
    /// and `/dev/null` as standard descriptors.
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
            #[cfg(target_os = "linux")]
            ids: None,
            #[cfg(target_os = "linux")]
            priority: None,
            before: None,
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

    /// Sets the working directory; the spawn fails where it is not accessible.
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

    /// Starts a new session without a controlling terminal. Signals to the old process group do not reach it.
    #[must_use]
    pub fn new_session(mut self) -> Self {
        self.session = Session::New;
        self
    }

    /// Starts a new session whose controlling terminal is descriptor 0.
    #[must_use]
    pub fn controlling_terminal(mut self) -> Self {
        self.session = Session::NewWithTerminal;
        self
    }

    /// Keeps one more descriptor open in the program, under the same number.
    #[must_use]
    pub fn keep(mut self, fd: OwnedFd) -> Self {
        self.keep.push(fd);
        self
    }

    /// Runs the program as another user: sets groups, group id and user id permanently. Needs root's rights.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn ids(mut self, ids: Ids) -> Self {
        self.ids = Some(ids);
        self
    }

    /// Gives the new process this priority before it executes the program: loading a program takes processor
    /// time as well.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Runs another program first and waits for its end, regardless of its status.
    #[must_use]
    pub fn before(mut self, before: PrecedingProgram) -> Self {
        self.before = Some(before);
        self
    }

    /// Starts the program. Every descriptor from 3 up is closed in it except those of [`keep`](Self::keep).
    /// Its signals have their default actions, and none is blocked.
    pub fn spawn(self) -> io::Result<Child> {
        let (mut command, keep) = self.command()?;
        let child = command.spawn();
        // The kept descriptors must stay open here until the child has its copies.
        drop(keep);
        child
    }

    /// Like [`spawn`](Self::spawn), but returns before the program is executed: on a busy machine it takes
    /// tens of milliseconds until the new process runs. If the program cannot be executed, the process exits
    /// with [`NOT_EXECUTED`].
    ///
    /// # Errors
    /// The system cannot create another process.
    pub fn start(self) -> io::Result<Pid> {
        match crate::background::split() {
            Ok(Some(pid)) => Ok(pid),
            Ok(None) => {
                // The copy has one thread, so this may allocate.
                if let Ok((mut command, _keep)) = self.command() {
                    let _ = command.exec();
                }
                crate::background::leave(NOT_EXECUTED)
            }
            // A process with threads cannot be copied safely. Also fails if no process can be created.
            Err(_) => self.spawn().map(|child| Pid::from_child(&child)),
        }
    }

    /// The command of the standard library, and descriptors that must stay open until it has run.
    fn command(self) -> io::Result<(Command, Vec<OwnedFd>)> {
        let mut command = Command::new(&self.path);
        let first = match self.before {
            None => None,
            Some(PrecedingProgram { words, stdin }) => Some(First::new(&words, stdin, self.env.as_deref())?),
        };
        let arg0 = self.arg0.as_deref().unwrap_or(self.path.as_os_str());
        let words = std::iter::once(arg0).chain(self.args.iter().map(OsString::as_os_str));
        let image = Image::new(self.path.as_os_str(), words, self.env.as_deref())?;
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let [stdin, stdout, stderr] = self.stdio.map(|fd| fd.map_or_else(Stdio::null, Stdio::from));
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let session = self.session;
        let keep: Vec<RawFd> = self.keep.iter().map(AsRawFd::as_raw_fd).collect();
        #[cfg(target_os = "linux")]
        let (ids, priority) = (self.ids, self.priority.map(Prepared::from));
        let reset = signals_to_reset();
        // SAFETY: `in_child`, `change_ids`, `First::run` and `Image::execute` make system calls only (no
        // allocation, no lock), and they read the captured values, which the fork has copied.
        unsafe {
            command.pre_exec(move || {
                in_child(session, reset, &keep)?;
                #[cfg(target_os = "linux")]
                if let Some(priority) = &priority {
                    priority.set();
                }
                #[cfg(target_os = "linux")]
                if let Some(ids) = &ids {
                    change_ids(ids)?;
                }
                if let Some(first) = &first {
                    first.run();
                }
                // The standard library would call `execvp`, which has a shell run a file that is no program.
                Err(image.execute())
            });
        }
        Ok((command, self.keep))
    }
}

/// Starts a command as `execvp` does, which OpenSSH calls for programs that its user names (askpass, `-S`):
/// the C library has `/bin/sh` run a script without a `#!` line. The standard library's own way,
/// `posix_spawn`, refuses such a file.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn_like_execvp(command: &mut Command) -> io::Result<Child> {
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            // Code between fork and exec makes the standard library fork and call `execvp`.
            // SAFETY: the code does nothing.
            unsafe { command.pre_exec(|| Ok(())) }.spawn()
        }
        done => done,
    }
}

/// Like [`spawn_like_execvp`], for callers that may have signals blocked: none is blocked in the program.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn_unblocked(command: &mut Command) -> io::Result<Child> {
    let unblock = || {
        unblock_all();
        Ok(())
    };
    // SAFETY: the code makes one system call and allocates nothing.
    unsafe { command.pre_exec(unblock) }.spawn()
}

/// Like [`spawn_unblocked`], in a new session: without a controlling terminal, and the first process of a
/// group that has the process's id.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    let detach = || {
        unblock_all();
        start_session()
    };
    // SAFETY: the code makes two system calls and allocates nothing.
    unsafe { command.pre_exec(detach) }.spawn()
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
    fn arguments_environment_and_directory_are_set() {
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
    fn no_signal_is_blocked_in_a_program_that_is_started_unblocked() {
        let _signals = crate::signals::Signals::collect(&[rustix::process::Signal::HUP]).unwrap();
        let mut command = Command::new("/bin/sh");
        let mut child = spawn_unblocked(command.args(["-c", "kill -HUP $$; exit 3"])).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGHUP));
    }

    #[test]
    fn a_detached_program_leads_a_session_and_blocks_no_signal() {
        let _signals = crate::signals::Signals::collect(&[rustix::process::Signal::HUP]).unwrap();
        let mut command = Command::new("/bin/sh");
        let line = "test $(ps -o sid= -p $$) -eq $$ && kill -HUP $$; exit 3";
        let mut child = spawn_detached(command.args(["-c", line])).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGHUP));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_priority_is_set_before_the_program_begins() {
        let own = rustix::process::getpriority_process(None).unwrap();
        // 19 is the largest value there is, and this process may have it.
        let priority = Priority { nice: (own + 3).min(19), slice: None, group: 7 };
        let program = Program::new("/bin/sh")
            .arg("-c")
            .arg("nice; if [ -r /proc/self/autogroup ]; then cat /proc/self/autogroup; fi")
            .new_session()
            .priority(priority);
        let (text, _) = run(program);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(&*priority.nice.to_string()), "{text}");
        // Where the kernel has such groups the file reads `/autogroup-NUMBER nice VALUE`.
        assert!(lines.all(|line| !line.contains("nice") || line.ends_with(" nice 7")), "{text}");
    }

    #[test]
    fn only_kept_descriptors_are_inherited() {
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
    fn signals_are_reset_in_a_new_session() {
        // SAFETY: no test of this process sends itself these signals.
        unsafe {
            libc::signal(libc::SIGUSR2, libc::SIG_IGN);
            libc::signal(libc::SIGRTMAX(), libc::SIG_IGN);
        }
        let ignored = signals_to_reset();
        for signal in [libc::SIGPIPE, libc::SIGUSR2, libc::SIGRTMAX()] {
            assert_ne!(ignored & (1 << (signal - 1)), 0, "{signal}");
        }
        assert_ne!(ignored, u64::MAX);
        let (text, _) = run(Program::new("/bin/sh")
            .arg("-c")
            .arg("test $(ps -o sid= -p $$) -eq $$ && echo leader; exec grep -E '^Sig(Ign|Blk)' /proc/self/status")
            .new_session());
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, "leader");
        for line in rest.lines() {
            let (_, mask) = line.split_once('\t').unwrap();
            // The C library reserves signals 32 and 33, so they cannot be changed through it.
            let mask = u64::from_str_radix(mask, 16).unwrap() & !(3 << 31);
            assert_eq!(mask, 0, "{line}");
        }
        let (_, status) = run(Program::new("/bin/sh").arg("-c").arg("kill -PIPE $$"));
        assert_eq!(status.signal(), Some(libc::SIGPIPE));
    }

    #[test]
    fn preceding_program_shares_the_environment() {
        let (stdin, writer) = crate::fd::pipe().unwrap();
        rustix::io::write(&writer, b"given\n").unwrap();
        drop(writer);
        let words = ["/bin/sh", "-c", "read x; echo first $x $A; pwd; exit 9"];
        let words = words.map(|word| CString::new(word).unwrap()).to_vec();
        let (text, status) = run(Program::new("/bin/sh")
            .arg("-c")
            .arg("echo second $A")
            .env(vec![("A".into(), "b".into())])
            .dir("/usr")
            .before(PrecedingProgram { words, stdin })
            .new_session());
        assert_eq!(text, "first given b\n/usr\nsecond b\n");
        assert!(status.success());
    }

    #[test]
    fn program_runs_with_given_ids() {
        if !crate::ids::is_root() {
            return lh_testkit::skip("program_runs_with_given_ids", "changing ids needs root");
        }
        let ids = Ids { uid: 65_534, gid: 65_533, groups: vec![65_532] };
        let (text, _) = run(Program::new("/bin/sh").arg("-c").arg("id -u; id -g; id -G").ids(ids));
        assert_eq!(text, "65534\n65533\n65533 65532\n");
    }

    #[test]
    fn missing_program_fails_to_spawn() {
        let error = Program::new("/no/such/program").new_session().spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn script_without_interpreter_needs_execvp() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("script");
        std::fs::write(&path, "echo \"ran $1\"\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        // Another test's fork may still hold the script open for writing.
        fn settled<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
            loop {
                match start() {
                    Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                        std::thread::yield_now()
                    }
                    done => return done,
                }
            }
        }
        let refused = settled(|| Program::new(&path).spawn()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOEXEC));
        let mut command = Command::new(&path);
        command.arg("well").stdout(Stdio::piped());
        let child = settled(|| spawn_like_execvp(&mut command)).unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"ran well\n");
    }
}
