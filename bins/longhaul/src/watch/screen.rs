//! A terminal that is drawn over again and again, and left as it was.

use std::io::{self, Write as _};
use std::time::Instant;

use lh_sys::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The alternate screen, without the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// The user wants the end: `q`, or end of input.
    Quit,
    /// A signal that ends programs.
    Signal(Signal),
    /// The size has changed, or the terminal is ours again.
    Redraw,
    /// The time is up.
    Time,
}

/// The terminal; restored when dropped.
pub(super) struct Screen {
    signals: Signals,
    /// Modes of the keyboard from before; `None` where standard input is no terminal.
    before: Option<Termios>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let wanted = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::WINCH];
        let signals = Signals::collect(&wanted)?;
        let screen = Self { signals, before: tcgetattr(io::stdin()).ok() };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&self) -> io::Result<()> {
        if let Some(before) = &self.before {
            let mut modes = before.clone();
            // Keys without Enter and without echo; ^C stays a signal.
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Drain, &modes)?;
        }
        let mut out = io::stdout();
        out.write_all(ENTER)?;
        out.flush()
    }

    fn leave(&self) {
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE).and_then(|()| out.flush());
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
    }

    /// Columns and rows now.
    pub(super) fn size(&self) -> (usize, usize) {
        let known = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        known.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Draws these lines, cut to the size.
    pub(super) fn draw(&self, lines: &[String], columns: usize, rows: usize) -> io::Result<()> {
        let mut text = String::from("\x1b[H");
        for (index, line) in lines.iter().take(rows).enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            // One column stays free: a full line would wrap on some terminals.
            text.extend(line.chars().take(columns.saturating_sub(1)));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        let mut out = io::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Waits for a key, a signal, or this time.
    pub(super) fn wait(&mut self, until: Instant) -> io::Result<Key> {
        loop {
            if let Some(signal) = self.signals.take()? {
                match signal {
                    Signal::WINCH => return Ok(Key::Redraw),
                    Signal::TSTP => {
                        self.leave();
                        kill_process(getpid(), Signal::STOP)?;
                        self.enter()?;
                        return Ok(Key::Redraw);
                    }
                    other => return Ok(Key::Signal(other)),
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Key::Time);
            }
            let stdin = io::stdin();
            let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
            if self.before.is_some() {
                polled.push(PollFd::new(&stdin, PollFlags::IN));
            }
            let limit = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut polled, Some(&limit)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let typed = polled.get(1).is_some_and(|each| !each.revents().is_empty());
            let mut byte = [0];
            if typed {
                match rustix::io::read(&stdin, &mut byte) {
                    Ok(0) | Err(rustix::io::Errno::IO) => return Ok(Key::Quit),
                    Ok(_) if matches!(byte, [b'q' | b'Q' | 4]) => return Ok(Key::Quit),
                    // ^L
                    Ok(_) if byte == [12] => return Ok(Key::Redraw),
                    _ => {}
                }
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}
