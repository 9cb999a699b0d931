//! The order of the measurements in virtual time: what a healthy path costs, and what a suspicious one costs
//! more.

use std::time::Duration;

use super::super::at_rest::AtRest;
use super::super::diagnose::diagnose;
use super::super::facts::{Facts, Idle, IdleEnd, RunSettings, Shell};
use super::super::gather::gather;
use super::super::instruments::{Carrier, Instruments, Login, Place, Settings, Transfer};
use super::super::sftp_file::{Plan, SftpFileError, SftpRates};
use super::super::small_packets::SmallPackets;
use super::good;
use crate::connects::TurnedAway;
use crate::disk::{Disk, DiskError};
use crate::fault::Fault;
use crate::flow::{Direction, Flow, TurnWaits};
use crate::probe::{Reached, Segments};
use crate::shell::System;
use crate::stage::Stage;
use crate::target::NoConnection;

/// Seconds of processors at both ends for a login.
const LOGIN: f64 = 0.1;
/// Round trips of a login, with a session and a command.
const LOGIN_ROUND_TRIPS: f64 = 11.0;

/// A path and a host at its end, with a clock that measurements move.
struct Virtual {
    now: f64,
    round_trip: f64,
    /// Rate of one connection and of all together, bytes/s.
    rate: f64,
    full: f64,
    /// Rate of transfers with this mark.
    throttled: Option<(u8, f64)>,
    /// Segments lost in each flow.
    resent: f64,
    /// A stage of each login, in their order, that takes so much longer.
    slow_logins: Vec<f64>,
    /// Seconds of TCP's handshake beyond a round trip: of the probe, and of the first logins.
    slow_connects: Vec<f64>,
    marks: [Option<u8>; 2],
    /// Most data in a packet of the server that arrives, and those of its largest packet of a key exchange.
    swallows: Option<u64>,
    key_exchange: u64,
    steps: Vec<(String, f64)>,
    logins: usize,
    idle_since: Option<f64>,
    /// The socket of a master.
    control_socket: Option<String>,
    small: Option<SmallPackets>,
    /// Rate of a file that SFTP writes, bytes/s, if it differs.
    sftp_rate: Option<f64>,
    /// Seconds of a signature by the agent, whose keys all logins use.
    signing: Option<f64>,
    /// Why there is no shell with a terminal.
    shell_missing: Option<String>,
}

impl Virtual {
    /// A path that one connection fills at 10 MB/s.
    fn healthy(round_trip: f64) -> Self {
        Self {
            now: 0.0,
            round_trip,
            rate: 10e6,
            full: 10e6,
            throttled: None,
            resent: 0.0,
            slow_logins: Vec::new(),
            slow_connects: Vec::new(),
            marks: [Some(0x48), Some(0x20)],
            swallows: None,
            key_exchange: 1300,
            steps: Vec::new(),
            logins: 0,
            idle_since: None,
            control_socket: None,
            small: None,
            sftp_rate: None,
            signing: None,
            shell_missing: None,
        }
    }

    /// Facts, the seconds that they took, and the names of the steps.
    fn run(mut self) -> (Facts, f64, Vec<String>) {
        let wanted = RunSettings { local_directory: ".".into(), remote_directory: ".".to_owned() };
        let facts = gather(&mut self, &wanted).unwrap();
        let steps = facts.run.steps.iter().map(|(name, _)| name.clone()).collect();
        (facts, self.now, steps)
    }
}

/// When it is there, the mark of its uploads, and the stages of its login.
struct Planned {
    ready: f64,
    mark: u8,
    login: Login,
}

impl Instruments for Virtual {
    type Connection = Planned;

    fn settings(&self) -> Settings {
        let [bulk_mark, interactive_mark] = self.marks;
        let host = "h".to_owned();
        let control_socket = self.control_socket.clone();
        Settings { host, is_direct: true, bulk_mark, interactive_mark, control_socket, ..Settings::default() }
    }

    fn begin_step(&mut self, name: &str) {
        self.steps.push((name.to_owned(), self.now));
    }

    fn steps(&self) -> Vec<(String, f64)> {
        self.steps.clone()
    }

    fn elapsed(&self) -> f64 {
        self.now
    }

    fn reach(&mut self) -> Result<Reached, Fault> {
        self.now += 2.0 * self.round_trip;
        let address = "192.0.2.1:22".parse().unwrap();
        let connect = self.round_trip + self.slow_connects.first().unwrap_or(&0.0);
        Ok(Reached { address, connect, refused: 0, tried: Vec::new() })
    }

    fn here(&self, _: Option<&Reached>) -> System {
        System::from_pairs(&[("tcp_available_congestion_control", "reno cubic bbr")])
    }

    fn segments(&mut self, _: &Reached) -> Option<Segments> {
        self.now += 5.0 * self.round_trip;
        Some(Segments { passes: 1448, offered: 1448, headers: 52 })
    }

    fn prepare(&mut self, _: Place, keywords: &[(&str, &str)], _: bool) -> Planned {
        let slow = self.slow_logins.get(self.logins).copied().unwrap_or(0.0);
        self.logins += 1;
        let mark = keywords.iter().find(|(keyword, _)| *keyword == "IPQoS").map(|(_, value)| *value);
        let mark = mark.map(|value| value.split(' ').next().unwrap().trim_start_matches("0x"));
        let mark = match mark {
            Some(digits) => u8::from_str_radix(digits, 16).unwrap_or(0),
            None => self.marks[0].unwrap_or(0),
        };
        let approval = (Stage::Approval, self.round_trip + slow);
        let slow_connect = self.slow_connects.get(self.logins).unwrap_or(&0.0);
        let connect = (Stage::Connect, self.round_trip + slow_connect);
        let agent_key = self.signing.map(|_| "k agent".to_owned());
        let login = Login { stages: vec![connect, approval], offers: 1, agent_key, ..Login::default() };
        let is_small = keywords.iter().any(|(keyword, _)| *keyword == "KexAlgorithms");
        let hangs = self.swallows.is_some_and(|most| most < self.key_exchange) && !is_small;
        let slow = if hangs { 1e6 } else { slow };
        let ready = self.now + LOGIN + LOGIN_ROUND_TRIPS * self.round_trip + slow;
        Planned { ready, mark, login }
    }

    fn login_within(&mut self, connection: &mut Planned, limit: Duration) -> Result<Login, NoConnection> {
        // A connection gives up after ten seconds by itself.
        let end = self.now + limit.as_secs_f64().min(10.0);
        self.now = self.now.max(connection.ready.min(end));
        if connection.ready <= end {
            return Ok(connection.login.clone());
        }
        Err(NoConnection { fault: Fault::Late("late"), is_path: true, slowest: None })
    }

    fn arriving(&mut self, connection: &mut Planned, sizes: &[u64]) -> (Option<u64>, Option<u64>) {
        self.now = self.now.max(connection.ready) + sizes.len() as f64 * 4.0 * self.round_trip;
        let most = self.swallows.unwrap_or(u64::MAX);
        let passed = sizes.iter().rev().find(|size| **size + 40 <= most).copied();
        (passed, sizes.iter().find(|size| **size + 40 > most).copied())
    }

    fn begin_idle(&mut self) {
        self.idle_since = Some(self.now);
    }

    fn end_idle(&mut self) -> Option<Idle> {
        let seconds = self.now - self.idle_since?;
        Some(Idle { seconds, end: IdleEnd::Answered })
    }

    fn silent_agent(&mut self) -> Option<String> {
        None
    }

    fn agent_signing(&mut self, _: &str) -> Option<f64> {
        self.signing
    }

    fn refused(&self) -> usize {
        0
    }

    fn logins(&self) -> (usize, Option<TurnedAway>) {
        (self.logins, None)
    }

    fn pings(&mut self, _: &mut Planned, count: usize) -> Vec<f64> {
        self.now += count as f64 * self.round_trip.max(0.02);
        vec![self.round_trip; count]
    }

    fn turn_waits(&mut self, _: &mut Planned) -> TurnWaits {
        TurnWaits::default()
    }

    fn small_packets(&mut self, _: &mut Planned) -> Option<SmallPackets> {
        self.small
    }

    fn system(&mut self, _: &mut Planned) -> Result<System, Fault> {
        self.now += 3.0 * self.round_trip;
        Ok(System::from_pairs(&[("system", "Linux 6")]))
    }

    fn at_rest(&mut self, _: &mut Planned, _: &System, round_trip: f64) -> AtRest {
        // A shell, a command, SFTP, files, a lookup.
        self.now += 5.0 * (3.0 * round_trip + 0.1);
        let shell = Shell { interactive: vec![0.2], command: vec![0.06], slowest: None };
        AtRest { shell, sftp: vec![0.06], shell_missing: self.shell_missing.clone(), ..AtRest::default() }
    }

    fn transfer(&mut self, connections: &mut [Planned], transfer: &Transfer) -> Result<Vec<Flow>, Fault> {
        let count = connections.len() as f64;
        let mark = match transfer.direction {
            Direction::Up => connections[0].mark,
            Direction::Down => 0,
        };
        let most =
            self.throttled.filter(|(throttled, _)| *throttled == mark).map_or(self.full, |(_, rate)| rate);
        let each = self.rate.min(most / count);
        for connection in &*connections {
            self.now = self.now.max(connection.ready);
        }
        let is_alike = transfer.like.is_some_and(|(like, _)| (0.84..1.2).contains(&(like / (each * count))));
        // TCP's slow start, and two windows of the comparison.
        let early = 8.0 * self.round_trip + 2.0 * (4.0 * self.round_trip).max(0.4);
        let seconds = transfer.time.as_secs_f64().min(if is_alike { early } else { f64::INFINITY });
        // The queue drains, and the command tells what it counted.
        self.now += seconds + 4.0 * self.round_trip;
        let mut flow = good().throughput.up.flow.unwrap();
        if self.swallows.is_some() && transfer.direction == Direction::Down {
            let failure = Some(crate::task::LATE.to_owned());
            return Ok(vec![Flow { rate: 0.0, samples: 0, failure, ..Flow::default() }]);
        }
        (flow.rate, flow.seconds) = (each, seconds);
        flow.packets.mark =
            (transfer.direction == Direction::Down && transfer.carrier == Carrier::Command).then_some(0x48);
        let sender = flow.tcp.sender.as_mut().unwrap();
        (sender.resent, sender.segments) = (self.resent, each * seconds / 1448.0);
        sender.loaded_rtt = Some(self.round_trip * 1.1);
        flow.tcp.least_rtt = Some(self.round_trip);
        Ok(connections.iter().map(|_| flow.clone()).collect())
    }

    fn prepare_helper(&mut self) {}

    fn sftp_file(
        &mut self,
        connection: &mut Planned,
        _: &str,
        plan: Plan,
    ) -> Result<SftpRates, SftpFileError> {
        self.now = self.now.max(connection.ready);
        let mut each = |rate: f64, good: f64| {
            self.now +=
                plan.time.as_secs_f64() * if rate >= good { 0.25 } else { 1.0 } + 8.0 * self.round_trip;
            Some(rate)
        };
        let write = each(self.sftp_rate.unwrap_or(self.rate), plan.good[0]);
        let read = each(self.rate, plan.good[1]);
        Ok(SftpRates { write, read, at_a_time: 2_097_152.0 })
    }

    fn disks(&mut self, _: &RunSettings, ends: [bool; 2]) -> [Option<Result<Disk, DiskError>>; 2] {
        self.now += 2.5 + 20.0 * self.round_trip;
        let disk = Disk { directory: "/".to_owned(), rate: 200e6, read_rate: None, bytes: 64e6, full: None };
        ends.map(|is_wanted| is_wanted.then(|| Ok(disk.clone())))
    }
}

/// Returns true for steps that a suspicion asks for.
fn is_repetition(name: &str) -> bool {
    ["again", "in turns", "third", "another congestion"].iter().any(|words| name.contains(words))
}

#[test]
fn healthy_path_ends_in_half_a_minute() {
    // Logins and slow starts take round trips: more of them over longer paths.
    for (round_trip, limit) in [(0.001, 24.0), (0.02, 25.0), (0.08, 30.0), (0.15, 44.0), (0.25, 62.0)] {
        let (facts, seconds, steps) = Virtual::healthy(round_trip).run();
        assert!(seconds <= limit, "{round_trip} s: {seconds} s, {:#?}", facts.run.steps);
        assert!(!steps.iter().any(|step| is_repetition(step)), "{steps:?}");
        assert_eq!(diagnose(&facts)[0].cause, "path");
        assert_eq!(facts.logins.timed.len(), 2);
        assert_eq!(
            facts.throughput.marks.len(),
            3,
            "both marks of uploads, and downloads: {:?}",
            facts.throughput.marks
        );
        assert!(facts.disks.here.is_some() && facts.disks.there.is_some());
    }
}

#[test]
fn session_that_is_refused_behind_another_is_a_limit() {
    let causes = |why: &str| {
        let (facts, ..) = Virtual { shell_missing: Some(why.to_owned()), ..Virtual::healthy(0.02) }.run();
        diagnose(&facts).iter().map(|found| found.cause).collect::<Vec<_>>()
    };
    assert_eq!(causes("open failed")[0], "session_limit");
    assert!(!causes("it did not end").contains(&"session_limit"));
}

#[test]
fn suspicions_cost_only_their_own_repetitions() {
    let usual = Virtual::healthy(0.08).run().1;
    let repetitions = |planted: Virtual| {
        let (facts, seconds, steps) = planted.run();
        assert!(seconds > usual, "{seconds} s");
        (facts, steps.into_iter().filter(|step| is_repetition(step)).collect::<Vec<_>>())
    };
    // Each login is slow: a third one confirms it.
    let slow_logins = vec![2.0; 12];
    let slow = || Virtual { slow_logins: slow_logins.clone(), ..Virtual::healthy(0.08) };
    let (facts, steps) = repetitions(slow());
    assert_eq!(steps, ["a third login"]);
    assert!(diagnose(&facts).iter().any(|found| found.cause == "login_approval"));
    // The agent was what they waited for.
    let (facts, _) = repetitions(Virtual { signing: Some(1.9), ..slow() });
    let causes: Vec<_> = diagnose(&facts).iter().map(|found| found.cause).collect();
    assert!(causes[0] == "agent" && !causes.contains(&"login_approval"), "{causes:?}");
    // Each is a little slow: more of them tell.
    let (facts, steps) = repetitions(Virtual { slow_logins: vec![0.25; 12], ..slow() });
    assert_eq!((steps, facts.logins.timed.len()), (vec!["a third login".to_owned()], 4));
    assert_eq!(diagnose(&facts)[0].cause, "login_approval");
    // One of them was.
    let (facts, _, steps) = Virtual { slow_logins: vec![2.0], ..Virtual::healthy(0.08) }.run();
    assert!(!steps.iter().any(|step| is_repetition(step)), "{steps:?}");
    assert!(diagnose(&facts).iter().all(|found| found.cause != "login_approval"));
    // The mark of terminals is throttled: it is compared in turns, and the other mark is not.
    let throttled = Some((0x20, 1e6));
    let (facts, steps) = repetitions(Virtual { throttled, ..Virtual::healthy(0.08) });
    assert_eq!(steps, ["a mark in turns"]);
    assert_eq!(diagnose(&facts)[0].cause, "dscp");
    // Several connections are faster, and a flow shows no cause: it is measured again.
    let (facts, steps) = repetitions(Virtual { rate: 3e6, ..Virtual::healthy(0.08) });
    assert_eq!(steps, ["upload, again", "download, again", "another congestion control"]);
    assert_eq!(diagnose(&facts)[0].cause, "congestion_control");
}

#[test]
fn slow_file_over_sftp_is_measured_again_and_named() {
    let (facts, _, steps) = Virtual { sftp_rate: Some(1e6), ..Virtual::healthy(0.02) }.run();
    assert_eq!(steps.iter().filter(|step| step.contains("over SFTP")).count(), 2, "{steps:?}");
    assert_eq!(diagnose(&facts)[0].cause, "sftp_rate");
}

#[test]
fn lost_first_packets_are_found_in_any_order() {
    for logins in [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]] {
        let slow_connects = [vec![1.0], logins.to_vec()].concat();
        let (facts, _, steps) = Virtual { slow_connects, ..Virtual::healthy(0.08) }.run();
        assert!(steps.iter().any(|step| step == "a third login"), "{logins:?}: {steps:?}");
        assert!(diagnose(&facts).iter().any(|found| found.cause == "connect"), "{logins:?}");
    }
    // One slow login of two, behind a quick probe, is chance.
    let (_, _, steps) = Virtual { slow_connects: vec![0.0, 1.0], ..Virtual::healthy(0.08) }.run();
    assert!(!steps.iter().any(|step| is_repetition(step)), "{steps:?}");
}

#[test]
fn shared_connection_is_measured_where_there_is_time() {
    let through_master = |planted: Virtual| {
        let control_socket = Some("/run/user/1000/master".to_owned());
        let (facts, seconds, steps) = Virtual { control_socket, ..planted }.run();
        (facts, seconds, steps.into_iter().filter(|step| step.contains("shared")).collect::<Vec<_>>())
    };
    let of = |direction: &str| format!("{direction} over the shared connection");
    let (facts, _, steps) = through_master(Virtual::healthy(0.02));
    assert_eq!(steps, ["the shared connection".to_owned(), of("upload"), of("download")]);
    assert_eq!(facts.master.unwrap().rates.len(), 2);
    // What comes before uses the time up.
    let suspicious = Virtual { rate: 3e6, resent: 3.0, ..Virtual::healthy(0.25) };
    let (facts, seconds, steps) = through_master(suspicious);
    assert!(seconds < 75.0, "{seconds} s: {:#?}", facts.run.steps);
    assert!(steps.len() < 3, "{steps:?}");
    assert!(
        facts.run.missing.iter().any(|missing| missing.contains("the shared connection")),
        "{:?}",
        facts.run.missing
    );
}

#[test]
fn few_losses_are_looked_at_again_until_there_is_a_verdict() {
    // 0.3 MB/s over 80 ms with three of 640 segments lost: the loss explains the rate.
    let planted = Virtual { rate: 0.3e6, resent: 3.0, ..Virtual::healthy(0.08) };
    let (facts, _, steps) = planted.run();
    let again = steps.iter().filter(|step| step.ends_with("again")).count();
    assert_eq!(again, 2, "one in each direction: {steps:?}");
    let found = diagnose(&facts);
    assert_eq!(found[0].cause, "loss", "{found:?}");
}

#[test]
fn swallowed_packets_of_the_server_are_searched() {
    // The key exchange does not fit; it does, and no download begins.
    for key_exchange in [1300, 600] {
        let planted = Virtual { swallows: Some(1000), key_exchange, ..Virtual::healthy(0.02) };
        let (facts, seconds, steps) = planted.run();
        let found = diagnose(&facts);
        assert_eq!(found[0].cause, "mtu_black_hole", "{found:?}");
        let passes = facts.path.swallowed.unwrap().passes;
        assert!((980..=1000).contains(&passes), "{passes}");
        assert!(
            seconds < 45.0 && !steps.iter().any(|step| step.contains("over 4")),
            "{seconds} s: {steps:?}"
        );
    }
}

#[test]
fn small_packets_that_get_lost_are_no_black_hole() {
    // What waits for a reply in vain looks like one: no key exchange ends, or no download begins.
    let small = Some(SmallPackets { sent: 60, resent: 42, duplicates: 0 });
    for (key_exchange, login) in [(1300, "no_login"), (600, "path")] {
        let planted = Virtual { swallows: Some(1000), key_exchange, small, ..Virtual::healthy(0.02) };
        let (facts, ..) = planted.run();
        let found = diagnose(&facts);
        assert_eq!(found[0].cause, "small_packet_loss", "{login}: {found:?}");
        assert!(facts.path.swallowed.is_none() && found.iter().all(|found| found.cause != "mtu_black_hole"));
        assert!(found.iter().any(|found| found.cause == login), "{login}: {found:?}");
    }
}

#[test]
fn transfers_are_as_long_as_round_trips_need() {
    let seconds = |round_trip: f64| {
        let [judged, compared] =
            [Transfer::judged, Transfer::full].map(|of| of(Direction::Up, round_trip).time);
        (judged, compared)
    };
    let millis = Duration::from_millis;
    assert_eq!(seconds(0.02), (millis(4000), millis(2000)));
    assert_eq!(seconds(0.2), (millis(4000), millis(4000)));
    assert_eq!(seconds(0.9), (millis(5000), millis(6000)));
}

#[test]
fn suspicions_of_all_kinds_end_in_time() {
    for (round_trip, limit) in [(0.02, 50.0), (0.1, 60.0), (0.3, 72.0)] {
        let throttled = Some((0x20, 0.2e6));
        let planted = Virtual { throttled, rate: 0.3e6, resent: 3.0, ..Virtual::healthy(round_trip) };
        let (facts, seconds, _) = planted.run();
        assert!(seconds < limit, "{round_trip} s: {seconds} s, {:#?}", facts.run.steps);
    }
    // A path over which all of this takes longer than the time: what was left out is said.
    let planted = Virtual { rate: 3e6, slow_logins: vec![2.0; 40], ..Virtual::healthy(0.3) };
    let (facts, seconds, _) = planted.run();
    assert!(seconds < 85.0, "{seconds} s, {:#?}", facts.run.steps);
    assert!(
        facts.run.missing.iter().any(|line| line.contains("the time for it was used up")),
        "{:?}",
        facts.run.missing
    );
}
