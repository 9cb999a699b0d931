//! Faults: copies during which a process is killed or stopped, a disk fills or fails, or the link breaks;
//! then the command runs again. Afterwards both trees must be identical, and no file may ever have its final
//! name with wrong contents.
//!
//! Round `n` of seed `s` is round 0 of seed `s + n`: each failure reports the seed that reproduces it.

mod case;
mod disks;
mod fuse;
mod hosts;
mod link;
mod processes;
mod routes;
mod state;
mod trees;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lh_testkit::Seeded;
use rustix::io::Errno;

use case::{Case, Trees};
pub use disks::in_namespace;
pub(crate) use hosts::signal;
use hosts::{Hosts, Peer, Way};
use processes::Victim;
use state::{Counts, State};

/// Plan of a run.
#[derive(Debug, Default)]
pub struct Plan {
    /// Number of rounds.
    pub rounds: Option<u64>,
    /// Time after which no further round starts. Without this and `rounds`, the run is short: each fault
    /// once, and some kills.
    pub duration: Option<Duration>,
    /// The first round's seed.
    pub seed: u64,
    /// Runs only faults whose names contain this.
    pub only: Option<String>,
    /// Uses the trees of a short run in a long one too.
    pub small: bool,
}

/// A fault during a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill(Victim),
    NoSpace,
    Quota,
    WriteError,
    ReadError,
    ReadOnly,
    VanishedMount,
    Stop(Victim),
    LinkDown,
    Reset,
    FlippedBits,
}

const KILL_CLIENT: Fault = Fault::Kill(Victim::Client);
const KILL_SESSION: Fault = Fault::Kill(Victim::Session);
const KILL_SERVER: Fault = Fault::Kill(Victim::Server);

/// The faults of successive rounds, repeated.
const CYCLE: [Fault; 24] = [
    KILL_CLIENT,
    Fault::NoSpace,
    KILL_SERVER,
    Fault::Quota,
    KILL_SESSION,
    Fault::WriteError,
    KILL_CLIENT,
    Fault::ReadError,
    KILL_SERVER,
    Fault::ReadOnly,
    KILL_CLIENT,
    Fault::VanishedMount,
    KILL_SESSION,
    Fault::Stop(Victim::Client),
    KILL_CLIENT,
    Fault::Stop(Victim::Server),
    KILL_SERVER,
    Fault::LinkDown,
    KILL_CLIENT,
    Fault::Reset,
    KILL_SESSION,
    Fault::FlippedBits,
    KILL_CLIENT,
    KILL_SERVER,
];

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::Kill(Victim::Client) => "kill -9 of the client",
            Self::Kill(Victim::Session) => "kill -9 of one session process",
            Self::Kill(Victim::Server) => "kill -9 of all of the server's processes",
            Self::NoSpace => "ENOSPC",
            Self::Quota => "EDQUOT",
            Self::WriteError => "EIO when writing",
            Self::ReadError => "EIO when reading",
            Self::ReadOnly => "EROFS",
            Self::VanishedMount => "vanished mount",
            Self::Stop(Victim::Client) => "SIGSTOP of the client",
            Self::Stop(_) => "SIGSTOP of the server",
            Self::LinkDown => "link down",
            Self::Reset => "RST",
            Self::FlippedBits => "one bit in a million flipped",
        }
    }

    const fn needs_mounts(self) -> bool {
        matches!(
            self,
            Self::NoSpace
                | Self::Quota
                | Self::WriteError
                | Self::ReadError
                | Self::ReadOnly
                | Self::VanishedMount
        )
    }
}

/// One line of the table.
#[derive(Default)]
struct Row {
    rounds: u64,
    ways: BTreeMap<Way, u64>,
    counts: Counts,
}

/// Runs rounds until the plan is fulfilled.
///
/// # Errors
/// The first violation: trees that differ, a wrong file under its final name, a wrong exit status, or a
/// message without the name of the failed file.
pub fn campaign(plan: &Plan) -> Result<(), String> {
    let long = plan.rounds.is_some() || plan.duration.is_some();
    let timeout = Duration::from_secs(if long { 120 } else { 2 });
    let scale = if long && !plan.small { 3 } else { 1 };
    let mounts = disks::can_mount();
    if let Err(why) = &mounts {
        println!("faults: SKIPPED everything that needs a file system of its own: {why}");
    }
    let hosts = Hosts::new()?;
    if !hosts.has(Peer::Stock) {
        println!("faults: SKIPPED OpenSSH's server: sshd is not installed");
    }
    let trees = Trees::new(&hosts, scale)?;
    let mut state = State { times: BTreeMap::new(), timeout };
    let rounds = plan.rounds.unwrap_or(if plan.duration.is_some() { u64::MAX } else { CYCLE.len() as u64 });
    let start = Instant::now();
    let mut rows = BTreeMap::<Fault, Row>::new();
    for round in 0..rounds {
        if plan.duration.is_some_and(|duration| start.elapsed() >= duration) {
            break;
        }
        let seed = plan.seed.wrapping_add(round);
        let fault = CYCLE[(seed % CYCLE.len() as u64) as usize];
        let wanted = plan.only.as_ref().is_none_or(|only| fault.name().contains(only.as_str()));
        if !wanted || (fault.needs_mounts() && mounts.is_err()) {
            continue;
        }
        let mut random = Seeded::new(mixed(seed));
        let case = Case::random(&hosts, &trees, &mut random, way(seed, fault));
        let began = Instant::now();
        let counts = run(fault, case, &mut state, &mut random, &mut rows).map_err(|text| {
            format!("{text}\nit may happen again with: cargo xtask faults --seed {seed} --rounds 1")
        })?;
        println!("faults: {seed}: {counts} in {:.1} s", began.elapsed().as_secs_f64());
    }
    print_table(&rows, start.elapsed());
    Ok(())
}

/// Returns the direction of the copy. In successive cycles each fault has each direction in turn: a random
/// choice leaves some out even in long runs.
const fn way(seed: u64, fault: Fault) -> Way {
    let cycle = CYCLE.len() as u64;
    let ways = match fault {
        Fault::Kill(_) => Way::ALL.len() as u64,
        // The program of the first host of a direct copy has no link or file system of its own.
        _ => Way::ALL.len() as u64 - 1,
    };
    Way::ALL[((seed / cycle + seed % cycle) % ways) as usize]
}

/// Returns a number that is independent of those of neighbouring seeds (the finaliser of splitmix64).
pub(crate) const fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Runs one round, counts it, and returns its report.
fn run(
    fault: Fault,
    mut case: Case<'_>,
    state: &mut State,
    random: &mut Seeded,
    rows: &mut BTreeMap<Fault, Row>,
) -> Result<String, String> {
    let text = format!("{}, {}", fault.name(), case.text());
    let outcome = match fault {
        Fault::Kill(victim) => processes::kill(&case, victim, state, random),
        Fault::Stop(victim) => processes::stop(&case, victim, state, random),
        Fault::NoSpace => disks::no_space(&case, random),
        Fault::Quota => disks::failing(&mut case, fuse::Failure::Writing(Errno::DQUOT, 0), random),
        Fault::WriteError => disks::failing(&mut case, fuse::Failure::Writing(Errno::IO, 0), random),
        Fault::ReadError => disks::failing(&mut case, fuse::Failure::Reading(Errno::IO, 0), random),
        Fault::ReadOnly => disks::read_only(&mut case, random),
        Fault::VanishedMount => disks::vanished(&case, state, random),
        Fault::LinkDown => routes::down(&case, state, random),
        Fault::Reset => routes::reset(&case, state, random),
        Fault::FlippedBits => routes::flipped(&case, random),
    };
    let counts = outcome.map_err(|error| format!("{text}: {error}"))?;
    let row = rows.entry(fault).or_default();
    row.rounds += 1;
    *row.ways.entry(case.way).or_default() += counts.hits;
    row.counts.hits += counts.hits;
    row.counts.late += counts.late;
    Ok(format!("{text}: {} hits, {} too late", counts.hits, counts.late))
}

fn print_table(rows: &BTreeMap<Fault, Row>, took: Duration) {
    println!(
        "\n| fault | rounds | hits | up | down | relay | direct | too late |\n|---|---|---|---|---|---|---|---|"
    );
    let (mut kills, mut hits) = (0, 0);
    for (fault, row) in rows {
        let way = |way| row.ways.get(&way).copied().unwrap_or_default();
        let [up, down, relay, direct] = Way::ALL.map(way);
        let Counts { hits: here, late } = row.counts;
        println!(
            "| {} | {} | {here} | {up} | {down} | {relay} | {direct} | {late} |",
            fault.name(),
            row.rounds
        );
        hits += here;
        kills += if matches!(fault, Fault::Kill(_)) { here } else { 0 };
    }
    println!(
        "\nfaults: {hits} faults, {kills} of them kills, in {} s; every copy was completed by the same command, \
         no file had wrong contents under its final name",
        took.as_secs()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_each_direction_in_turn() {
        let mut seen = BTreeMap::<Fault, Vec<Way>>::new();
        for seed in 0..4 * CYCLE.len() as u64 {
            let fault = CYCLE[(seed % CYCLE.len() as u64) as usize];
            seen.entry(fault).or_default().push(way(seed, fault));
        }
        for (fault, ways) in seen {
            let most = if matches!(fault, Fault::Kill(_)) { 4 } else { 3 };
            assert!(Way::ALL[..most].iter().all(|way| ways.contains(way)), "{}: {ways:?}", fault.name());
        }
    }
}
