//! The server's end: runs a server until standard input ends, then reports the usage of the server and its
//! sessions.
//!
//! `lh-bench end-server --report FILE --address IP --log FILE [--mode listener] -- PROGRAM [ARGUMENT…]`. It
//! prints `port N` when clients may connect. Without `--mode`, the program runs once per connection with the
//! socket as its standard input and output (inetd mode). With it, the program listens itself and writes
//! `Server listening on … port N.` to the log. A listener's usage before it is ready is not counted.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::{EndArgs, Report, adopt_orphans, reap_all, reap_one, send, signal_all};
use crate::usage::{Usage, descendants, so_far_us};

/// Time limit for sessions to end after their clients.
const GRACE: Duration = Duration::from_secs(5);
/// Time limit for a listener to start.
const START: Duration = Duration::from_secs(20);

/// Entry point of the helper.
///
/// # Errors
/// The server cannot be started.
pub fn main(args: &[String]) -> Result<(), String> {
    let args = EndArgs::parse(args)?;
    let [program, rest @ ..] = args.command else { return Err("no command".to_owned()) };
    let report = args.value("--report").ok_or("no --report")?;
    let address = args.value("--address").ok_or("no --address")?;
    let log = args.value("--log").ok_or("no --log")?;
    adopt_orphans()?;
    let before = if args.value("--mode") == Some("listener") {
        listen_itself(program, rest, Path::new(log))?
    } else {
        inetd(program, rest, address, Path::new(log))?;
        0
    };
    let report_text = Report { usage: Usage::of_children()?.without(before), ..Report::default() }.to_text();
    std::fs::write(report, report_text).map_err(|error| format!("{report}: {error}"))
}

fn ready(port: u16) -> Result<(), String> {
    let mut out = std::io::stdout();
    writeln!(out, "port {port}").and_then(|()| out.flush()).map_err(|error| format!("stdout: {error}"))
}

/// Runs a program that listens. Returns the CPU time of its start, microseconds.
fn listen_itself(program: &str, args: &[String], log: &Path) -> Result<u64, String> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let deadline = Instant::now() + START;
    let port = loop {
        if let Some(port) = logged_port(log) {
            break port;
        }
        if reap_one().is_some() || Instant::now() >= deadline {
            signal_all(Signal::KILL);
            let text = std::fs::read_to_string(log).unwrap_or_default();
            return Err(format!("{program} does not listen: {text}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let before = so_far_us(child.id());
    ready(port)?;
    // Waits until the harness closes our standard input.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    // Sessions end first: the listener reaps them, and its own end then passes their usage to us.
    let deadline = Instant::now() + GRACE;
    while !descendants(child.id()).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    for pid in descendants(child.id()) {
        send(pid, Signal::KILL);
    }
    send(child.id(), Signal::TERM);
    reap_all(GRACE);
    Ok(before)
}

fn logged_port(log: &Path) -> Option<u16> {
    BufReader::new(File::open(log).ok()?).lines().map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("Server listening on ")?;
        let (_, port) = rest.split_once(" port ")?;
        port.trim_end().strip_suffix('.')?.parse().ok()
    })
}

/// Runs a program per connection until standard input ends.
fn inetd(program: &str, args: &[String], address: &str, log: &Path) -> Result<(), String> {
    let listener = TcpListener::bind((address, 0)).map_err(|error| format!("{address}: {error}"))?;
    ready(listener.local_addr().map_err(|error| error.to_string())?.port())?;
    let mut open_log = OpenOptions::new();
    open_log.create(true).append(true);
    loop {
        let (listening, input) = {
            let mut fds =
                [PollFd::new(&listener, PollFlags::IN), PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            (!fds[0].revents().is_empty(), !fds[1].revents().is_empty())
        };
        if listening && let Ok((stream, _)) = listener.accept() {
            let _ = stream.set_nodelay(true);
            let copy = stream.try_clone().map_err(|error| error.to_string())?;
            let stderr = open_log.open(log).map_err(|error| format!("{}: {error}", log.display()))?;
            Command::new(program)
                .args(args)
                .stdin(Stdio::from(OwnedFd::from(copy)))
                .stdout(Stdio::from(OwnedFd::from(stream)))
                .stderr(Stdio::from(stderr))
                .spawn()
                .map_err(|error| format!("{program}: {error}"))?;
        }
        while reap_one().is_some() {}
        if input && !listening {
            break;
        }
    }
    reap_all(GRACE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_parsed_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(logged_port(&log), None);
        std::fs::write(&log, "noise\nServer listening on 10.9.0.2 port 4022.\n").unwrap();
        assert_eq!(logged_port(&log), Some(4022));
        std::fs::write(&log, "Server listening on 10.9.0.2 port 40").unwrap();
        assert_eq!(logged_port(&log), None);
    }
}
