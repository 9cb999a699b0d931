//! The hosts of the campaign: a server behind a router, the client's configuration, and running scripts.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{Lab, Lhsshd, find, make_blob, me, our, process};
use rustix::process::Signal;

use super::network::{Network, PORT, SERVER};
use super::work::{PRELUDE, Work};
use crate::faults::signal;

/// Time limit for a session to continue.
const STUCK: Duration = Duration::from_secs(90);
/// Time limit for sessions to end after their clients.
const ENDING: Duration = Duration::from_secs(20);
/// Bytes between two readings of the time: more than a connection and its login need.
const MARK: u64 = 16 << 10;
/// Number of readings after a cut, at least: more data than the path can hold at its usual rate.
const MARKS: u64 = 64;
/// Time after which data that was in the path at the cut has passed.
const DRAINED: Duration = Duration::from_millis(300);
/// Pause between checks of the path.
const LOOK: Duration = Duration::from_millis(5);

/// The campaign's hosts.
pub(super) struct Hosts {
    pub(super) network: Network,
    lab: Lab,
    server: Lhsshd,
    http: u16,
    /// Bytes that each script moves, at least.
    pub(super) volume: u64,
    /// Rate of the path, bits per second.
    rate: u64,
    rounds: u64,
}

/// A running script.
pub(super) struct Running {
    child: Child,
    dir: PathBuf,
    status: Option<i32>,
}

impl Hosts {
    /// Creates the network and the source files, and starts the servers.
    ///
    /// # Errors
    /// There are no network namespaces, or a program fails.
    pub(super) fn up(volume: usize, rate: u64) -> Result<Self, String> {
        let network = Network::up(rate)?;
        let failed = |error: std::io::Error| error.to_string();
        let lab = Lab::new();
        fs::create_dir_all(lab.path("sources/tree")).map_err(failed)?;
        make_blob(&lab.path("sources/blob"), volume);
        make_blob(&lab.path("sources/small"), 30_000);
        for part in 1..=10 {
            make_blob(&lab.path(&format!("sources/tree/part{part}")), volume / 10 + part);
        }
        if let Some(git) = find("git") {
            let made = "git init -q repository && cp blob repository && cd repository && git add blob && \
                        git -c user.name=a -c user.email=a@b commit -q -m blob";
            let done = Command::new("sh").args(["-c", made]).current_dir(lab.path("sources")).status();
            done.map_err(|error| format!("{}: {error}", git.display()))?;
        }
        // The server also listens on loopback, on a port that the kernel chooses. Attempts whose reset does
        // not reach the server end with their grace time, within `ENDING`.
        let config = format!(
            "ListenAddress {SERVER}:{PORT}\nResumeGrace 5m\nUsePAM no\nMaxStartups 500\nMaxSessions 50\nLoginGraceTime 15\n"
        );
        let server = network.at_server(|| Ok(Lhsshd::start(&lab, &config)))?;
        let listener = network.at_server(|| TcpListener::bind(("127.0.0.1", 0)))?;
        let http = listener.local_addr().map_err(failed)?.port();
        let sources = lab.path("sources");
        std::thread::spawn(move || serve_files(&listener, &sources));
        let mut known = String::new();
        for key in ["host_ed25519.pub", "host_rsa.pub", "host_ecdsa.pub"] {
            known.push_str(&format!("[{SERVER}]:{PORT} {}", lab.read(key)));
        }
        lab.write("known_hosts", &known);
        lab.write("config", &client_config(&lab));
        Ok(Self { network, lab, server, http, volume: volume as u64, rate, rounds: 0 })
    }

    /// Starts a script in the client's namespace, in its own directory.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&mut self, work: &Work) -> Result<Running, String> {
        self.rounds += 1;
        let dir = self.lab.path(&format!("round{}", self.rounds));
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let sources = self.lab.arg("sources");
        let mut command = Command::new("sh");
        command.args(["-euc", &format!("{PRELUDE}{}", work.script)]).current_dir(&dir);
        command.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
        command.env("ssh", format!("{} -F {}", our("lhssh").display(), self.lab.arg("config")));
        command.env("blob", format!("{sources}/blob")).env("tree", format!("{sources}/tree"));
        command.env("repository", format!("{sources}/repository")).env("sources", &sources);
        command.env("http", self.http.to_string());
        let child = self.network.at_client(|| {
            let said = File::create(dir.join("said"))?;
            command.stdout(said.try_clone()?).stderr(said).spawn()
        })?;
        Ok(Running { child, dir, status: None })
    }

    /// Waits until the client's link has carried this many bytes. False if the script ends before.
    ///
    /// # Errors
    /// Nothing has passed for [`STUCK`].
    pub(super) fn passes(&self, running: &mut Running, bytes: u64) -> Result<bool, String> {
        let (mut last, mut since) = (self.network.passed(), Instant::now());
        if last >= bytes {
            return Ok(true);
        }
        loop {
            if running.has_ended() {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
            let now = self.network.passed();
            // Keepalives and connection attempts do not count as progress.
            if now >= bytes {
                return Ok(true);
            } else if now > last + MARK {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > STUCK {
                return Err(self.failure(running, "the session does not go on"));
            }
        }
    }

    /// Waits until the session continues. Returns the time from `usable`, when the path works again, to the
    /// end of the longest gap. A gap is the time between two successive amounts of [`MARK`] bytes; only those
    /// that begin less than `DRAINED` after `usable` count.
    ///
    /// # Errors
    /// Nothing has passed for [`STUCK`].
    pub(super) fn recovers(&self, running: &mut Running, usable: Instant) -> Result<Duration, String> {
        let base = self.network.passed();
        let (mut begin, mut longest, mut end) = (usable, Duration::ZERO, usable);
        for mark in 1.. {
            let going = self.passes(running, base + mark * MARK)?;
            let now = Instant::now();
            let took = now.saturating_duration_since(begin);
            if took > longest && begin.saturating_duration_since(usable) < DRAINED {
                (longest, end) = (took, now);
            }
            begin = now;
            // A fast path brings many marks before the break shows.
            let is_drained = begin.saturating_duration_since(usable) >= DRAINED;
            if !going || (mark >= MARKS && is_drained) {
                break;
            }
        }
        Ok(end.saturating_duration_since(usable))
    }

    /// Waits until the session continues over another connection, or the script ends. Returns the time that
    /// this took.
    ///
    /// # Errors
    /// Neither has happened after twice [`STUCK`]: the client may have to compare two connections again.
    pub(super) fn resumes(
        &self,
        running: &mut Running,
        before: usize,
        since: Instant,
    ) -> Result<Duration, String> {
        while self.resumptions() == before && !running.has_ended() {
            if since.elapsed() > STUCK * 2 {
                return Err(self.failure(running, "the session stays on a policed connection"));
            }
            std::thread::sleep(LOOK * 10);
        }
        Ok(since.elapsed())
    }

    /// Number of resumptions so far.
    pub(super) fn resumptions(&self) -> usize {
        self.server.log().matches(" resumed from ").count()
    }

    /// Kills the processes of a failed script, and returns its output and the server's log.
    fn failure(&self, running: &mut Running, what: &str) -> String {
        let said = fs::read_to_string(running.dir.join("said")).unwrap_or_default();
        let log = self.server.log();
        let start = log.char_indices().rev().nth(6000).map_or(0, |(at, _)| at);
        signal(&process::family(running.child.id()), Signal::KILL);
        let _ = running.child.wait();
        format!("{what}\n{said}\n--- end of the server's log\n{}", &log[start..])
    }
}

impl Running {
    fn has_ended(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        if self.status.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.status = Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()));
        }
        self.status.is_some()
    }

    /// Waits for the end of the script and of its sessions.
    ///
    /// # Errors
    /// The script fails, or does not end, or a session is left.
    pub(super) fn end(mut self, hosts: &Hosts) -> Result<(), String> {
        let start = Instant::now();
        while !self.has_ended() {
            // Time for the data at the path's rate, doubled for scripts that send both ways, and doubled
            // again for a busy machine.
            let transfer = Duration::from_secs(hosts.volume * 8 / hosts.rate * 4);
            if start.elapsed() > STUCK * 2 + transfer {
                return Err(hosts.failure(&mut self, "the work does not end"));
            }
            std::thread::sleep(LOOK);
        }
        if self.status != Some(0) {
            let what = format!("the work fails with status {}", self.status.unwrap_or_default());
            return Err(hosts.failure(&mut self, &what));
        }
        let end = Instant::now() + ENDING;
        while !process::below(hosts.server.pid()).is_empty() {
            if Instant::now() > end {
                return Err(hosts.failure(&mut self, "a session is left"));
            }
            std::thread::sleep(LOOK);
        }
        // The results have been compared, and are large.
        let _ = fs::remove_dir_all(&self.dir);
        Ok(())
    }
}

fn client_config(lab: &Lab) -> String {
    format!(
        "Host server\n HostName {SERVER}\n Port {PORT}\n User {}\n Resume yes\n \
         UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n \
         StrictHostKeyChecking yes\n IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n \
         ExitOnForwardFailure yes\n LogLevel ERROR\n",
        me(),
        lab.arg("known_hosts"),
        lab.arg("user_ed25519")
    )
}

/// Answers `GET /NAME` with a file.
fn serve_files(listener: &TcpListener, sources: &std::path::Path) {
    for mut socket in listener.incoming().flatten() {
        let sources = sources.to_owned();
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && request.len() < 4096 {
                lh_interop::uninterrupted(|| socket.read_exact(&mut byte))?;
                request.push(byte[0]);
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let name = text.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('/');
            let body = fs::read(sources.join(name))?;
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.write_all(head.as_bytes())?;
            socket.write_all(&body)
        });
    }
}
