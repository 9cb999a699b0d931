//! Names of rows and series that the targets know, and measurements that several scenarios make.

use std::fs;
use std::path::Path;

use crate::bench::Bench;
use crate::end::Report;
use crate::job::{Client, Program, Sample, Server};
use crate::stats::Better;
use crate::table::Measured;
use crate::usage::{Usage, descendants};

/// Name of the row of a direct session.
pub(crate) const DIRECT: &str = "longhaul, direct session";

/// Title of the table about starts of mux clients.
pub(crate) const START: &str = "mux client start (`true` over a master)";

/// Series of the `wan` scenario for its targets: rate of a row in percent of iperf3's in the same round.
pub(crate) const OF_IPERF: &str = "% of iperf3";
/// Like [`OF_IPERF`], for the second half of the time.
pub(crate) const STEADY_OF_IPERF: &str = "steady, % of iperf3";
/// Suffix of the name of its ceiling: a cipher between two pipes, without a suite.
pub(crate) const PIPED: &str = " over TCP, pipe to pipe";
/// Series of the `crypto` scenario for its targets: sealing rate relative to one worker.
pub(crate) const SEAL_TIMES: &str = "seal, times 1 worker";
/// Like [`SEAL_TIMES`], for opening.
pub(crate) const OPEN_TIMES: &str = "open, times 1 worker";

/// Series of CPU time of the SSH programs alone: without the remote command and its shell.
pub(crate) const SSH_CPU: &str = "SSH programs' CPU-ms/MB";

/// Name of a row for this number of workers.
pub(crate) fn workers_text(workers: usize) -> String {
    match workers {
        0 => "no workers".to_owned(),
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    }
}

/// Measurement of one start, as the mean of several.
pub(super) fn per_start(report: &Report, times: u64) -> Vec<Measured> {
    let per = |us: u64| us as f64 / 1000.0 / times as f64;
    vec![
        ("ms", Better::Lower, per(report.wall_us)),
        ("client CPU-ms", Better::Lower, per(report.usage.cpu_us())),
    ]
}

/// CPU time and peak memory, which every transfer reports.
pub(super) fn ends(sample: &Sample) -> Vec<Measured> {
    let mib = |usage: &Usage| usage.peak_kib as f64 / 1024.0;
    let mut run = vec![("client peak MiB", Better::Lower, mib(&sample.client))];
    // `cp` has one end only.
    if sample.server != Usage::default() {
        run.push(("server peak MiB", Better::Lower, mib(&sample.server)));
    }
    run
}

/// Measurement of a transfer of this many bytes.
pub(super) fn rate(sample: &Sample, bytes: u64) -> Vec<Measured> {
    let megabytes = bytes as f64 / 1e6;
    let mut run = vec![
        ("MB/s", Better::Higher, megabytes / sample.wall_s),
        ("CPU-ms/MB", Better::Lower, sample.cpu_ms() / megabytes),
    ];
    run.extend(sample.ssh_cpu_ms().map(|ms| (SSH_CPU, Better::Lower, ms / megabytes)));
    for (name, end) in [("client CPU-ms/MB", &sample.client), ("server CPU-ms/MB", &sample.server)] {
        // `cp` has one end only.
        if *end != Usage::default() {
            run.push((name, Better::Lower, end.cpu_us() as f64 / 1000.0 / megabytes));
        }
    }
    run.extend(ends(sample));
    run
}

/// The two ends of a ceiling over TCP: raw, or with a cipher.
pub(super) fn ceiling(bench: &Bench, cipher: Option<String>, bytes: u64) -> (Server, Client) {
    let mut sink = vec!["tcp-sink".to_owned()];
    let mut source = vec!["tcp-source".to_owned(), "--to".to_owned(), "{address}:{port}".to_owned()];
    for (name, value) in [("--bytes", bytes.to_string()), ("--packet", bench.options.packet.to_string())] {
        source.extend([name.to_owned(), value]);
    }
    if let Some(cipher) = cipher {
        for args in [&mut sink, &mut source] {
            args.extend(["--cipher".to_owned(), cipher.clone()]);
        }
    }
    let server = Server { program: Program::new(&bench.me, sink), listens: false };
    (server, Client::new(Program::new(&bench.me, source)))
}

/// Writes many small files in twenty directories. Without a size they have 0.5 to 7.5 kB.
pub(super) fn small_files(tree: &Path, files: usize, size: impl Into<Option<u64>>) -> Result<u64, String> {
    let size = size.into();
    let mut bytes = 0;
    for index in 0..files {
        let directory = tree.join(format!("directory-{:02}", index % 20));
        let length =
            size.map_or(500 + (index * 37) % 7000, |size| usize::try_from(size).unwrap_or(usize::MAX));
        bytes += length as u64;
        let content = vec![b'a' + (index % 26) as u8; length];
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(directory.join(format!("file-{index:06}.dat")), content))
            .map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    Ok(bytes)
}

/// Commands of sessions, which do not belong to the server.
const COMMANDS: &[&str] = &["sh", "bash", "dash", "sleep", "cat", "stty", "lh-bench"];

/// Processes below a supervisor, without the commands that sessions run.
pub(super) fn server_processes(supervisor: u32) -> Vec<u32> {
    let is_command = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        COMMANDS.contains(&name.trim())
    };
    let mut pids = descendants(supervisor);
    pids.retain(|pid| !is_command(pid));
    pids
}

/// A byte count for a heading.
pub(super) fn size_text(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 => format!("{} MiB", b >> 20),
        b => format!("{} KiB", b >> 10),
    }
}
