//! Bulk data: with cipher threads, and while another channel is stalled.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lh_interop::process::{family, peak_mib};
use lh_interop::{Lab, Lhsshd, bin_dir, eventually, me, our, peers};

/// Longest wait for anything.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A process that is killed when its test ends.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Counts the cipher threads of these processes.
fn workers(pids: &[u32]) -> usize {
    let names = |pid: &u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect::<Vec<_>>()
    };
    pids.iter().flat_map(names).filter(|name| name.trim() == "packets").count()
}

/// Counts the cipher threads of client and server, each with this value of `DisableMTAES`, during a session
/// that has moved data.
fn workers_with(client_says: &str, server_says: &str) -> (usize, usize) {
    let lab = Lab::new();
    let server = Lhsshd::start_with(&lab, &format!("DisableMTAES {server_says}"), &[("LH_WORKERS", "2")]);
    let mut command = Command::new(our("lhssh"));
    command.args(lab.client_options()).args(["-o", &format!("DisableMTAES={client_says}")]);
    command.args(["-p", &server.port_arg(), &format!("{}@127.0.0.1", me())]);
    command.arg("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo there; cat");
    command.env("LH_WORKERS", "2").env("HOME", lab.path("home"));
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut client = Guard(child);
    let mut output = BufReader::new(client.0.stdout.take().unwrap());
    let (mut zeros, mut line) = (Vec::new(), String::new());
    output.read_until(b'\n', &mut zeros).unwrap();
    assert_eq!(zeros.len(), 20_000_001);
    assert!(zeros.iter().rev().skip(1).all(|&byte| byte == b'x'), "what arrives is what was sent");
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    let found = (workers(&family(client.0.id())), workers(&family(server.pid())));
    drop(client.0.stdin.take());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    found
}

/// Covers: ssh_config DisableMTAES; sshd_config DisableMTAES
#[test]
fn disable_mt_aes_leaves_no_cipher_threads() {
    assert_eq!(workers_with("no", "no"), (2, 2));
    assert_eq!(workers_with("yes", "no"), (0, 2));
    assert_eq!(workers_with("no", "yes"), (2, 0));
}

/// MiB to pass beside a stuck channel; less in debug builds.
fn much() -> u64 {
    let asked = std::env::var("LH_FLOW_MIB").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if bin_dir().ends_with("release") { 2048 } else { 64 })
}

/// Waits for the end of a thread. Fails at the limit, where the thread would hang.
fn ended<T>(thread: JoinHandle<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    while !thread.is_finished() {
        assert!(Instant::now() < end, "the other session has stopped");
        std::thread::sleep(Duration::from_millis(20));
    }
    thread.join().unwrap()
}

/// Two sessions on one connection of OpenSSH's client.
struct Shared {
    lab: Lab,
    server: Lhsshd,
    ssh: std::path::PathBuf,
}

impl Shared {
    fn new(test: &str) -> Option<Self> {
        let [ssh] = peers(test, ["ssh"])?;
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, "");
        Some(Self { lab, server, ssh })
    }

    fn session(&self, master: &str, command: &str, input: Stdio, output: Stdio) -> Guard {
        let mut ssh = Command::new(&self.ssh);
        ssh.args(self.lab.client_options()).args(["-o", &format!("ControlMaster={master}")]);
        ssh.args(["-o", &format!("ControlPath={}", self.lab.arg("control"))]);
        ssh.args(["-p", &self.server.port_arg(), &format!("{}@127.0.0.1", me()), command]);
        ssh.env("HOME", self.lab.path("home"));
        Guard(ssh.stdin(input).stdout(output).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until the master accepts a second session.
    fn wait_for_master(&self) {
        eventually("the first session's socket", || Path::new(&self.lab.arg("control")).exists());
    }
}

/// The sender of one channel is blocked during a long transfer on another.
///
/// Covers: wire channel-data
#[test]
fn a_reader_that_stops_does_not_slow_another_session() {
    let Some(shared) = Shared::new("a_reader_that_stops_does_not_slow_another_session") else { return };
    // Only the first byte of this pipe is read.
    let mut stuck = shared.session("yes", "cat /dev/zero", Stdio::null(), Stdio::piped());
    let mut never_read = stuck.0.stdout.take().unwrap();
    never_read.read_exact(&mut [0]).unwrap();
    shared.wait_for_master();
    let bytes = much() << 20;
    let mut flowing =
        shared.session("no", &format!("head -c {bytes} /dev/zero"), Stdio::null(), Stdio::piped());
    let mut output = flowing.0.stdout.take().unwrap();
    let copying = std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()).unwrap());
    assert_eq!(ended(copying), bytes);
    assert!(flowing.0.wait().unwrap().success());
    assert!(stuck.0.try_wait().unwrap().is_none(), "the other one is still there");
    assert!(peak_mib(shared.server.pid()) < 64, "{} MiB", peak_mib(shared.server.pid()));
    // The stuck session continues when its output is read again; queued data come first.
    never_read.read_exact(&mut vec![0; 8 << 20]).unwrap();
}

/// The sink of one channel reads nothing during a long transfer on another.
///
/// Covers: wire channel-data
#[test]
fn a_program_that_does_not_read_does_not_slow_another_session() {
    let Some(shared) = Shared::new("a_program_that_does_not_read_does_not_slow_another_session") else {
        return;
    };
    let go = shared.lab.path("go");
    let patient = format!("while [ ! -e {} ]; do sleep 0.1; done; wc -c", go.display());
    let mut stuck = shared.session("yes", &patient, Stdio::piped(), Stdio::piped());
    shared.wait_for_master();
    // More than a window and all pipes can hold, from a thread that is blocked for most of the test.
    let mut input = stuck.0.stdin.take().unwrap();
    let total: usize = 16 << 20;
    let writer = std::thread::spawn(move || input.write_all(&vec![b'x'; total]));
    let bytes = much() << 20;
    let mut flowing = shared.session("no", "wc -c", Stdio::piped(), Stdio::piped());
    let (mut input, mut output) = (flowing.0.stdin.take().unwrap(), flowing.0.stdout.take().unwrap());
    let counting = std::thread::spawn(move || {
        let block = vec![0; 1 << 20];
        for _ in 0..much() {
            input.write_all(&block).unwrap();
        }
        drop(input);
        let mut counted = String::new();
        output.read_to_string(&mut counted).unwrap();
        counted
    });
    assert_eq!(ended(counting).trim(), bytes.to_string());
    assert!(peak_mib(shared.server.pid()) < 64, "{} MiB", peak_mib(shared.server.pid()));
    assert!(!writer.is_finished(), "the stuck one has taken everything");
    fs::write(&go, "").unwrap();
    let mut counted = String::new();
    stuck.0.stdout.take().unwrap().read_to_string(&mut counted).unwrap();
    assert_eq!(counted.trim(), total.to_string());
    writer.join().unwrap().unwrap();
}
