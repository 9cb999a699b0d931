//! Runs the measurement of each cell of the tables.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lh_crypto::PublicKey;

use super::cells::{Cell, NONE, Suite};
use super::child::Bench;
use super::client::Client;
use super::results::Plan;
use super::row::{Rows, Unit};
use super::seal::seal_rate;
use super::server_cpu::Acceptor;
use super::setup::{Setup, SetupKind, with_bits};
use crate::disk::{Disk, disk_here, disk_there};
use crate::fault::Fault;
use crate::flow::Direction;
use crate::stats::median;
use crate::target::{Remote, Target};

/// Why a round of a transfer that did not fail has no figure.
const NOTHING_MOVED: &str = "nothing moved in a round";
/// The tables by cipher. Their beginning makes them those that the matrix of paths takes rates from.
const PIPE_TABLE: &str = "throughput by cipher and MAC, through a pipe";
pub(super) const FILE_TABLE: &str =
    "throughput by cipher and MAC, one file over SFTP by lhscp, with the login";
/// Time of a cipher alone.
pub(super) const SEAL: Duration = Duration::from_millis(60);
/// Logins of a cell: they are repeated for this time, and up to this number, because the server's processor
/// time has a resolution of 10 ms.
pub(super) const LOGINS_TIME: Duration = Duration::from_millis(150);
const MOST_LOGINS: u32 = 10;
/// Time of three small messages up to which more are sent, seconds.
const SHORT_PINGS: f64 = 0.6;
/// Time that the server's processes have to end after a login.
pub(super) const LOGIN_ENDS: Duration = Duration::from_millis(100);

/// State of a run.
pub(super) struct Run<'a> {
    pub(super) target: &'a Target,
    pub(super) plan: &'a Plan,
    pub(super) slice: Duration,
    pub(super) rows: Rows,
    pub(super) missing: Vec<String>,
    /// The suite that the first connection has agreed on, where it is one of this build: the server has it.
    pub(super) agreed: Option<Suite>,
    /// Clients that are tried with algorithms: none where there are no peers to compare.
    pub(super) clients: Vec<Client>,
    pub(super) acceptor: Option<Acceptor>,
    /// A connection for each suite, used in every round.
    pub(super) remotes: HashMap<String, Remote>,
    /// The first round warms up.
    pub(super) counts: bool,
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
    pub(super) fn miss(&mut self, why: &str) {
        // The list of the server's algorithms is long, and no help here.
        let why = why.split(" Their offer:").next().unwrap_or_default().trim().replace('\n', "; ");
        if !self.missing.contains(&why) {
            self.missing.push(why);
        }
    }

    /// Measures a cell.
    ///
    /// # Errors
    /// The connection or the client failed.
    pub(super) fn cell(&mut self, cell: &Cell, bench: &Bench<'_>) -> Result<(), Fault> {
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
                for (column, unit, value) in figures {
                    self.add(job.table(), &job.row(client), column, unit, value);
                }
                Ok(())
            }
            Cell::File(client, suite, direction) => {
                let Some(scp) = &client.scp else { return Ok(()) };
                let figures = bench
                    .copy_file(scp, *direction, &suite.keywords())
                    .map_err(|why| why.during(format!("{FILE_TABLE}: {}", suite.name())))?;
                for (column, unit, value) in figures {
                    self.add(FILE_TABLE, &suite.name(), column, unit, value);
                }
                Ok(())
            }
            Cell::Disks => {
                // Measured in one round only, so that one counts.
                let counts = std::mem::replace(&mut self.counts, true);
                let done = self.disks(bench.runs_commands);
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

    fn disks(&mut self, runs_commands: bool) -> Result<(), Fault> {
        let here = disk_here(&self.plan.local_directory)
            .map_err(|error| Fault::System { what: "the disk here".to_owned(), error })?;
        self.disk("this machine", &here)?;
        if !runs_commands {
            return Ok(());
        }
        let directory = self.plan.remote_directory.clone();
        let there = disk_there(self.remote(self.agreed)?, &directory)
            .map_err(|why| why.during("the disk of the server"))?;
        self.disk("the server", &there)
    }

    /// Adds the rates of one end's disk, in both of which no cache takes part.
    fn disk(&mut self, end: &str, disk: &Disk) -> Result<(), Fault> {
        let write = disk.write_rate().map_err(|why| why.during(format!("the disk of {end}")))?;
        let mut add = |what: &str, rate: f64| {
            self.add("ceilings", &format!("disk of {end}, {what}"), "alone", Unit::BytesPerSecond, rate);
        };
        add("writing with fsync", write);
        match disk.read_rate {
            Some(read) => add("reading what is not cached", read),
            None => self.miss(&format!("reading from the disk of {end}: its cache cannot be emptied")),
        }
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
        let rate = flow.rate;
        if !self.check_moved(&suite.name(), direction, rate) {
            return Ok(());
        }
        self.add(PIPE_TABLE, &suite.name(), up, Unit::BytesPerSecond, rate);
        for (column, cores) in [(cpu, flow.client.cpu), (server, flow.server.cpu)] {
            if let Some(cores) = cores {
                self.add(PIPE_TABLE, &suite.name(), column, Unit::CpuMsPerMb, cores * 1000.0 / (rate / 1e6));
            }
        }
        if let Some(ping) = flow.ping {
            let name = format!("beside an {}", direction.name()).replace("an download", "a download");
            self.add("latency of a small message", &name, "round trip", Unit::Seconds, ping);
        }
        Ok(())
    }

    fn tcp_alone(&mut self, direction: Direction, bench: &Bench<'_>) -> Result<(), Fault> {
        let slice = self.slice;
        let host = self.remote(self.agreed)?.client.address().map(|address| address.ip());
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

    /// Returns whether a round of a transfer has a figure; notes it otherwise. A busy end may be late once:
    /// the next round tries again.
    fn check_moved(&mut self, what: &str, direction: Direction, rate: f64) -> bool {
        if rate <= 0.0 {
            self.miss(&broken(what, direction, NOTHING_MOVED).to_string());
        }
        rate > 0.0
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
        if !self.check_moved("SSH without encryption,", direction, flow.rate) {
            return Ok(());
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
            if setup.kind == SetupKind::HostKey {
                let blob = remote.client.driver().link().host_key().unwrap_or_default();
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

    /// Measures the set-up by other clients, each started as a program.
    fn set_up_clients(&mut self, setup: &Setup, name: &str, bench: &Bench<'_>) {
        for index in 0..self.clients.len() {
            let Some(client) =
                self.clients.get(index).filter(|client| !client.unsupported.contains(&setup.name))
            else {
                continue;
            };
            match bench.login_with(client, &setup.keywords) {
                Ok((wall, cpu)) => {
                    let columns = [format!("{} wall", client.name), format!("{} client CPU", client.name)];
                    let [wall_column, cpu_column] = columns.each_ref().map(String::as_str);
                    self.add(setup.kind.table(), name, wall_column, Unit::Seconds, wall);
                    self.add(setup.kind.table(), name, cpu_column, Unit::CpuMs, cpu * 1000.0);
                }
                Err(why) => {
                    let why = format!("{} ({}): {why}", setup.name, client.name);
                    if let Some(client) = self.clients.get_mut(index) {
                        client.unsupported.push(setup.name.clone());
                    }
                    self.miss(&why);
                }
            }
        }
    }

    /// Processor time of the server's processes so far, seconds; `None` where the server does not tell. One
    /// that does not answer is not asked again.
    fn server_cpu(&mut self) -> Result<Option<f64>, Fault> {
        let Some(acceptor) = self.acceptor.take() else { return Ok(None) };
        let used = acceptor.cpu(self.remote(self.agreed)?);
        match used {
            Some(_) => self.acceptor = Some(acceptor),
            None => {
                // The next one that needs a connection tells whether the server still takes any.
                self.remotes.remove(&self.agreed.map_or_else(String::new, Suite::name));
                self.miss("the server's processor time of logins: a command for it did not end in time");
            }
        }
        Ok(used)
    }

    fn latency(&mut self) -> Result<(), Fault> {
        // Any suite: a server may not have the first one.
        let remote = match self.remotes.values_mut().next() {
            Some(remote) => remote,
            None => self.remote(self.agreed)?,
        };
        let every = Duration::from_millis(10);
        let mut pings = remote.ping(3, every);
        // On long paths, few have to do.
        if pings.iter().sum::<f64>() < SHORT_PINGS {
            pings.extend(remote.ping(7, every));
        }
        match median(pings) {
            Some(ping) => self.add("latency of a small message", "alone", "round trip", Unit::Seconds, ping),
            None => self.miss("the latency of a small message: none was answered in 3 s"),
        }
        Ok(())
    }
}

/// Reports a flow that broke off.
fn broken(what: &str, direction: Direction, failure: &str) -> Fault {
    Fault::Server(failure.to_owned()).during(format!("{what} {}", direction.name()))
}
