//! Connections of other programs, by what the kernel counts: of a process and its children, or to an address.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Instant;

use lh_metrics::{Point, Run, RunHeader, Sample, Side};
use lh_sys::errno_text;
use lh_sys::tcp_info::TcpInfo;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::watched::{KEPT, Watched};
use crate::fault::Fault;
use crate::pairs::Connection;

/// `ESTABLISHED` of `tcp_info.state`.
const ESTABLISHED: u64 = 1;

/// Samples of each connection, by a key that does not change.
struct History {
    begun: Instant,
    runs: HashMap<String, Run>,
}

impl History {
    fn new() -> Self {
        Self { begun: Instant::now(), runs: HashMap::new() }
    }

    /// Adds a sample, and returns the connection as it is now.
    fn add(&mut self, key: &str, name: String, sample: Sample, unread: Option<u64>) -> Watched {
        let seconds = self.begun.elapsed().as_secs_f64();
        let run = self.runs.entry(key.to_owned()).or_insert_with(|| Run {
            about: RunHeader { run: key.to_owned(), ..RunHeader::default() },
            side: Side::Local,
            points: Vec::new(),
        });
        run.points.push(Point { seconds, sample });
        let old = run.points.len().saturating_sub(KEPT);
        run.points.drain(..old);
        let connection = Connection { local: Some(run.clone()), remote: None, files: Vec::new() };
        Watched { name, connection, unread, age: None }
    }

    /// Forgets connections that are not there any more.
    fn keep(&mut self, seen: &[Watched]) {
        self.runs.retain(|key, _| {
            seen.iter().any(|each| each.connection.about().is_some_and(|about| about.run == *key))
        });
    }
}

/// The connections of a process and its children.
pub(super) struct ByProcess {
    pid: Pid,
    /// Start of the process, so that a later one with its number is not taken for it.
    started: Option<u64>,
    history: History,
}

impl ByProcess {
    pub(super) fn new(pid: Pid) -> Self {
        Self { pid, started: Stat::read(pid).map(|stat| stat.started), history: History::new() }
    }

    pub(super) fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(super) fn sample(&mut self) -> Result<Option<Vec<Watched>>, Fault> {
        match Stat::read(self.pid) {
            Some(stat) if Some(stat.started) == self.started && stat.state != 'Z' => {}
            _ => return Ok(None),
        }
        let mut seen: Vec<Watched> = Vec::new();
        // A socket that two processes have is one connection.
        let mut known = HashSet::new();
        for pid in family(self.pid) {
            match sockets(pid) {
                Ok(found) => {
                    for (key, name, sample, unread) in found {
                        if known.insert(key.clone()) {
                            seen.push(self.history.add(&key, name, sample, unread));
                        }
                    }
                }
                // A child may end meanwhile, or belong to another user.
                Err(_) if pid != self.pid => {}
                Err(rustix::io::Errno::SRCH | rustix::io::Errno::NOENT) => return Ok(None),
                Err(error) => {
                    return Err(Fault::Process { number: self.number(), error: error.into() });
                }
            }
        }
        self.history.keep(&seen);
        Ok(Some(seen))
    }
}

/// Fields of `/proc/PID/stat`.
struct Stat {
    name: String,
    state: char,
    parent: i32,
    cpu_ticks: u64,
    started: u64,
}

impl Stat {
    fn read(pid: Pid) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (before, rest) = text.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        Some(Self {
            name: lh_client::sanitise(before.split_once('(')?.1),
            state: words.first()?.chars().next()?,
            parent: words.get(1)?.parse().ok()?,
            cpu_ticks: number(11)? + number(12)?,
            started: number(19)?,
        })
    }
}

/// The process and all below it.
fn family(pid: Pid) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(Pid, i32)> = entries
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter_map(|pid| Some((pid, Stat::read(pid)?.parent)))
        .collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).map(|pid| pid.as_raw_nonzero().get()) {
        family.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// Key, name, sample, and unread bytes of a connection.
type Found = (String, String, Sample, Option<u64>);

/// The established TCP connections of a process.
fn sockets(pid: Pid) -> rustix::io::Result<Vec<Found>> {
    let number = pid.as_raw_nonzero();
    let stat = Stat::read(pid).ok_or(rustix::io::Errno::SRCH)?;
    let directory = format!("/proc/{number}/fd");
    let entries = std::fs::read_dir(directory)
        .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::ACCESS))?;
    let mut handle: Option<OwnedFd> = None;
    let mut all = Vec::new();
    for entry in entries.flatten() {
        let Ok(link) = std::fs::read_link(entry.path()) else { continue };
        let Some(key) = link.to_str().filter(|link| link.starts_with("socket:")) else { continue };
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if handle.is_none() {
            handle = Some(pidfd_open(pid, PidfdFlags::empty())?);
        }
        let Some(handle) = &handle else { continue };
        let socket = match pidfd_getfd(handle, fd, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            Err(rustix::io::Errno::BADF) => continue,
            Err(error) => return Err(error),
        };
        let Some(info) = TcpInfo::of(&socket).filter(|info| info.get("state") == Some(ESTABLISHED)) else {
            continue;
        };
        let peer = rustix::net::getpeername(&socket).ok().and_then(|peer| SocketAddr::try_from(peer?).ok());
        let name = format!(
            "{} {number}  {}",
            stat.name,
            peer.map_or_else(|| "a TCP connection".to_owned(), |peer| peer.to_string())
        );
        let unread = rustix::io::ioctl_fionread(&socket).ok();
        all.push((key.to_owned(), name, sample_of(&socket, &info, stat.cpu_ticks), unread));
    }
    Ok(all)
}

fn sample_of(socket: &OwnedFd, info: &TcpInfo, cpu_ticks: u64) -> Sample {
    /// Microseconds of a unit of processor time (`USER_HZ`).
    const TICK: u64 = 10_000;
    Sample {
        tcp: info.fields().collect(),
        ssh: vec![("cpu_micros", cpu_ticks * TICK)],
        congestion_control: lh_sys::tuning::congestion_control(socket),
        threads: Vec::new(),
    }
}

/// The connections of this machine to an address, of any process.
pub(super) struct ByAddress {
    name: String,
    addresses: Vec<SocketAddr>,
    history: History,
}

impl ByAddress {
    pub(super) fn resolve(host: &str, port: u16) -> Result<Self, Fault> {
        let found = (host, port).to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            found.map_err(|error| Fault::Refused(format!("{host}: {}", errno_text(&error))))?.collect();
        Ok(Self { name: format!("{host} port {port}"), addresses, history: History::new() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sample(&mut self) -> Result<Vec<Watched>, Fault> {
        let mut seen = Vec::new();
        for address in &self.addresses {
            let peer = format!("[{}]:{}", address.ip(), address.port());
            let done = Command::new("ss")
                .args(["-tinHO", "state", "established", "dst", &peer])
                .output()
                .map_err(Fault::system("ss (package iproute2)"))?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                let said = lh_client::sanitise(said.lines().next().unwrap_or_default());
                return Err(Fault::Refused(format!("ss: {said}")));
            }
            for line in String::from_utf8_lossy(&done.stdout).lines() {
                if let Some((key, sample, unread)) = of_ss(line) {
                    let name = lh_client::sanitise(&key.replace(' ', " to "));
                    seen.push(self.history.add(&key, name, sample, Some(unread)));
                }
            }
        }
        self.history.keep(&seen);
        Ok(seen)
    }
}

/// One line of `ss -tinHO`: both addresses, the kernel's counters, and the bytes that are not read yet.
fn of_ss(line: &str) -> Option<(String, Sample, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[unread, _, near, far, ref about @ ..] = &words[..] else { return None };
    let unread = unread.parse().ok()?;
    let value = |name: &str| about.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let number = |text: &str| -> Option<f64> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
    };
    let mut tcp = Vec::new();
    let mut take = |name: &'static str, value: Option<f64>, unit: f64| {
        tcp.extend(value.map(|value| (name, (value * unit) as u64)));
    };
    for (field, shown) in [
        ("snd_cwnd", "cwnd"),
        ("snd_mss", "mss"),
        ("bytes_acked", "bytes_acked"),
        ("bytes_received", "bytes_received"),
        ("data_segs_out", "data_segs_out"),
        ("snd_wnd", "snd_wnd"),
    ] {
        take(field, value(shown).and_then(number), 1.0);
    }
    // Counters that are zero are not shown.
    for (field, shown) in [("unacked", "unacked"), ("notsent_bytes", "notsent")] {
        take(field, Some(value(shown).and_then(number).unwrap_or(0.0)), 1.0);
    }
    let resent = value("retrans").and_then(|text| text.split_once('/')).and_then(|(_, all)| number(all));
    take("total_retrans", Some(resent.unwrap_or(0.0)), 1.0);
    for (field, shown) in
        [("busy_time", "busy"), ("rwnd_limited", "rwnd_limited"), ("sndbuf_limited", "sndbuf_limited")]
    {
        take(field, Some(value(shown).and_then(number).unwrap_or(0.0)), 1000.0);
    }
    // `rtt:smoothed/variation`, milliseconds.
    for (field, shown) in [("rtt", "rtt"), ("min_rtt", "minrtt")] {
        take(field, value(shown).and_then(number), 1000.0);
    }
    let known = ["cubic", "bbr", "reno", "htcp", "vegas", "westwood", "dctcp", "illinois", "bic"];
    let control = about.iter().find(|word| known.contains(word));
    let sample =
        Sample { tcp, congestion_control: control.map(|name| (*name).to_owned()), ..Sample::default() };
    Some((format!("{near} {far}"), sample, unread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn own_connections_are_seen_with_their_queues() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 5000]).unwrap();
        // Until the first byte has arrived, the rest may be on its way.
        far.read_exact(&mut [0]).unwrap();
        let pid = rustix::process::getpid();
        let mut watched = ByProcess::new(pid);
        let seen = match watched.sample() {
            Ok(seen) => seen.unwrap(),
            // A machine that lets no process look into others.
            Err(why) => return assert!(why.to_string().contains("ptrace_scope"), "{why}"),
        };
        let port = far.peer_addr().unwrap().to_string();
        let found = seen.iter().find(|each| each.name.ends_with(&port)).unwrap();
        assert!(found.unread.is_some_and(|bytes| bytes < 5000), "{:?}", found.unread);
        let sample = &found.connection.local.as_ref().unwrap().points[0].sample;
        assert!(
            sample.tcp("bytes_received").is_some_and(|bytes| bytes > 0) && sample.ssh("cpu_micros").is_some()
        );
        assert_eq!(watched.number(), pid.as_raw_nonzero().get());
    }

    #[test]
    fn lines_of_ss_are_read() {
        let line = "4096 1280 127.0.0.1:5 127.0.0.1:22 cubic wscale:7,7 rto:201 rtt:50.5/0.2 mss:1448 cwnd:10 \
                    bytes_sent:9 bytes_acked:77 bytes_received:8 data_segs_out:4 busy:20ms rwnd_limited:10ms(50.0%) \
                    retrans:0/3 unacked:2 snd_wnd:65536 notsent:500 minrtt:49.9";
        let (key, sample, unread) = of_ss(line).unwrap();
        assert_eq!((key.as_str(), unread), ("127.0.0.1:5 127.0.0.1:22", 4096));
        let tcp = |name| sample.tcp(name);
        assert_eq!(
            (tcp("rtt"), tcp("min_rtt"), tcp("rwnd_limited")),
            (Some(50_500), Some(49_900), Some(10_000))
        );
        assert_eq!(
            (tcp("total_retrans"), tcp("notsent_bytes"), tcp("bytes_acked")),
            (Some(3), Some(500), Some(77))
        );
        assert_eq!(sample.congestion_control.as_deref(), Some("cubic"));
        assert!(of_ss("").is_none() && of_ss("x y").is_none());
    }

    #[test]
    fn names_of_processes_may_have_brackets() {
        let stat = Stat::parse("12 (a) b) S 7 1 1 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 1 0 99 0 0").unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) b", 'S', 7));
        assert_eq!((stat.cpu_ticks, stat.started), (175, 99));
    }
}
