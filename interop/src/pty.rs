//! A program on a terminal whose keyboard and screen the test controls.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lh_sys::child::{Ended, Watched};
use lh_sys::pty::Pty;
use lh_sys::spawn::Program;
use rustix::termios::Winsize;

/// Longest wait for output. A bound against hanging, not an expectation.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Output so far, and whether the terminal has reached its end of file.
type Screen = Arc<(Mutex<(String, bool)>, Condvar)>;

/// A program whose standard descriptors are a terminal of 80 columns.
pub struct Terminal {
    master: OwnedFd,
    child: Watched,
    screen: Screen,
    /// Offset up to which [`expect`](Terminal::expect) has matched.
    seen: usize,
}

impl Terminal {
    /// Starts `program` in the directory `dir`, with `home` as its home directory.
    pub fn start<S: AsRef<OsStr>>(program: &Path, args: &[S], dir: &Path, home: &Path) -> Self {
        Self::start_with_columns(80, program, args, dir, home)
    }

    /// Like [`start`](Self::start), on a terminal of this width.
    pub fn start_with_columns<S: AsRef<OsStr>>(
        columns: u16,
        program: &Path,
        args: &[S],
        dir: &Path,
        home: &Path,
    ) -> Self {
        let pty = Pty::allocate().unwrap();
        pty.resize(Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let slave = || pty.open_slave().unwrap();
        let mut env: Vec<_> = std::env::vars_os().filter(|(name, _)| name != "SSH_AUTH_SOCK").collect();
        env.retain(|(name, _)| name != "HOME" && name != "TERM");
        env.push(("HOME".into(), home.into()));
        env.push(("TERM".into(), "xterm".into()));
        let mut command = Program::new(program).dir(dir).env(env).controlling_terminal();
        for arg in args {
            command = command.arg(arg);
        }
        let child = Watched::new(command.stdio(slave(), slave(), slave()).spawn().unwrap()).unwrap();
        let screen = Screen::default();
        // The thread below uses blocking reads. Typed text is short enough to be written at once.
        lh_sys::fd::set_nonblocking(pty.try_clone_master().unwrap(), false).unwrap();
        let mut reader = std::fs::File::from(pty.try_clone_master().unwrap());
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let read = reader.read(&mut buffer).unwrap_or(0);
                let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
                state.0.push_str(&String::from_utf8_lossy(&buffer[..read]));
                state.1 = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self { master: pty.into_master(), child, screen, seen: 0 }
    }

    /// Gives the terminal another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.master, size).unwrap();
    }

    /// Types these keys.
    pub fn send(&self, keys: &str) {
        let mut rest = keys.as_bytes();
        while !rest.is_empty() {
            let written = rustix::io::write(&self.master, rest).unwrap();
            rest = &rest[written..];
        }
    }

    /// Waits until `text` appears after the previous match; returns the output up to the end of `text`.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        let mut state = self.screen.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = state.0[self.seen..].find(text) {
                let end = self.seen + at + text.len();
                let came = state.0[self.seen..end].to_owned();
                self.seen = end;
                return came;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !state.1, "{text:?} does not appear after\n{}", &state.0[self.seen..]);
            state = self.screen.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns all output so far.
    pub fn screen(&self) -> String {
        self.screen.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Waits for the terminal's end of file; returns all output.
    #[track_caller]
    pub fn screen_at_end(&self) -> String {
        let deadline = Instant::now() + TIMEOUT;
        let mut state = self.screen.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.1 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the program does not end:\n{}", state.0);
            state = self.screen.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.0.clone()
    }

    /// Waits for the program to end; returns its exit status, or -1 after a signal.
    #[track_caller]
    pub fn wait(mut self) -> i32 {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.child.try_wait().unwrap() {
                Some(Ended::Exit(status)) => return status.into(),
                Some(Ended::Signal { .. }) => return -1,
                None => assert!(Instant::now() < deadline, "the program does not end:\n{}", self.screen()),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.signal(rustix::process::Signal::KILL, false);
            let _ = self.child.wait();
        }
    }
}
