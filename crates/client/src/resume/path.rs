//! Watches the path of the present link: reports of the kernel about this machine's network, and whether the
//! server still answers, after a change of the network and after silence.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use lh_driver::{ControlCx, Traffic};
use lh_sys::interfaces;
use lh_sys::network_changes::{NetworkChange, NetworkChanges, Sleeps};

use super::patience::Patience;
use super::quiet::{Ask, LinkAmounts, Quiet};

/// Name of the global request that a server answers at once.
const QUESTION: &str = "keepalive@openssh.com";

/// Wait for the answer after a change of the network; TCP repeats a lost packet within it.
const ANSWER: Duration = Duration::from_millis(700);

/// Wait for the answer after a suspicious silence, beside three round trips. The TCP of a busy server
/// acknowledges the request within it, 200 ms later at most, and then the wait goes on. TCP repeats a lost
/// request a round trip and 200 ms after it was sent, a lost answer two round trips and 200 ms after it.
const EARLY_ANSWER: Duration = Duration::from_millis(300);

/// Wait for the answer after a long silence: longer, because a busy server answers late.
const QUIET_ANSWER: Duration = Duration::from_secs(1);

/// Wait for the answer behind a command or a jump host, where TCP does not tell whether the server is busy.
/// After a change of the network [`ANSWER`] is enough, where the round trip is known.
const INDIRECT_ANSWER: Duration = Duration::from_millis(1500);

/// If the check is this much later than its deadline, this process was stopped meanwhile.
const STOPPED: Duration = Duration::from_millis(250);

/// State of the path, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathState {
    /// No sign of a fault, or the answer is not due yet.
    Good,
    /// The server has not answered in time. It may still answer, and then the link is good again.
    Silent,
    /// The link's own address was removed.
    Dead,
}

/// The meaning of a network change for the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The change concerns other addresses and paths.
    Nothing,
    /// The path may have changed or ended.
    Suspicious,
    /// The link's own address was removed.
    AddressRemoved,
}

/// A request that the server has not answered yet.
#[derive(Debug, Clone, Copy)]
struct Check {
    asked: Instant,
    until: Instant,
    time: Duration,
    /// Time of the last sign that the path delivers data.
    moved: Instant,
    /// Packets received, and bytes that the peer's TCP has acknowledged, when the request was sent.
    packets: u64,
    acknowledged: Option<u64>,
    /// Messages of the session, and bytes, received before the request.
    received: u64,
    bytes: u64,
    /// The answer did not arrive in time.
    overdue: bool,
}

/// The state of the path. See the module documentation.
pub(super) struct PathWatch {
    changes: Option<NetworkChanges>,
    sleeps: Option<Sleeps>,
    ends: Ends,
    check: Option<Check>,
    /// Decides when silence is a reason to query the server.
    quiet: Quiet,
    /// The link's address was removed.
    dead: bool,
    round_trip: Duration,
    patience: Patience,
}

/// Addresses and interface of the link.
#[derive(Debug, Default)]
struct Ends {
    /// Local and peer address; `None` behind a command or a jump host.
    addresses: Option<(IpAddr, IpAddr)>,
    /// Index of the interface that has the local address.
    interface: Option<u32>,
    /// Whether each interface was running when it was last reported.
    running: BTreeMap<u32, bool>,
}

impl PathWatch {
    /// Starts to watch the link and the network, as far as the kernel permits.
    pub(super) fn begin(cx: &ControlCx<'_>) -> Self {
        let (changes, sleeps) = (NetworkChanges::watch().ok(), Sleeps::watch().ok());
        Self { changes, sleeps, ..Self::of_link(cx) }
    }

    /// Starts to watch the link alone.
    pub(super) fn of_link(cx: &ControlCx<'_>) -> Self {
        let mut watch = Self {
            changes: None,
            sleeps: None,
            ends: Ends::default(),
            check: None,
            quiet: Quiet::default(),
            dead: false,
            round_trip: Duration::ZERO,
            patience: Patience::default(),
        };
        watch.on_new_link(cx, Instant::now());
        watch
    }

    /// Returns a descriptor that is readable when the network has changed.
    pub(super) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.changes.as_ref().map(AsFd::as_fd)
    }

    /// Returns a descriptor that is readable when the machine may have slept.
    pub(super) fn sleeps(&self) -> Option<BorrowedFd<'_>> {
        self.sleeps.as_ref().map(AsFd::as_fd)
    }

    /// Records that the session has a new link.
    pub(super) fn on_new_link(&mut self, cx: &ControlCx<'_>, now: Instant) {
        self.on_lost();
        self.quiet.on_new_link(amounts(cx), now);
        self.patience.on_new_link(cx.traffic().packets_in);
        let canonical = |address: std::net::SocketAddr| address.ip().to_canonical();
        self.ends.addresses = cx.addresses().map(|(local, peer)| (canonical(local), canonical(peer)));
        self.ends.interface = self.ends.addresses.and_then(|(local, _)| interface_of(local));
        self.measure(cx);
    }

    /// Ends the checks of a link that is lost.
    pub(super) const fn on_lost(&mut self) {
        (self.check, self.dead) = (None, false);
        self.quiet.stop();
    }

    /// Forgets all doubts about the link, because there is nothing better.
    pub(super) const fn forget(&mut self) {
        self.on_lost();
        self.patience.on_kept();
    }

    /// Returns the link's last measured round trip.
    pub(super) const fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Updates the round trip from TCP, including its present queues; behind a command or a jump host it is
    /// the time that the server took to answer.
    fn measure(&mut self, cx: &ControlCx<'_>) {
        let micros = cx.tcp_info().and_then(|info| info.get("rtt"));
        let measured = micros.map(Duration::from_micros).or_else(|| cx.round_trip());
        self.round_trip = measured.unwrap_or(self.round_trip);
        self.quiet.set_round_trip(self.round_trip);
    }

    /// Reads the kernel's reports, and queries the server if they concern the path. Returns true if a new
    /// attempt to connect may now succeed.
    pub(super) fn read(&mut self, cx: &mut ControlCx<'_>, now: Instant) -> bool {
        let changes = match self.changes.as_ref().map(NetworkChanges::read) {
            Some(Ok(changes)) => changes,
            Some(Err(_)) => {
                self.changes = None;
                Vec::new()
            }
            None => Vec::new(),
        };
        let slept = match self.sleeps.as_mut().map(Sleeps::read) {
            Some(Ok(slept)) => slept,
            Some(Err(_)) => {
                self.sleeps = None;
                false
            }
            None => false,
        };
        let meanings: Vec<Meaning> = changes.iter().map(|change| self.ends.meaning(change)).collect();
        let concerned = slept || meanings.iter().any(|meaning| *meaning != Meaning::Nothing);
        if !cx.is_away() && concerned {
            let removed = meanings.contains(&Meaning::AddressRemoved);
            // The address may have been assigned again meanwhile.
            self.dead |= removed && self.ends.addresses.is_some_and(|(local, _)| !exists(local));
            self.ask_after_change(cx, now);
        }
        concerned || changes.iter().any(matters_to_attempts)
    }

    /// Queries the server after a change that concerns the path.
    pub(super) fn ask_after_change(&mut self, cx: &mut ControlCx<'_>, now: Instant) {
        self.patience.on_change();
        self.measure(cx);
        self.ask_within(answer_after_change(self.ends.addresses.is_some(), self.round_trip), cx, now);
    }

    /// True while the server has not answered a query.
    pub(super) const fn is_asking(&self) -> bool {
        self.check.is_some()
    }

    /// Sends a request that the server should answer within `least` of the round trip, or within some round
    /// trips if that is longer.
    fn ask(&mut self, least: impl FnOnce(Duration) -> Duration, cx: &mut ControlCx<'_>, now: Instant) {
        self.measure(cx);
        let is_direct = self.ends.addresses.is_some();
        self.ask_within(if is_direct { least(self.round_trip) } else { INDIRECT_ANSWER }, cx, now);
    }

    fn ask_within(&mut self, least: Duration, cx: &mut ControlCx<'_>, now: Instant) {
        if self.check.is_some() {
            return;
        }
        cx.global_request(QUESTION, true, b"");
        let time = least.max(self.round_trip * 4);
        self.check = Some(Check {
            asked: now,
            until: now + self.patience.limit(time),
            time,
            moved: now,
            packets: cx.traffic().packets_in,
            acknowledged: acknowledged(cx),
            received: cx.received_messages(),
            bytes: cx.traffic().bytes_in,
            overdue: false,
        });
    }

    /// Checks whether the server has answered, and queries it after silence.
    pub(super) fn check(&mut self, cx: &mut ControlCx<'_>, now: Instant) -> PathState {
        if self.dead {
            return PathState::Dead;
        }
        self.patience.on_packets(cx.traffic().packets_in, now);
        let Traffic { bytes_in, packets_in, .. } = cx.traffic();
        let moved = amounts(cx);
        let Some(check) = &mut self.check else {
            match self.quiet.poll(moved, || has_unacknowledged(cx), now) {
                Some(Ask::Early) => self.ask(early_answer, cx, now),
                Some(Ask::Late) => self.ask(|_| QUIET_ANSWER, cx, now),
                None => {}
            }
            return PathState::Good;
        };
        // Any packet counts as an answer.
        if packets_in != check.packets {
            // The answer alone is no reason for another query; data that was on its way before is.
            let alone = cx.received_messages() == check.received + 1;
            self.patience.on_answer(now.saturating_duration_since(check.asked) <= check.time);
            self.check = None;
            self.quiet.on_answer(moved, alone, now);
            return PathState::Good;
        }
        // While other attempts are under way, check at every call.
        if now < check.until && !check.overdue {
            return PathState::Good;
        }
        let acknowledged = acknowledged(cx);
        // The request, or its answer, may wait behind much data that TCP delivers slowly.
        if acknowledged > check.acknowledged || bytes_in != check.bytes {
            if std::mem::take(&mut check.overdue) {
                self.patience.on_end_of_silence(now.saturating_duration_since(check.moved));
            }
            (check.acknowledged, check.bytes, check.moved) = (acknowledged, bytes_in, now);
        } else if check.overdue || now < check.until + STOPPED {
            check.overdue = true;
            check.until = check.until.max(now + check.time);
            self.patience.on_silence();
            return PathState::Silent;
        }
        check.until = now + self.patience.limit(check.time);
        PathState::Good
    }

    /// Returns the time of the next check.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.check {
            Some(check) => Some(check.until),
            None => self.quiet.next_deadline(),
        }
    }
}

impl Ends {
    /// Returns the meaning of a change for the link.
    fn meaning(&mut self, change: &NetworkChange) -> Meaning {
        let suspicious = match change {
            NetworkChange::Unknown => true,
            NetworkChange::AddressAdded(address) | NetworkChange::AddressRemoved(address) => {
                match self.addresses {
                    Some((local, _)) if local == *address => {
                        return match change {
                            NetworkChange::AddressRemoved(_) => Meaning::AddressRemoved,
                            _ => Meaning::Suspicious,
                        };
                    }
                    Some(_) => false,
                    None => !address.is_loopback(),
                }
            }
            NetworkChange::Link { index, running } => {
                let before = self.running.insert(*index, *running).unwrap_or(true);
                before != *running && self.interface.is_none_or(|own| own == *index)
            }
            NetworkChange::Route { to, prefix } => match self.addresses {
                Some((_, peer)) => covers(*to, *prefix, peer),
                None => *prefix == 0,
            },
        };
        if suspicious { Meaning::Suspicious } else { Meaning::Nothing }
    }
}

/// True for changes after which an unreachable server may become reachable.
fn matters_to_attempts(change: &NetworkChange) -> bool {
    match change {
        NetworkChange::AddressAdded(address) => !address.is_loopback(),
        NetworkChange::Link { running, .. } => *running,
        NetworkChange::Route { .. } | NetworkChange::Unknown => true,
        NetworkChange::AddressRemoved(_) => false,
    }
}

/// True if `address` begins with the first `prefix` bits of `to`.
fn covers(to: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (to, address) {
        (IpAddr::V4(to), IpAddr::V4(address)) => {
            let other = to.to_bits() ^ address.to_bits();
            prefix == 0 || other.checked_shr(32_u32.saturating_sub(prefix.into())).unwrap_or(0) == 0
        }
        (IpAddr::V6(to), IpAddr::V6(address)) => {
            let other = to.to_bits() ^ address.to_bits();
            prefix == 0 || other.checked_shr(128_u32.saturating_sub(prefix.into())).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Returns the wait for the answer after a change of the network, beside four round trips. Changes are
/// rare, so a server that is only busy does not have to exchange keys often.
const fn answer_after_change(is_direct: bool, round_trip: Duration) -> Duration {
    if is_direct || !round_trip.is_zero() { ANSWER } else { INDIRECT_ANSWER }
}

/// Returns the wait for the answer after a suspicious silence.
fn early_answer(round_trip: Duration) -> Duration {
    EARLY_ANSWER + round_trip * 3
}

/// Returns what has moved in the session.
fn amounts(cx: &ControlCx<'_>) -> LinkAmounts {
    let sent = cx.message_counts().map_or(0, |(_, sent)| sent);
    let Traffic { bytes_in, bytes_out, .. } = cx.traffic();
    LinkAmounts { messages: cx.received_messages() + sent, bytes_in, bytes_out }
}

/// Returns the number of bytes that the peer's TCP has acknowledged.
fn acknowledged(cx: &ControlCx<'_>) -> Option<u64> {
    cx.tcp_info().and_then(|info| info.get("bytes_acked"))
}

/// True if TCP has sent data that the peer has not acknowledged.
fn has_unacknowledged(cx: &ControlCx<'_>) -> bool {
    cx.tcp_info().and_then(|info| info.get("unacked")).is_some_and(|segments| segments > 0)
}

/// True if this machine has the address, or its addresses cannot be read.
fn exists(address: IpAddr) -> bool {
    interfaces::addresses()
        .map_or(true, |all| all.iter().any(|each| each.address.ip().to_canonical() == address))
}

fn interface_of(address: IpAddr) -> Option<u32> {
    let all = interfaces::addresses().ok()?;
    let own = all.into_iter().find(|each| each.address.ip().to_canonical() == address)?;
    interfaces::index_of(&own.name)
}

#[cfg(test)]
mod tests;
