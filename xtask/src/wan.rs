//! Runs commands at the two ends of an emulated wide-area path, described in `docs/long-paths.md`.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use lh_link::path::{Path, Side, Spec};
use lh_sys::child::{Ended, Watched};
use lh_sys::signals::Signals;
use lh_sys::spawn::Program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::workspace::{Outcome, call, cargo, target_dir};

pub(crate) const USAGE: &str = "\
usage: cargo xtask wan [options] [--] [COMMAND [ARG…]]
  --rtt TIME          round-trip time (50ms)
  --rate RATE         rate in each direction (2gbit)
  --loss PART         loss in each direction, of packets on the wire: 0.0001 or 0.01% (0)
  --jitter TIME       up to this much longer for each packet in each direction, in order (0ms; user only)
  --queue BYTES       queue in front of each direction (rate x rtt, at least 256 KiB)
  --mtu BYTES         longest IP packet (1500)
  --congestion NAME   TCP's congestion control at both ends (cubic)
  --tcp-buffer BYTES  limit for TCP's buffers at both ends (4 x what path and queue hold)
  --seed N            which packets get lost (1)
  --link KIND         user or netem (netem where the kernel has it)
  --far 'COMMAND'     a server for the far end, run by sh; COMMAND starts when it listens
COMMAND runs at the near end (a shell without one), with LH_WAN_FAR, LH_WAN_FAR6, LH_WAN_NEAR, LH_WAN_NEAR6
(addresses) and LH_WAN_FAR_NETNS, LH_WAN_NEAR_NETNS (namespaces, for `ip netns exec`) in the environment.";

/// Time limit for a server to start listening.
const SERVER_PATIENCE: Duration = Duration::from_secs(10);

/// Time limit for a command to end after a signal.
const END_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Wanted {
    spec: Spec,
    far: Option<String>,
    command: Vec<String>,
}

fn parse(args: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        if flag == "--" {
            wanted.command = rest.cloned().collect();
            break;
        }
        if !flag.starts_with("--") {
            wanted.command = std::iter::once(flag).chain(rest).cloned().collect();
            break;
        }
        if flag == "--help" {
            return Err(USAGE.to_owned());
        }
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
        if wanted.spec.set(flag, value)? {
            continue;
        }
        match flag.as_str() {
            "--far" => wanted.far = Some(value.clone()),
            _ => return Err(format!("{flag}: no such option\n{USAGE}")),
        }
    }
    Ok(wanted)
}

/// Sets up the path, runs the command, removes the path, and exits with the command's status.
pub(crate) fn run(args: &[String]) -> Outcome {
    let wanted = parse(args)?;
    call(cargo().args(["build", "--quiet", "--release", "--locked", "--package", "lh-link"]))?;
    let program = target_dir().join("release/lh-link");
    // Signals are collected before the path is set up, so that a signal cannot leave parts of it behind.
    let signals = Signals::collect(&[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT])
        .map_err(|error| format!("signals: {error}"))?;
    let path = Path::up(&wanted.spec, &program)?;
    let shape = wanted.spec.shape();
    eprintln!(
        "wan: {}: rtt {:?}, {} Mbit/s each way, queue {} kB, loss {}, {} with buffers up to {} MB",
        path.kind(),
        wanted.spec.rtt,
        shape.rate / 1_000_000,
        shape.queue / 1000,
        shape.loss,
        wanted.spec.congestion,
        wanted.spec.tcp_buffer() / 1_000_000,
    );
    let result = serve_and_run(&path, &wanted, signals);
    // Clean up before reporting any error.
    let counters = path.down();
    for (name, counters) in ["near to far", "far to near"].iter().zip(counters?.into_iter().flatten()) {
        eprintln!("wan: {name}: {counters}");
    }
    match result? {
        0 => Ok(()),
        code => std::process::exit(code),
    }
}

/// Starts the server, runs the command, and returns its exit status as a shell would.
fn serve_and_run(path: &Path, wanted: &Wanted, mut signals: Signals) -> Result<i32, String> {
    if let Some(line) = &wanted.far {
        start_server(path, line)?;
    }
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned());
    let (program, args) = match wanted.command.split_first() {
        Some((program, args)) => (program, args),
        None => (&shell, &[][..]),
    };
    let child = start(path.command(Side::Near, program).args(args), false);
    attend(child.map_err(|error| format!("{program}: {error}"))?, &mut signals)
}

/// Starts the server. It and its children end with its namespace.
fn start_server(path: &Path, line: &str) -> Outcome {
    let mut command = path.command(Side::Far, "sh");
    // Ctrl-C at the terminal is meant for the command; the server ends after it.
    start(command.args(["-c", line]), true).map_err(|error| format!("--far {line}: {error}"))?;
    if !path.wait_for_listener(Side::Far, SERVER_PATIENCE) {
        eprintln!("wan: nothing listens on TCP at the far end after {SERVER_PATIENCE:?}; going on");
    }
    Ok(())
}

/// Starts a command with no signal blocked; the standard library would pass on our blocked ones.
fn start(command: &Command, own_session: bool) -> io::Result<Child> {
    // `env` looks the program up in PATH.
    let mut program = Program::new("/usr/bin/env").arg(command.get_program());
    for arg in command.get_args() {
        program = program.arg(arg);
    }
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let ours = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in ours {
        env.retain(|(other, _)| other != name);
        env.push((name.to_owned(), value.to_owned()));
    }
    let stdio =
        [io::stdin().as_fd(), io::stdout().as_fd(), io::stderr().as_fd()].map(|fd| fd.try_clone_to_owned());
    let [stdin, stdout, stderr] = stdio;
    program = program.env(env).stdio(stdin?, stdout?, stderr?);
    if own_session {
        program = program.new_session();
    }
    program.spawn()
}

/// Waits for the command; a signal to this program ends it.
fn attend(child: Child, signals: &mut Signals) -> Result<i32, String> {
    let failed = |error: io::Error| format!("waiting for the command: {error}");
    let mut child = Watched::new(child).map_err(failed)?;
    let mut deadline: Option<Instant> = None;
    loop {
        if let Some(ended) = child.try_wait().map_err(failed)? {
            return Ok(status(ended));
        }
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if timeout.is_some_and(|left| left.is_zero()) {
            let _ = child.signal(Signal::KILL, false);
            return child.wait().map(status).map_err(failed);
        }
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::new(signals, PollFlags::IN), PollFd::new(&child, PollFlags::IN)];
        if let Err(error) = poll(&mut fds, timeout.as_ref())
            && error != rustix::io::Errno::INTR
        {
            return Err(failed(error.into()));
        }
        while let Some(signal) = signals.take().map_err(failed)? {
            // The terminal has already sent it to the command; a second one is harmless.
            let _ = child.signal(signal, false);
            deadline = deadline.or_else(|| Some(Instant::now() + END_PATIENCE));
        }
    }
}

/// Converts the exit status to a shell's.
fn status(ended: Ended) -> i32 {
    match ended {
        Ended::Exit(code) => i32::from(code),
        Ended::Signal { number, .. } => 128 + number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Wanted, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_where_the_command_starts() {
        let wanted = parsed("--rtt 20ms --rate 500mbit --loss 0.1% --far sshd iperf3 --rate 3").unwrap();
        assert_eq!(wanted.spec.rtt, Duration::from_millis(20));
        assert_eq!(wanted.spec.rate, 500_000_000);
        assert_eq!(wanted.spec.loss, 0.001);
        assert_eq!(wanted.far.as_deref(), Some("sshd"));
        assert_eq!(wanted.command, ["iperf3", "--rate", "3"]);
        assert_eq!(parsed("--queue 1m -- --odd").unwrap().command, ["--odd"]);
        assert_eq!(parsed("").unwrap().command, [""; 0]);
    }

    /// Stands in for a program of others, in the directory `$1`: its server sends a line to its client.
    const IPERF3: &str = r#"case $1 in
-s) exec perl -e '
    use Socket; socket(S, PF_INET, SOCK_STREAM, 0); bind(S, pack_sockaddr_in(5201, INADDR_ANY)); listen(S, 5);
    while (accept(C, S)) { syswrite C, "from the far end\n"; close C; }' ;;
-c) exec perl -e '
    use Socket; socket(S, PF_INET, SOCK_STREAM, 0);
    connect(S, pack_sockaddr_in(5201, inet_aton($ARGV[0]))) or die $!; print <S>;' "$2" > "${0%/*}/received" ;;
esac"#;

    #[test]
    fn the_page_s_command_runs_at_both_ends_of_a_path() {
        let test = "the_page_s_command_runs_at_both_ends_of_a_path";
        let program = lh_interop::bin_dir().join("lh-link");
        if !lh_interop::is_root() {
            return lh_interop::skip(test, "needs root to make networks");
        }
        if !program.is_file() || lh_interop::find("perl").is_none() {
            return lh_interop::skip(
                test,
                "needs perl and lh-link, which cargo build --workspace --bins makes",
            );
        }
        let page = std::fs::read_to_string(crate::workspace::root().join("docs/long-paths.md")).unwrap();
        let line = page.lines().find(|line| line.starts_with("    cargo xtask wan ")).unwrap();
        let mut shell = Command::new("sh");
        let words = shell.args(["-ec", &format!("cargo() {{ printf '%s\\0' \"$@\"; }}\n{line}")]).output();
        let words = String::from_utf8(words.unwrap().stdout).unwrap();
        let words: Vec<String> = words.split_terminator('\0').skip(2).map(str::to_owned).collect();
        let mut wanted = parse(&words).unwrap();
        let directory = tempfile::tempdir().unwrap();
        lh_interop::script(&directory.path().join("iperf3"), IPERF3);
        // The environment is that of all tests.
        let first = |command: &str| format!("PATH={}:$PATH; {command}", directory.path().display());
        wanted.far = wanted.far.as_deref().map(first);
        let [.., last] = &mut wanted.command[..] else { panic!("{line}") };
        *last = first(last);
        let path = Path::up(&wanted.spec, &program).unwrap();
        let start = Instant::now();
        let status = serve_and_run(&path, &wanted, Signals::collect(&[]).unwrap());
        let took = start.elapsed();
        path.down().unwrap();
        assert_eq!(status, Ok(0));
        let received = std::fs::read_to_string(directory.path().join("received")).unwrap();
        assert_eq!(received, "from the far end\n");
        assert!(took >= wanted.spec.rtt, "{took:?}");
    }

    #[test]
    fn mistakes_are_named() {
        for line in ["--rate", "--rate fast", "--what 3", "--link copper", "--seed x"] {
            let error = parsed(line).unwrap_err();
            assert!(
                error.starts_with(line.split(' ').next().unwrap()) || error.starts_with("fast"),
                "{error}"
            );
        }
    }
}
