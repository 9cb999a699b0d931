//! What the doctor measures with. The order of its measurements ([`super::gather`]) is written against a
//! trait, so that tests run it in virtual time.

use std::time::Duration;

use super::at_rest::AtRest;
use super::facts::{Idle, RunSettings};
use super::sftp_file::{Plan, SftpFileError, SftpRates};
use super::small_packets::SmallPackets;
use crate::connects::TurnedAway;
use crate::disk::{Disk, DiskError};
use crate::fault::Fault;
use crate::flow::{Direction, Flow, TurnWaits};
use crate::probe::{Reached, Segments};
use crate::shell::System;
use crate::stage::Stage;
use crate::target::NoConnection;

/// Length of the flow that is judged: this many round trips, within these limits, seconds.
const FLOW_ROUND_TRIPS: f64 = 20.0;
const FLOW: [f64; 2] = [4.0, 5.0];
/// Length of the flows that are compared with it: as many round trips, within these limits, seconds. TCP's
/// slow start takes several round trips.
const COMPARED: [f64; 2] = [2.0, 6.0];
/// Time after which a login that neither fails nor succeeds is given up.
pub(super) const LOGIN_LIMIT: Duration = Duration::from_secs(45);
/// Connections at a time in the comparison.
pub(super) const TOGETHER: usize = 4;
/// Keywords of all transfers: what a download sends is all zeros, so its rate would be that of a compressor.
pub(super) const PLAIN: [(&str, &str); 1] = [("Compression", "no")];

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Server,
    /// The last jump host by itself.
    JumpHost,
    /// The server, through the shared connection of a master (`ControlPath`).
    Master,
}

/// Configuration of the host.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) host: String,
    /// No jump host and no proxy command.
    pub(super) is_direct: bool,
    pub(super) compresses: bool,
    /// Bytes/s.
    pub(super) rate_limit: Option<f64>,
    /// Marks of packets (`IPQoS`) for bulk data and for terminals.
    pub(super) bulk_mark: Option<u8>,
    pub(super) interactive_mark: Option<u8>,
    pub(super) jump_host: Option<String>,
    /// The control socket of a master that programs with this configuration use.
    pub(super) control_socket: Option<String>,
}

/// Results of a login.
#[derive(Debug, Clone, Default)]
pub(super) struct Login {
    /// Seconds of each stage, with a session and a command after it where these were asked for.
    pub(super) stages: Vec<(Stage, f64)>,
    /// Keys that were offered.
    pub(super) offers: usize,
    /// The key of this machine's agent that it used: what the log says of it.
    pub(super) agent_key: Option<String>,
    /// Processor time of this machine for keys, seconds.
    pub(super) key_work: f64,
    /// The server's identification.
    pub(super) server: String,
    pub(super) cipher: String,
    /// Empty where the cipher authenticates by itself.
    pub(super) mac: String,
}

/// Connection or channel that carries a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Command,
    /// A command between two sessions with a terminal.
    AmongTerminals,
    /// A forward without a session, to the helper.
    Forward,
}

/// One transfer, over one or more connections at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub(super) direction: Direction,
    pub(super) carrier: Carrier,
    /// Length at most.
    pub(super) time: Duration,
    /// The rate that it is compared with, bytes/s, and the round trip, seconds: it ends once it is known to
    /// be alike.
    pub(super) like: Option<(f64, f64)>,
}

impl Transfer {
    /// Describes a transfer that is judged, over a round trip in seconds.
    pub(super) fn judged(direction: Direction, round_trip: f64) -> Self {
        let time = within(FLOW_ROUND_TRIPS * round_trip, FLOW);
        Self { direction, carrier: Carrier::Command, time, like: None }
    }

    /// Describes a transfer that is compared with another of this rate, bytes/s.
    pub(super) fn compared(direction: Direction, round_trip: f64, rate: f64) -> Self {
        Self { like: Some((rate, round_trip)), ..Self::full(direction, round_trip) }
    }

    /// Describes a transfer that lasts as long as a comparison may take.
    pub(super) fn full(direction: Direction, round_trip: f64) -> Self {
        let time = within(FLOW_ROUND_TRIPS * round_trip, COMPARED);
        Self { direction, carrier: Carrier::Command, time, like: None }
    }
}

fn within(seconds: f64, [least, most]: [f64; 2]) -> Duration {
    Duration::from_secs_f64(seconds.max(least).min(most))
}

/// The measurements. Those of connections wait until the connection is there.
pub(super) trait Instruments {
    /// A connection that is being set up, or is there.
    type Connection;

    fn settings(&self) -> Settings;

    /// Begins the next step, with this name.
    fn begin_step(&mut self, name: &str);

    /// Names of the steps so far, each with its seconds.
    fn steps(&self) -> Vec<(String, f64)>;

    /// Time since the first step, seconds.
    fn elapsed(&self) -> f64;

    /// Resolves the name, connects and reads the greeting.
    fn reach(&mut self) -> Result<Reached, Fault>;

    /// Settings of this machine, with its route to what it has reached.
    fn here(&self, reached: Option<&Reached>) -> System;

    /// The largest segment that arrives.
    fn segments(&mut self, reached: &Reached) -> Option<Segments>;

    /// Begins a connection with these keywords, while other measurements go on. With `times_session`, a
    /// command that does nothing is part of its login.
    fn prepare(&mut self, place: Place, keywords: &[(&str, &str)], times_session: bool) -> Self::Connection;

    /// Waits for a connection's login; at most for this time.
    fn login_within(
        &mut self,
        connection: &mut Self::Connection,
        limit: Duration,
    ) -> Result<Login, NoConnection>;

    /// Waits for a connection's login.
    fn login(&mut self, connection: &mut Self::Connection) -> Result<Login, NoConnection> {
        self.login_within(connection, LOGIN_LIMIT)
    }

    /// The socket of this machine's authentication agent, where it does not answer.
    fn silent_agent(&mut self) -> Option<String>;

    /// Seconds that this machine's authentication agent needs to sign with a key that the log says this of;
    /// `None` if it does not sign.
    fn agent_signing(&mut self, key: &str) -> Option<f64>;

    /// Connections that the server refused before its greeting so far.
    fn refused(&self) -> usize;

    /// Logins so far, and the connections that were not accepted although others were.
    fn logins(&self) -> (usize, Option<TurnedAway>);

    /// Returns the round trips of `count` small messages, seconds.
    fn pings(&mut self, connection: &mut Self::Connection, count: usize) -> Vec<f64>;

    /// Time that both ends of a connection have waited for their turn at a processor so far.
    fn turn_waits(&mut self, connection: &mut Self::Connection) -> TurnWaits;

    /// Segments that this machine has sent over the connection so far; `None` where they are not counted.
    fn small_packets(&mut self, connection: &mut Self::Connection) -> Option<SmallPackets>;

    fn system(&mut self, connection: &mut Self::Connection) -> Result<System, Fault>;

    fn at_rest(&mut self, connection: &mut Self::Connection, there: &System, round_trip: f64) -> AtRest;

    /// Runs a transfer over these connections at a time.
    fn transfer(
        &mut self,
        connections: &mut [Self::Connection],
        transfer: &Transfer,
    ) -> Result<Vec<Flow>, Fault>;

    /// Has the server send outputs of rising sizes, bytes, each alone in a packet. Returns the largest that
    /// arrived and the first that did not.
    fn arriving(&mut self, connection: &mut Self::Connection, sizes: &[u64]) -> (Option<u64>, Option<u64>);

    /// Begins a session that nothing is sent over, while other measurements go on.
    fn begin_idle(&mut self);

    /// Ends that session: what became of it.
    fn end_idle(&mut self) -> Option<Idle>;

    /// Starts the helper for forwards at the server, while other measurements go on.
    fn prepare_helper(&mut self);

    /// Writes and reads a file in this directory over the server's SFTP.
    ///
    /// # Errors
    /// Why there are no rates.
    fn sftp_file(
        &mut self,
        connection: &mut Self::Connection,
        directory: &str,
        plan: Plan,
    ) -> Result<SftpRates, SftpFileError>;

    /// Measures disks, of this machine and of the server, side by side; those that are asked for.
    fn disks(&mut self, wanted: &RunSettings, ends: [bool; 2]) -> [Option<Result<Disk, DiskError>>; 2];
}

/// A transfer over a connection of its own.
pub(super) fn one_flow<I: Instruments>(
    instruments: &mut I,
    place: Place,
    first: &[(&str, &str)],
    transfer: &Transfer,
) -> Result<Flow, Fault> {
    let connection = instruments.prepare(place, &[first, &PLAIN].concat(), false);
    prepared_flow(instruments, connection, transfer)
}

/// A transfer over a connection that was prepared for it, which is closed then.
pub(super) fn prepared_flow<I: Instruments>(
    instruments: &mut I,
    connection: I::Connection,
    transfer: &Transfer,
) -> Result<Flow, Fault> {
    let mut flows = instruments.transfer(&mut [connection], transfer)?;
    flows.pop().ok_or(Fault::Late("a transfer broke off"))
}
