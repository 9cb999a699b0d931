//! The readiness loop of a connection.

mod dispatch;

use std::time::{Duration, Instant};

use lh_connection::{Config, Connection, Event as ConnectionEvent, WindowPolicy};
use lh_wire::msg::disconnect;

use crate::control::Control;
use crate::error::DriverError;
use crate::event::ChannelEvent;
use crate::handler::{ControlCx, Core};
use crate::keepalive::{KEEPALIVE_REQUEST, Keepalive, KeepaliveAction};
use crate::link::{Leaving, WORKER_POOL};
use crate::poller::{Interests, Owner, Ready};
use crate::resumption::{Break, Resumption};
use crate::round_trip::RoundTripProbe;
use crate::spin::Spin;
use crate::{Link, Workers};

/// A link with channels and their handlers.
pub struct Driver {
    pub(crate) core: Core,
    keepalive: Option<Keepalive>,
    /// Packets received when the keepalive was last evaluated.
    seen: u64,
    /// Rotates the order in which descriptors and producers are served.
    rotation: usize,
    ready: Vec<(Owner, usize, Ready)>,
    spin: Spin,
    /// Pace the socket after the next rekey.
    spreads: bool,
    round_trip_probe: RoundTripProbe,
}

/// Round-trip time from which the socket is paced after the first rekey. A whole window that leaves at once,
/// as after the pause of a key exchange, overflows the queue of a long path, and TCP's recovery costs more
/// than the pause. On a short path a window is small, and the kernel's timers would cost more than they save.
/// They cost a tenth of a core at 8 Gb/s, permanently (a paced socket stays paced), so a connection that
/// never pauses does without.
const LONG_PATH: Duration = Duration::from_millis(5);

/// Receive space requested from the kernel on a long path from the beginning, bytes: the first window of a
/// channel.
const FIRST_SPACE: u32 = WindowPolicy::BULK.initial;

/// Time of a limited rate for which the kernel has receive space from the beginning. A limited connection
/// leaves its data there: a keystroke waits behind them.
const LIMITED_TIME: Duration = Duration::from_millis(250);

/// Receive space to request, bytes, for a connection whose input is limited to so many bytes in
/// [`LIMITED_TIME`]. The kernel enlarges it where the rate needs more in a round trip.
fn first_space(limited: Option<u64>) -> u32 {
    let wanted = limited.unwrap_or(u64::MAX);
    u32::try_from(wanted).unwrap_or(u32::MAX).min(FIRST_SPACE)
}

/// Upper limit of the growth of all windows of a connection, bytes, from the machine's `available` memory.
fn memory_share(available: Option<u64>) -> u64 {
    /// Limit where the available memory is unknown: a path of 10 Gb/s and 50 ms, with space to measure.
    const UNKNOWN: u64 = 256 << 20;
    /// Lower limit on a machine with little memory.
    const LEAST: u64 = 64 << 20;
    available.map_or(UNKNOWN, |bytes| (bytes / 8).max(LEAST))
}

impl Driver {
    /// Starts serving channels on a link that is authenticated, or will be before the loop runs
    /// ([`logged_in`](Self::logged_in)).
    ///
    /// All windows together may grow by `config.growth_budget`, but never by more than an eighth of the
    /// machine's available memory. That is what slow sinks could cost, and the more connections there are,
    /// the less each new one may take.
    ///
    /// The peer's software decides the packet size of its channels ([`lh_wire::peer`]), not `config`.
    pub fn new(mut link: Link, config: Config) -> Self {
        let mut config = config.for_peer(link.transport_ref().peer().limits());
        config.growth_budget = config.growth_budget.min(memory_share(lh_sys::memory::available()));
        let round_trip = lh_sys::socket::round_trip(link.stream().read_fd());
        let is_long = round_trip.is_some_and(|round_trip| round_trip >= LONG_PATH);
        let mut connection = Connection::new(config);
        if let Some(round_trip) = round_trip {
            // Windows grow to what the path holds. Without this value they would guess it from the first
            // credits, and a stock sender on a short path gets slower with every byte of window that it
            // cannot use.
            connection.round_trip_measured(round_trip);
            link.set_round_trip(round_trip);
        }
        if is_long {
            // On failure the kernel's own buffer size is used.
            let space = first_space(link.readable_in(LIMITED_TIME));
            let _ = lh_sys::tuning::make_room(link.stream().read_fd(), space);
        }
        let mut driver = Self {
            core: Core::new(link, connection),
            keepalive: None,
            seen: 0,
            rotation: 0,
            ready: Vec::new(),
            spin: Spin::new(),
            spreads: is_long,
            round_trip_probe: RoundTripProbe::default(),
        };
        if driver.core.link.transport_ref().is_authenticated() {
            driver.round_trip_probe.ask(&mut driver.core);
        }
        driver
    }

    /// Before authentication: lets handlers of channels that are opened early produce their first data. It is
    /// kept, or sent with the login (see `Transport::keep_early`).
    pub fn send_early_data(&mut self) {
        while let Some(event) = self.core.connection.poll_event() {
            if let ConnectionEvent::Opened { id, fields } = event {
                self.core.deliver(id, ChannelEvent::Opened { fields });
            }
        }
        self.core.end_batch();
    }

    /// Reports that authentication succeeded on a link that this driver had before.
    pub fn logged_in(&mut self) {
        self.round_trip_probe.ask(&mut self.core);
    }

    /// Sends `keepalive@openssh.com` to a peer that is silent for `interval`. The connection ends after
    /// `count_max` unanswered requests; 0 means never.
    pub fn set_keepalive(&mut self, interval: Duration, count_max: u32) {
        self.keepalive = Some(Keepalive::new(interval, count_max, Instant::now()));
    }

    /// Operations of the control, for use while the loop is not running: open channels, add sources and so
    /// on.
    pub fn control(&mut self) -> ControlCx<'_> {
        self.core.now = Instant::now();
        ControlCx::new(&mut self.core)
    }

    /// The link under this driver.
    pub const fn link(&mut self) -> &mut Link {
        &mut self.core.link
    }

    /// Runs until a handler, a source or the control stops the loop, and returns the code of that stop. It
    /// can be run again afterwards.
    ///
    /// Handlers may still hold output when this returns, and when it fails: wait for
    /// [`ControlEvent::ChannelGone`](crate::ControlEvent::ChannelGone) before stopping, or call
    /// [`drain`](Self::drain) afterwards.
    ///
    /// # Errors
    /// The connection is over.
    pub fn run(&mut self, control: &mut dyn Control) -> Result<i32, DriverError> {
        let result = loop {
            match self.run_once(control, None) {
                Ok(None) => {}
                Ok(Some(code)) => break Ok(code),
                Err(error) => break Err(error),
            }
        };
        // No thread is left, so the caller may fork.
        self.core.link.stop_workers();
        result
    }

    /// Sets how many threads run ciphers; the default is [`Workers::None`].
    pub const fn set_workers(&mut self, workers: Workers) {
        self.core.link.set_workers(workers);
    }

    /// Runs one turn: waits (for at most `timeout`) until there is work, and does it. Returns the code when a
    /// handler, a source or the control stopped the loop.
    ///
    /// # Errors
    /// The connection is over.
    pub fn run_once(
        &mut self,
        control: &mut dyn Control,
        timeout: Option<Duration>,
    ) -> Result<Option<i32>, DriverError> {
        let result = self.turn(control, timeout);
        match &result {
            Err(DriverError::Connection(error)) => {
                let text = error.to_string();
                self.core.link.transport().disconnect(error.disconnect_reason(), &text);
            }
            Err(DriverError::Resume(violation)) => {
                let text = violation.to_string();
                self.core.link.transport().disconnect(disconnect::PROTOCOL_ERROR, &text);
            }
            _ => {}
        }
        let flushed = match &result {
            Err(DriverError::Connection(_) | DriverError::Resume(_)) | Ok(()) => {
                self.core.link.flush(Instant::now()).map_err(DriverError::from)
            }
            Err(_) => Ok(()),
        };
        if let Err(error) = flushed.and(result) {
            self.record_break(error)?;
        }
        if let Some(cause) = self.core.take_final_break() {
            return Err(cause.into());
        }
        Ok(self.core.stop.take())
    }

    /// Keeps the session without a link, if it can wait for another one; otherwise returns the error.
    fn record_break(&mut self, error: DriverError) -> Result<(), DriverError> {
        let cause = match error {
            DriverError::Link(error) => Break::Link(error),
            DriverError::KeepaliveTimeout => Break::Silence,
            error => return Err(error),
        };
        Ok(self.core.record_break(cause)?)
    }

    /// Sends SSH_MSG_DISCONNECT (`SSH_DISCONNECT_BY_APPLICATION`) and writes queued output, for at most
    /// `bound`.
    pub fn disconnect(&mut self, text: &str, bound: Duration) {
        self.core.link.disconnect(disconnect::BY_APPLICATION, text, bound);
    }

    /// Begins to leave a peer that would keep the session for another link (`resume@longhaul`); continue with
    /// [`Link::go_on_leaving`]. Elsewhere it is like [`disconnect`](Self::disconnect), and returns `None`.
    /// `may_send`: the peer may be sending data, or may have lost the link ([`Link::begin_leaving`]).
    pub fn begin_leaving(&mut self, text: &str, may_send: bool, bound: Duration) -> Option<Leaving> {
        if self.is_kept() {
            return Some(self.core.link.begin_leaving(disconnect::BY_APPLICATION, text, may_send));
        }
        self.disconnect(text, bound);
        None
    }

    /// True if the peer would keep the session for another link.
    fn is_kept(&self) -> bool {
        self.core.resumption.as_ref().is_some_and(|state| state.session.is_some())
    }

    /// Writes queued output, for at most `bound`. True when all was written.
    pub fn finish(&mut self, bound: Duration) -> bool {
        self.core.link.finish(bound)
    }

    /// Delivers the end of the connection: every handler receives [`ChannelEvent::Closed`]. Handlers that
    /// still hold output (a slow pipe behind stdout) pass it on, for at most `bound` (`None`: no limit). So
    /// data that the peer sent before it left is not lost. Returns true when all handlers have finished.
    pub fn drain(&mut self, control: &mut dyn Control, bound: Option<Duration>) -> bool {
        let deadline = bound.map(|bound| Instant::now() + bound);
        let open: Vec<_> =
            self.core.slots.iter().filter(|(_, slot)| slot.open).map(|(_, slot)| slot.channel).collect();
        for channel in open {
            self.core.deliver(channel, ChannelEvent::Closed);
        }
        loop {
            self.core.drain_notifications(control);
            // The loop is over already, so a stop has no meaning; it must not skip the remaining handlers.
            self.core.stop = None;
            if self.core.slots.handlers() == 0 {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let mut ready = Vec::new();
            let mut interests = Interests::new();
            self.core.handlers_interests(&mut interests);
            if interests.wait(left, &mut ready).is_err() {
                return false;
            }
            self.core.serve(control, &ready, self.rotation);
        }
    }

    fn turn(&mut self, control: &mut dyn Control, timeout: Option<Duration>) -> Result<(), DriverError> {
        self.core.now = Instant::now();
        self.core.link.scale_workers(self.core.now, self.spin.spun());
        self.core.measure();
        self.core.link.take_back();
        // Packets that arrived together with the end of authentication, or that an answer outside the loop
        // released.
        self.dispatch(control)?;
        // Also after these events, which may come from workers: the wait that follows may be long.
        self.core.deliver_pending(control);
        self.core.link.flush(self.core.now)?;
        if self.core.stop.is_some() {
            return Ok(());
        }

        // Renewed before the wait, so that channels that only lacked a share do not sleep.
        self.core.slots.share_out();
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        self.wait(control, timeout, &mut ready)?;
        self.core.now = Instant::now();
        if ready.is_empty() {
            // No descriptor is ready: the time is free for a job.
            self.core.link.help();
        }
        if ready
            .iter()
            .any(|(owner, token, ready)| *owner == Owner::Link && *token != WORKER_POOL && ready.readable)
        {
            for _ in 0..Link::reads_per_turn() {
                let more = match self.core.link.read() {
                    Ok(more) => more,
                    Err(error) => {
                        // Packets before the error are not lost, though workers may still hold them.
                        self.core.link.stop_workers();
                        self.dispatch(control)?;
                        return Err(error.into());
                    }
                };
                self.dispatch(control)?;
                let link = &self.core.link;
                if !more || self.core.stop.is_some() || !link.has_room() || !link.reads_on() {
                    break;
                }
            }
            self.core.drain_notifications(control);
        }
        self.core.serve(control, &ready, self.rotation);
        self.ready = ready;
        self.core.produce(self.rotation);
        self.core.drain_notifications(control);
        self.time_out(control)?;
        self.core.acknowledge();
        // Also at the end, so that a caller of single turns sees a stop at once.
        self.core.deliver_pending(control);
        self.rotation = self.rotation.wrapping_add(1);
        Ok(())
    }

    fn wait(
        &mut self,
        control: &mut dyn Control,
        timeout: Option<Duration>,
        ready: &mut Vec<(Owner, usize, Ready)>,
    ) -> Result<(), DriverError> {
        let wait = if self.core.can_write_now() || self.core.link.has_work() {
            None
        } else {
            let moved =
                self.core.link.transport_ref().bytes_in() + self.core.link.transport_ref().bytes_out();
            Some(self.spin.begin(Instant::now(), moved))
        };
        let mut interests = Interests::new();
        interests.set_owner(Owner::Link);
        self.core.link.interests(self.core.link.reads_on(), &mut interests);
        interests.set_owner(Owner::Control);
        control.interests(&mut interests);
        self.core.owners_interests(&mut interests);
        let Some(wait) = wait else {
            return interests.ask(Some(Duration::ZERO), ready).map_err(DriverError::Poll);
        };
        // `ask` drops errors during the spin; the sleeping call below reports them again.
        let link = &self.core.link;
        let spun = wait.spin(|| {
            link.has_work() || interests.ask(Some(Duration::ZERO), ready).is_ok_and(|()| !ready.is_empty())
        });
        let result = if spun {
            Ok(())
        } else {
            let awake = !link.prepare_wait();
            let until = self.next_deadline(control);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = [left, timeout, awake.then_some(Duration::ZERO)].into_iter().flatten().min();
            let result = interests.ask(timeout, ready).map_err(DriverError::Poll);
            link.wake_up();
            result
        };
        drop(interests);
        self.spin.end(&wait, Instant::now());
        result
    }

    fn next_deadline(&self, control: &dyn Control) -> Option<Instant> {
        let keepalive = self.keepalive.as_ref().map(Keepalive::next_deadline);
        let keepalive = keepalive.filter(|_| !self.core.link.is_lost());
        let acknowledgement = self.core.resumption.as_ref().and_then(Resumption::deadline);
        [self.core.link.next_deadline(), self.core.owners_deadline(control), keepalive, acknowledgement]
            .into_iter()
            .flatten()
            .min()
    }

    fn time_out(&mut self, control: &mut dyn Control) -> Result<(), DriverError> {
        let now = self.core.now;
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if due(self.core.link.next_deadline()) {
            self.core.link.on_timeout(now)?;
        }
        self.core.time_out(control);
        self.keep_alive(now)
    }

    fn keep_alive(&mut self, now: Instant) -> Result<(), DriverError> {
        if self.core.link.is_lost() {
            // The next link starts with a new count.
            self.seen = u64::MAX;
            return Ok(());
        }
        let Some(keepalive) = &mut self.keepalive else { return Ok(()) };
        let received = self.core.link.transport_ref().packets_in();
        // Counts whole packets: bytes that never complete a packet do not prove a live peer. In a pause of a
        // rate limit, which follows data, silence is this end's own doing.
        if received != self.seen || keepalive.next_deadline() <= now && self.core.link.is_held_back() {
            self.seen = received;
            keepalive.on_traffic(now);
        }
        match keepalive.on_timeout(now) {
            KeepaliveAction::Wait => {}
            KeepaliveAction::Ask => {
                let (connection, sink) = self.core.speak();
                connection.global_request(KEEPALIVE_REQUEST, true, b"", sink);
            }
            KeepaliveAction::Dead => return Err(DriverError::KeepaliveTimeout),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputLimit;

    #[test]
    fn limited_input_gets_receive_space_by_its_rate() {
        let space =
            |rate| first_space(Some(InputLimit::new(rate, rate / 10, Instant::now()).bytes_in(LIMITED_TIME)));
        assert_eq!(first_space(None), FIRST_SPACE);
        assert_eq!(space(250_000), 62_500, "2 Mbit/s");
        assert_eq!(space(2_000_000), 500_000, "16 Mbit/s");
        // More than a path of 100 ms holds at this rate.
        assert_eq!(space(10_000_000), FIRST_SPACE, "80 Mbit/s");
        assert_eq!(space(u64::MAX), FIRST_SPACE);
    }
}
