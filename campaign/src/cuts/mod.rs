//! Cuts: sessions of `lhssh` with `Resume` whose path is cut, in network namespaces with a router between
//! them. Afterwards every byte and every exit status must be right, and no session may be left. The campaign
//! measures and reports the time that a session loses beyond the outage.
//!
//! Round `n` of seed `s` is round 0 of seed `s + n`: each failure reports the seed that reproduces it.

mod cut;
mod hosts;
mod network;
mod work;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lh_testkit::Seeded;

use crate::faults::mixed;
use cut::Cut;
use hosts::Hosts;
use work::Work;

/// Plan of a run.
#[derive(Debug, Default)]
pub struct Plan {
    /// Number of cuts. Without this and `duration`, the run is short: each kind of cut once.
    pub cuts: Option<u64>,
    /// Time after which no further round starts.
    pub duration: Option<Duration>,
    /// The first round's seed.
    pub seed: u64,
    /// Bytes that each script moves, at least.
    pub volume: Option<usize>,
    /// Runs only cuts, or only work, whose names contain this.
    pub only: Option<String>,
    /// Rate of the path, bits per second in each direction; 80 Mbit/s if not given.
    pub rate: Option<u64>,
    /// Cuts in each script; one to three if not given.
    pub each: Option<u64>,
    /// Number of stops of the client that last 60 s; one in a long run if not given.
    pub long_stops: Option<u64>,
}

/// Usual rate of the path, bits per second.
const RATE: u64 = 80_000_000;

/// Bytes of a login. Before it is complete there is no session to cut.
const LOGIN: u64 = 24 << 10;

/// Duration of the longest stops of a client, in long runs.
const LONG_STOP: Duration = Duration::from_secs(60);

/// One line of the table.
#[derive(Default)]
struct Row {
    /// Time lost beyond the outage, for each cut.
    lost: Vec<Duration>,
    /// Number of cuts after which more time was lost than the target allows.
    over: u64,
    /// Number of cuts that came after the work was done.
    late: u64,
    resumptions: usize,
}

/// Parameters of one round.
struct Round<'a> {
    work: &'a Work,
    random: Seeded,
    cut: Cut,
    /// Longest stop or silence.
    longest: Duration,
    /// Cuts in this round.
    count: u64,
}

/// Runs rounds until the plan is fulfilled.
///
/// # Errors
/// The first violation: a wrong byte or exit status, a session that does not go on or is left behind.
pub fn campaign(plan: &Plan) -> Result<(), String> {
    let long = plan.cuts.is_some() || plan.duration.is_some();
    if let Err(why) = network::supported() {
        println!("cuts: SKIPPED: no network of namespaces can be made here: {why}");
        return Ok(());
    }
    let volume = plan.volume.unwrap_or(if long { 24 << 20 } else { 3 << 20 });
    let mut hosts = Hosts::up(volume, plan.rate.unwrap_or(RATE))?;
    if !hosts.network.is_paced() {
        println!("cuts: this kernel limits no rates (tbf): cuts may come too late");
    }
    for work in &work::ALL {
        let missing = work.missing();
        if !missing.is_empty() {
            println!("cuts: SKIPPED {}: not installed: {}", work.name, missing.join(", "));
        }
    }
    let most = plan.cuts.unwrap_or(if long { u64::MAX } else { Cut::ALL.len() as u64 });
    let start = Instant::now();
    let (mut rows, mut works) = (BTreeMap::<Cut, Row>::new(), BTreeMap::<&str, u64>::new());
    let (mut made, mut long_stops) = (0, plan.long_stops.unwrap_or(long.into()));
    // In short runs, cuts that come too late count as well, so that the run ends.
    for round in 0..most.saturating_mul(20) {
        if made >= most || plan.duration.is_some_and(|duration| start.elapsed() >= duration) {
            break;
        }
        let seed = plan.seed.wrapping_add(round);
        let cut = Cut::ALL[(seed % Cut::ALL.len() as u64) as usize];
        let work = &work::ALL[(seed % work::ALL.len() as u64) as usize];
        let wanted =
            plan.only.as_deref().is_none_or(|only| cut.name().contains(only) || work.name.contains(only));
        if !wanted || !work.missing().is_empty() {
            continue;
        }
        let mut random = Seeded::new(mixed(seed));
        let count = plan.each.unwrap_or(if long { 1 + random.next_u64() % 3 } else { 1 });
        let longest = Duration::from_secs(if long { 20 } else { 1 });
        let round = Round { work, random, cut, longest, count: count.min(most - made) };
        let began = Instant::now();
        let (cuts, text) = play(&mut hosts, round, &mut long_stops, &mut rows).map_err(|text| {
            format!(
                "{}: {text}\nit may happen again with: cargo xtask cuts --seed {seed} --cuts 1",
                work.name
            )
        })?;
        made += if long { cuts } else { 1 };
        *works.entry(work.name).or_default() += cuts;
        println!("cuts: {seed}: {}: {text} in {:.1} s", work.name, began.elapsed().as_secs_f64());
    }
    print_table(&rows, &works, start.elapsed());
    Ok(())
}

/// Runs one script and cuts its path. Returns the number of cuts that came in time, and a report.
fn play(
    hosts: &mut Hosts,
    mut round: Round<'_>,
    long_stops: &mut u64,
    rows: &mut BTreeMap<Cut, Row>,
) -> Result<(u64, String), String> {
    let start = hosts.network.passed();
    let mut running = hosts.start(round.work)?;
    let (mut cut, mut made) = (round.cut, 0);
    let mut said = Vec::new();
    let mut from = start + LOGIN;
    for left_to_make in (1..=round.count).rev() {
        let row = rows.entry(cut).or_default();
        let left = round.work.volume.unwrap_or(hosts.volume).saturating_sub(from - start);
        let at = from + round.random.next_u64() % (left / left_to_make.max(2) + 1);
        if !hosts.passes(&mut running, at)? {
            row.late += 1;
            said.push(format!("{} too late", cut.name()));
            break;
        }
        let mut outage = cut.outage(&mut round.random, round.longest);
        if cut == Cut::Stop && *long_stops > 0 {
            *long_stops -= 1;
            outage = LONG_STOP;
        }
        let before = hosts.resumptions();
        cut.make(&mut hosts.network, outage, &mut round.random)?;
        let usable = Instant::now();
        let lost = match cut {
            // Data on the second connection before it has the session is no recovery.
            Cut::Police => hosts.resumes(&mut running, before, usable)?,
            _ => hosts.recovers(&mut running, usable)?,
        };
        from = hosts.network.passed();
        let resumptions = hosts.resumptions() - before;
        if resumptions == 0 && cut.ends_connections() {
            // The script ended before the cut, so there was no session to resume.
            row.late += 1;
            said.push(format!("{} too late", cut.name()));
            break;
        }
        row.lost.push(lost);
        row.over += u64::from(lost > cut.allowed());
        row.resumptions += resumptions;
        made += 1;
        said.push(format!(
            "{} of {:.1} s costs {:.2} s more ({resumptions} resumed)",
            cut.name(),
            outage.as_secs_f64(),
            lost.as_secs_f64()
        ));
        cut = Cut::ALL[(round.random.next_u64() % Cut::ALL.len() as u64) as usize];
    }
    running.end(hosts)?;
    Ok((made, said.join(", ")))
}

fn print_table(rows: &BTreeMap<Cut, Row>, works: &BTreeMap<&str, u64>, took: Duration) {
    println!(
        "\n| cut | cuts | resumed | seconds lost beyond the outage: median | 95 % | longest | above the target | too late |\n\
         |---|---|---|---|---|---|---|---|"
    );
    let mut cuts = 0;
    for (cut, row) in rows {
        let mut lost: Vec<f64> = row.lost.iter().map(Duration::as_secs_f64).collect();
        lost.sort_by(f64::total_cmp);
        let part =
            |part: usize| lost.get((lost.len() * part / 100).min(lost.len().max(1) - 1)).unwrap_or(&0.0);
        println!(
            "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} |",
            cut.name(),
            lost.len(),
            row.resumptions,
            part(50),
            part(95),
            part(100),
            row.over,
            row.late
        );
        cuts += lost.len();
    }
    let works: Vec<String> = works.iter().map(|(name, count)| format!("{name} {count}")).collect();
    println!("\ncuts by work: {}", works.join(", "));
    println!(
        "cuts: {cuts} cuts in {} s; every byte and every exit status was right, no session was left",
        took.as_secs()
    );
}
