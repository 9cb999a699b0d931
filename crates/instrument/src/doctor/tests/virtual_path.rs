//! A path and a host at its end, with a clock that measurements move.

use std::time::Duration;

use super::super::at_rest::AtRest;
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
pub(super) struct Virtual {
    pub(super) now: f64,
    pub(super) round_trip: f64,
    /// Rate of one connection and of all together, bytes/s.
    pub(super) rate: f64,
    pub(super) full: f64,
    /// Rate of transfers with this mark.
    pub(super) throttled: Option<(u8, f64)>,
    /// Segments lost in each flow.
    pub(super) resent: f64,
    /// A stage of each login, in their order, that takes so much longer.
    pub(super) slow_logins: Vec<f64>,
    /// Seconds of TCP's handshake beyond a round trip: of the probe, and of the first logins.
    pub(super) slow_connects: Vec<f64>,
    pub(super) marks: [Option<u8>; 2],
    /// Most data in a packet of the server that arrives, and those of its largest packet of a key exchange.
    pub(super) swallows: Option<u64>,
    pub(super) key_exchange: u64,
    pub(super) steps: Vec<(String, f64)>,
    pub(super) logins: usize,
    pub(super) idle_since: Option<f64>,
    /// The socket of a master.
    pub(super) control_socket: Option<String>,
    pub(super) small: Option<SmallPackets>,
    /// Rate of a file that SFTP writes, bytes/s, if it differs.
    pub(super) sftp_rate: Option<f64>,
    /// Seconds of a signature by the agent, whose keys all logins use.
    pub(super) signing: Option<f64>,
    /// Why there is no shell with a terminal.
    pub(super) shell_missing: Option<String>,
    /// Why the server runs no commands, if it does not.
    pub(super) no_commands: Option<&'static str>,
    /// The congestion control of this machine.
    pub(super) control: &'static str,
    /// The round trip with a full queue, seconds, and the part of it that CUBIC fills.
    pub(super) full_queue: Option<f64>,
    pub(super) part_of_queue: Option<f64>,
    /// How downloads over several connections break off: the last one's words.
    pub(super) several_break: Option<&'static str>,
}

impl Virtual {
    /// A path that one connection fills at 10 MB/s.
    pub(super) fn healthy(round_trip: f64) -> Self {
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
            no_commands: None,
            control: "cubic",
            full_queue: None,
            part_of_queue: None,
            several_break: None,
        }
    }

    /// Facts, the seconds that they took, and the names of the steps.
    pub(super) fn run(mut self) -> (Facts, f64, Vec<String>) {
        let wanted = RunSettings { local_directory: ".".into(), remote_directory: ".".to_owned() };
        let facts = gather(&mut self, &wanted).unwrap();
        let steps = facts.run.steps.iter().map(|(name, _)| name.clone()).collect();
        (facts, self.now, steps)
    }
}

/// When it is there, the mark of its uploads, and the stages of its login.
pub(super) struct Planned {
    ready: f64,
    mark: u8,
    login: Login,
    /// The congestion control that it asks for.
    control: Option<String>,
    /// It has sent an upload: TCP keeps the receive window of a later download small.
    has_sent: bool,
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
        let control = keywords.iter().find(|(keyword, _)| *keyword == "TcpCongestion");
        let control = control.map(|(_, name)| (*name).to_owned());
        Planned { ready, mark, login, control, has_sent: false }
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
        match self.no_commands {
            Some(words) => Err(Fault::NoCommands(words.to_owned())),
            None => Ok(System::from_pairs(&[("system", "Linux 6")])),
        }
    }

    fn at_rest(&mut self, _: &mut Planned, _: &System, round_trip: f64) -> AtRest {
        // A shell, a command, SFTP, files, a lookup.
        self.now += 5.0 * (3.0 * round_trip + 0.1);
        let shell = Shell { interactive: vec![0.2], command: vec![0.06], slowest: None, slowest_file: None };
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
        let mut each = self.rate.min(most / count);
        for connection in &mut *connections {
            self.now = self.now.max(connection.ready);
            match transfer.direction {
                Direction::Up => connection.has_sent = true,
                Direction::Down if connection.has_sent => each = each.min(0.5e6),
                Direction::Down => {}
            }
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
        let control = connections[0].control.as_deref().unwrap_or(self.control);
        sender.congestion_control = Some(control.to_owned());
        let full = match control {
            "reno" => self.full_queue,
            "cubic" => self.part_of_queue,
            _ => None,
        };
        sender.loaded_rtt = Some(full.unwrap_or(self.round_trip * 1.1));
        flow.tcp.least_rtt = Some(self.round_trip);
        let mut flows: Vec<Flow> = connections.iter().map(|_| flow.clone()).collect();
        let breaks = self.several_break.filter(|_| count > 1.0 && transfer.direction == Direction::Down);
        if let Some((words, last)) = breaks.zip(flows.last_mut()) {
            *last = Flow { failure: Some(words.to_owned()), ..Flow::default() };
        }
        Ok(flows)
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
        Ok(SftpRates { write, read, at_a_time: 2_097_152.0, ..SftpRates::default() })
    }

    fn disks(&mut self, _: &RunSettings, ends: [bool; 2]) -> [Option<Result<Disk, DiskError>>; 2] {
        self.now += 2.5 + 20.0 * self.round_trip;
        let disk = Disk { directory: "/".to_owned(), rate: 200e6, read_rate: None, bytes: 64e6, full: None };
        ends.map(|is_wanted| is_wanted.then(|| Ok(disk.clone())))
    }
}
