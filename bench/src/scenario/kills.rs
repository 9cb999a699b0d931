//! Copies that are killed in the middle and run again. Checks the result and measures the bytes that were
//! transferred twice.
//!
//! The client connects to its server through our relay, which counts the bytes in both directions and stops
//! forwarding after a chosen part of the copy. Then one end is killed with SIGKILL, either the client's
//! process or all processes of the session, and the command runs again. All bytes beyond those of one
//! undisturbed copy count as sent again, including the second attempt's login and comparisons.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::measured::small_files;
use crate::bench::{Bench, remove};
use crate::contestant::{Contestant, Contestants, Task, Variation};
use crate::job::{Client, Running, Server, client_command};
use crate::stats::Better;
use crate::table::{Entry, Measured, Table, interleave};
use crate::usage::descendants;

/// Number of kills of each end, unless `--rounds` sets it.
const MOMENTS: usize = 20;

/// Size of the single file, bytes, unless `--size` sets it.
const FILE: u64 = 1_000_000_000;

/// Time limit of one attempt.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Part of the copy after which the kill happens.
const PART: std::ops::Range<f64> = 0.02..0.98;

pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let options = &bench.options;
    let size = if options.given.size || !options.smoke { options.size } else { 16 << 20 };
    let size = if options.given.size || options.smoke { size } else { FILE };
    let (moments, files) =
        if options.smoke { (1, 60) } else { (MOMENTS, options.tree.files.unwrap_or(2000)) };
    let moments = if options.given.rounds { options.rounds } else { moments };
    let with = Variation::of(&options.suites[0]);
    let relay = Relay::start()?;
    let mut tables = Vec::new();
    let blob = bench.blob(size)?;
    let tree = bench.data("tree");
    small_files(&tree, files, options.tree.file_size.unwrap_or(4096))?;
    let target = bench.data("killed");
    for (what, tasks) in [
        (
            format!("1 file of {:.1} GB", size as f64 / 1e9),
            [("up", Task::Put(&blob, &target)), ("down", Task::Get(&blob, &target))],
        ),
        (
            format!("{files} small files"),
            [("up", Task::PutTree(&tree, &target)), ("down", Task::GetTree(&tree, &target))],
        ),
    ] {
        for (way, task) in tasks {
            let title = format!(
                "{what} {way}, each end killed at {moments} random moments and the command run again"
            );
            if !options.only.is_empty() && !options.only.iter().any(|only| title.contains(only.as_str())) {
                continue;
            }
            let source = if what.starts_with("1 file") { &blob } else { &tree };
            let mut entries = Vec::new();
            for who in contestants(field) {
                for victim in [Victim::Client, Victim::Server] {
                    let name = format!("{}, {} killed", who.name, victim.name());
                    let killed = KilledCopy::new(bench, &relay, &who, &with, &task, source, &target);
                    let Some(mut killed) = killed else { continue };
                    // The same moments in every run, and different ones for each row.
                    let mut dice = Dice::for_row(&name);
                    entries.push(Entry::new(name, who.role(), move || killed.trial(victim, dice.part())));
                }
            }
            tables.push(interleave("kills", title, moments, entries));
        }
    }
    remove(&tree);
    Ok(tables)
}

/// Longhaul, with its own server and with OpenSSH's.
fn contestants(field: &Contestants) -> Vec<Contestant> {
    std::iter::once(field.ours().clone()).chain(field.ours_with_stock_server()).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Client,
    Server,
}

impl Victim {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Pseudo-random numbers that are equal in each run.
struct Dice(u64);

impl Dice {
    fn for_row(name: &str) -> Self {
        Self(name.bytes().fold(1, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into())))
    }

    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        PART.start + (self.0 >> 11) as f64 / (1_u64 << 53) as f64 * (PART.end - PART.start)
    }
}

struct KilledCopy<'a> {
    bench: &'a Bench,
    relay: &'a Relay,
    server: Server,
    client: Client,
    source: PathBuf,
    target: PathBuf,
    /// Bytes that one undisturbed copy transfers.
    whole: Option<u64>,
}

impl<'a> KilledCopy<'a> {
    fn new(
        bench: &'a Bench,
        relay: &'a Relay,
        who: &Contestant,
        with: &Variation,
        task: &Task<'_>,
        source: &Path,
        target: &Path,
    ) -> Option<Self> {
        let (server, mut client) = (who.server(bench, with)?, who.client(bench, with, task)?);
        // The harness makes the second attempt.
        client.program.args.splice(0..0, ["--retries".to_owned(), "0".to_owned()]);
        let (source, target) = (source.to_path_buf(), target.to_path_buf());
        Some(Self { bench, relay, server, client, source, target, whole: None })
    }

    /// One copy that is killed after the part `part` and completed by another attempt.
    fn trial(&mut self, victim: Victim, part: f64) -> Result<Vec<Measured>, String> {
        let whole = match self.whole {
            Some(whole) => whole,
            None => {
                let whole = self.attempt(None)?;
                self.compare()?;
                *self.whole.insert(whole)
            }
        };
        let first = self.attempt(Some((victim, (whole as f64 * part) as u64)))?;
        let second = self.attempt(None)?;
        self.compare()?;
        let again = (first + second) as f64 / whole as f64 - 1.0;
        Ok(vec![
            ("% sent again", Better::Lower, again.max(0.0) * 100.0),
            ("killed at %", Better::Higher, part * 100.0),
        ])
    }

    /// Runs the command, and kills an end of it after the given bytes. Returns the bytes that have passed.
    fn attempt(&self, kill: Option<(Victim, u64)>) -> Result<u64, String> {
        let running = Running::start(self.bench, &self.server)?;
        self.relay.begin(running.port, kill.map(|(_, bytes)| bytes));
        let mut child = self.start()?;
        let until = Instant::now() + TIMEOUT;
        let outcome = loop {
            if let Ok(Some(status)) = child.try_wait() {
                break match (kill, status.success()) {
                    (None, true) => Ok(()),
                    (None, false) => Err(format!("{status}: {}", self.last_messages())),
                    (Some(_), _) => Err(format!("the copy ended before it could be killed: {status}")),
                };
            }
            if let Some((victim, _)) = kill
                && self.relay.is_held()
            {
                match victim {
                    Victim::Client => child.kill().map_err(|error| error.to_string())?,
                    Victim::Server => kill_session(&running, self.server.listens),
                }
                self.relay.release();
                let _ = child.wait();
                break Ok(());
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                break Err("the copy does not end".to_owned());
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        self.relay.release();
        outcome.map(|()| self.relay.passed())
    }

    fn start(&self) -> Result<Child, String> {
        let (program, args, env) = client_command(self.bench, &self.client.program, self.relay.port);
        let mut command = Command::new(&program);
        // A file, not a pipe, which would fill up because it is not read.
        let messages =
            File::create(self.bench.data("said")).map_err(|error| format!("its messages: {error}"))?;
        command.args(args).envs(env).stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        self.bench.set_environment(&mut command);
        command.spawn().map_err(|error| format!("{}: {error}", program.display()))
    }

    /// Last messages of the command.
    fn last_messages(&self) -> String {
        let text = std::fs::read(self.bench.data("said")).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().rev().take(3).collect::<Vec<_>>().join(" | ")
    }

    /// Checks that the copy equals the source and no other file is left; removes it.
    fn compare(&self) -> Result<(), String> {
        let done = Command::new("diff").arg("-rq").arg("--").args([&self.source, &self.target]).output();
        let done = done.map_err(|error| format!("diff: {error}"))?;
        let beside = self
            .target
            .parent()
            .into_iter()
            .flat_map(|parent| std::fs::read_dir(parent).into_iter().flatten());
        let left = beside.flatten().any(|entry| entry.path().extension().is_some_and(|end| end == "lhpart"));
        remove(&self.target);
        match (done.status.success(), left) {
            (true, false) => Ok(()),
            (true, true) => Err("an unfinished file is left beside the copy".to_owned()),
            (false, _) => Err(format!("the copy differs: {}", String::from_utf8_lossy(&done.stdout).trim())),
        }
    }
}

/// Kills all processes of the server except the listener.
fn kill_session(running: &Running, listens: bool) {
    // `descendants` may include the supervisor; its first child is the listener.
    let mut below = descendants(running.pid());
    below.retain(|&pid| pid != running.pid());
    for pid in below.into_iter().skip(usize::from(listens)) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Forwards connections to a server whose port changes, and counts bytes.
struct Relay {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    to: AtomicU16,
    passed: AtomicU64,
    /// Bytes after which forwarding stops.
    limit: AtomicU64,
    /// Number of the attempt; connections of earlier ones are closed.
    attempt: AtomicU64,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    held: bool,
    open: bool,
}

impl Relay {
    fn start() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("relay: {error}");
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", of_thread.to.load(Ordering::SeqCst))) else {
                    continue;
                };
                for (from, to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
                    let shared = Arc::clone(&of_thread);
                    if let (Ok(from), Ok(to)) = (from, to) {
                        std::thread::spawn(move || shared.pass(from, to));
                    }
                }
            }
        });
        Ok(Self { port, shared })
    }

    fn begin(&self, to: u16, limit: Option<u64>) {
        let shared = &self.shared;
        *shared.gate.lock().unwrap_or_else(PoisonError::into_inner) = Gate::default();
        shared.attempt.fetch_add(1, Ordering::SeqCst);
        shared.to.store(to, Ordering::SeqCst);
        shared.passed.store(0, Ordering::SeqCst);
        shared.limit.store(limit.unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    fn is_held(&self) -> bool {
        self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner).held
    }

    /// Ends the held connections.
    fn release(&self) {
        self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        self.shared.changed.notify_all();
    }

    fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let attempt = self.attempt.load(Ordering::SeqCst);
        let mut block = vec![0; 256 << 10];
        while let Ok(count @ 1..) = from.read(&mut block) {
            if self.attempt.load(Ordering::SeqCst) != attempt {
                break;
            }
            let passed = self.passed.fetch_add(count as u64, Ordering::SeqCst) + count as u64;
            if passed >= self.limit.load(Ordering::SeqCst) {
                let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
                gate.held = true;
                while !gate.open {
                    gate = self.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
                }
                break;
            }
            if to.write_all(&block[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
