//! The rounds of a run.

use std::cell::Cell as Counter;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use lh_crypto::PublicKey;

use super::cells::{Cell, Cells, LEFT_TO_LONG_RUN, NONE, SUITES, Suite, long, quick, usual};
use super::child::{Bench, Client, Job};
use super::keeper::{Keeper, MANY};
use super::offer::Offer;
use super::prepare::{Scratch, acceptor, far_end, jump_host_plan, keep_small_files};
use super::results::{Plan, Results};
use super::row::{LEAST_VALUES, Rows, Unit};
use super::schedule::Schedule;
use super::seal::seal_rate;
use super::server_cpu::Acceptor;
use super::setup::{Kind, Setup, setups, with_bits};
use crate::disk::{disk_here, disk_there};
use crate::fault::Fault;
use crate::flow::{Direction, Flow};
use crate::stats::median;
use crate::target::{Remote, Target};

/// Rounds that the time is planned for.
const ROUNDS: u32 = 4;
/// Rounds of what a quick run is about, before all else: from fewer nothing follows.
const LEAST_ROUNDS: u32 = LEAST_VALUES as u32;
/// Shortest and longest time of one transfer.
const SLICES: [Duration; 2] = [Duration::from_millis(400), Duration::from_secs(3)];
/// Part of the time that is left for measuring in any case, however long the login took.
const AFTER_LOGIN: f64 = 0.75;
/// Time that the disks of both ends take.
const DISKS: Duration = Duration::from_secs(4);
/// Longest login that guesses are made with: the rest was a question to the user.
const MOST_LOGIN: Duration = Duration::from_secs(2);
/// Time of a cipher alone.
const SEAL: Duration = Duration::from_millis(60);
/// Logins of a cell: they are repeated for this time, and up to this number, because the server's processor time has a
/// resolution of 10 ms.
const LOGINS_TIME: Duration = Duration::from_millis(150);
const MOST_LOGINS: u32 = 10;
/// Time that the server's processes have to end after a login.
const LOGIN_ENDS: Duration = Duration::from_millis(100);

/// Time for the end of a run: closing connections and removing files.
fn clean_up(time: Duration) -> Duration {
    (time / 20).min(Duration::from_secs(2))
}

/// State of a run.
struct Run<'a> {
    target: &'a Target,
    plan: &'a Plan,
    slice: Duration,
    rows: Rows,
    missing: Vec<String>,
    /// Clients that are tried with algorithms: none where there are no peers to compare.
    clients: Vec<Client>,
    acceptor: Option<Acceptor>,
    /// A connection for each suite, used in every round.
    remotes: HashMap<String, Remote>,
    /// The first round warms up.
    counts: bool,
}

/// Measures in rounds until the time is up.
///
/// # Errors
/// The host cannot be reached, or the login is refused.
pub(super) fn run(
    target: &Target,
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Results, Fault> {
    tell("connecting");
    let begun = Instant::now();
    let mut first = target.connect(&[])?;
    let login = begun.elapsed();
    // The user may have typed a password.
    let limit = plan.time.max(login + plan.time.mul_f64(AFTER_LOGIN)).saturating_sub(clean_up(plan.time));
    let transport = first.client.driver().link().transport_ref();
    let server = lh_client::sanitise(transport.peer_identification().unwrap_or_default());
    let suite = transport.negotiated().map_or(SUITES[0], |names| usual(&names.cipher_c2s, &names.mac_c2s));
    let host = first.options.config.host.clone();
    let mut missing = Vec::new();
    first.system()?;
    let round_trip = median(first.ping(5, Duration::from_millis(10))).unwrap_or(0.0);
    let mut clients: Vec<Client> = Client::ours().into_iter().collect();
    if clients.is_empty() {
        missing.push("lhssh, lhscp and lhsftp as clients: they are not beside this program".to_owned());
    }
    clients.extend(plan.peers.iter().map(|(name, path)| Client::peer(name, path)));
    let has_port = plan.tcp_port.is_some();
    let mut far = None;
    if has_port || !plan.quick {
        tell("starting a TCP end at the server");
        let (end, why) = far_end(target, plan, &first);
        far = end;
        missing.extend(why);
    }
    let jump_host = jump_host_plan(target, plan)?;
    tell("asking for the server's algorithms");
    let setups = setups(&first.options, &Offer::of(target), plan.quick);
    let Cells { all: cells, main } = if plan.quick {
        missing.push(LEFT_TO_LONG_RUN.to_owned());
        quick(setups, &clients, has_port, jump_host.is_some(), suite)
    } else {
        long(setups, &clients, has_port, jump_host.is_some())
    };
    let slices = |cell: &Cell| match cell {
        Cell::Stream(..) | Cell::Tcp(_) | Cell::Open(_) => 1,
        Cell::Child(_, job) => job.slices(),
        _ => 0,
    };
    let transfers: u32 = cells.iter().map(slices).sum();
    let share = limit.saturating_sub(begun.elapsed()).mul_f64(0.6) / ROUNDS / transfers.max(1);
    // A window needs round trips to open.
    let least = SLICES[0].max(Duration::from_secs_f64(10.0 * round_trip));
    let slice = share.clamp(least, SLICES[1].max(least));
    tell("preparing a directory at the server");
    let keeper = Keeper::start(target, &plan.remote_directory, if plan.quick { 0 } else { MANY })?;
    let here = Scratch::new(&plan.local_directory)?;
    let rate = first.flow(Direction::Up, slice.min(Duration::from_secs(1))).rate;
    let file_len = (rate * slice.as_secs_f64()).clamp(1e6, 256e6) as usize;
    let there = keeper.path.as_str();
    let serial = Counter::new(0);
    let ends = begun + limit;
    let bench = Bench {
        plan,
        here: &here.0,
        there,
        slice,
        file_len,
        serial,
        far: far.as_ref(),
        jump_host: jump_host.as_ref(),
        ends,
    };
    bench.prepare().map_err(|error| Fault::File { path: here.0.clone(), error })?;
    let mut run = Run {
        target,
        plan,
        slice,
        rows: Rows::default(),
        missing,
        clients: if plan.peers.is_empty() || plan.quick { Vec::new() } else { clients },
        acceptor: acceptor(target, &mut first),
        remotes: HashMap::new(),
        counts: false,
    };
    if run.acceptor.is_none() {
        run.missing.push("the server's processor time of logins: it has no /proc that tells".to_owned());
    }
    // A quick run copies no small files.
    if !plan.quick
        && let Err(why) = keep_small_files(&mut first, there)
    {
        run.missing.push(format!("small files at the server: {why}"));
    }
    first.client.close();
    let login = login.min(MOST_LOGIN);
    let mut schedule = Schedule::new(limit, cells.iter().map(|cell| guess(cell, slice, login)));
    schedule.reserve(main, LEAST_ROUNDS);
    rounds(&mut run, &cells, &bench, &mut schedule, begun, stop, tell);
    let mut left_out: Vec<String> =
        schedule.left_out().into_iter().filter_map(|index| cells.get(index)).map(Cell::what).collect();
    left_out.dedup();
    if !left_out.is_empty() && !stop() {
        run.missing.push(format!("for lack of time: {}", left_out.join("; ")));
    }
    for (_, mut remote) in run.remotes.drain() {
        remote.client.close();
    }
    tell("cleaning up");
    drop(keeper);
    drop(far);
    run.rows.remove_empty();
    let counted = schedule.complete().saturating_sub(usize::from(!plan.quick));
    Ok(Results {
        host,
        server,
        time: String::new(),
        seconds: 0.0,
        rounds: counted,
        rows: run.rows,
        missing: run.missing,
    })
}

/// Measures cell after cell as the schedule has them.
fn rounds(
    run: &mut Run<'_>,
    cells: &[Cell],
    bench: &Bench<'_>,
    schedule: &mut Schedule,
    begun: Instant,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) {
    while let Some(index) = schedule.next(begun.elapsed()) {
        let Some(cell) = cells.get(index).filter(|_| !stop()) else { break };
        // The first round of a long run warms up.
        run.counts = schedule.round() > 0 || run.plan.quick;
        let (round, step) = (schedule.round() + 1, schedule.step());
        tell(&format!("round {round}: {step} of {}: {}", cells.len(), cell.what()));
        let before = Instant::now();
        let done = run.cell(cell, bench);
        // A client ends by the same signal.
        if stop() {
            break;
        }
        // A disk is measured once: it takes seconds and wears out.
        let again = done.is_ok() && !matches!(cell, Cell::Disks);
        if let Err(why) = done {
            run.miss(&why.to_string());
        }
        schedule.on_measured(index, before.elapsed(), again);
    }
    run.rows.use_warm_up();
}

/// How long a cell takes, on a path whose logins take `login`.
fn guess(cell: &Cell, slice: Duration, login: Duration) -> Duration {
    match cell {
        Cell::Latency => login + Duration::from_millis(200),
        Cell::Stream(..) | Cell::Tcp(_) | Cell::Open(_) => login + slice,
        Cell::Seal(_) => SEAL,
        Cell::Setup(_) => LOGINS_TIME + LOGIN_ENDS + login,
        Cell::Child(_, job @ Job::Keystroke) => slice * job.slices() + login * 3 + Duration::from_millis(600),
        Cell::Child(_, job) => slice * job.slices() + login * 2,
        Cell::Disks => DISKS,
    }
}

impl Run<'_> {
    fn add(&mut self, table: &str, name: &str, column: &str, unit: Unit, value: f64) {
        if self.counts {
            self.rows.add(table, name, column, unit, value);
        } else {
            // It also gives the tables their order.
            self.rows.warm_up(table, name, column, unit, value);
        }
    }

    /// Notes once what was not measured.
    fn miss(&mut self, why: &str) {
        // What the server offers instead is long, and no help here.
        let why = why.split(" Their offer:").next().unwrap_or_default().trim().replace('\n', "; ");
        if !self.missing.contains(&why) {
            self.missing.push(why);
        }
    }

    fn cell(&mut self, cell: &Cell, bench: &Bench<'_>) -> Result<(), Fault> {
        match cell {
            Cell::Stream(suite, direction) => self.stream(*suite, *direction),
            Cell::Tcp(direction) => match self.tcp_alone(*direction, bench) {
                Ok(()) => Ok(()),
                Err(why) => {
                    self.miss(&why.to_string());
                    self.unencrypted(*direction)
                }
            },
            Cell::Open(direction) => self.unencrypted(*direction),
            Cell::Setup(setup) => self.set_up(setup, bench),
            Cell::Latency => self.latency(),
            Cell::Child(client, job) => {
                let figures = job
                    .run(client, bench)
                    .map_err(|why| why.during(format!("{} ({})", job.table(), job.row(client))))?;
                for (column, unit, value) in figures.into_iter().flatten() {
                    self.add(job.table(), &job.row(client), column, unit, value);
                }
                Ok(())
            }
            Cell::Disks => {
                // Measured in one round only, so that one counts.
                let counts = std::mem::replace(&mut self.counts, true);
                let done = self.disks();
                self.counts = counts;
                done
            }
            Cell::Seal(suite) => {
                if let Some(rate) = seal_rate(suite.cipher, suite.mac, SEAL) {
                    let name = format!("{} on one core here", suite.name());
                    self.add("ceilings", &name, "alone", Unit::BytesPerSecond, rate);
                }
                Ok(())
            }
        }
    }

    fn disks(&mut self) -> Result<(), Fault> {
        let here = disk_here(&self.plan.local_directory)
            .map_err(|error| Fault::System { what: "the disk here".to_owned(), error })?;
        self.add("ceilings", "disk of this machine", "alone", Unit::BytesPerSecond, here.rate);
        let directory = self.plan.remote_directory.clone();
        let there = disk_there(self.remote(SUITES.first().copied())?, &directory)
            .map_err(|why| why.during("the disk of the server"))?;
        self.add("ceilings", "disk of the server", "alone", Unit::BytesPerSecond, there.rate);
        Ok(())
    }

    /// The connection with a suite; `None` negotiates as usual.
    fn remote(&mut self, suite: Option<Suite>) -> Result<&mut Remote, Fault> {
        let name = suite.map_or_else(String::new, Suite::name);
        if !self.remotes.contains_key(&name) {
            let keywords = suite.map(Suite::keywords).unwrap_or_default();
            let keywords: Vec<(&str, &str)> =
                keywords.iter().map(|(key, value)| (*key, value.as_str())).collect();
            let remote = self.target.connect(&keywords).map_err(|failure| failure.fault.during(&name))?;
            self.remotes.insert(name.clone(), remote);
        }
        self.remotes.get_mut(&name).ok_or(Fault::Late("no connection"))
    }

    fn stream(&mut self, suite: Suite, direction: Direction) -> Result<(), Fault> {
        let slice = self.slice;
        let flow = self.remote(Some(suite))?.flow(direction, slice);
        if let Some(failure) = &flow.failure {
            self.remotes.remove(&suite.name());
            return Err(broken(&suite.name(), direction, failure));
        }
        let (up, cpu, server) = match direction {
            Direction::Up => ("up", "client CPU up", "server CPU up"),
            Direction::Down => ("down", "client CPU down", "server CPU down"),
        };
        let Flow { rate, client_cpu, server_cpu, ping, .. } = flow;
        const TABLE: &str = "throughput by cipher and MAC, through a pipe";
        self.add(TABLE, &suite.name(), up, Unit::BytesPerSecond, rate);
        for (column, cores) in [(cpu, client_cpu), (server, server_cpu)] {
            if let Some(cores) = cores.filter(|_| rate > 0.0) {
                self.add(TABLE, &suite.name(), column, Unit::CpuMsPerMb, cores * 1000.0 / (rate / 1e6));
            }
        }
        if let Some(ping) = ping {
            let name = format!("beside an {}", direction.name()).replace("an download", "a download");
            self.add("latency of a small message", &name, "round trip", Unit::Seconds, ping);
        }
        Ok(())
    }

    fn tcp_alone(&mut self, direction: Direction, bench: &Bench<'_>) -> Result<(), Fault> {
        let slice = self.slice;
        let host = self.remote(SUITES.first().copied())?.client.address().map(|address| address.ip());
        let (Some(far), Some(host)) = (bench.far, host) else { return Ok(()) };
        let rate = far.tcp_alone(host, direction, slice).map_err(|error| {
            let port = far.address.port();
            let what = format!("TCP alone (does the firewall let it pass?): port {port} of {host}");
            Fault::System { what, error }
        })?;
        let name = format!("TCP alone ({} at port {})", far.program, far.address.port());
        self.add("ceilings", &name, direction.column(), Unit::BytesPerSecond, rate);
        Ok(())
    }

    fn unencrypted(&mut self, direction: Direction) -> Result<(), Fault> {
        let slice = self.slice;
        let flow = self
            .remote(Some(NONE))
            .map_err(|why| {
                let why = why.to_string();
                let last = why.lines().next_back().unwrap_or_default();
                Fault::Server(last.to_owned()).during("SSH without encryption")
            })?
            .flow(direction, slice);
        if let Some(failure) = &flow.failure {
            self.remotes.remove(&NONE.name());
            return Err(broken("SSH without encryption,", direction, failure));
        }
        self.add("ceilings", "SSH without encryption", direction.column(), Unit::BytesPerSecond, flow.rate);
        Ok(())
    }

    fn set_up(&mut self, setup: &Setup, bench: &Bench<'_>) -> Result<(), Fault> {
        let keywords: Vec<(&str, &str)> =
            setup.keywords.iter().map(|(key, value)| (*key, value.as_str())).collect();
        // The first round only warms up, and gives the tables their order.
        let most = if self.counts { MOST_LOGINS } else { 1 };
        let before = self.server_cpu()?;
        let (all, mut logins) = (Instant::now(), 0);
        let (mut walls, mut cpu, mut name) = (Vec::new(), Duration::ZERO, setup.name.clone());
        while logins == 0 || (logins < most && all.elapsed() < LOGINS_TIME) {
            let (begun, used) = (Instant::now(), lh_sys::time::process_cpu());
            let remote = self.target.connect(&keywords);
            let mut remote = remote.map_err(|failure| failure.fault.during(&setup.name))?;
            walls.push(begun.elapsed().as_secs_f64());
            cpu += lh_sys::time::process_cpu().saturating_sub(used);
            if setup.kind == Kind::HostKey {
                let blob = remote.client.driver().link().transport_ref().host_key().unwrap_or_default();
                name = with_bits(&setup.name, PublicKey::from_blob(blob).ok().as_ref());
            }
            remote.client.close();
            logins += 1;
        }
        let table = setup.kind.table();
        self.add(table, &name, "wall", Unit::Seconds, median(walls).unwrap_or(0.0));
        let each = 1000.0 / f64::from(logins);
        self.add(table, &name, "client CPU", Unit::CpuMs, cpu.as_secs_f64() * each);
        if let Some(before) = before {
            if self.counts {
                std::thread::sleep(LOGIN_ENDS);
            }
            if let Some(after) = self.server_cpu()? {
                self.add(table, &name, "server CPU", Unit::CpuMs, (after - before) * each);
            }
        }
        if setup.kind.is_for_peers() {
            self.set_up_clients(setup, &name, bench);
        }
        Ok(())
    }

    /// The same set-up by other clients, each started as a program.
    fn set_up_clients(&mut self, setup: &Setup, name: &str, bench: &Bench<'_>) {
        for index in 0..self.clients.len() {
            let Some(client) = self.clients.get(index).filter(|client| !client.lacks.contains(&setup.name))
            else {
                continue;
            };
            match bench.login_with(&client.ssh, &setup.keywords) {
                Ok((wall, cpu)) => {
                    let columns = [format!("{} wall", client.name), format!("{} client CPU", client.name)];
                    let [wall_column, cpu_column] = columns.each_ref().map(String::as_str);
                    self.add(setup.kind.table(), name, wall_column, Unit::Seconds, wall);
                    self.add(setup.kind.table(), name, cpu_column, Unit::CpuMs, cpu * 1000.0);
                }
                Err(why) => {
                    let why = format!("{} ({}): {why}", setup.name, client.name);
                    if let Some(client) = self.clients.get_mut(index) {
                        client.lacks.push(setup.name.clone());
                    }
                    self.miss(&why);
                }
            }
        }
    }

    /// Processor time of the server's processes so far, seconds; `None` where the server does not tell.
    fn server_cpu(&mut self) -> Result<Option<f64>, Fault> {
        let Some(acceptor) = self.acceptor.take() else { return Ok(None) };
        let used = self.remote(SUITES.first().copied()).map(|remote| acceptor.cpu(remote));
        self.acceptor = Some(acceptor);
        used
    }

    fn latency(&mut self) -> Result<(), Fault> {
        let pings = self.remote(SUITES.first().copied())?.ping(10, Duration::from_millis(10));
        if let Some(ping) = median(pings) {
            self.add("latency of a small message", "alone", "round trip", Unit::Seconds, ping);
        }
        Ok(())
    }
}

/// A flow that broke off.
fn broken(what: &str, direction: Direction, failure: &str) -> Fault {
    Fault::Server(failure.to_owned()).during(format!("{what} {}", direction.name()))
}
