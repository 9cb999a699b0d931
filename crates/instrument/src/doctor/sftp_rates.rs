//! One file over the server's SFTP, beside what a command moves: copies use SFTP.

use std::time::Duration;

use super::budget;
use super::facts::{Disks, Facts, RunSettings, Throughput};
use super::finding::{Finding, weight_of_factor};
use super::instruments::{Instruments, PLAIN, Place};
use super::losses;
use super::outages;
use super::sftp_file::{Plan, SftpRates};
use super::stopped;
use crate::disk::Disk;
use crate::flow::{Direction, Flow};
use crate::stats::{rate, time};

/// Time of a direction at most, seconds, and more for each second of the round trip.
const TIME: (f64, f64) = (1.0, 8.0);
/// The longest round trip over which a file is written and read in the time of a run, seconds.
const LONGEST_ROUND_TRIP: f64 = 0.1;
/// Part of a command's rate that ends a direction early: it is no cause.
const GOOD: f64 = 0.8;
/// How many times faster a command must be for SFTP to be slow, and from which rate on, bytes/s, the second
/// one counts: requests and files cost processor time, which shows on fast paths.
const SLOW: f64 = 2.0;
const FAST: (f64, f64) = (50e6, 3.0);
/// A file that is as fast as this is no one's complaint, bytes/s.
const ENOUGH: f64 = 100e6;
/// Part of what the requests under way permit in a round trip that is expected.
const OF_REQUESTS: f64 = 0.8;
/// How many times faster a disk must be to be no explanation.
const DISK: f64 = 1.4;

/// Writes and reads a file over this connection; over another one where that was slow. Connections that have
/// moved data beside others begin slowly.
pub(super) fn measure<I: Instruments>(
    instruments: &mut I,
    wanted: &RunSettings,
    facts: &mut Facts,
    mut connection: I::Connection,
) {
    let is_full = facts.disks.there.as_ref().is_some_and(|disk| disk.full.is_some());
    let rates = Direction::BOTH.map(|direction| facts.throughput.rate(direction));
    if facts.sftp.starts.is_empty() || is_full || rates.contains(&0.0) {
        return;
    }
    if facts.round_trip() > LONGEST_ROUND_TRIP {
        facts
            .run
            .missing
            .push("a file over SFTP: the round trip is too long for the time of a run".to_owned());
        return;
    }
    let (most, for_round_trip) = TIME;
    let seconds = most + for_round_trip * facts.round_trip();
    let plan = Plan { time: Duration::from_secs_f64(seconds), good: rates.map(|rate| GOOD * rate) };
    for name in ["a file over SFTP", "a file over SFTP, again"] {
        if name.ends_with("again") {
            connection = instruments.prepare(Place::Server, &PLAIN, false);
        }
        if !budget::begin(instruments, facts, name, 2.0 * seconds) {
            return;
        }
        match instruments.sftp_file(&mut connection, &wanted.remote_directory, plan) {
            Ok(rates) => {
                let before = facts.sftp.file.unwrap_or_default();
                let better = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
                facts.sftp.file = Some(SftpRates {
                    write: better(before.write, rates.write),
                    read: better(before.read, rates.read),
                    at_a_time: rates.at_a_time.max(before.at_a_time),
                    congestion_windows: [0, 1]
                        .map(|end| better(before.congestion_windows[end], rates.congestion_windows[end])),
                });
            }
            Err(why) => {
                let why = lh_client::sanitise(&why.to_string());
                facts.run.missing.push(format!("a file over SFTP: {why}"));
                return;
            }
        }
        let file = facts.sftp.file.unwrap_or_default();
        let slowness = |direction| slowness(file, &facts.throughput, facts.round_trip(), direction);
        if Direction::BOTH.into_iter().all(|direction| slowness(direction).is_none()) {
            return;
        }
    }
}

/// The rate of the file in this direction, bytes/s, and how many times faster a command is, where it is much.
/// `round_trip` is that of the path, seconds.
fn slowness(
    file: SftpRates,
    throughput: &Throughput,
    round_trip: f64,
    direction: Direction,
) -> Option<(f64, f64)> {
    let (reached, window) = match direction {
        Direction::Up => (file.write?, file.congestion_windows[0]),
        Direction::Down => (file.read?, file.congestion_windows[1]),
    };
    let flow = throughput.significant(direction)?;
    // A file takes a second or two, in which losses by chance may be many.
    if losses::vary_rates(flow, round_trip) || outages::are_many(throughput) {
        return None;
    }
    let possible =
        if file.at_a_time > 0.0 { OF_REQUESTS * file.at_a_time / round_trip } else { f64::INFINITY };
    // A window that slow start has left small, as it does where round trips vary, grows slower than a file of
    // a second ends.
    let of_window = window.map_or(f64::INFINITY, |window| window / round_trip);
    let factor = flow.rate.min(possible).min(of_window) / reached.max(1.0);
    let (fast, least) = FAST;
    let least = if flow.rate < fast { SLOW } else { least };
    (factor >= least && reached < ENOUGH).then_some((reached, factor))
}

/// Finds SFTP that is slower than a command, though the disk is not. `round_trip` is that of the path,
/// seconds.
pub(super) fn judge(
    file: SftpRates,
    throughput: &Throughput,
    disks: &Disks,
    round_trip: f64,
    out: &mut Vec<Finding>,
) {
    for direction in Direction::BOTH {
        let Some((reached, factor)) = slowness(file, throughput, round_trip, direction) else { continue };
        // What holds up the server's SSH process holds up its SFTP more, which needs more system calls.
        let is_held_up = |flow: &Flow| flow.server.tracer.is_some() || stopped::much(&flow.server).is_some();
        if throughput.flow(direction).is_some_and(is_held_up) {
            continue;
        }
        let disk = disks.there.as_ref().filter(|disk| disk.is_measured());
        let of_disk = |disk: &Disk| match direction {
            Direction::Up => Some(disk.rate),
            Direction::Down => disk.read_rate,
        };
        let of_disk = disk.and_then(of_disk);
        if of_disk.is_some_and(|of_disk| of_disk < DISK * reached) {
            continue;
        }
        let command = throughput.rate(direction);
        let verb = if direction == Direction::Up { "writes" } else { "reads" };
        let name = direction.name();
        out.push(Finding {
            cause: "sftp_rate",
            title: format!(
                "The server's SFTP {verb} a file at {}; a command moves {} on {name}s.",
                rate(reached),
                rate(command)
            ),
            evidence: [
                Some(format!(
                    "a file over the subsystem sftp: {}, over a round trip of {}",
                    rate(reached),
                    time(round_trip)
                )),
                Some(format!("{name} of one connection to or from a command: {}", rate(command))),
                of_disk.map(|of_disk| format!("the disk there by itself: {}", rate(of_disk))),
            ]
            .into_iter()
            .flatten()
            .collect(),
            gain: format!("up to {factor:.1} times for {name}s by scp, sftp and lhscp"),
            change: vec![
                "at the server: Subsystem sftp internal-sftp in sshd_config (or ForceCommand internal-sftp); else look at the \
                 program that it names: a wrapper with a rate limit, strace, a virus scanner, a quota"
                    .to_owned(),
                "compare there: top shows the SFTP process's processor time, /proc/PID/io what it writes".to_owned(),
            ],
            weight: weight_of_factor(factor) + 0.1,
        });
    }
}
