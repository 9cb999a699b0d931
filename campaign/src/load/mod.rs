//! Cost of many clients for a server on loopback: idle sessions, simultaneous logins, and honest logins
//! beside hostile connections. Afterwards the server must have released all resources.

mod handshake;
mod honest;
mod hostile;
mod memory;
mod priority;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lh_crypto::PrivateKey;
use lh_interop::{Lab, Lhsshd, me};

use crate::client::{Client, End};
use crate::explore::sockets::Socket;
use handshake::handshake;
use honest::{PHASES, Timing};
use hostile::HostileClients;
pub use hostile::run as run_hostile_clients;
use memory::{CpuTime, Footprint};

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Number of simultaneous idle sessions.
    pub idle: usize,
    /// Number of logins that start at the same time.
    pub burst: usize,
    /// Number of simultaneous hostile connections.
    pub hostile: usize,
    /// Number of measured honest logins, without and with hostile connections.
    pub honest: usize,
}

impl Plan {
    /// Sizes for every test run.
    pub const SHORT: Self = Self { idle: 40, burst: 40, hostile: 36, honest: 30 };
    /// Sizes of a campaign.
    pub const LONG: Self = Self { idle: 1000, burst: 1000, hostile: 200, honest: 200 };
}

/// Time limit of a step, long enough for a machine that is busy with other tests.
const STUCK: Duration = Duration::from_secs(120);

/// Memory limit of a pre-authentication process with any client, in KiB.
const MOST_PER_PROCESS: u64 = 48 << 10;

/// Memory in KiB that the listener may keep after all connections are closed: caches of its allocator.
const KEPT: u64 = 4 << 10;

/// The measurement is about cost, not about admission, so every connection is admitted. With SHLVL set,
/// shells do not read their start-up files, which can cost a hundred times as much as a login.
const CONFIG: &str = "MaxStartups 20000\nLoginGraceTime 60\nUsePAM no\nLogLevel INFO\nPerSourcePenalties yes\n\
                      SetEnv SHLVL=1\n";

struct LoadSetup {
    lab: Lab,
    server: Lhsshd,
    user: String,
    key: PrivateKey,
}

impl LoadSetup {
    fn new() -> Result<Self, String> {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, CONFIG);
        let key = std::fs::read(lab.path("user_ed25519")).map_err(|error| error.to_string())?;
        let (key, _) = PrivateKey::parse(&key, None).map_err(|error| error.to_string())?;
        Ok(Self { lab, server, user: me(), key })
    }

    fn connect(&self) -> Result<Client<Socket>, String> {
        let socket = Socket::connect(self.server.port).map_err(|error| error.to_string())?;
        socket.timeout(STUCK).map_err(|error| error.to_string())?;
        Ok(Client::new(socket, true))
    }

    /// Connects, logs in and runs a command. Returns the durations of the phases.
    fn log_in(&self) -> Result<Timing, String> {
        let start = Instant::now();
        honest::log_in(&mut self.connect()?, &self.user, &self.key, start)
            .map_err(|end| format!("an honest login failed: {end:?}"))
    }

    /// Returns a client that has logged in and is idle.
    fn idle(&self) -> Result<Client<Socket>, String> {
        let mut client = self.connect()?;
        let failed = |end: End| format!("an idle session failed: {end:?}");
        handshake(&mut client).map_err(failed)?;
        honest::authenticate(&mut client, &self.user, &self.key).map_err(failed)?;
        Ok(client)
    }

    fn footprint(&self) -> Footprint {
        Footprint::of(self.server.pid())
    }

    /// Waits until only the listener is left.
    fn settled(&self) -> Result<Footprint, String> {
        let end = Instant::now() + STUCK;
        loop {
            let now = self.footprint();
            if now.processes == 1 {
                return Ok(now);
            }
            if Instant::now() > end {
                return Err(format!("{} processes of the server are left: {now}", now.processes - 1));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Runs all parts of the campaign.
///
/// # Errors
/// An honest client was not served, or the server kept resources that it should have released.
pub fn campaign(plan: &Plan) -> Result<(), String> {
    memory::raise_descriptor_limit().map_err(|error| format!("descriptors: {error}"))?;
    let setup = LoadSetup::new()?;
    // The first connection initialises caches.
    setup.log_in()?;
    let before = setup.settled()?;
    println!("load: the listener alone: {before}");
    idle_sessions(&setup, plan, &before)?;
    burst(&setup, plan)?;
    flood(&setup, plan)?;
    let after = setup.settled()?;
    println!("load: afterwards: {after}");
    let _ = &setup.lab;
    if after.descriptors != before.descriptors {
        return Err(format!(
            "the listener had {} descriptors and has {}",
            before.descriptors, after.descriptors
        ));
    }
    if after.private_kib > before.private_kib + KEPT {
        return Err(format!("the listener had {} KiB and has {}", before.private_kib, after.private_kib));
    }
    Ok(())
}

fn idle_sessions(setup: &LoadSetup, plan: &Plan, before: &Footprint) -> Result<(), String> {
    let start = Instant::now();
    let clients = (0..plan.idle).map(|_| setup.idle()).collect::<Result<Vec<_>, String>>()?;
    let took = start.elapsed();
    let now = setup.footprint();
    let count = plan.idle.max(1) as u64;
    println!(
        "load: {} idle sessions, logged in within {:.1} s: {now}; each {} KiB PSS, {} KiB private, {:.1} processes",
        plan.idle,
        took.as_secs_f64(),
        now.pss_kib.saturating_sub(before.pss_kib) / count,
        now.private_kib.saturating_sub(before.private_kib) / count,
        (now.processes.saturating_sub(before.processes)) as f64 / count as f64,
    );
    drop(clients);
    setup.settled().map(drop)
}

fn burst(setup: &LoadSetup, plan: &Plan) -> Result<(), String> {
    let before = CpuTime::of(setup.server.pid());
    let barrier = Barrier::new(plan.burst);
    let times: Vec<Result<Timing, String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.burst)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    setup.log_in()
                })
            })
            .collect();
        let failed = |_| Err("a client panicked".to_owned());
        clients.into_iter().map(|client| client.join().unwrap_or_else(failed)).collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>, String>>()?;
    let wall = times.iter().map(Timing::total).max().unwrap_or_default();
    println!("load: {} logins begun at once, all served: {}", plan.burst, Percentiles::of(totals(&times)));
    setup.settled()?;
    let used = CpuTime::of(setup.server.pid()).since(&before);
    let each = |time: Duration| time.as_secs_f64() * 1000.0 / plan.burst.max(1) as f64;
    println!(
        "load:   the last one after {:.2} s, {:.2} ms a login; CPU a login: listener {:.2} ms, session processes and \
         programs {:.2} ms",
        wall.as_secs_f64(),
        each(wall),
        each(used.own),
        each(used.children),
    );
    Ok(())
}

fn flood(setup: &LoadSetup, plan: &Plan) -> Result<(), String> {
    let measure = || (0..plan.honest).map(|_| setup.log_in()).collect::<Result<Vec<_>, String>>();
    let times = measure()?;
    let quiet = Percentiles::of(totals(&times));
    println!("load: {} honest logins, quiet: {quiet}", plan.honest);
    print_phases(&times);
    let stop = AtomicBool::new(false);
    let hostile =
        HostileClients::start(setup.server.port, plan.hostile).map_err(|error| error.to_string())?;
    let (busy, peak) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            priority::yield_to_other_threads();
            let mut peak = Footprint::default();
            while !stop.load(Ordering::Relaxed) {
                peak = peak.max(&setup.footprint());
                std::thread::sleep(Duration::from_millis(200));
            }
            peak
        });
        // By now all hostile clients have started.
        std::thread::sleep(Duration::from_secs(1));
        let busy = measure();
        stop.store(true, Ordering::Relaxed);
        (busy, sampler.join().unwrap_or_default())
    });
    hostile.stop()?;
    let times = busy?;
    let busy = Percentiles::of(totals(&times));
    println!("load: {} honest logins beside {} hostile connections: {busy}", plan.honest, plan.hostile);
    print_phases(&times);
    println!(
        "load: median {:.1} times, 99th percentile {:.1} times quiet; the server at its largest: {peak}",
        busy.median.as_secs_f64() / quiet.median.as_secs_f64(),
        busy.worst.as_secs_f64() / quiet.worst.as_secs_f64(),
    );
    if peak.largest_kib > MOST_PER_PROCESS {
        return Err(format!("one process had {} KiB", peak.largest_kib));
    }
    Ok(())
}

fn totals(times: &[Timing]) -> Vec<Duration> {
    times.iter().map(Timing::total).collect()
}

/// Prints the duration of each phase of these logins.
fn print_phases(times: &[Timing]) {
    for (phase, name) in PHASES.iter().enumerate() {
        println!("load:   {name}: {}", Percentiles::of(times.iter().map(|time| time.phase(phase)).collect()));
    }
}

/// Median and 99th percentile.
struct Percentiles {
    median: Duration,
    worst: Duration,
}

impl Percentiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |part: usize| times.get((times.len().saturating_sub(1)) * part / 100).copied();
        Self { median: at(50).unwrap_or_default(), worst: at(99).unwrap_or_default() }
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        write!(f, "median {:.1} ms, 99th percentile {:.1} ms", ms(self.median), ms(self.worst))
    }
}
