//! Latency of a keystroke: a byte that a terminal at the server echoes, as a user of this client sees it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::child::{Bench, Figure};
use super::process::{Guard, kill, no_pipes, piped, said};
use super::row::Unit;
use crate::fault::Fault;
use crate::flow::Direction;
use crate::stats::median;
use crate::task::random;

/// Echoes without other traffic, and the time between keystrokes: a fast typist's.
const ALONE: usize = 10;
const EVERY: Duration = Duration::from_millis(60);
/// Part of the slice for which the bulk data move before echoes count.
const WARM_UP: f64 = 0.3;

/// A terminal without line editing: what a shell's own editor uses.
const ECHO: &str = "stty raw -echo; echo ready; exec cat";

impl Bench<'_> {
    /// Median echoes without other traffic and beside transfers of another connection.
    pub(super) fn keystrokes(&self, program: &Path) -> Result<Vec<Figure>, Fault> {
        let mut typed = Typed::start(self, program)?;
        let mut figures = Vec::new();
        let alone: Option<Vec<f64>> = (0..ALONE).map(|_| typed.echo()).collect();
        let mut measured = alone.and_then(median).map(|took| figures.push(("alone", Unit::Seconds, took)));
        for (column, direction) in
            [("beside an upload", Direction::Up), ("beside a download", Direction::Down)]
        {
            if measured.is_none() {
                break;
            }
            let bulk = Bulk::start(self, program, direction)?;
            std::thread::sleep(self.slice.mul_f64(WARM_UP));
            let begun = Instant::now();
            let mut all = Vec::new();
            while begun.elapsed() < self.slice || all.len() < 3 {
                match typed.echo() {
                    Some(took) => all.push(took),
                    None => break,
                }
            }
            drop(bulk);
            measured = median(all).map(|took| figures.push((column, Unit::Seconds, took)));
        }
        let words = typed.end();
        match measured {
            Some(()) => Ok(figures),
            None if words.is_empty() => {
                Err(Fault::Server("the terminal at the server does not echo".to_owned()))
            }
            None => Err(Fault::Client(words)),
        }
    }
}

/// A session with a terminal.
struct Typed {
    child: Child,
    _guard: Guard,
}

impl Typed {
    fn start(bench: &Bench<'_>, program: &Path) -> Result<Self, Fault> {
        let mut command = bench.ssh(program, ECHO, &["-tt".to_owned()]);
        let child = piped(&mut command)?;
        let guard = Guard::new(&child, bench.limit());
        let mut typed = Self { child, _guard: guard };
        match typed.child.stdout.as_mut().is_some_and(|output| skip_to(output, b"ready")) {
            true => Ok(typed),
            false => Err(Fault::client(&typed.end())),
        }
    }

    /// Types one byte; seconds until it is back. `None` where it does not come back.
    fn echo(&mut self) -> Option<f64> {
        std::thread::sleep(EVERY);
        let mut byte = [0];
        let begun = Instant::now();
        self.child.stdin.as_mut()?.write_all(b"x").ok()?;
        // Skips the rest of `echo ready`.
        while byte != *b"x" {
            self.child.stdout.as_mut()?.read_exact(&mut byte).ok()?;
        }
        Some(begun.elapsed().as_secs_f64())
    }

    fn end(mut self) -> String {
        kill(&mut self.child);
        said(self.child)
    }
}

/// Reads up to these words; false at the end of the output.
fn skip_to(output: &mut impl Read, words: &[u8]) -> bool {
    let (mut last, mut byte) = (Vec::new(), [0]);
    while output.read_exact(&mut byte).is_ok() {
        last.push(byte[0]);
        if last.ends_with(words) {
            return true;
        }
    }
    false
}

/// A transfer of another connection of the client; stopped when dropped.
struct Bulk {
    child: Child,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Bulk {
    /// Returns when data move.
    fn start(bench: &Bench<'_>, program: &Path, direction: Direction) -> Result<Self, Fault> {
        let script = match direction {
            Direction::Up => "echo ready; exec cat >/dev/null",
            Direction::Down => "echo ready; exec cat /dev/zero",
        };
        let mut child = piped(&mut bench.ssh(program, script, &[]))?;
        let guard = Guard::new(&child, bench.limit());
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(no_pipes());
        };
        if !skip_to(&mut output, b"ready") {
            kill(&mut child);
            return Err(Fault::client(&said(child)));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut block = random(128 * 1024);
            let _guard = guard;
            while !stopped.load(Ordering::Relaxed) {
                let goes_on = match direction {
                    Direction::Up => input.write_all(&block).is_ok(),
                    Direction::Down => output.read(&mut block).is_ok_and(|count| count > 0),
                };
                if !goes_on {
                    break;
                }
            }
        });
        Ok(Self { child, stop, thread: Some(thread) })
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        kill(&mut self.child);
        let _guard = Guard::new(&self.child, Duration::from_secs(5));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.child.wait();
    }
}
