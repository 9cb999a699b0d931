//! Measurements of a run of the doctor, and its settings.

use std::path::PathBuf;

use lh_wire::peer::Peer;

use super::sftp_file::SftpRates;
use super::small_packets::SmallPackets;
use crate::connects::TurnedAway;
use crate::disk::Disk;
use crate::flow::{Direction, Flow};
use crate::memory::MemoryGroups;
use crate::probe::{Reached, Segments};
use crate::shell::System;
use crate::stage::Stage;
use crate::stats::{lowest, median};

/// How many times longer than TCP's the round trip of SSH must be, and how much, seconds, for TCP to end on
/// the way.
const MANY_TIMES: f64 = 3.0;
const FARTHER: f64 = 0.015;
/// Small messages for that verdict.
const LEAST_PINGS: usize = 10;
/// Words about a connection that ended before its command.
pub(super) const CLOSED: [&str; 4] =
    ["closed by remote host", "Connection reset", "Connection closed", "Broken pipe"];

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// A directory of this machine, whose disk is measured.
    pub local_directory: PathBuf,
    /// A directory of the server, whose disk is measured.
    pub remote_directory: String,
}

/// Everything measured; what could not be is in `missing`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) host: String,
    /// The server's identification.
    pub(crate) server: String,
    pub(crate) cipher: String,
    /// Empty where the cipher authenticates by itself.
    pub(crate) mac: String,
    pub(crate) reached: Option<Reached>,
    /// The host is reached through a jump host or a proxy command: TCP at the server ends there.
    pub(crate) is_proxied: bool,
    /// The way to the last jump host by itself.
    pub(crate) jump_host: Option<JumpHost>,
    pub(crate) segments: Option<Segments>,
    /// Largest packets of the server that arrived here, roughly, where larger ones did not.
    pub(crate) swallowed: Option<Segments>,
    /// Connections, one at a time, that the server refused before its greeting.
    pub(crate) refused: usize,
    /// Stages of each login, seconds.
    pub(crate) logins: Vec<Vec<(Stage, f64)>>,
    /// Most keys that a login offered to the server, the right one included.
    pub(crate) offers: usize,
    /// Seconds that this machine's agent needs to sign, where a login waits long after a key of it was
    /// offered.
    pub(crate) agent_signing: Option<f64>,
    /// Seconds until an SFTP server answers, of several sessions.
    pub(crate) sftp: Vec<f64>,
    /// Rates of a file over it.
    pub(crate) sftp_file: Option<SftpRates>,
    /// Round trips of small messages on the idle connection, seconds.
    pub(crate) idle: Vec<f64>,
    /// Time that both ends waited for their turn at a processor for each of these, seconds, where they vary.
    pub(crate) idle_waited: Option<f64>,
    /// Segments of the idle connection until then.
    pub(crate) small_packets: Option<SmallPackets>,
    pub(crate) here: System,
    pub(crate) there: System,
    pub(crate) up: Option<Flow>,
    pub(crate) down: Option<Flow>,
    /// Rates of several connections together, bytes/s.
    pub(crate) up_together: Option<f64>,
    pub(crate) down_together: Option<f64>,
    pub(crate) marks: Vec<Mark>,
    /// Rates of writing and reading a file, and where.
    pub(crate) disk_here: Option<Disk>,
    pub(crate) disk_there: Option<Disk>,
    pub(crate) shell: Option<Shell>,
    /// How fast the server opens files of the user's home directory.
    pub(crate) home: Option<Home>,
    /// Time of the server's reverse lookup of this machine's address, seconds.
    pub(crate) reverse_lookup: Option<f64>,
    /// Time of the server's lookup of the user and its groups, seconds.
    pub(crate) user_lookup: Option<f64>,
    /// An upload with another cipher, where the cipher may be the limit.
    pub(crate) other_cipher: Option<OtherCipher>,
    /// An upload with another congestion control, where segments are lost.
    pub(crate) other_control: Option<OtherControl>,
    /// Rate of an upload with compression, where the configuration asks for it, bytes/s. The others are
    /// without.
    pub(crate) compressed: Option<f64>,
    /// Rate of an upload without a limit of the client's for exchanging keys again, where they are exchanged
    /// often.
    pub(crate) without_rekeys: Option<f64>,
    pub(crate) rate_limit: Option<f64>,
    /// An upload below the rate above which segments seem to be dropped.
    pub(crate) below_policer: Option<BelowPolicer>,
    /// Why the server has no SFTP, in its words.
    pub(crate) sftp_refusal: Option<String>,
    /// All logins of the run, and connections that were not accepted although others were.
    pub(crate) logins_made: usize,
    pub(crate) turned_away: Option<TurnedAway>,
    /// Why the server opened no session beside those that had just ended, in its words.
    pub(crate) session_refusal: Option<String>,
    /// Why the transfers broke off.
    pub(crate) broken: Option<String>,
    /// The memory groups of the server's process after the last transfer.
    pub(crate) memory_at_end: MemoryGroups,
    /// The shared connection that programs with this configuration use.
    pub(crate) master: Option<Master>,
    /// A session over which nothing was sent for a while.
    pub(crate) idle_session: Option<Idle>,
    /// The socket of this machine's authentication agent, where logins wait for it in vain.
    pub(crate) silent_agent: Option<String>,
    /// The login failed: why.
    pub(crate) no_login: Option<String>,
    /// Measurements that were not made, and why.
    pub(crate) missing: Vec<String>,
    /// Names of the steps of the measurement, each with its seconds.
    pub(crate) steps: Vec<(String, f64)>,
}

/// The way to a jump host by itself.
#[derive(Debug, Clone)]
pub(crate) struct JumpHost {
    pub(crate) name: String,
    /// Round trips of small messages, seconds.
    pub(crate) idle: Vec<f64>,
    pub(crate) there: System,
    pub(crate) up: Option<Flow>,
    pub(crate) down: Option<Flow>,
    /// Rates through it, bytes/s: the faster of two where they were much slower than to it.
    pub(crate) up_through: f64,
    pub(crate) down_through: f64,
}

impl JumpHost {
    pub(crate) const fn through(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Up => self.up_through,
            Direction::Down => self.down_through,
        }
    }

    pub(crate) const fn flow(&self, direction: Direction) -> Option<&Flow> {
        match direction {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }
}

/// An upload with a rate limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BelowPolicer {
    /// The limit, and the rate that was reached, bytes/s.
    pub(crate) limit: f64,
    pub(crate) rate: f64,
    /// Part of the segments that was lost.
    pub(crate) lost: f64,
}

/// Rates through a shared connection (`ControlMaster`), and over one of this process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Master {
    /// Its control socket.
    pub(crate) socket: String,
    /// It did not answer.
    pub(crate) is_silent: bool,
    pub(crate) rates: Vec<SharedRate>,
}

/// Rates of a direction, bytes/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SharedRate {
    pub(crate) direction: Direction,
    /// Through the shared connection: the faster of two where they differ.
    pub(crate) through: f64,
    /// Over a new one: the slower of two where they differ.
    pub(crate) alone: f64,
}

/// Result of a session over which nothing was sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Idle {
    /// Time without traffic, seconds.
    pub(crate) seconds: f64,
    pub(crate) end: IdleEnd,
}

/// How an idle session ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IdleEnd {
    /// It answered after that time.
    Answered,
    /// The connection was closed, in these words.
    Closed(String),
    /// Nothing came back, and a new connection works.
    Forgotten,
}

/// Result of asking the server for another cipher.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OtherCipher {
    /// The rate of an upload with it, bytes/s.
    Measured { name: String, rate: f64 },
    /// The server does not offer it.
    Refused { name: String },
}

/// Result of asking the system for another congestion control.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OtherControl {
    /// The rate of an upload with it, bytes/s.
    Measured { name: String, rate: f64 },
    /// The system kept its own: a route with `congctl lock` overrules programs.
    Overruled { name: String },
}

/// Transfers with and without a DSCP mark, in turns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    pub(crate) direction: Direction,
    /// The type-of-service byte, where it is known.
    pub(crate) service: Option<u8>,
    /// The sessions that carry it.
    pub(crate) used_for: &'static str,
    /// Name of the transfers without it.
    pub(crate) others: &'static str,
    pub(crate) with: Vec<f64>,
    pub(crate) without: Vec<f64>,
}

/// The files of the home directory that a login reads, beside as many of `/etc`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Home {
    pub(crate) directory: String,
    /// Type of the file system and its source, where the server tells.
    pub(crate) file_system: Option<String>,
    /// Files that were opened in each of the directories.
    pub(crate) files: usize,
    /// Seconds for those of the home directory: the fastest run.
    pub(crate) seconds: f64,
    /// Seconds for those of `/etc`.
    pub(crate) elsewhere: f64,
    /// Size of the user's authorized keys, bytes.
    pub(crate) keys_bytes: Option<f64>,
}

/// Time of a login shell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shell {
    /// Seconds from the request for a shell with a terminal to its end, of several runs.
    pub(crate) interactive: Vec<f64>,
    /// Seconds for a command that does nothing.
    pub(crate) command: Vec<f64>,
    /// The line of the start-up files that took longest, where it is, and its seconds.
    pub(crate) slowest: Option<(String, Option<String>, f64)>,
}

impl Facts {
    /// Returns whether the server is `lhsshd`.
    pub(crate) fn server_is_longhaul(&self) -> bool {
        Peer::of(&self.server) == Peer::Longhaul
    }

    /// The path's round trip without load, seconds: where something on the path answers in the server's
    /// place, that of SSH.
    pub(crate) fn round_trip(&self) -> f64 {
        self.answered_on_the_way().map_or_else(|| self.least_round_trip(), |(_, of_ssh)| of_ssh)
    }

    /// Round trips of TCP and of SSH, seconds, where TCP is answered by something on the way: the fastest of
    /// many small messages takes a multiple of TCP's round trip.
    pub(crate) fn answered_on_the_way(&self) -> Option<(f64, f64)> {
        let of_tcp = self.reached.as_ref().filter(|_| !self.is_proxied)?.connect;
        self.ends_on_the_way(of_tcp)
    }

    /// Returns round trips of TCP and of SSH, seconds, where SSH's is a multiple of TCP's: TCP ends on the
    /// way.
    fn ends_on_the_way(&self, of_tcp: f64) -> Option<(f64, f64)> {
        let of_ssh = lowest(self.idle.iter().copied()).filter(|_| self.idle.len() >= LEAST_PINGS)?;
        (of_ssh >= of_tcp * MANY_TIMES && of_ssh - of_tcp >= FARTHER).then_some((of_tcp, of_ssh))
    }

    /// Round trips of the server's TCP during a download and of SSH, seconds, where the server's TCP ends on
    /// the way: under load, a connection that reaches this machine takes a whole round trip and more.
    pub(crate) fn relayed_at_server(&self) -> Option<(f64, f64)> {
        let flow = self.down.as_ref().filter(|flow| flow.is_significant() && !self.is_proxied)?;
        let of_tcp = flow.sender.as_ref()?.loaded_rtt?;
        self.ends_on_the_way(of_tcp)
    }

    fn least_round_trip(&self) -> f64 {
        let flows = [&self.up, &self.down];
        let of_flows = flows.into_iter().flatten().filter_map(|flow| flow.least_rtt);
        let of_probe = self.reached.iter().map(|reached| reached.connect);
        lowest(of_flows.chain(of_probe).chain(self.idle.iter().copied())).unwrap_or(0.0).max(20e-6)
    }

    pub(crate) const fn flow(&self, direction: Direction) -> Option<&Flow> {
        match direction {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }

    pub(crate) const fn flow_mut(&mut self, direction: Direction) -> &mut Option<Flow> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    pub(crate) const fn together(&self, direction: Direction) -> Option<f64> {
        match direction {
            Direction::Up => self.up_together,
            Direction::Down => self.down_together,
        }
    }

    /// Highest rate of a direction, with one connection or several, bytes/s.
    pub(crate) fn best_rate(&self, direction: Direction) -> Option<f64> {
        let one = self.flow(direction).map(|flow| flow.rate);
        [one, self.together(direction)].into_iter().flatten().max_by(f64::total_cmp)
    }

    /// The system of the end that sends.
    pub(crate) const fn sending(&self, direction: Direction) -> &System {
        match direction {
            Direction::Up => &self.here,
            Direction::Down => &self.there,
        }
    }

    /// The system of the end that receives.
    pub(crate) const fn receiving(&self, direction: Direction) -> &System {
        match direction {
            Direction::Up => &self.there,
            Direction::Down => &self.here,
        }
    }

    /// The cipher, with the MAC where it needs one.
    pub(crate) fn suite(&self) -> String {
        if self.mac.is_empty() { self.cipher.clone() } else { format!("{} with {}", self.cipher, self.mac) }
    }

    /// Median of a stage over the logins, seconds.
    pub(crate) fn stage(&self, stage: Stage) -> Option<f64> {
        let of = |login: &Vec<(Stage, f64)>| {
            login.iter().find(|(each, _)| *each == stage).map(|(_, seconds)| *seconds)
        };
        median(self.logins.iter().filter_map(of))
    }
}
