//! `Resume`: replaces a broken connection by a new one, on which the session continues (`resume@longhaul`,
//! docs/protocol.md).
//!
//! [`Resumed`] wraps the program's own control, as metrics do. Connecting blocks, so each attempt has a
//! thread of its own, which returns a link that the server has accepted for the session. When the kernel
//! reports a change of the network, the path is checked at once.

mod agreed;
pub(crate) mod attempt;
mod control;
mod joined;
mod leave;
mod limit;
mod path;
mod patience;
mod quiet;
mod second;
mod status;

use std::time::{Duration, Instant};

use lh_config::special::Resume;
use lh_driver::{ControlCx, Link};
use lh_resume::message::Session;
use lh_resume::{Action, ClientSecret, Failure, NAME, Reconnect};
use lh_sys::signals;

use crate::carrier::Carrier;
use crate::commands::Commands;
use crate::farewell::{END_SIGNALS, Running};
use crate::log::{LogTarget, Logger};
use crate::login::Needed;
use crate::options::{Options, Purpose};
use crate::pending::Pending;
use crate::service_quality::mark_packets;
use crate::ui::LogLevel;
use agreed::ResumableSession;
use attempt::Connect;
use attempt::{Attempt, AttemptReport, ProofError, failure_to_go_on, host_key, refusal};
pub(crate) use control::Resumed;
pub(crate) use joined::{Joined, JoinedWatch};
use limit::Limit;
pub use limit::{AttemptFailure, ResumeLimit};
use path::{PathState, PathWatch};
use second::{SecondLink, Step};
use status::Status;

/// The resumption state of one session.
pub(crate) struct Resuming {
    options: Options,
    connect: Connect,
    logger: Logger,
    status: Status,
    /// The agreed terms, once the server has consented.
    agreed: Option<ResumableSession>,
    /// What carries the present link; `None` where that is broken. Dropped before the link, as OpenSSH does
    /// it: a command that still writes gets its signal before its pipes close, and does not complain.
    carrier: Option<Carrier>,
    /// Whether the logins at jump hosts have needed the user.
    at_hops: Needed,
    /// The commands of all attempts.
    commands: Commands,
    limit: Limit,
    /// The loop's registration for the case that a signal ends the process.
    running: Option<Running>,
    /// Such a signal has come.
    is_leaving: bool,
}

/// True if a signal has come that ends the program.
fn end_signal_has_come() -> bool {
    signals::has_come() || signals::is_ending() || signals::are_pending(&END_SIGNALS)
}

impl Resuming {
    /// Returns the resumption state for a link that keeps its messages; `None` for others.
    /// Takes `carrier`, what carries the link, then.
    pub(crate) fn new(pending: &Pending, link: &Link, carrier: &mut Option<Carrier>) -> Option<Self> {
        let Pending { options, needed: at_hops, connect_again: connect, .. } = pending;
        link.message_counts()?;
        let logger = Logger::new(options.log_level, LogTarget::Stderr);
        let commands = Commands::attached();
        Some(Self {
            status: Status::new(
                (options.purpose == Purpose::Terminal).then_some("~."),
                options.log_level,
                options.resumptions.clone(),
            ),
            options: Options { commands: Some(commands.clone()), ..options.clone() },
            connect: *connect,
            logger,
            agreed: None,
            carrier: carrier.take(),
            at_hops: *at_hops,
            commands,
            limit: Limit::default(),
            running: None,
            is_leaving: false,
        })
    }

    pub(crate) fn log_to(&mut self, logger: Logger) {
        self.logger = logger;
    }

    /// Limits for how long the session is kept without a link.
    pub(crate) fn limit_by(&mut self, limit: Box<dyn ResumeLimit>) {
        self.limit = Limit::new(limit);
    }

    /// Sets the keys that the line on the terminal names; `None`: there is no line.
    pub(crate) fn show_breaks(&mut self, keys: Option<&'static str>) {
        self.status.set_keys(keys);
    }

    /// Returns whether the present link has been silent for longer than the server should need to answer.
    pub(crate) fn has_been_silent(&self) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| agreed.has_been_silent)
    }

    /// Records that the loop begins to run.
    pub(crate) fn begin(&mut self) {
        self.running = Running::begin();
    }

    /// Records that the loop has ended. Returns the registration when a signal ends the process: drop it when
    /// the server has been told.
    pub(crate) fn end(&mut self) -> Option<Running> {
        self.status.end();
        self.running.take().filter(|_| self.is_leaving)
    }

    /// Ends the commands of attempts, and starts no others.
    pub(crate) fn hang_up_attempts(&self) {
        self.commands.hang_up();
    }

    /// Performs all due actions.
    fn turn(&mut self, cx: &mut ControlCx<'_>) {
        if self.agreed.is_none() {
            self.agreed = cx.resumable_session().cloned().and_then(|session| self.agree(&session, cx));
        }
        let Some(agreed) = &mut self.agreed else { return };
        let now = Instant::now();
        let user = self.options.config.user();
        if !cx.is_away() {
            match agreed.path.check(cx, now) {
                PathState::Good => {
                    agreed.trust_link(&mut self.status, now);
                    return self.compare(cx, now);
                }
                PathState::Silent if !agreed.suspects => {
                    if let Some(second) = agreed.second.take()
                        && cx.lose_link()
                    {
                        self.logger
                            .say(LogLevel::Verbose, "the server does not answer; changing connections");
                        self.carrier = None;
                        return agreed.take_over(second, user, cx, now);
                    }
                    agreed.on_silent(now);
                    self.logger.say(LogLevel::Verbose, "the server does not answer; connecting again");
                }
                PathState::Silent => {}
                PathState::Dead => {
                    if !cx.lose_link() {
                        return agreed.path.forget();
                    }
                    self.logger.debug(|| "resume: the link's address is gone".to_owned());
                }
            }
        }
        if cx.is_away() && agreed.away.is_none() {
            // A proxy command has lost its connection too.
            self.carrier = None;
            self.logger.say(LogLevel::Verbose, "connection lost; reconnecting");
            if let Some(second) = agreed.second.take() {
                agreed.take_over(second, user, cx, now);
            } else {
                agreed.reconnect.set_round_trip(agreed.path.round_trip());
                agreed.reconnect.on_broken(now);
                agreed.on_lost(now);
            }
        }
        if agreed.away.is_some() && self.limit.is_over(now) {
            agreed.attempts.clear();
            self.status.clear();
            cx.give_up();
            return;
        }
        let (lost, kept) =
            std::mem::take(&mut agreed.attempts).into_iter().partition(Attempt::is_lost_by_fork);
        agreed.attempts = kept;
        for attempt in lost {
            agreed.reconnect.on_failed(attempt.id(), Failure::Path, now);
        }
        for attempt in &agreed.attempts {
            if let Some(at) = attempt.take_progress() {
                agreed.reconnect.on_progress(attempt.id(), at);
            }
        }
        while let Some(action) = agreed.reconnect.poll(now) {
            match action {
                // ^C at a terminal has ended a command together with this program, which handles it at once.
                Action::Connect(id) if agreed.is_lost_at(now) && end_signal_has_come() => {
                    agreed.reconnect.on_failed(id, Failure::Path, now);
                }
                Action::Connect(id) => {
                    let short_segments = agreed.reconnect.has_short_segments(id);
                    if short_segments {
                        self.logger.debug(|| "resume: trying shorter segments".to_owned());
                    }
                    let options = Options { short_segments, ..self.options.clone() };
                    match Attempt::start(id, &options, &agreed.host_key, self.connect, None) {
                        Ok(attempt) => {
                            if attempt.is_indirect() {
                                agreed.reconnect.on_progress(id, now);
                            }
                            agreed.attempts.push(attempt);
                        }
                        Err(error) => {
                            self.logger.say(LogLevel::Debug1, &format!("resume: {error}"));
                            agreed.reconnect.on_failed(id, Failure::Path, now);
                        }
                    }
                }
                Action::Abandon(id) => {
                    agreed.attempts.retain(|attempt| attempt.id() != id);
                    agreed.reconnect.on_failed(id, Failure::Path, now);
                }
                Action::GiveUp if !cx.is_away() => {
                    // There is no better link than the silent one.
                    agreed.path.forget();
                    return agreed.trust_link(&mut self.status, now);
                }
                Action::GiveUp => {
                    agreed.attempts.clear();
                    self.status.clear();
                    if agreed.is_elsewhere {
                        let text = "The session cannot go on: another host answers in place of its server.";
                        self.logger.say(self.limit.level_of_end(), text);
                    }
                    cx.give_up();
                    return;
                }
            }
        }
        if let Some(left) = agreed.reconnect.remaining(now)
            && agreed.notice().is_some_and(|told| told <= now)
        {
            self.status.show(left, agreed.is_elsewhere);
        }
    }

    /// Compares a stalled link with a second one, and replaces it if the second one is faster.
    fn compare(&mut self, cx: &mut ControlCx<'_>, now: Instant) {
        let Some(agreed) = &mut self.agreed else { return };
        match agreed.second.turn(cx, now) {
            None => {}
            Some(Step::Open(probe)) => {
                self.logger.say(LogLevel::Verbose, "the connection is stalled; making another one beside it");
                let (id, shared) = (agreed.reconnect.number(), Some(probe.clone()));
                let attempt = Attempt::start(id, &self.options, &agreed.host_key, self.connect, shared);
                agreed.second.begin(attempt, probe, now);
            }
            Some(Step::Closed) => self.logger.debug(|| "resume: the link is kept".to_owned()),
            Some(Step::Replace(attempt, session_id)) if cx.lose_link() => {
                self.logger.say(LogLevel::Verbose, "the other connection is faster; changing to it");
                self.carrier = None;
                agreed.take_over((attempt, session_id), self.options.config.user(), cx, now);
            }
            // The link cannot be given up now, for instance during a key exchange.
            Some(Step::Replace(..)) => {}
        }
    }

    fn agree(&self, session: &Session, cx: &ControlCx<'_>) -> Option<ResumableSession> {
        let export = cx.export(NAME, &session.handle.0)?;
        let host_key = host_key(cx.host_key())?;
        let grace = Duration::from_secs(session.grace.into());
        let limit = match *self.options.config.resume {
            Resume::Seconds(seconds) => grace.min(Duration::from_secs(seconds)),
            Resume::Yes | Resume::No => grace,
        };
        let seconds = limit.as_secs();
        self.logger.debug(|| format!("resume: the session survives a broken connection for {seconds} s"));
        Some(ResumableSession {
            secret: ClientSecret::new(session.handle, &export),
            host_key,
            reconnect: Reconnect::new(limit),
            attempts: Vec::new(),
            is_elsewhere: false,
            path: PathWatch::begin(cx),
            away: None,
            silent: None,
            has_been_silent: false,
            suspects: false,
            second: SecondLink::default(),
        })
    }

    /// Handles the report of an attempt.
    fn on_report(&mut self, index: usize, cx: &mut ControlCx<'_>) {
        let Some(agreed) = &mut self.agreed else { return };
        let Some(attempt) = agreed.attempts.get_mut(index) else { return };
        let (id, now) = (attempt.id(), Instant::now());
        match attempt.next_report() {
            None => {}
            Some(AttemptReport::Reached { session_id }) => {
                // The silent link may have answered meanwhile.
                if !cx.is_away() && (agreed.path.check(cx, now) == PathState::Good || !cx.lose_link()) {
                    agreed.path.forget();
                    return agreed.trust_link(&mut self.status, now);
                }
                agreed.reconnect.on_progress(id, now);
                agreed.claim(index, session_id, self.options.config.user(), cx);
                // Only the last claim counts, so an earlier attempt that has claimed the session without an
                // answer is abandoned.
                agreed.attempts.retain(|other| {
                    let given_up = other.id() != id && other.made_claim().is_some();
                    if given_up {
                        agreed.reconnect.on_replaced(other.id(), now);
                    }
                    !given_up
                });
            }
            Some(AttemptReport::Accepted { mut link, carrier, answer }) => {
                let verified = attempt
                    .made_claim()
                    .ok_or(ProofError::NoClaim)
                    .and_then(|claim| claim.verify(&mut agreed.secret, &link, &answer));
                agreed.attempts.retain(|other| other.id() != id);
                let refusal = refusal(&link, &agreed.host_key);
                let new_key = host_key(link.host_key());
                let resumed = verified.map_err(|error| (refusal, error.to_string())).and_then(|received| {
                    link.set_authenticated();
                    mark_packets(&self.options, &link);
                    cx.resume(*link, received).map_err(|error| {
                        let failure = failure_to_go_on(&error);
                        if failure == Failure::Refused {
                            self.status.clear();
                            let text = format!("The session cannot go on over another connection: {error}");
                            self.logger.say(LogLevel::Error, &text);
                        }
                        (failure, error.to_string())
                    })
                });
                if let Err((failure, why)) = resumed {
                    self.logger.say(LogLevel::Debug1, &format!("resume: {why}"));
                    self.limit.on_failed(AttemptFailure::Ended, failure, now);
                    return agreed.fail(id, failure, now);
                }
                // The host has proved the session's secret, so this key is also the server's.
                agreed.host_key = new_key.unwrap_or_else(|| agreed.host_key.clone());
                (agreed.away, agreed.silent) = (None, None);
                (agreed.suspects, agreed.is_elsewhere, agreed.has_been_silent) = (false, false, false);
                agreed.attempts.clear();
                agreed.reconnect.on_resumed(now);
                agreed.path.on_new_link(cx, now);
                agreed.second.on_new_link();
                self.limit.on_resumed(now);
                self.options.resumptions.count();
                self.carrier = carrier;
                self.status.clear();
                self.logger.say(LogLevel::Verbose, "connection resumed");
            }
            Some(AttemptReport::Failed(error)) => {
                agreed.attempts.retain(|other| other.id() != id);
                self.logger.say(LogLevel::Debug1, &format!("resume: {error}"));
                let failure = error.failure(self.limit.can_log_in());
                self.limit.on_failed(error.for_limit(), failure, now);
                if failure == Failure::Refused {
                    self.status.clear();
                    let text = "The server does not go on with the session: it has ended, or its user may no \
                                longer log in.";
                    self.logger.say(self.limit.level_of_end(), text);
                }
                agreed.fail(id, failure, now);
            }
        }
    }

    /// Handles the report of the second link's attempt.
    fn on_second_report(&mut self) {
        if let Some(error) = self.agreed.as_mut().and_then(|agreed| agreed.second.on_report(Instant::now())) {
            self.logger.say(LogLevel::Debug1, &format!("resume: {error}"));
        }
    }

    /// Handles a change of the network, or the end of a machine's sleep.
    fn look_at_network(&mut self, cx: &mut ControlCx<'_>) {
        let Some(agreed) = &mut self.agreed else { return };
        let now = Instant::now();
        if agreed.path.read(cx, now) && (cx.is_away() || agreed.suspects) {
            agreed.reconnect.on_network_changed(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let agreed = self.agreed.as_ref()?;
        let reconnect = agreed.reconnect.next_deadline();
        // A deadline in the past would wake the loop without end.
        let status = self.status.next_deadline().or(agreed.notice()).filter(|at| *at > Instant::now());
        if agreed.away.is_none() {
            let second = agreed.second.next_deadline();
            return [agreed.path.next_deadline(), reconnect, second, status].into_iter().flatten().min();
        }
        [reconnect, status, self.limit.next_deadline()].into_iter().flatten().min()
    }
}
