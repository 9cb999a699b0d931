//! Accepts connections at once, and starts their session processes in a fair order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lh_sys::spawn::Program;
use rustix::process::Pid;

use super::balancers::Arrived;
use super::priority::Lowered;
use super::room::block_of;
use super::startup::Startup;
use super::{
    CLIENT_FLAG, GRACE_MARGIN, Listener, NICE_FLAG, Running, SESSION_FLAG, SESSION_NAME, exporter, priority,
};
use crate::arrivals::{NEW, Rank, WELCOME};
use crate::log::{error, verbose};
use crate::penalties::Source;
use crate::session::title;

/// Number of CPU cores for each process that may be starting at a time. During a flood of connections half of
/// the machine stays free for logins; starting more at once would not be faster.
const CORES_PER_START: usize = 2;

/// Number of processes started before signals, reports and new connections are checked again.
const STARTS: usize = 4;

/// The source of a connection, as the limits count it.
#[derive(Clone, Copy)]
struct Origin {
    source: Source,
    /// There is a ticket for one more connection from this address. Each ticket admits one connection
    /// regardless of limits.
    expected: bool,
}

fn most_starting() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    (cores / CORES_PER_START).max(1)
}

/// Sends a line to a client that is refused. Does not block: the line fits any socket buffer.
fn turn_away(socket: &OwnedFd, line: &[u8]) {
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    let _ = rustix::net::send(socket, line, flags);
}

impl Listener {
    /// Accepts all pending connections of these listening sockets, and those whose load-balancer header is
    /// complete.
    pub(super) fn accept_from(&mut self, sockets: impl IntoIterator<Item = usize>) {
        for index in sockets {
            while !self.arrivals.is_full()
                && let Some((socket, peer)) = self.accept(index)
            {
                if !self.balancers.include(peer.ip()) {
                    self.queue(Arrived { socket, peer, client: None });
                    continue;
                }
                // A burst may be larger than the table: those whose header is there leave it first.
                if self.balancers.is_full() {
                    self.queue_arrived();
                }
                self.balancers.add(socket, peer, Instant::now());
            }
        }
        self.queue_arrived();
    }

    /// Queues the connections whose load-balancer header is complete.
    fn queue_arrived(&mut self) {
        for arrived in self.balancers.arrived(Instant::now()) {
            self.queue(arrived);
        }
    }

    /// Starts the session processes of some waiting connections.
    pub(super) fn start_some(&mut self) {
        let mut starts = 0;
        while starts < STARTS && !self.arrivals.is_empty() {
            // A connection that has arrived meanwhile may be the next.
            if starts > 0 {
                self.accept_from(0..self.sockets.len());
            }
            let now = Instant::now();
            let (starting, most) = (self.starting(now).count(), most_starting());
            let below = match starting + self.resting(now).count() {
                _ if starting >= most => Some(WELCOME),
                occupied if occupied >= most => Some(NEW),
                _ => None,
            };
            starts += usize::from(below != Some(WELCOME));
            let Some(arrived) = self.next_arrival(below) else { return };
            self.admit(arrived);
        }
    }

    /// Returns the times at which each starting process is assumed to have begun.
    fn starting(&self, now: Instant) -> impl Iterator<Item = Instant> {
        self.occupying(Startup::begun_by, now)
    }

    /// Returns the ends of the pauses after the starts of further connections.
    fn resting(&self, now: Instant) -> impl Iterator<Item = Instant> {
        self.occupying(Startup::rests_until, now)
    }

    fn occupying(
        &self,
        until: fn(&Startup) -> Option<Instant>,
        now: Instant,
    ) -> impl Iterator<Item = Instant> {
        // With UseDNS, starting can take seconds of waiting for name servers, but little CPU time.
        let counts = !self.launch.hand_over.config.use_dns.value;
        self.startups.iter().filter_map(until).filter(move |until| counts && *until > now)
    }

    /// Returns the earliest time at which the next process may be started; `None` when no connection waits.
    pub(super) fn next_start(&self, now: Instant) -> Option<Instant> {
        if self.arrivals.is_empty() {
            return None;
        }
        let starting = self.starting(now).chain(self.resting(now));
        let (count, first) = starting.fold((0, None), |(count, first): (usize, Option<Instant>), due| {
            (count + 1, Some(first.map_or(due, |first| first.min(due))))
        });
        if count >= most_starting() { first } else { Some(now) }
    }

    /// Starts the processes of all waiting connections, because this process is about to be replaced.
    pub(super) fn start_all(&mut self) {
        while let Some(arrived) = self.next_arrival(None) {
            self.admit(arrived);
        }
    }

    /// Returns the connection to serve next; with `below`, only one of a lower rank.
    fn next_arrival(&mut self, below: Option<Rank>) -> Option<Arrived> {
        let now = Instant::now();
        let held = self.admission.held_by_source();
        let Self { arrivals, admission, users, .. } = self;
        let rank = |source: Source, arrived: &Arrived| {
            let joins = users.tickets.expected(arrived.peer.ip(), now) > 0;
            Rank {
                held: if joins { 0 } else { held.get(&source).copied().unwrap_or(0) },
                unknown: !joins && !admission.is_known(source, now),
            }
        };
        match below {
            Some(bound) => arrivals.next_below(bound, rank),
            None => arrivals.next(rank),
        }
    }

    pub(super) fn accept(&self, index: usize) -> Option<(OwnedFd, SocketAddr)> {
        use rustix::net::{SocketFlags, accept_with};
        let listening = self.sockets.get(index)?;
        match accept_with(listening, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                // A connection without a peer address has already been reset.
                let peer = lh_sys::socket::peer_address(&socket)?;
                Some((socket, peer))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => None,
            Err(problem) => {
                error!(self.log, "accept: {problem}");
                // Out of descriptors: an immediate retry would only burn CPU time.
                std::thread::sleep(Duration::from_millis(100));
                None
            }
        }
    }

    /// Queues a connection for its session process, unless its source is penalised.
    fn queue(&mut self, arrived: Arrived) {
        let origin = self.origin_of(arrived.peer.ip());
        if !self.is_penalised(&arrived, origin) {
            self.arrivals.push(block_of(&self.launch.hand_over, arrived.peer.ip()), arrived);
        }
    }

    /// Returns the source of a connection, as the limits count it.
    fn origin_of(&self, address: IpAddr) -> Origin {
        let coming = self.startups.iter().filter(|one| one.expected && one.peer.ip() == address).count();
        Origin {
            source: Source::of(address, self.launch.hand_over.config.per_source_net_block_size.value),
            expected: self.users.tickets.expected(address, Instant::now()) > coming,
        }
    }

    /// Refuses a connection whose source is penalised. Returns whether it did.
    fn is_penalised(&mut self, arrived: &Arrived, Origin { source, expected }: Origin) -> bool {
        let Arrived { socket, peer, .. } = arrived;
        let address = peer.ip();
        if expected {
            return false;
        }
        let Some(reason) = self.penalties.refuses(address, source, Instant::now()) else { return false };
        let waiting = self.startups.len();
        verbose!(self.log, "drop connection #{waiting} from [{address}]:{} {reason}", peer.port());
        turn_away(socket, b"Not allowed at this time\r\n");
        exporter::count(&mut self.exporter, |seen| seen.penalised += 1);
        true
    }

    /// Starts a session, unless there are too many unauthenticated connections.
    fn admit(&mut self, arrived: Arrived) {
        let origin = self.origin_of(arrived.peer.ip());
        // The source may have been penalised while the connection waited.
        if self.is_penalised(&arrived, origin) {
            return;
        }
        let Origin { source, expected } = origin;
        let Arrived { socket, peer, client } = arrived;
        let address = peer.ip();
        let too_many = if expected { None } else { self.make_room(source, address) };
        if let Some(reason) = too_many {
            let waiting = self.startups.len();
            verbose!(self.log, "drop connection #{waiting} from [{}]:{} {reason}", peer.ip(), peer.port());
            turn_away(&socket, b"Exceeded MaxStartups\r\n");
            exporter::count(&mut self.exporter, |seen| seen.throttled += 1);
            return;
        }
        let block = block_of(&self.launch.hand_over, address);
        let is_known = expected || self.admission.is_known(block, Instant::now());
        let held = self.admission.held(block);
        let lowered = if is_known { None } else { self.lowered(held) };
        match self.start_session(socket, client, lowered) {
            Ok((control, pid)) => {
                if !expected {
                    self.admission.begin(pid, block, Instant::now());
                }
                let grace = self.launch.hand_over.config.login_grace_time.value.0;
                let deadline =
                    grace.map(|seconds| Instant::now() + Duration::from_secs(seconds) + GRACE_MARGIN);
                let running = Running {
                    address,
                    source,
                    excused: self.sessions.waiting.excuse(source, Instant::now()),
                    authenticated: false,
                    overdue: false,
                    replaced: false,
                    reports: None,
                };
                self.sessions.running.insert(pid, running);
                exporter::count(&mut self.exporter, |seen| seen.accepted += 1);
                let mut startup = Startup {
                    control,
                    pid,
                    peer,
                    source,
                    deadline,
                    expected,
                    since: Instant::now(),
                    is_further: !is_known && held > 0,
                    started: None,
                    handed_over: 0,
                };
                startup.push(&self.launch.bytes);
                self.startups.push(startup);
            }
            Err(problem) => {
                error!(self.log, "cannot start a session process: {problem}");
                exporter::count(&mut self.exporter, |seen| seen.errors += 1);
            }
        }
    }

    /// Returns the priority, until the login, of a connection of an unknown source that has `held` other
    /// unauthenticated ones. `None` is the listener's own: this is the only one, and there are few in all.
    fn lowered(&self, held: usize) -> Option<Lowered> {
        let begin = self.launch.hand_over.config.max_startups.value.begin as usize;
        let is_welcome = held == 0 && !priority::are_many(self.admission.waiting(), begin);
        if is_welcome { None } else { priority::own().map(|own| Lowered::new(own, held)) }
    }

    /// Starts a session process with the connection as its standard input and our end of the hand-over as its
    /// output. `client` is the client's address where a load balancer has named it. `lowered` is the
    /// process's priority until the login.
    pub(super) fn start_session(
        &self,
        socket: OwnedFd,
        client: Option<SocketAddr>,
        lowered: Option<Lowered>,
    ) -> io::Result<(OwnedFd, Pid)> {
        let (ours, theirs) = UnixStream::pair()?;
        let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
        let own = Path::new("/proc/self/exe");
        // Without /proc the program is found by its path, which may hold another version after an upgrade.
        let program = if own.exists() { own } else { self.launch.program.as_deref().unwrap_or(own) };
        let mut program = Program::new(program).arg0(SESSION_NAME).arg(SESSION_FLAG);
        if let Some(client) = client {
            program = program.arg(format!("{CLIENT_FLAG}{client}"));
        }
        if let Some(lowered) = lowered {
            program = program.arg(format!("{NICE_FLAG}{lowered}")).priority(lowered.into());
        }
        let program = program.arg(title::room());
        let pid = program.stdio(socket, theirs.into(), stderr).new_session().start()?;
        Ok((ours.into(), pid))
    }
}
