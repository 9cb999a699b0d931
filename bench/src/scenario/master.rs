//! Programs that run beside the measurement: clients that hold a connection, masters and their mux clients.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::contestant::{Variation, client_options};

/// Time limit for a program to become ready.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls `ready` until it returns a value.
pub(super) fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> Result<T, String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if Instant::now() > deadline {
            return Err(format!("no {what}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Programs that end with the measurement.
#[derive(Default)]
pub(super) struct Programs {
    running: Vec<Child>,
    /// Environment variables of the programs, beside the bench's own.
    env: Vec<(&'static str, String)>,
}

impl Programs {
    /// Programs with this environment variable.
    pub(super) fn with(variable: (&'static str, String)) -> Self {
        Self { running: Vec::new(), env: vec![variable] }
    }

    /// Starts `ssh` with these arguments.
    pub(super) fn start(
        &mut self,
        bench: &Bench,
        ssh: &Path,
        args: &[String],
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<(Option<ChildStdin>, Option<ChildStdout>), String> {
        let mut program = Command::new(ssh);
        program.args(args).stdin(stdin).stdout(stdout).stderr(Stdio::null());
        bench.set_environment(&mut program);
        program.envs(self.env.iter().map(|(name, value)| (name, value)));
        let mut child = program.spawn().map_err(|error| format!("{}: {error}", ssh.display()))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        self.running.push(child);
        Ok(pipes)
    }

    /// Process ids of the programs.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.running.iter().map(Child::id)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A master and its mux clients.
pub(super) struct Master<'a> {
    bench: &'a Bench,
    ssh: &'a Path,
    with: &'a Variation,
    port: u16,
    socket: PathBuf,
    pub(super) programs: Programs,
}

impl<'a> Master<'a> {
    /// Returns when the master accepts mux clients.
    pub(super) fn start(
        bench: &'a Bench,
        ssh: &'a Path,
        with: &'a Variation,
        port: u16,
    ) -> Result<Self, String> {
        let socket = bench.fresh("master");
        let mut master = Self { bench, ssh, with, port, socket, programs: Programs::default() };
        let mut args = master.args(&["-M", "-N"]);
        args.push(destination(bench));
        master.programs.start(bench, ssh, &args, Stdio::null(), Stdio::null())?;
        wait_for("master", || master.socket.exists().then_some(()))?;
        Ok(master)
    }

    /// Path of the master's socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Arguments that make a client a mux client.
    pub(super) fn args(&self, flags: &[&str]) -> Vec<String> {
        let mut args = client_options(self.bench, self.with);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args.extend(["-S".to_owned(), self.socket.display().to_string()]);
        args.extend(["-p".to_owned(), self.port.to_string()]);
        args
    }

    /// Starts a mux client with a command.
    pub(super) fn mux_client(
        &mut self,
        flags: &[&str],
        command: &str,
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<(Option<ChildStdin>, Option<ChildStdout>), String> {
        let mut args = self.args(flags);
        args.extend([destination(self.bench), command.to_owned()]);
        self.programs.start(self.bench, self.ssh, &args, stdin, stdout)
    }
}

/// `user@address`.
pub(super) fn destination(bench: &Bench) -> String {
    format!("{}@{}", bench.user(), bench.options.hosts.address)
}
