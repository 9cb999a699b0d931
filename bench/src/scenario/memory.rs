//! Memory of a session while it is idle, and while it transfers data.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::measured::server_processes;
use crate::bench::Bench;
use crate::contestant::{Contestant, Contestants, Kind, Task, Variation};
use crate::job::{Client, Running, Server, client_command};
use crate::stats::Better;
use crate::table::{Entry, Measured, Table, interleave};
use crate::usage::{Memory, descendants};

/// Idle with several sessions, so that shared memory counts once; busy with one.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let smoke = bench.options.smoke;
    let with = Variation::of(&bench.options.suites[0]);
    let mut tables = Vec::new();
    for (what, count, command, settle) in [
        ("idle", if smoke { 1 } else { 5 }, "echo ready; exec sleep 600", 500),
        ("busy downwards", 1, "echo ready; exec cat /dev/zero", 1500),
    ] {
        let settle = Duration::from_millis(if smoke { 100 } else { settle });
        let mut entries = Vec::new();
        for who in field.all.iter().filter(|who| !matches!(who.kind, Kind::Mover { .. })) {
            entries.extend(entry(bench, who, &with, command, count, settle));
        }
        let title =
            format!("memory of a session, {what}, mean of {count}, {}", bench.options.suites[0].name());
        tables.push(interleave("memory", title, bench.options.rounds, entries));
    }
    Ok(tables)
}

fn entry<'a>(
    bench: &'a Bench,
    who: &'a Contestant,
    with: &Variation,
    command: &str,
    count: usize,
    settle: Duration,
) -> Option<Entry<'a>> {
    let (server, client) = (who.server(bench, with)?, who.client(bench, with, &Task::Command(command))?);
    Some(Entry::new(&who.name, who.role(), move || measure(bench, &server, &client, count, settle)))
}

/// Clients that end with the measurement.
struct Sessions(Vec<Child>);

impl Drop for Sessions {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn measure(
    bench: &Bench,
    server: &Server,
    client: &Client,
    count: usize,
    settle: Duration,
) -> Result<Vec<Measured>, String> {
    let running = Running::start(bench, server)?;
    let mut sessions = Sessions(Vec::new());
    let mut drains = Vec::new();
    for _ in 0..count {
        let (program, args, env) = client_command(bench, &client.program, running.port);
        let mut command = Command::new(&program);
        command.args(args).envs(env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        bench.set_environment(&mut command);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let out = child.stdout.take();
        sessions.0.push(child);
        let mut out = BufReader::new(out.ok_or("no output")?);
        let mut line = String::new();
        let _ = out.read_line(&mut line);
        if line.trim() != "ready" {
            return Err(format!("no session: {}", running.log_end()));
        }
        // All output must be read, or a busy session would soon be idle.
        drains.push(std::thread::spawn(move || {
            let mut block = vec![0; 1 << 17];
            while out.read(&mut block).is_ok_and(|count| count > 0) {}
        }));
    }
    std::thread::sleep(settle);
    let mut here: Vec<u32> = sessions.0.iter().map(Child::id).collect();
    here.extend(sessions.0.iter().flat_map(|child| descendants(child.id())));
    let mut there = server_processes(running.pid());
    if server.listens {
        // The listener exists once, however many sessions there are. It is the supervisor's first child.
        there.remove(0);
    }
    let memory =
        |pids: &[u32]| Memory::of(pids).ok_or("the memory of a process cannot be seen (try as root)");
    let (here, there) = (memory(&here)?, memory(&there)?);
    drop(sessions);
    for drain in drains {
        let _ = drain.join();
    }
    let mib = |kib: u64| kib as f64 / 1024.0 / count as f64;
    Ok(vec![
        ("server MiB (PSS)", Better::Lower, mib(there.pss_kib)),
        ("client MiB (PSS)", Better::Lower, mib(here.pss_kib)),
        ("server MiB (private)", Better::Lower, mib(there.private_kib)),
        ("client MiB (private)", Better::Lower, mib(here.private_kib)),
    ])
}
