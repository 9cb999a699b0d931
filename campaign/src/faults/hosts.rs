//! The hosts of the campaign, all on this machine: two of our servers, OpenSSH's if it is installed, links to
//! each, and the command lines of copies between them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{Inetd, Lab, Lhsshd, find, me, our, process};
use lh_session_list::Sessions;
use rustix::process::{Pid, Signal, kill_process};

use super::link::Link;

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// From this host to a server.
    Up,
    /// From a server to this host.
    Down,
    /// From a server through this host to another server (`-3`).
    Relay,
    /// From a server to another server, by the program `scp` of the first one (`-R`), which is `lhscp`.
    Direct,
}

impl Way {
    /// All directions.
    pub(super) const ALL: [Self; 4] = [Self::Up, Self::Down, Self::Relay, Self::Direct];

    /// Name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Relay => "relay",
            Self::Direct => "direct",
        }
    }
}

/// Implementation of the server at the far end; for a relay, at both ends except the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// `lhsshd`.
    Ours,
    /// OpenSSH's `sshd`.
    Stock,
}

impl Peer {
    /// Name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "lhsshd",
            Self::Stock => "sshd",
        }
    }
}

/// Time limit of a command on a busy machine.
const STUCK: Duration = Duration::from_secs(240);

/// Time limit for sessions to notice that their clients are gone.
const ENDING: Duration = Duration::from_secs(30);

/// The hosts.
pub(super) struct Hosts {
    /// Keys, trees and everything else.
    pub(super) lab: Lab,
    first: Lhsshd,
    second: Lhsshd,
    stock: Option<Inetd>,
    links: BTreeMap<u16, Link>,
}

/// Result of a client that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Exit status; 128 plus the signal's number if a signal ended it.
    pub(super) status: i32,
    /// Standard error.
    pub(super) said: String,
    /// Time for which it ran.
    pub(super) took: Duration,
}

/// A running client.
pub(super) struct Running {
    child: Child,
    start: Instant,
    said: PathBuf,
}

impl Hosts {
    /// Starts the servers.
    ///
    /// # Errors
    /// No port is free, or a file cannot be written.
    pub(super) fn new() -> Result<Self, String> {
        let lab = Lab::new();
        let failed = |error: std::io::Error| error.to_string();
        let names = lab.path("names");
        fs::create_dir_all(&names).map_err(failed)?;
        let config = format!(
            "SetEnv PATH={}:/usr/bin:/bin\nMaxStartups 500\nUsePAM no\nLogLevel INFO\n",
            names.display()
        );
        let (first, second) = (Lhsshd::start(&lab, &config), Lhsshd::start(&lab, &config));
        let stock = find("sshd").map(|sshd| Inetd::openssh(&lab, &sshd, "MaxStartups 500\n"));
        let mut links = BTreeMap::new();
        for port in [first.port, second.port].into_iter().chain(stock.as_ref().map(|stock| stock.port)) {
            let link = Link::to(port).map_err(failed)?;
            lab.know(link.port);
            links.insert(port, link);
        }
        let hosts = Self { lab, first, second, stock, links };
        hosts.write_direct_scp().map_err(failed)?;
        Ok(hosts)
    }

    /// The first host's `scp` is `lhscp`, which finds the others by their names.
    fn write_direct_scp(&self) -> std::io::Result<()> {
        let mut text = String::new();
        for (name, peer) in [("ours", Peer::Ours), ("stock", Peer::Stock)] {
            if let Some(port) = self.target_port(peer) {
                let port = self.links.get(&port).map_or(port, |link| link.port);
                text.push_str(&format!(
                    "Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User {}\n",
                    me()
                ));
            }
        }
        text.push_str("Host *\n");
        // `-F none` comes first, then `-o` before each.
        for option in self.lab.client_options().iter().skip(2).filter(|word| *word != "-o") {
            text.push_str(&format!("  {}\n", option.replacen('=', " ", 1)));
        }
        self.lab.write("remote.conf", &text);
        let script = format!(
            "#!/bin/sh\nHOME={} exec {} -F {} --retries 0 \"$@\"\n",
            self.lab.arg("home"),
            our("lhscp").display(),
            self.lab.arg("remote.conf")
        );
        self.lab.write("names/scp", &script);
        fs::set_permissions(self.lab.path("names/scp"), fs::Permissions::from_mode(0o755))
    }

    /// Returns true if this peer is installed.
    pub(super) const fn has(&self, peer: Peer) -> bool {
        match peer {
            Peer::Ours => true,
            Peer::Stock => self.stock.is_some(),
        }
    }

    fn target_port(&self, peer: Peer) -> Option<u16> {
        match peer {
            Peer::Ours => Some(self.second.port),
            Peer::Stock => self.stock.as_ref().map(|stock| stock.port),
        }
    }

    /// Returns the link to the server at the far end, or to the target of a copy between two servers.
    pub(super) fn link(&self, peer: Peer) -> Option<&Link> {
        self.links.get(&self.target_port(peer)?)
    }

    /// Returns the command of `lhscp` with flags, from a source to a target.
    pub(super) fn copy(&self, way: Way, peer: Peer, flags: &[&str], source: &Path, target: &Path) -> Command {
        let host = |port: Option<u16>, path: &Path| {
            let port = port.and_then(|port| self.links.get(&port)).map_or(0, |link| link.port);
            format!("scp://{}@127.0.0.1:{port}/{}", me(), path.display())
        };
        let (first, far) = (Some(self.first.port), self.target_port(peer));
        let (here, there) = (source.display().to_string(), target.display().to_string());
        let places = match way {
            Way::Up => [here, host(far, target)],
            Way::Down => [host(far, source), there],
            Way::Relay => [host(first, source), host(far, target)],
            Way::Direct => {
                let name = if peer == Peer::Ours { "ours" } else { "stock" };
                [host(first, source), format!("{name}:{there}")]
            }
        };
        let mut command = Command::new(our("lhscp"));
        command.args(self.lab.client_options()).args(["-r", "-q"]).args(flags);
        if way == Way::Direct {
            command.arg("-R");
        }
        command.args(places).current_dir(self.lab.dir()).env("HOME", self.lab.path("home"));
        command.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        command
    }

    /// Starts a command.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&self, mut command: Command) -> Result<Running, String> {
        let said = self.lab.path("stderr");
        let failed = |error: std::io::Error| error.to_string();
        let stderr = fs::File::create(&said).map_err(failed)?;
        let child = command.stdout(Stdio::null()).stderr(stderr).spawn().map_err(failed)?;
        Ok(Running { child, start: Instant::now(), said })
    }

    /// Returns the processes of all servers that serve connections now.
    pub(super) fn serving(&self) -> Vec<u32> {
        let mut all = [process::below(self.first.pid()), process::below(self.second.pid())].concat();
        let is_sshd = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("sshd")
        };
        // OpenSSH's processes are children of this program, as the clients are.
        all.extend(process::below(std::process::id()).into_iter().filter(is_sshd));
        // The first host's program may outlive its session.
        let config = self.lab.arg("remote.conf");
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.extend(processes.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            line.split(|&byte| byte == 0).any(|word| word == config.as_bytes()).then_some(pid)
        }));
        all.retain(|&pid| is_alive(pid));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the processes that serve connections and have no children: those with the users' rights.
    pub(super) fn sessions(&self) -> Vec<u32> {
        let mut all = self.serving();
        all.retain(|&pid| process::below(pid).is_empty());
        all
    }

    /// Waits until no connection is served any more. Sessions that wait for a client, which was killed or has
    /// given up, are ended as an administrator would.
    ///
    /// # Errors
    /// Some connections are still served.
    pub(super) fn settle(&self) -> Result<(), String> {
        let serving = || {
            let all = self.serving();
            let sessions =
                if all.is_empty() { Sessions::default() } else { Sessions::ask().unwrap_or_default() };
            for found in sessions.found {
                if found.session.wait.is_some() && all.contains(&found.session.pid) {
                    // It may have ended meanwhile; if not, its processes stay in the list.
                    let _ = lh_session_list::end(found.id);
                }
            }
            all
        };
        wait_until_none(serving, "of servers outlive their clients")
    }

    /// Files in the directory of journals.
    pub(super) fn journals(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(self.lab.path("home/.local/state/longhaul")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

/// Returns true while a thread of the process runs. A killed thread first ends its system call, which may be
/// fsync(2). A zombie has no running thread.
fn is_alive(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats
        .any(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X'])))
}

/// Waits until killed processes have ended. They are given by id, because processes whose parents were killed
/// too are below no known process.
///
/// # Errors
/// Some of them have not ended.
pub(crate) fn wait_for_end(killed: &[u32]) -> Result<(), String> {
    let alive = || killed.iter().copied().filter(|&pid| is_alive(pid)).collect();
    wait_until_none(alive, "were killed and have not ended")
}

/// Waits until `processes` returns none. `what` describes the remaining ones in the error.
fn wait_until_none(processes: impl Fn() -> Vec<u32>, what: &str) -> Result<(), String> {
    let end = Instant::now() + ENDING;
    loop {
        let left = processes();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("processes {left:?} {what}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to each process that still exists.
pub(crate) fn signal(processes: &[u32], signal: Signal) {
    for &pid in processes {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Running {
    /// The client's process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the client's end, but no longer than this. True when it has ended.
    pub(super) fn ends_within(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(1)));
        }
    }

    /// Waits for the client's end.
    ///
    /// # Errors
    /// It does not end in time; it is killed.
    pub(super) fn end(mut self) -> Result<Ended, String> {
        use std::os::unix::process::ExitStatusExt as _;
        let hangs = !self.ends_within(STUCK);
        if hangs {
            let _ = self.child.kill();
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let took = self.start.elapsed();
        let said = String::from_utf8_lossy(&fs::read(&self.said).unwrap_or_default()).into_owned();
        if hangs {
            return Err(format!("the client hangs: it has not ended after {} s:\n{said}", STUCK.as_secs()));
        }
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Ok(Ended { status, said, took })
    }
}
