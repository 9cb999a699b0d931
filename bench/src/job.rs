//! One run of one contestant: a server under its supervisor, a client under another, and the usage of both.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::bench::Bench;
use crate::end::{Moved, Report};
use crate::usage::Usage;

/// Data flow through a client's standard input or output, besides files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Flow {
    /// No counted flow.
    #[default]
    None,
    /// Writes zeros for this many seconds.
    Feed(u64),
    /// Counts the output.
    Meter,
}

/// A program with its arguments. In arguments and environment, `{port}`, `{address}` and `{log}` stand for
/// values that are known only when the server runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

impl Program {
    pub(crate) fn new<S: Into<String>>(path: &Path, args: impl IntoIterator<Item = S>) -> Self {
        Self { path: path.to_path_buf(), args: args.into_iter().map(Into::into).collect(), env: Vec::new() }
    }
}

/// How to run a server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) program: Program,
    /// The program listens itself and logs its port; otherwise it runs once per connection.
    pub(crate) listens: bool,
}

/// Remote commands of a client. Their CPU time does not belong to the SSH programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Commands {
    /// Other programs run at an end, and their CPU time is not measured separately.
    #[default]
    Unknown,
    /// No remote command runs besides the SSH programs.
    None,
    /// The remote command's CPU time and its shell's, microseconds, are written to this file.
    Counted(PathBuf),
}

/// How to run a client.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) program: Program,
    pub(crate) stdin: Option<PathBuf>,
    pub(crate) flow: Flow,
    /// Number of runs, shared by those that run at the same time.
    pub(crate) repeat: u64,
    /// Number of programs that run at the same time.
    pub(crate) parallel: usize,
    /// Programs that run besides the SSH programs.
    pub(crate) commands: Commands,
}

impl Client {
    pub(crate) const fn new(program: Program) -> Self {
        Self { program, stdin: None, flow: Flow::None, repeat: 1, parallel: 1, commands: Commands::Unknown }
    }
}

/// Measurement of one run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) wall_s: f64,
    pub(crate) client: Usage,
    pub(crate) server: Usage,
    /// Bytes through a counted pipe.
    pub(crate) moved: Moved,
    /// CPU time of the remote commands, microseconds, where it is known.
    pub(crate) commands_us: Option<u64>,
}

impl Sample {
    /// CPU time of the SSH programs of both ends, milliseconds: without the remote command and its shell.
    pub(crate) fn ssh_cpu_ms(&self) -> Option<f64> {
        Some((self.cpu_ms() - self.commands_us? as f64 / 1000.0).max(0.0))
    }

    /// CPU time of both ends, milliseconds.
    pub(crate) fn cpu_ms(&self) -> f64 {
        (self.client.cpu_us() + self.server.cpu_us()) as f64 / 1000.0
    }
}

/// A server under its supervisor. Dropping it stops both.
pub(crate) struct Running {
    supervisor: Child,
    /// The server runs until this is closed.
    input: Option<ChildStdin>,
    pub(crate) port: u16,
    report: PathBuf,
    log: PathBuf,
}

impl Running {
    pub(crate) fn start(bench: &Bench, server: &Server) -> Result<Self, String> {
        let (report, log) = (bench.fresh("report"), bench.fresh("log"));
        let mut command = prefixed(&bench.options.hosts.server_prefix, &bench.me);
        command.args(["end-server", "--address", &bench.options.hosts.address]);
        command.args([Path::new("--report"), &report, Path::new("--log"), &log]);
        if server.listens {
            command.args(["--mode", "listener"]);
        }
        let log_text = log.to_string_lossy();
        let fill = |text: &String| {
            text.replace("{log}", &log_text).replace("{address}", &bench.options.hosts.address)
        };
        command.arg("--").arg(&server.program.path).args(server.program.args.iter().map(fill));
        command.envs(server.program.env.iter().map(|(name, value)| (name, fill(value))));
        bench.set_environment(&mut command);
        let mut supervisor = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", bench.me.display()))?;
        let input = supervisor.stdin.take();
        let mut line = String::new();
        if let Some(out) = supervisor.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
        let mut running = Self { supervisor, input, port: port.unwrap_or(0), report, log };
        if port.is_none() {
            running.stop();
            return Err(format!("{} did not start: {}", server.program.path.display(), running.log_end()));
        }
        Ok(running)
    }

    /// Process id of the supervisor; the server's processes are below it.
    pub(crate) fn pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// Last lines of the server's log.
    pub(crate) fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    fn stop(&mut self) {
        drop(self.input.take());
        let _ = self.supervisor.wait();
    }

    /// Stops the server and returns its usage.
    pub(crate) fn finish(mut self) -> Result<Usage, String> {
        self.stop();
        Ok(Report::read(&self.report)?.usage)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_file(&self.report);
        let _ = std::fs::remove_file(&self.log);
    }
}

/// A command with prefix words, such as `ip netns exec`.
fn prefixed(prefix: &str, program: &Path) -> Command {
    let mut words = prefix.split_ascii_whitespace();
    let Some(first) = words.next() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}

/// The client's command with its placeholders replaced.
pub(crate) fn client_command(
    bench: &Bench,
    program: &Program,
    port: u16,
) -> (PathBuf, Vec<String>, Vec<(String, String)>) {
    let port = port.to_string();
    let fill =
        |text: &String| text.replace("{port}", &port).replace("{address}", &bench.options.hosts.address);
    let env = program.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
    (program.path.clone(), program.args.iter().map(fill).collect(), env)
}

/// Runs a client to its end under a supervisor.
pub(crate) fn run_client(bench: &Bench, client: &Client, port: u16) -> Result<Report, String> {
    let report = bench.fresh("report");
    let mut command = prefixed(&bench.options.hosts.client_prefix, &bench.me);
    command.args(["end-client", "--repeat", &client.repeat.to_string()]);
    command.args(["--parallel", &client.parallel.to_string()]).arg("--report").arg(&report);
    if let Some(path) = &client.stdin {
        command.arg("--stdin").arg(path);
    }
    match client.flow {
        Flow::None => {}
        Flow::Feed(seconds) => drop(command.args(["--feed", &seconds.to_string()])),
        Flow::Meter => drop(command.args(["--meter", "yes"])),
    }
    let (program, args, env) = client_command(bench, &client.program, port);
    command.arg("--").arg(program).args(args).envs(env);
    bench.set_environment(&mut command);
    let done =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", bench.me.display()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(said.lines().rev().take(4).collect::<Vec<_>>().join(" | "));
    }
    let result = Report::read(&report);
    let _ = std::fs::remove_file(&report);
    result
}

/// One run: starts the server, runs the client, stops the server.
pub(crate) fn run(bench: &Bench, server: Option<&Server>, client: &Client) -> Result<Sample, String> {
    let running = server.map(|server| Running::start(bench, server)).transpose()?;
    let port = running.as_ref().map_or(0, |running| running.port);
    let report = run_client(bench, client, port).map_err(|error| match &running {
        Some(running) => format!("{error} (server: {})", running.log_end()),
        None => error,
    })?;
    let server = running.map(Running::finish).transpose()?.unwrap_or_default();
    let commands_us = match &client.commands {
        Commands::Unknown => None,
        Commands::None => Some(0),
        Commands::Counted(file) => {
            let text = std::fs::read_to_string(file);
            let _ = std::fs::remove_file(file);
            let number = text.ok().and_then(|text| text.trim().parse().ok());
            Some(number.ok_or_else(|| format!("{}: no CPU time of the remote command", file.display()))?)
        }
    };
    let wall_s = report.wall_us as f64 / 1e6;
    Ok(Sample { wall_s, client: report.usage, server, moved: report.moved, commands_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_programs_are_all_but_the_commands() {
        let usage = |us| Usage { user_us: us, ..Usage::default() };
        let mut sample = Sample { client: usage(3000), server: usage(5000), ..Sample::default() };
        assert_eq!(sample.ssh_cpu_ms(), None);
        sample.commands_us = Some(2000);
        assert_eq!(sample.ssh_cpu_ms(), Some(6.0));
    }
}
