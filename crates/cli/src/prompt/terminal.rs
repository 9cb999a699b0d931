//! Prompts on a terminal.

use std::os::fd::BorrowedFd;

use lh_sys::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::{Zeroize as _, Zeroizing};

use super::answer::{MAX_ANSWER, PromptError, text};

/// Signals before which echo must be restored. SIGTTIN and SIGTTOU, which stop a background process that uses
/// the terminal, are not among them: they arrive before any change, and blocked they would turn into errors.
const SIGNALS: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::ALARM, Signal::TSTP];

/// Turns echo off until dropped.
struct NoEcho<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> NoEcho<'a> {
    /// Turns echo off. `None` where the descriptor is not a terminal.
    fn enter(terminal: BorrowedFd<'a>) -> Option<Self> {
        let before = tcgetattr(terminal).ok()?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
        // Input that was typed ahead was echoed, so it is discarded.
        tcsetattr(terminal, OptionalActions::Flush, &silent).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for NoEcho<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Result of waiting for a line.
enum Outcome {
    Line(Zeroizing<Vec<u8>>),
    Signal(Signal),
    End,
}

/// Shows the prompt and reads a line.
pub(super) fn ask(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    prompt: &str,
    echo: bool,
) -> Result<Zeroizing<String>, PromptError> {
    loop {
        let mut signals = Signals::collect(&SIGNALS).map_err(|_| PromptError::NoAnswer)?;
        let silent = if echo { None } else { NoEcho::enter(input) };
        let outcome = if write(output, prompt.as_bytes()) { line(input, &mut signals) } else { Outcome::End };
        if silent.is_some() {
            // The terminal did not echo the user's newline.
            write(output, b"\n");
        }
        drop(silent);
        signals.release();
        match outcome {
            Outcome::Line(line) => return text(&line),
            Outcome::End => return Err(PromptError::NoAnswer),
            Outcome::Signal(signal) => {
                let _ = kill_process(getpid(), signal);
                // After SIGTSTP the prompt is shown again. After any other signal that the process survives,
                // it has failed.
                if signal != Signal::TSTP {
                    return Err(PromptError::NoAnswer);
                }
            }
        }
    }
}

fn line(input: BorrowedFd<'_>, signals: &mut Signals) -> Outcome {
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_ANSWER));
    let mut started = false;
    loop {
        let mut fds = [PollFd::new(&input, PollFlags::IN), PollFd::new(&*signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Outcome::End,
        }
        let readable = !fds[0].revents().is_empty();
        if let Ok(Some(signal)) = signals.take() {
            return Outcome::Signal(signal);
        }
        if !readable {
            continue;
        }
        // Read byte by byte: standard input may hold the answers to later questions.
        let mut byte = [0];
        match rustix::io::read(input, &mut byte) {
            Ok(0) if started => return Outcome::Line(line),
            Ok(0) => return Outcome::End,
            Ok(_) if byte[0] == b'\n' || byte[0] == b'\r' => return Outcome::Line(line),
            Ok(_) if line.len() < MAX_ANSWER => line.push(byte[0]),
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Outcome::End,
        }
        started = true;
        byte.zeroize();
    }
}

fn write(output: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsFd as _, OwnedFd};

    /// Both ends of a pseudo terminal that is not a controlling terminal.
    fn pty() -> (File, OwnedFd) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let slave = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("opens");
        (File::from(master), slave)
    }

    fn echoes(terminal: &OwnedFd) -> bool {
        tcgetattr(terminal).expect("modes").local_modes.contains(LocalModes::ECHO)
    }

    /// Runs a prompt in a thread; the closure simulates the user at `master`.
    fn dialogue(echo: bool, person: impl FnOnce(&mut File, &OwnedFd)) -> Result<String, PromptError> {
        let (mut master, slave) = pty();
        let copy = slave.try_clone().expect("cloned");
        let asking = std::thread::spawn(move || {
            ask(copy.as_fd(), copy.as_fd(), "Password: ", echo).map(|answer| answer.to_string())
        });
        let mut shown = Vec::new();
        while !shown.ends_with(b"Password: ") {
            let mut byte = [0];
            master.read_exact(&mut byte).expect("the prompt");
            shown.push(byte[0]);
        }
        person(&mut master, &slave);
        let answer = asking.join().expect("no panic");
        assert!(echoes(&slave), "the terminal must be restored");
        answer
    }

    #[test]
    fn secret_is_read_without_echo() {
        let answer = dialogue(false, |master, slave| {
            assert!(!echoes(slave));
            master.write_all("g\u{fc}nther x\n".as_bytes()).expect("typed");
            let mut shown = [0; 2];
            master.read_exact(&mut shown).expect("output");
            assert_eq!(&shown, b"\r\n", "only a newline is shown");
        });
        assert_eq!(answer.as_deref(), Ok("g\u{fc}nther x"));
    }

    #[test]
    fn visible_answer_is_echoed() {
        let answer = dialogue(true, |master, slave| {
            assert!(echoes(slave));
            master.write_all(b"yes\n").expect("typed");
        });
        assert_eq!(answer.as_deref(), Ok("yes"));
    }

    #[test]
    fn eof_is_no_answer_and_long_answers_are_truncated() {
        assert_eq!(
            dialogue(false, |master, _| master.write_all(&[4]).expect("typed")),
            Err(PromptError::NoAnswer)
        );
        let (input, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(format!("{}\nsecond\n", "x".repeat(3000)).as_bytes()).expect("written");
        let null = File::options().write(true).open("/dev/null").expect("opens");
        let first = ask(input.as_fd(), null.as_fd(), "", false).expect("an answer");
        assert_eq!(first.len(), MAX_ANSWER);
        let second = ask(input.as_fd(), null.as_fd(), "", false).expect("an answer");
        assert_eq!(second.as_str(), "second");
    }
}
