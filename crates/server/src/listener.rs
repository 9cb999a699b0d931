//! The listening process: accepts, limits, and starts a session process for each connection.
//!
//! It reads no byte of SSH's clients; [`exporter`] answers HTTP requests for counters, and [`balancers`] reads the
//! headers of load balancers. What it learns about a login is whether it has succeeded, from the session process
//! itself.

mod admit;
mod adopted;
mod balancers;
mod bind;
mod exporter;
mod manager;
pub(crate) mod oom;
mod options;
pub(crate) mod priority;
mod reports;
mod restart;
mod room;
mod startup;
mod waiting;

use std::collections::HashMap;
use std::convert::identity;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lh_resume::Limits;
use lh_session_list::Id;
use lh_sys::service::Service;
use lh_sys::signals::Signals;
use lh_sys::spawn::NOT_EXECUTED;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process};
use zeroize::Zeroizing;

use crate::admission::Admission;
use crate::arrivals::{Arrivals, most_waiting};
use crate::counters::Counters;
use crate::hand_over::{AUTHENTICATED, CoreLimit, HandOver, LogTarget};
use crate::host_keys::HostKey;
use crate::log::{Log, debug, error, info};
use crate::penalties::{Consequence, Misdeed, Source, Table};
use crate::quotas::{Moved, Quotas};
use crate::resuming::Notice;
use crate::startups::MaxStartups;
use crate::tickets::Tickets;
use crate::user_connections::UserConnections;
use adopted::Adopted;
use balancers::{Arrived, Balancers};
use exporter::{Exporter, Present};
use manager::Manager;
use options::system;
pub use options::{ListenError, ListenerOptions};
use reports::{Reports, Word};
pub use restart::is_restarted;
use startup::Startup;
use waiting::{Owner, WaitingSessions};

/// The hidden first argument that makes the program a session process.
pub const SESSION_FLAG: &str = "--session-process";
/// In front of the client's address, an argument of session processes whose connection a load balancer has
/// made.
pub(crate) const CLIENT_FLAG: &str = "--client=";
/// In front of the priority that a session process has until the login, where that is lower.
pub(crate) const NICE_FLAG: &str = "--nice=";
/// Argument 0 of session processes, for `ps`.
pub const SESSION_NAME: &str = "lhsshd-session";

/// A session ends itself when LoginGraceTime is over. One that has not done so this much later is killed.
const GRACE_OF_GRACE: Duration = Duration::from_secs(20);

/// Why sessions of a user end whose quota is used up.
const USED_UP: &str = "its user has used up the transfer quota (PerUserTransferQuota)";

/// A session process that has not been waited for.
struct Running {
    address: IpAddr,
    source: Source,
    /// It began while a session waited for a client there: without a failed attempt to log in it is no offence.
    excused: bool,
    /// A user has logged in: what comes later is no offence.
    authenticated: bool,
    /// It was ended because it was late.
    overdue: bool,
    /// It is being ended because its user's quota is used up.
    over_quota: bool,
    /// It was ended to make room for another source's, which is no offence.
    replaced: bool,
    /// Where it reports what it counts, once a user has logged in.
    reports: Option<Reports>,
}

/// What a wait has found. Sessions by their processes: others may end before it is looked at.
struct News {
    /// Listening sockets with a connection, by index.
    accepting: Vec<usize>,
    /// Startups that can be told more of the hand-over.
    hungry: Vec<Pid>,
    /// Startups that have logged in or are gone.
    heard: Vec<Pid>,
    /// Sessions that report.
    reporting: Vec<Pid>,
    /// Sessions of earlier listeners that report.
    adopted: Vec<Id>,
}

struct Listener {
    penalties: Table,
    running: HashMap<Pid, Running>,
    sockets: Vec<OwnedFd>,
    hand_over: HandOver,
    bytes: Zeroizing<Vec<u8>>,
    log: Log,
    startups: Vec<Startup>,
    /// Those of them for which there is no ticket.
    admission: Admission<Pid>,
    throttling: bool,
    /// Accepted connections without a process.
    arrivals: Arrivals<Source, Arrived>,
    signals: Signals,
    /// Serves counters, where it is asked for.
    exporter: Option<Exporter>,
    tickets: Tickets,
    /// Connections that are logged in, where `PerUserMaxConnections` is set.
    users: UserConnections<Owner>,
    /// What accounts have moved, where `PerUserTransferQuota` is set.
    quotas: Quotas,
    /// Sessions that have lost their connections.
    waiting: WaitingSessions,
    /// Sessions of earlier listeners.
    adopted: Adopted,
    manager: Manager,
    balancers: Balancers,
    /// Path of this program.
    program: Option<PathBuf>,
}

/// Listens until SIGTERM; returns the process's exit status. `service` is the manager that has started the process.
pub fn serve(
    mut hand_over: HandOver,
    options: &ListenerOptions,
    service: Service,
) -> Result<i32, ListenError> {
    let log = hand_over.log();
    // Files made here (pid file) and everything a session starts from: only their owner may write them.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut manager = Manager::new(service, log.clone());
    let sockets = match manager.sockets()? {
        Some(sockets) => sockets,
        None => bind::all(&hand_over.config, manager.kept(), &log)?,
    };
    if !options.foreground && !is_restarted() {
        lh_sys::background::continue_in_background().map_err(system("cannot go to the background"))?;
        // The terminal we were started from is none of our business any more.
        let _ = rustix::process::chdir("/");
        detach_stdio(hand_over.log_target).map_err(system("cannot detach"))?;
    }
    // Before any thread: the mask is inherited.
    let signals = Signals::collect(&[Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::CHILD])
        .map_err(system("cannot collect signals"))?;
    let pid_file = write_pid_file(&hand_over, options, &log);
    // Not with -d, which is for experiments.
    if !options.once {
        hand_over.oom_score = oom::spare_this_process();
    }
    match lh_sys::dumps::forbid() {
        Ok(limit) => hand_over.core_limit = Some(CoreLimit(limit)),
        Err(problem) => error!(log, "cannot forbid core dumps: {problem}"),
    }
    let exporter = if options.once { None } else { Exporter::start(&hand_over, &log) };
    let bytes = hand_over.to_bytes();
    if let Err(problem) = lh_sys::dumps::exclude_written_memory() {
        debug!(log, "host keys cannot be excluded from core dumps: {problem}");
    }
    let rules = hand_over.config.per_source_penalties.value.clone();
    let exempt = hand_over.config.per_source_penalty_exempt_list.as_deref().map(str::to_owned);
    let limit = hand_over.config.max_startups.value;
    let limit = MaxStartups { start: limit.begin as usize, rate: limit.rate, full: limit.full as usize };
    let admission = Admission::new(limit, hand_over.config.fair_startups.value);
    let waiting = hand_over.config.resume_max_sessions.value;
    let waiting = Limits { per_user: waiting.per_user as usize, total: waiting.total as usize };
    let most_kept = hand_over.config.resume_max_memory.value.bytes();
    let block = hand_over.config.per_source_net_block_size.value;
    let balancers = Balancers::new(hand_over.config.proxy_protocol_from.0.as_deref(), log.clone());
    let mark = hand_over.host_keys.first().map(HostKey::mark).unwrap_or_default();
    let adopted = Adopted::new(&mark, Instant::now());
    let mut listener = Listener {
        penalties: Table::new(rules, exempt),
        running: HashMap::new(),
        sockets,
        hand_over,
        bytes,
        log,
        startups: Vec::new(),
        balancers,
        admission,
        arrivals: Arrivals::new(most_waiting()),
        throttling: false,
        signals,
        exporter,
        tickets: Tickets::default(),
        users: UserConnections::default(),
        quotas: Quotas::default(),
        waiting: WaitingSessions::new(waiting, most_kept, block),
        adopted,
        manager,
        program: options.restart.as_ref().map(|(program, _)| program.clone()),
    };
    listener.manager.ready(&listener.sockets);
    let end = listener.run(options);
    if let Some(path) = pid_file {
        let _ = std::fs::remove_file(path);
    }
    match end? {
        End::Status(status) => Ok(status),
        End::Restart => {
            listener.exporter = None;
            // The program starts with what it was started with at first, and sets both again.
            if let Some(score) = listener.hand_over.oom_score {
                oom::restore(score);
            }
            if let Some(limit) = listener.hand_over.core_limit {
                lh_sys::dumps::restore_core_limit(limit.0);
            }
            let variables = listener.manager.variables(&listener.sockets);
            let problem = variables.map_or_else(identity, |variables| restart::restart(options, variables));
            error!(listener.log, "RESTART FAILED: {problem}");
            Ok(1)
        }
    }
}

fn detach_stdio(log_target: LogTarget) -> io::Result<()> {
    match log_target {
        LogTarget::Syslog => lh_sys::fd::null_stdio(),
        LogTarget::Stderr | LogTarget::Journal => lh_sys::fd::take_stdin_stdout().map(drop),
    }
}

/// Writes the pid file; not with `-d`, where a real server may be running.
fn write_pid_file(hand_over: &HandOver, options: &ListenerOptions, log: &Log) -> Option<PathBuf> {
    let path = PathBuf::from(hand_over.config.pid_file.as_deref()?);
    if options.once {
        return None;
    }
    match std::fs::write(&path, format!("{}\n", std::process::id())) {
        Ok(()) => Some(path),
        Err(problem) => {
            // An ordinary user's server cannot write to /run, and does not need to.
            if lh_sys::ids::is_root() {
                error!(log, "Couldn't create pid file \"{}\": {problem}", path.display());
            }
            None
        }
    }
}

/// Reads what a session has said, and adds its counts to the exporter's, where there is one; false when no more will come.
fn read(reports: &mut Reports, exporter: Option<&mut Exporter>) -> (Vec<Word>, bool) {
    let (mut unused, mut words) = (Counters::default(), Vec::new());
    let sum = exporter.map_or(&mut unused, |exporter| &mut exporter.seen.sessions);
    let goes_on = reports.read(sum, &mut words);
    (words, goes_on)
}

/// First byte of the session process: [`AUTHENTICATED`], or the kind of a report; `None` when it has closed
/// its end.
fn first_word(control: &OwnedFd) -> Option<u8> {
    let mut byte = [0; 1];
    let got = rustix::net::recv(control, &mut byte, rustix::net::RecvFlags::DONTWAIT);
    matches!(got, Ok((1, _))).then_some(byte[0])
}

/// Seconds with one decimal where there is one.
fn in_tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

enum End {
    Status(i32),
    Restart,
}

impl Listener {
    fn run(&mut self, options: &ListenerOptions) -> Result<End, ListenError> {
        loop {
            let News { accepting, hungry, heard, reporting, adopted } = self.wait()?;
            while let Some(signal) = self.signals.take().map_err(system("signals"))? {
                match signal {
                    Signal::CHILD => self.reap(),
                    Signal::HUP => {
                        self.manager.reloading();
                        if let Some(problem) = restart::problem(options) {
                            // A server that ends over a typing error locks its administrator out.
                            error!(
                                self.log,
                                "Received SIGHUP; going on with the old configuration: {problem}"
                            );
                            self.manager.kept_old(&problem);
                            continue;
                        }
                        info!(self.log, "Received SIGHUP; restarting.");
                        self.start_all();
                        return Ok(End::Restart);
                    }
                    signal => {
                        info!(self.log, "Received signal {}; terminating.", signal.as_raw());
                        self.manager.stopping();
                        return Ok(End::Status(if signal == Signal::TERM { 0 } else { 255 }));
                    }
                }
            }
            // In this order: a ticket is reported before a client shows it.
            self.read_reports(&reporting);
            self.hear_adopted(&adopted);
            self.hear(&heard);
            for startup in self.startups.iter_mut().filter(|startup| hungry.contains(&startup.pid)) {
                startup.push(&self.bytes);
            }
            self.kill_overdue();
            self.manager.feed_watchdog(Instant::now());
            let present = Present {
                sessions: self.running.len() + self.adopted.len(),
                unauthenticated: self.startups.len(),
            };
            if let Some(exporter) = &mut self.exporter {
                exporter.serve(present, Instant::now());
            }
            if options.once {
                if let Some((socket, peer)) = accepting.first().and_then(|index| self.accept(*index)) {
                    let one = match self.balancers.include(peer.ip()) {
                        true => self.balancers.wait(socket, peer),
                        false => Some(Arrived { socket, peer, client: None }),
                    };
                    return one.map_or(Ok(End::Status(255)), |arrived| self.serve_one(arrived));
                }
                continue;
            }
            self.accept_from(accepting);
            self.start_some();
            self.adopted.scan(Instant::now(), &self.log);
        }
    }

    /// Waits for something to do.
    fn wait(&self) -> Result<News, ListenError> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        let starting: Vec<_> = self.startups.iter().map(|startup| (startup.pid, &startup.control)).collect();
        let interests = self.startups.iter().map(|startup| startup.interest(&self.bytes));
        fds.extend(starting.iter().zip(interests).map(|((_, control), what)| PollFd::new(*control, what)));
        let reporting: Vec<_> = self
            .running
            .iter()
            .filter_map(|(pid, running)| Some((*pid, running.reports.as_ref()?.control())))
            .collect();
        fds.extend(reporting.iter().map(|(_, control)| PollFd::new(*control, PollFlags::IN)));
        let adopted: Vec<_> = self.adopted.sockets().collect();
        fds.extend(adopted.iter().map(|(_, socket)| PollFd::from_borrowed_fd(*socket, PollFlags::IN)));
        if let Some(exporter) = &self.exporter {
            exporter.interests(&mut fds);
        }
        self.balancers.interests(&mut fds);
        let now = Instant::now();
        let overdue = self.startups.iter().filter_map(|startup| startup.deadline);
        let exporter = self.exporter.as_ref().and_then(Exporter::deadline);
        let others = [exporter, self.manager.deadline(), self.balancers.deadline(), self.adopted.deadline()];
        let waiting = self.next_start(now);
        let deadline = overdue.chain(others.into_iter().flatten()).chain(waiting).min();
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(now);
            let left = if left.is_zero() { left } else { left + Duration::from_millis(1) };
            let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
            Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(system("poll")(error.into())),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let writable = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::OUT);
        let sockets = self.sockets.len();
        // Room to write alone is no word.
        let ready = |fd: &PollFd<'_>| ready(fd) && fd.revents() != PollFlags::OUT;
        let indices = |from: usize, count: usize| {
            (0..count).filter(|index| fds.get(from + index).is_some_and(ready)).collect::<Vec<_>>()
        };
        let hungry = (0..starting.len())
            .filter(|index| fds.get(1 + sockets + index).is_some_and(writable))
            .filter_map(|index| starting.get(index).map(|(pid, _)| *pid))
            .collect();
        let of = |all: &[(Pid, &OwnedFd)], which: Vec<usize>| {
            which.into_iter().filter_map(|at| all.get(at).map(|(pid, _)| *pid)).collect::<Vec<_>>()
        };
        let first_adopted = 1 + sockets + starting.len() + reporting.len();
        let of_adopted = indices(first_adopted, adopted.len()).into_iter();
        Ok(News {
            adopted: of_adopted.filter_map(|at| adopted.get(at).map(|(id, _)| *id)).collect(),
            accepting: indices(1, sockets),
            hungry,
            heard: of(&starting, indices(1 + sockets, starting.len())),
            reporting: of(&reporting, indices(1 + sockets + starting.len(), reporting.len())),
        })
    }

    /// News of startups: logged in, or gone. Either way they no longer count.
    fn hear(&mut self, heard: &[Pid]) {
        for pid in heard {
            let Some(at) = self.startups.iter().position(|startup| startup.pid == *pid) else { continue };
            if self.startups.get_mut(at).is_some_and(Startup::take_started) {
                continue;
            }
            let is_answered = |startup: &Startup| {
                startup.answer_joiner(&mut self.tickets, Instant::now())
                    || startup.answer_user(&mut self.users)
                    || startup.answer_quota(&mut self.quotas, Instant::now())
            };
            if self.startups.get(at).is_some_and(is_answered) {
                continue;
            }
            let startup = self.startups.swap_remove(at);
            self.admission.end(*pid);
            if let Some(mut running) = self.running.remove(pid) {
                self.take_word(startup, &mut running);
                self.running.insert(*pid, running);
            }
        }
        if self.throttling
            && self.admission.waiting() < self.hand_over.config.max_startups.value.begin as usize
        {
            self.throttling = false;
            info!(self.log, "exited MaxStartups throttling");
        }
    }

    /// Takes what a startup says first.
    fn take_word(&mut self, mut startup: Startup, running: &mut Running) {
        // A session may have ended before its first word was read.
        startup.take_started();
        let first = first_word(&startup.control);
        running.authenticated = first.is_some_and(|byte| [byte] == AUTHENTICATED);
        if running.authenticated {
            self.admission.logged_in(self.block_of(running.address), Instant::now());
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.seen.logged_in += u64::from(running.authenticated);
        }
        if running.authenticated || self.exporter.is_some() {
            running.reports = Some(Reports::new(startup.control, first));
        }
    }

    /// Takes what sessions have counted.
    fn read_reports(&mut self, reporting: &[Pid]) {
        for pid in reporting {
            let Some(running) = self.running.get_mut(pid) else { continue };
            let Some(reports) = &mut running.reports else { continue };
            let (words, goes_on) = read(reports, self.exporter.as_mut());
            if !goes_on {
                running.reports = None;
            }
            let address = running.address;
            for word in words {
                match word {
                    Word::Ticket((id, record)) => {
                        self.tickets.keep(*pid, address, id, record, Instant::now());
                    }
                    // Said at the login, to the listener that adopts the session.
                    Word::User(_) => {}
                    Word::Notice(notice) => self.on_notice(Owner::Process(*pid), notice),
                    Word::Moved(moved) => self.on_moved(Owner::Process(*pid), moved),
                }
            }
        }
    }

    /// Takes what sessions of earlier listeners say.
    fn hear_adopted(&mut self, ready: &[Id]) {
        for (id, words, has_ended) in self.adopted.read(ready) {
            let owner = Owner::Adopted(id);
            for word in words {
                match word {
                    Word::Ticket(_) => {}
                    Word::User(connection) => {
                        self.users.admit(owner, connection);
                    }
                    Word::Notice(notice) => self.on_notice(owner, notice),
                    Word::Moved(moved) if has_ended => {
                        self.quotas.add(moved, Instant::now());
                    }
                    Word::Moved(moved) => self.on_moved(owner, moved),
                }
            }
            if has_ended {
                self.waiting.gone(owner);
                self.users.end(&owner);
            }
        }
    }

    /// Takes what a session says about waiting for its client.
    fn on_notice(&mut self, owner: Owner, notice: Notice) {
        let why = WaitingSessions::reason(&notice);
        let owners = self.waiting.hear(owner, notice, Instant::now());
        self.end_sessions(owners, why);
    }

    /// Counts what a session has moved, and ends it, once, where its user has used up the quota.
    fn on_moved(&mut self, owner: Owner, moved: Moved) {
        if self.quotas.add(moved, Instant::now()) {
            return;
        }
        if let Owner::Process(pid) = owner
            && let Some(running) = self.running.get_mut(&pid)
            && std::mem::replace(&mut running.over_quota, true)
        {
            return;
        }
        self.end_sessions(vec![owner], USED_UP);
    }

    /// Ends sessions beyond the limits.
    fn end_sessions(&self, owners: Vec<Owner>, why: &str) {
        for owner in owners {
            match owner {
                Owner::Process(pid) => {
                    let number = pid.as_raw_nonzero();
                    info!(self.log, "session of process {number} ends: {why}");
                    let _ = kill_process(pid, Signal::TERM);
                }
                Owner::Adopted(id) => {
                    info!(self.log, "session {id} ends: {why}");
                    self.adopted.end(id);
                }
            }
        }
    }

    fn kill_overdue(&mut self) {
        let now = Instant::now();
        for startup in &mut self.startups {
            if startup.deadline.is_some_and(|deadline| deadline <= now) {
                startup.deadline = None;
                let (ip, port) = (startup.peer.ip(), startup.peer.port());
                info!(self.log, "Timeout before authentication for {ip} port {port}: session process killed");
                if let Some(running) = self.running.get_mut(&startup.pid) {
                    running.overdue = true;
                }
                let _ = kill_process(startup.pid, Signal::KILL);
            }
        }
    }

    /// Takes what a session has counted that has ended.
    fn read_last(&mut self, running: &mut Running) {
        let Some(reports) = &mut running.reports else { return };
        for word in read(reports, self.exporter.as_mut()).0 {
            if let Word::Moved(moved) = word {
                self.quotas.add(moved, Instant::now());
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            debug!(self.log, "session process {} ended: {status:?}", pid.as_raw_nonzero());
            let Some(mut running) = self.running.remove(&pid) else { continue };
            if let Some(at) = self.startups.iter().position(|startup| startup.pid == pid) {
                let startup = self.startups.swap_remove(at);
                self.admission.end(pid);
                self.take_word(startup, &mut running);
            }
            self.read_last(&mut running);
            self.tickets.void(pid);
            self.waiting.gone(Owner::Process(pid));
            self.users.end(&Owner::Process(pid));
            if status.exit_status() == Some(NOT_EXECUTED) {
                error!(self.log, "cannot start a session process: the program cannot be executed");
                self.saw(|seen| seen.errors += 1);
                continue;
            }
            let misdeed = match (status.exit_status(), status.terminating_signal()) {
                _ if running.overdue => Some(Misdeed::GraceExceeded),
                _ if running.replaced => None,
                (Some(status), _) => Misdeed::of_status(status),
                // Ended from outside.
                (_, Some(signal)) if [15, 9, 2, 1].contains(&signal) => None,
                _ => Some(Misdeed::Crash),
            };
            self.saw(|seen| seen.ended(misdeed.as_ref(), running.authenticated));
            if let Some(misdeed) = misdeed.filter(|_| !running.authenticated) {
                let lost = status.exit_status().is_some_and(Misdeed::may_be_a_lost_path);
                // The session may have begun to wait after this connection did.
                if lost && (running.excused || self.waiting.excuse(running.source, Instant::now())) {
                    debug!(self.log, "{}: no penalty: a session waits for its client", running.address);
                } else {
                    self.punish(&running, misdeed);
                }
            }
        }
    }

    fn punish(&mut self, running: &Running, misdeed: Misdeed) {
        let address = running.address;
        match self.penalties.punish(address, running.source, misdeed, Instant::now()) {
            Consequence::None => {}
            Consequence::Activated(time, reason) => {
                let seconds = in_tenths(time);
                info!(self.log, "{address}: activating penalty of {seconds} seconds for {reason}");
            }
        }
    }

    /// Counts an event, where `PrometheusListen` is set.
    fn saw(&mut self, what: impl FnOnce(&mut exporter::Seen)) {
        if let Some(exporter) = &mut self.exporter {
            what(&mut exporter.seen);
        }
    }

    /// `-d`: one connection, and then the end with its status.
    fn serve_one(&mut self, arrived: Arrived) -> Result<End, ListenError> {
        let Arrived { socket, peer, client } = arrived;
        self.sockets.clear();
        debug!(self.log, "Server will not fork when running in debugging mode.");
        debug!(self.log, "Connection from {} port {}", peer.ip(), peer.port());
        let (control, pid) =
            self.start_session(socket, client, None).map_err(system("cannot start a session process"))?;
        // There is no other session to wait for.
        let mut control = std::fs::File::from(control);
        HandOver::send(&self.bytes, &mut control).map_err(system("cannot start a session process"))?;
        let status = rustix::process::waitpid(Some(pid), WaitOptions::empty())
            .map_err(|error| system("waitpid")(error.into()))?;
        drop(control);
        Ok(End::Status(status.and_then(|(_, status)| status.exit_status()).unwrap_or(255)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_told_in_tenths_of_seconds() {
        let told = |nanos: u64| in_tenths(Duration::from_nanos(nanos)).to_string();
        assert_eq!(told(60_000_000_000), "60");
        assert_eq!(told(14_999_999_123), "15");
        assert_eq!(told(16_523_001_456), "16.5");
    }
}
