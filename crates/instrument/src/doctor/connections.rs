//! The doctor's measurements over connections of this process. Each connection has a thread: a connection
//! stays with the thread that has made it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::at_rest::{self, AtRest};
use super::facts::{Idle, RunSettings};
use super::idle_session::IdleSession;
use super::instruments::{Carrier, Instruments, LOGIN_LIMIT, Login, Place, Settings, Transfer};
use super::sftp_file::{self, Plan, SftpFileError, SftpRates};
use super::small_packets::SmallPackets;
use crate::agent;
use crate::connects::{Connects, TurnedAway};
use crate::disk::{Disk, DiskError, disk_here, disk_there};
use crate::far_end::FarEnd;
use crate::fault::Fault;
use crate::flow::{Flow, TurnWaits};
use crate::probe::{Reached, Segments, largest_segment, reach};
use crate::shell::{SHORT, System};
use crate::stage::Stage;
use crate::target::{NoConnection, Remote, Target};
use crate::task::{Comparison, PING_EVERY};

const LOGIN_LATE: &str = "the login was not complete in time";
/// The MAC of ciphers that authenticate by themselves.
const IMPLICIT: &str = "<implicit>";
/// Logins at a time: servers refuse some of them from ten on (`MaxStartups`).
const LOGINS: usize = 4;
/// A connection that waits for its measurement for longer than this answers what the server asks.
const IDLE: Duration = Duration::from_secs(2);
const ENDED: &str = "the connection has ended";

/// The measurements of one host.
pub(super) struct Connections<'a> {
    target: Target,
    jump_host: Option<Target>,
    settings: Settings,
    master: Option<Target>,
    idle: Option<IdleSession>,
    address: (String, u16),
    logins: Arc<Permits>,
    helper: Option<Helper>,
    /// Names of steps, and when they began.
    steps: Vec<(String, Instant)>,
    tell: &'a mut dyn FnMut(&str),
}

impl<'a> Connections<'a> {
    /// # Errors
    /// The configuration cannot be read.
    pub(super) fn new(target: &Target, tell: &'a mut dyn FnMut(&str)) -> Result<Self, Fault> {
        let target = target.patient();
        let options = target.options(&[])?;
        let config = &options.config;
        let jump_host = target.jump_host()?;
        let control_socket = target.control_socket();
        let settings = Settings {
            host: config.host.clone(),
            is_direct: config.is_direct(),
            compresses: *config.compression,
            rate_limit: options.rate_limit.map(|rate| rate as f64),
            bulk_mark: config.ip_qos.bulk,
            interactive_mark: config.ip_qos.interactive,
            jump_host: jump_host.as_ref().map(|jump_host| jump_host.name.clone()),
            control_socket: control_socket.as_ref().map(|path| lh_client::sanitise(&path.to_string_lossy())),
        };
        let address = (config.host.clone(), config.port());
        let jump_host = jump_host.map(|jump_host| target.at_jump_host(&jump_host));
        let logins = Arc::new(Permits::new(LOGINS));
        let master = control_socket.map(|socket| target.through(&socket));
        let (helper, idle, steps) = (None, None, Vec::new());
        Ok(Self { target, jump_host, settings, master, idle, address, logins, helper, steps, tell })
    }

    fn place(&self, place: Place) -> &Target {
        match place {
            Place::Server => &self.target,
            Place::JumpHost => self.jump_host.as_ref().unwrap_or(&self.target),
            Place::Master => self.master.as_ref().unwrap_or(&self.target),
        }
    }

    /// The helper, once it has started.
    fn helper(&mut self) -> Option<&FarEnd> {
        if let Some(Helper::Starts(thread)) =
            self.helper.take_if(|helper| matches!(helper, Helper::Starts(_)))
        {
            self.helper = thread.join().ok().and_then(Result::ok).map(Helper::Runs);
        }
        match &self.helper {
            Some(Helper::Runs(far_end)) => Some(far_end),
            _ => None,
        }
    }
}

enum Helper {
    Starts(JoinHandle<Result<FarEnd, Fault>>),
    Runs(FarEnd),
}

impl Instruments for Connections<'_> {
    type Connection = Connection;

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn begin_step(&mut self, name: &str) {
        (self.tell)(name);
        self.steps.push((name.to_owned(), Instant::now()));
    }

    fn steps(&self) -> Vec<(String, f64)> {
        let ends = self.steps.iter().skip(1).map(|(_, begun)| *begun).chain([Instant::now()]);
        let took = |((name, begun), end): (&(String, Instant), Instant)| {
            (name.clone(), end.saturating_duration_since(*begun).as_secs_f64())
        };
        self.steps.iter().zip(ends).map(took).collect()
    }

    fn elapsed(&self) -> f64 {
        self.steps.first().map_or(0.0, |(_, begun)| begun.elapsed().as_secs_f64())
    }

    fn reach(&mut self) -> Result<Reached, Fault> {
        reach(&self.address.0, self.address.1)
    }

    fn here(&self, reached: Option<&Reached>) -> System {
        System::here(reached.map(|reached| reached.address.ip()))
    }

    fn segments(&mut self, reached: &Reached) -> Option<Segments> {
        largest_segment(reached.address)
    }

    fn prepare(&mut self, place: Place, keywords: &[(&str, &str)], times_session: bool) -> Connection {
        Connection::begin(self.place(place), keywords, times_session, &self.logins)
    }

    fn login_within(&mut self, connection: &mut Connection, limit: Duration) -> Result<Login, NoConnection> {
        connection.login_within(limit)
    }

    fn silent_agent(&mut self) -> Option<String> {
        let socket = agent::silent(&self.target.options(&[]).ok()?)?;
        Some(lh_client::sanitise(&socket.to_string_lossy()))
    }

    fn agent_signing(&mut self, key: &str) -> Option<f64> {
        agent::signing(&self.target.options(&[]).ok()?, key)
    }

    fn refused(&self) -> usize {
        self.target.connects().map_or(0, Connects::refused)
    }

    fn logins(&self) -> (usize, Option<TurnedAway>) {
        self.target.connects().map_or((0, None), |connects| (connects.made(), connects.turned_away()))
    }

    fn pings(&mut self, connection: &mut Connection, count: usize) -> Vec<f64> {
        connection.ask(move |remote| remote.ping(count, PING_EVERY)).unwrap_or_default()
    }

    fn turn_waits(&mut self, connection: &mut Connection) -> TurnWaits {
        connection.ask(Remote::turn_waits).unwrap_or_default()
    }

    fn small_packets(&mut self, connection: &mut Connection) -> Option<SmallPackets> {
        let info = connection.ask(|remote| remote.client.driver().control().tcp_info()).ok()??;
        Some(SmallPackets {
            sent: info.get("data_segs_out")?,
            resent: info.get("total_retrans")?,
            duplicates: info.get("dsack_dups").unwrap_or(0),
        })
    }

    fn system(&mut self, connection: &mut Connection) -> Result<System, Fault> {
        connection.ask(Remote::system)?
    }

    fn at_rest(&mut self, connection: &mut Connection, there: &System, round_trip: f64) -> AtRest {
        let there = there.clone();
        connection.ask(move |remote| at_rest::at_rest(remote, &there, round_trip)).unwrap_or_default()
    }

    fn transfer(
        &mut self,
        connections: &mut [Connection],
        &Transfer { direction, carrier, time, like }: &Transfer,
    ) -> Result<Vec<Flow>, Fault> {
        let forward = match carrier {
            Carrier::Forward => {
                let no_helper = || Fault::Server("the helper at the server did not start".to_owned());
                let helper = self.helper().ok_or_else(no_helper)?;
                Some((helper.address, helper.request(direction)))
            }
            Carrier::Command | Carrier::AmongTerminals => None,
        };
        let count = connections.len();
        let comparison = like.map(|(rate, round_trip)| Arc::new(Comparison::new(rate, round_trip, count)));
        // All begin when the last of them is there.
        for connection in &mut *connections {
            connection.login()?;
        }
        let answers = connections.iter().enumerate().map(|(index, connection)| {
            let part = comparison.clone().map(|comparison| (comparison, index));
            let forward = forward.clone();
            connection.send(move |remote| match (carrier, forward) {
                (Carrier::Forward, Some((address, line))) => {
                    remote.forwarded_download(address, line, time, part)
                }
                (Carrier::AmongTerminals, _) => remote.flow_among_terminals(direction, time, part),
                (Carrier::Command | Carrier::Forward, _) => remote.compared_flow(direction, time, part),
            })
        });
        let answers: Vec<Receiver<Flow>> = answers.collect();
        let mut flows = answers
            .into_iter()
            .map(|answer| answer.recv().map_err(|_| Fault::Late(ENDED)))
            .collect::<Result<Vec<Flow>, Fault>>()?;
        let together = comparison.and_then(|comparison| comparison.together());
        flows.iter_mut().for_each(|flow| flow.together = together);
        Ok(flows)
    }

    fn arriving(&mut self, connection: &mut Connection, sizes: &[u64]) -> (Option<u64>, Option<u64>) {
        let sizes = sizes.to_vec();
        let job = move |remote: &mut Remote| {
            let is_lost = |size: &u64| !remote.arrives(*size);
            let lost = sizes.iter().position(is_lost);
            let passed = lost.unwrap_or(sizes.len()).checked_sub(1);
            (passed.and_then(|at| sizes.get(at).copied()), lost.and_then(|at| sizes.get(at).copied()))
        };
        connection.ask(job).unwrap_or_default()
    }

    fn begin_idle(&mut self) {
        self.idle = Some(IdleSession::begin(&self.target));
    }

    fn end_idle(&mut self) -> Option<Idle> {
        self.idle.take()?.end(&self.target)
    }

    fn prepare_helper(&mut self) {
        let target = self.target.clone();
        self.helper = Some(Helper::Starts(std::thread::spawn(move || FarEnd::start(&target, None))));
    }

    fn sftp_file(
        &mut self,
        connection: &mut Connection,
        directory: &str,
        plan: Plan,
    ) -> Result<SftpRates, SftpFileError> {
        let path = format!("{directory}/.longhaul-doctor-{}-{}", std::process::id(), self.steps.len());
        connection.ask(move |remote| sftp_file::measure(remote, path, plan))?
    }

    fn disks(
        &mut self,
        wanted: &RunSettings,
        [here, there]: [bool; 2],
    ) -> [Option<Result<Disk, DiskError>>; 2] {
        let at_server = there.then(|| {
            let (target, directory) = (self.target.clone(), wanted.remote_directory.clone());
            std::thread::spawn(move || -> Result<Disk, Fault> {
                let mut remote = target.connect(&[])?;
                let disk = disk_there(&mut remote, &directory);
                remote.client.close();
                disk
            })
        });
        let of_here = here.then(|| disk_here(&wanted.local_directory).map_err(DiskError::Here));
        let of_there = at_server.map(|thread| {
            let measured = thread.join().unwrap_or(Err(Fault::Late(ENDED)));
            measured.map_err(DiskError::There)
        });
        [of_here, of_there]
    }
}

type Job = Box<dyn FnOnce(&mut Remote) + Send>;

/// A connection and its thread. It is closed when this is dropped.
pub(super) struct Connection {
    jobs: Sender<Job>,
    told: Receiver<Result<Login, NoConnection>>,
    login: Option<Login>,
}

impl Connection {
    fn begin(target: &Target, keywords: &[(&str, &str)], times_session: bool, logins: &Arc<Permits>) -> Self {
        let (jobs, todo) = channel::<Job>();
        let (tell, told) = channel();
        let (target, logins) = (target.clone(), Arc::clone(logins));
        let keywords: Vec<(String, String)> =
            keywords.iter().map(|(keyword, value)| ((*keyword).to_owned(), (*value).to_owned())).collect();
        std::thread::spawn(move || {
            let keywords: Vec<(&str, &str)> =
                keywords.iter().map(|(keyword, value)| (keyword.as_str(), value.as_str())).collect();
            logins.take();
            let connected = target.connect(&keywords);
            logins.give();
            match connected {
                Ok(mut remote) => serve(&mut remote, times_session, &tell, &todo),
                Err(failure) => drop(tell.send(Err(failure))),
            }
        });
        Self { jobs, told, login: None }
    }

    fn login(&mut self) -> Result<Login, NoConnection> {
        self.login_within(LOGIN_LIMIT)
    }

    fn login_within(&mut self, limit: Duration) -> Result<Login, NoConnection> {
        if let Some(login) = &self.login {
            return Ok(login.clone());
        }
        let late = |words| NoConnection { fault: Fault::Late(words), is_path: true, slowest: None };
        let login = match self.told.recv_timeout(limit) {
            Ok(told) => told?,
            Err(RecvTimeoutError::Timeout) => return Err(late(LOGIN_LATE)),
            Err(RecvTimeoutError::Disconnected) => return Err(late(ENDED)),
        };
        self.login = Some(login.clone());
        Ok(login)
    }

    /// Has the connection's thread do this, once it has logged in.
    fn send<T: Send + 'static>(&self, job: impl FnOnce(&mut Remote) -> T + Send + 'static) -> Receiver<T> {
        let (tell, answer) = channel();
        // A thread that has ended drops the sender of the answer.
        let _ = self.jobs.send(Box::new(move |remote| drop(tell.send(job(remote)))));
        answer
    }

    fn ask<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Remote) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        self.login()?;
        self.send(job).recv().map_err(|_| Fault::Late(ENDED))
    }
}

/// Tells of the login, and does the jobs until there are no more.
fn serve(
    remote: &mut Remote,
    times_session: bool,
    tell: &Sender<Result<Login, NoConnection>>,
    todo: &Receiver<Job>,
) {
    let stages = if times_session { with_session(remote) } else { remote.stages.clone() };
    let link = remote.client.driver().link();
    let names = link.negotiated();
    let login = Login {
        stages,
        offers: remote.offers,
        agent_key: remote.agent_key.clone(),
        key_work: remote.key_work,
        server: lh_client::sanitise(link.peer_identification().unwrap_or_default()),
        cipher: names.map(|names| names.cipher_c2s.clone()).unwrap_or_default(),
        mac: names.map(|names| names.mac_c2s.clone()).filter(|mac| mac != IMPLICIT).unwrap_or_default(),
    };
    if tell.send(Ok(login)).is_err() {
        return;
    }
    loop {
        match todo.recv_timeout(IDLE) {
            Ok(job) => job(remote),
            // A master does not pass such messages on.
            Err(RecvTimeoutError::Timeout) if remote.client.is_relayed() => {}
            Err(RecvTimeoutError::Timeout) => remote.attend(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    remote.client.close();
}

/// The stages of the login, and those after it.
fn with_session(remote: &mut Remote) -> Vec<(Stage, f64)> {
    let shown = remote.script(":", SHORT);
    let mut stages = remote.stages.clone();
    let opened = shown.opened.unwrap_or(0.0);
    stages.push((Stage::Session, opened));
    stages.push((Stage::Command, (shown.ended.unwrap_or(opened) - opened).max(0.0)));
    stages
}

/// A number of permits that threads take and give back.
struct Permits {
    left: Mutex<usize>,
    given: Condvar,
}

impl Permits {
    const fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), given: Condvar::new() }
    }

    fn take(&self) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.given.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
    }

    fn give(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.given.notify_one();
    }
}
