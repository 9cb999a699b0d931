//! The listening process: accepts, limits, and starts a session process for each connection.
//!
//! It reads none of the SSH clients' bytes. Only [`exporter`] answers HTTP requests for counters, and
//! [`balancers`] reads the headers of load balancers. Of a login the listener learns only whether it has
//! succeeded, from the session process itself.

mod admit;
mod adopted;
mod balancers;
mod bind;
mod connected;
mod ended;
mod exporter;
mod manager;
pub(crate) mod oom;
mod options;
mod poll;
pub(crate) mod priority;
mod reports;
mod reserve;
mod restart;
mod room;
mod session_messages;
mod startup;
mod users;
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
use rustix::process::{Pid, Signal, WaitOptions};
use zeroize::Zeroizing;

use crate::admission::Admission;
use crate::arrivals::{Arrivals, most_waiting};
use crate::hand_over::{CoreLimit, HandOver, LogTarget};
use crate::host_keys::HostKey;
use crate::log::{Log, debug, error, info};
use crate::penalties::{Source, Table};
use crate::startups::MaxStartups;
use adopted::Adopted;
use balancers::{Arrived, Balancers};
use connected::ConnectedSessions;
use exporter::{Exporter, SessionGauges};
use manager::Manager;
use options::system;
pub use options::{ListenError, ListenerOptions, Restart};
use reports::Reports;
pub use restart::is_restarted;
use startup::Startup;
use users::Users;
use waiting::{Owner, WaitingSessions};

/// The first argument, not documented for users, that makes the program a session process.
pub const SESSION_FLAG: &str = "--session-process";
/// Prefix of the client's address in the arguments of a session process whose connection came through a load
/// balancer.
pub(crate) const CLIENT_FLAG: &str = "--client=";
/// Prefix of the priority that a session process has until the login, where it is lowered.
pub(crate) const NICE_FLAG: &str = "--nice=";
/// Argument 0 of session processes, for `ps`.
pub const SESSION_NAME: &str = "lhsshd-session";

/// Time after the end of LoginGraceTime at which a session is killed that has not ended itself.
const GRACE_MARGIN: Duration = Duration::from_secs(20);

/// A session process that has not been waited for (`waitpid`).
struct Running {
    address: IpAddr,
    source: Source,
    /// The connection began while a session waited for its client at this source: without a failed login it
    /// is no offence.
    excused: bool,
    /// A user has logged in: later ends are no offence.
    authenticated: bool,
    /// The listener killed the session because LoginGraceTime was long over.
    overdue: bool,
    /// The session was ended to make room for another source's connection, which is no offence.
    replaced: bool,
    /// The socket on which the session reports its counters, once a user has logged in.
    reports: Option<Reports>,
}

/// The events that a wait has found. Sessions are named by their process ids, because others may end before
/// the events are handled.
struct WaitEvents {
    /// Listening sockets with a pending connection, by index.
    accepting: Vec<usize>,
    /// Startups whose socket has room for more of the hand-over.
    hand_over_ready: Vec<Pid>,
    /// Startups that have sent a message or have ended.
    startups_ready: Vec<Pid>,
    /// Sessions that have sent a report.
    reporting: Vec<Pid>,
    /// Sessions of earlier listeners that have sent a report.
    adopted: Vec<Id>,
}

/// What session processes are started with.
struct Launch {
    hand_over: HandOver,
    /// The encoded hand-over.
    bytes: Zeroizing<Vec<u8>>,
    /// Path of this program.
    program: Option<PathBuf>,
}

/// The sessions of this listener and of earlier ones.
struct Sessions {
    running: HashMap<Pid, Running>,
    /// Those that have lost their connections and wait for their clients.
    waiting: WaitingSessions,
    /// Those that have a connection and could outlive it.
    connected: ConnectedSessions,
    /// Those that earlier listeners have started.
    adopted: Adopted,
}

impl Sessions {
    /// Forgets a session that has ended, for resumption.
    fn end_resumable(&mut self, owner: Owner) {
        self.waiting.gone(owner);
        self.connected.end(owner);
    }
}

struct Listener {
    penalties: Table,
    sockets: Vec<OwnedFd>,
    launch: Launch,
    sessions: Sessions,
    users: Users,
    log: Log,
    startups: Vec<Startup>,
    /// The admission of new connections; it counts the startups without a ticket.
    admission: Admission<Pid>,
    throttling: bool,
    /// Accepted connections that have no session process yet.
    arrivals: Arrivals<Source, Arrived>,
    signals: Signals,
    /// Serves counters over HTTP, where `PrometheusListen` is set.
    exporter: Option<Exporter>,
    manager: Manager,
    balancers: Balancers,
}

/// Listens until SIGTERM; returns the exit status of the process. `service` is the service manager that has
/// started it.
pub fn serve(
    mut hand_over: HandOver,
    options: &ListenerOptions,
    service: Service,
) -> Result<i32, ListenError> {
    let log = hand_over.log();
    // For the files made here (pid file) and everything that sessions inherit: only the owner may write them.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut manager = Manager::new(service, log.clone());
    let sockets = match manager.sockets()? {
        Some(sockets) => sockets,
        None => bind::all(&hand_over.config, manager.kept(), &log)?,
    };
    if !options.foreground && !is_restarted() {
        lh_sys::background::continue_in_background().map_err(system("cannot go to the background"))?;
        // Detach from the terminal that started us.
        detach_stdio(hand_over.log_target).map_err(system("cannot detach"))?;
    }
    if !options.foreground {
        // No file system stays in use.
        let _ = rustix::process::chdir("/");
    }
    // Before any thread is started, because threads inherit the signal mask.
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
    let mut listener = Listener {
        penalties: Table::new(rules, exempt),
        sockets,
        launch: Launch {
            hand_over,
            bytes,
            program: options.restart.as_ref().map(|restart| restart.program.clone()),
        },
        sessions: Sessions {
            running: HashMap::new(),
            waiting: WaitingSessions::new(waiting, most_kept, block),
            connected: ConnectedSessions::default(),
            adopted: Adopted::new(&mark, Instant::now()),
        },
        users: Users::default(),
        log,
        startups: Vec::new(),
        balancers,
        admission,
        arrivals: Arrivals::new(most_waiting()),
        throttling: false,
        signals,
        exporter,
        manager,
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
            // Undo both: the new program records and changes them again from the original values.
            if let Some(score) = listener.launch.hand_over.oom_score {
                oom::restore(score);
            }
            if let Some(limit) = listener.launch.hand_over.core_limit {
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

/// Writes the pid file; not with `-d`, because a real server may be running.
fn write_pid_file(hand_over: &HandOver, options: &ListenerOptions, log: &Log) -> Option<PathBuf> {
    let path = PathBuf::from(hand_over.config.pid_file.as_deref()?);
    if options.once {
        return None;
    }
    match std::fs::write(&path, format!("{}\n", std::process::id())) {
        Ok(()) => Some(path),
        Err(problem) => {
            // An ordinary user's server cannot write to /run, and need not.
            if lh_sys::ids::is_root() {
                error!(log, "Couldn't create pid file \"{}\": {problem}", path.display());
            }
            None
        }
    }
}

enum End {
    Status(i32),
    Restart,
}

impl Listener {
    fn run(&mut self, options: &ListenerOptions) -> Result<End, ListenError> {
        loop {
            let events = self.wait()?;
            let mut has_reaped = false;
            while let Some(signal) = self.signals.take().map_err(system("signals"))? {
                match signal {
                    Signal::CHILD => has_reaped |= self.reap(),
                    Signal::HUP => {
                        self.manager.reloading();
                        if let Some(problem) = restart::problem(options) {
                            // A server that ended over a typing error would lock its administrator out.
                            error!(
                                self.log,
                                "Received SIGHUP; continuing with the old configuration: {problem}"
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
            // Reaping may have removed startups that the events name.
            if !has_reaped {
                self.handle_messages(&events);
            }
            let WaitEvents { accepting, hand_over_ready, .. } = events;
            for startup in self.startups.iter_mut().filter(|startup| hand_over_ready.contains(&startup.pid)) {
                startup.push(&self.launch.bytes);
            }
            self.kill_overdue();
            self.manager.feed_watchdog(Instant::now());
            let present = SessionGauges {
                sessions: self.sessions.running.len() + self.sessions.adopted.len(),
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
            self.sessions.adopted.scan(Instant::now(), &self.log);
        }
    }

    /// Waits for the next event or deadline.
    fn wait(&self) -> Result<WaitEvents, ListenError> {
        let now = Instant::now();
        let overdue = self.startups.iter().filter_map(|startup| startup.deadline);
        let exporter = self.exporter.as_ref().and_then(Exporter::deadline);
        let others =
            [exporter, self.manager.deadline(), self.balancers.deadline(), self.sessions.adopted.deadline()];
        let waiting = self.next_start(now);
        let deadline = overdue.chain(others.into_iter().flatten()).chain(waiting).min();
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() { left } else { left + Duration::from_millis(1) }
        });
        self.look(timeout)
    }

    /// Serves one connection (`-d`) and then returns the session's exit status.
    fn serve_one(&mut self, arrived: Arrived) -> Result<End, ListenError> {
        let Arrived { socket, peer, client } = arrived;
        self.sockets.clear();
        debug!(self.log, "Server will not fork when running in debugging mode.");
        debug!(self.log, "Connection from {} port {}", peer.ip(), peer.port());
        let (control, pid) =
            self.start_session(socket, client, None).map_err(system("cannot start a session process"))?;
        // A blocking send: there is no other session to serve.
        let mut control = std::fs::File::from(control);
        HandOver::send(&self.launch.bytes, &mut control).map_err(system("cannot start a session process"))?;
        let status = rustix::process::waitpid(Some(pid), WaitOptions::empty())
            .map_err(|error| system("waitpid")(error.into()))?;
        drop(control);
        Ok(End::Status(status.and_then(|(_, status)| status.exit_status()).unwrap_or(255)))
    }
}

/// Answers a request for the counters.
#[cfg(fuzzing)]
pub(crate) fn fuzz_counter_request(request: &[u8]) {
    exporter::fuzz(request);
}
