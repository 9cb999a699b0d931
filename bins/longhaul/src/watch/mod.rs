//! `longhaul doctor --watch`: a live view of connections that other programs have.

mod files;
mod screen;
mod sockets;
mod view;
mod watched;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lh_cli::flags::{LONGHAUL, Parsed};
use rustix::process::Pid;

use self::files::Files;
use self::screen::{Key, Screen};
use self::sockets::{ByAddress, ByProcess};
use self::watched::Watched;
use crate::doctor::endpoint;
use crate::fault::Fault;
use crate::output::print_line;

/// Time between samples.
const EVERY: Duration = Duration::from_secs(1);

/// Flags of `doctor` about measurements.
const OTHERS: [&str; 3] = ["json", "local-dir", "remote-dir"];

const FAILURE: u8 = 1;
const CANNOT: u8 = 255;

/// Source of the samples.
enum Source {
    Files(Files),
    Process(ByProcess),
    Address(ByAddress),
}

impl Source {
    /// Interprets the operand: a running process, a file of metrics, or a host.
    fn of(parsed: &Parsed, word: &str) -> Result<Self, Fault> {
        if word.parse::<i64>().is_ok() {
            let number = word.parse().ok().filter(|number| *number > 0);
            let pid = number.and_then(Pid::from_raw);
            return match pid.filter(|pid| Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists()) {
                Some(pid) => Ok(Self::Process(ByProcess::new(pid))),
                None => Err(Fault::NoProcess(word.to_owned())),
            };
        }
        let file = PathBuf::from(word);
        if let Some(files) = Files::find(&file) {
            return Ok(Self::Files(files));
        }
        if word.contains('/') {
            return Err(Fault::file(&file)(rustix::io::Errno::NOENT.into()));
        }
        let (host, port) = endpoint(parsed, word)?;
        ByAddress::resolve(&host, port).map(Self::Address)
    }

    /// Takes a sample of each connection; `None` when there will be no more.
    fn sample(&mut self) -> Result<Option<Vec<Watched>>, Fault> {
        match self {
            Self::Files(files) => files.sample().map(Some),
            Self::Process(process) => process.sample(),
            Self::Address(address) => address.sample().map(Some),
        }
    }

    /// Says what the display waits for while there is nothing to show.
    fn waits_for(&self) -> String {
        match self {
            Self::Files(files) => format!("waiting for samples in {}", files.name()),
            Self::Process(process) => format!("process {} has no TCP connection now", process.number()),
            Self::Address(address) => format!("no connection to {} from this machine now", address.name()),
        }
    }
}

/// Runs the command; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let [word] = operands else {
        return LONGHAUL.usage_error("doctor --watch: give a host, a process or a file of metrics").print();
    };
    if let Some(flag) = OTHERS.into_iter().find(|flag| parsed.has_long(flag)) {
        return LONGHAUL.usage_error(&format!("doctor: --watch does not go with --{flag}")).print();
    }
    let word = &*word.to_string_lossy();
    let watched = Source::of(parsed, word).and_then(|source| {
        if io::stdout().is_terminal() { on_terminal(source, word) } else { in_lines(source) }
    });
    match watched {
        Ok(status) => status,
        Err(fault) => fault.report(CANNOT),
    }
}

/// Redraws the terminal until `q`, a signal, or the end of the process.
fn on_terminal(mut source: Source, word: &str) -> Result<u8, Fault> {
    let mut screen = Screen::open().map_err(Fault::system("terminal"))?;
    let mut taken = source.sample()?;
    let mut due = Instant::now() + EVERY;
    loop {
        let seen = match &taken {
            Some(seen) => seen,
            None => {
                drop(screen);
                return print_line("the process has ended").map(|()| 0);
            }
        };
        let (columns, rows) = screen.size();
        let mut lines = vec![format!("longhaul doctor --watch {word}    q ends"), String::new()];
        if seen.is_empty() {
            lines.push(source.waits_for());
        }
        lines.extend(seen.iter().flat_map(|each| view::block(each, columns)));
        screen.draw(&lines, columns, rows).map_err(Fault::Output)?;
        match screen.wait(due).map_err(Fault::system("terminal"))? {
            Key::Quit => return Ok(0),
            Key::Signal(signal) => {
                drop(screen);
                return Ok(128 + u8::try_from(signal.as_raw()).unwrap_or(FAILURE));
            }
            Key::Redraw => {}
            Key::Time => {
                due = Instant::now() + EVERY;
                taken = source.sample()?;
            }
        }
    }
}

/// Prints a line for each connection and second.
fn in_lines(mut source: Source) -> Result<u8, Fault> {
    let mut waits = false;
    while let Some(seen) = source.sample()? {
        let mut text: String = seen.iter().map(|each| view::line(each) + "\n").collect();
        if seen.is_empty() && !std::mem::replace(&mut waits, true) {
            text = source.waits_for() + "\n";
        }
        waits = waits && seen.is_empty();
        let mut out = io::stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader of the pipe has enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            other => other.map_err(Fault::Output)?,
        }
        std::thread::sleep(EVERY);
    }
    Ok(0)
}
