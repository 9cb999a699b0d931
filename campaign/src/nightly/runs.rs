//! Runs of `lhscp --sync`, and of rsync over the same path.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lh_interop::process::status;
use lh_interop::{Lab, json_lines, our};

use super::trees::count_files;

/// Time between looks at a process or a tree.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The copies of one direction.
pub(super) struct Job<'a> {
    lab: &'a Lab,
    port: u16,
    from: String,
    to: String,
}

/// How a run went.
pub(super) struct Run {
    pub(super) took: Duration,
    /// Peak of resident memory, MiB.
    pub(super) peak_mib: u64,
    /// The last event of `--json`.
    end: serde_json::Value,
}

impl Run {
    /// Checks a member of the last event.
    pub(super) fn expect(&self, member: &str, value: u64) -> Result<(), String> {
        let found = self.end[member].as_u64();
        if found == Some(value) { Ok(()) } else { Err(format!("{member}: {found:?}, expected {value}")) }
    }
}

impl<'a> Job<'a> {
    pub(super) fn new(lab: &'a Lab, port: u16, up: bool, user: &str) -> Self {
        let remote = |name: &str| format!("{user}@127.0.0.1:{}", lab.arg(name));
        let (from, to) = match up {
            true => (lab.arg("source/tree"), remote("copy")),
            false => (remote("source/tree"), lab.arg("copy")),
        };
        Self { lab, port, from, to }
    }

    fn start(&self, port: u16, flags: &[&str]) -> Result<Child, String> {
        let file = |name: &str| File::create(self.lab.path(name)).map_err(|error| error.to_string());
        let mut command = Command::new(our("lhscp"));
        command.args(self.lab.client_options()).args(["-P", &port.to_string(), "--sync", "--json"]);
        command.args(flags).args([&self.from, &self.to]);
        command.current_dir(self.lab.dir()).env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK");
        command.stdin(Stdio::null()).stdout(file("events")?).stderr(file("errors")?);
        command.spawn().map_err(|error| format!("lhscp: {error}"))
    }

    /// Begins a run over the path at `port` and kills it when the target has `files` files.
    pub(super) fn kill_at(&self, files: u64, port: u16) -> Result<Run, String> {
        let begun = Instant::now();
        let mut lhscp = self.start(port, &[])?;
        let (status, peak_mib) = watch(&mut lhscp, || count_files(&self.lab.path("copy")) >= files)?;
        if let Some(status) = status {
            return Err(format!("ended before it was killed, {status}: {}", self.lab.read("errors")));
        }
        lhscp.kill().and_then(|()| lhscp.wait()).map_err(|error| error.to_string())?;
        Ok(Run { took: begun.elapsed(), peak_mib, end: serde_json::Value::Null })
    }

    /// Runs to the end.
    pub(super) fn sync(&self, flags: &[&str]) -> Result<Run, String> {
        let begun = Instant::now();
        let mut lhscp = self.start(self.port, flags)?;
        let (status, peak_mib) = watch(&mut lhscp, || false)?;
        let took = begun.elapsed();
        let errors = self.lab.read("errors");
        if !status.is_some_and(|status| status.success()) || !errors.is_empty() {
            return Err(format!("{flags:?}: {status:?}: {errors}"));
        }
        let end = json_lines(&self.lab.read("events")).pop().unwrap_or_default();
        Ok(Run { took, peak_mib, end })
    }

    /// The same by rsync; `None` where it is not installed.
    pub(super) fn rsync(&self, rsync: Option<&Path>, flags: &[&str]) -> Result<Option<Duration>, String> {
        let Some(rsync) = rsync else { return Ok(None) };
        let shell = self.lab.shell_command(&our("lhssh"), self.port);
        let mut command = Command::new(rsync);
        command.args(["-a", "-e", &shell]).args(flags).args([&self.from, &format!("{}/", self.to)]);
        command.current_dir(self.lab.dir()).env("HOME", self.lab.path("home")).stdin(Stdio::null());
        let begun = Instant::now();
        let done = command.output().map_err(|error| format!("rsync: {error}"))?;
        let took = begun.elapsed();
        match done.status.success() {
            true => Ok(Some(took)),
            false => Err(format!("rsync: {}: {}", done.status, String::from_utf8_lossy(&done.stderr))),
        }
    }
}

/// Waits until a process ends or `is_enough`. Returns its status if it has ended, and the peak of its
/// resident memory, MiB.
fn watch(process: &mut Child, is_enough: impl Fn() -> bool) -> Result<(Option<ExitStatus>, u64), String> {
    let mut peak_mib = 0;
    loop {
        peak_mib = peak_mib.max(peak(process.id()));
        if let Some(status) = process.try_wait().map_err(|error| error.to_string())? {
            return Ok((Some(status), peak_mib));
        }
        let begun = Instant::now();
        if is_enough() {
            return Ok((None, peak_mib));
        }
        // A look at a large tree must not take the time of the copy.
        sleep(BETWEEN_LOOKS.max(begun.elapsed()));
    }
}

fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:").unwrap_or(0) / 1024
}
