//! A long path: pipes, files and rsync in both directions, compared with iperf3 on the same path in the same
//! round.
//!
//! The path is `lh_link`'s (or the kernel's netem): clients run at its near end, servers at its far end. Each
//! contestant sends for the time of `--duration`, or a file that takes about that long at the path's rate.
//! Pipes and files report the rate of the whole command, with login and ramp-up; pipes also report the rate
//! of the second half of the time.

use std::cell::Cell;
use std::fs;
use std::path::Path as FsPath;
use std::process::{Child, Stdio};
use std::time::Duration;

use lh_interop::find;
use lh_link::path::{Path, Side, Spec};

use super::measured::{OF_IPERF, PIPED, STEADY_OF_IPERF, ceiling, rate};
use super::transfer::warmed;
use crate::bench::{Bench, remove};
use crate::cipher_suite::CipherSuite;
use crate::contestant::{Contestant, Contestants, Kind, Task, Variation, rsync_over};
use crate::job::{self, Client, Flow, Program, Sample, Server};
use crate::stats::Better;
use crate::table::{Entry, Measured, Role, Table, interleave};

/// TCP payload share of the path's rate: an MTU of 1500 carries 1448 bytes in 1514.
const GOODPUT: f64 = 1448.0 / 1514.0;
/// Time limit for iperf3's server to listen.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Factor by which files are shorter for a peer with a fixed window: otherwise it would take most of the
/// total time.
const SLOW: u64 = 8;

/// Rates of iperf3's last run, bytes per second, whole and second half; NaN without one.
#[derive(Clone, Copy)]
struct Baseline {
    whole: f64,
    steady: f64,
}

const UNKNOWN: Baseline = Baseline { whole: f64::NAN, steady: f64::NAN };

pub(super) fn run(bench: &Bench) -> Result<Vec<Table>, String> {
    let mut options = bench.options.clone();
    if options.smoke {
        (options.path.rate, options.path.rtt) = (200_000_000, Duration::from_millis(10));
        options.duration = Duration::from_secs(1);
    }
    if !options.given.suites {
        options.suites.truncate(1);
    }
    let path = Path::up(&options.path, &lh_interop::bin_dir().join("lh-link"))?;
    let prefix = |side| format!("ip netns exec {}", path.netns(side));
    (options.hosts.server_prefix, options.hosts.client_prefix) = (prefix(Side::Far), prefix(Side::Near));
    options.hosts.address = Side::Far.ipv4().to_owned();
    // This path has its own keys, users and contestants, separate from the other scenarios'.
    let over = Bench::new(options)?;
    let field = &Contestants::find(&over)?;
    let mut tables = Vec::new();
    for suite in &over.options.suites {
        for way in [Way::Down, Way::Up] {
            tables.push(SuiteRun { bench: &over, field, path: &path, suite, way }.table()?);
        }
    }
    for (name, counters) in ["near to far", "far to near"].iter().zip(path.down()?.into_iter().flatten()) {
        eprintln!("    path, {name}: {counters}");
    }
    Ok(tables)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the far end to the near one.
    Down,
    Up,
}

/// One suite in one direction.
struct SuiteRun<'a> {
    bench: &'a Bench,
    field: &'a Contestants,
    path: &'a Path,
    suite: &'a CipherSuite,
    way: Way,
}

impl<'a> SuiteRun<'a> {
    fn table(&self) -> Result<Table, String> {
        let (bench, field) = (self.bench, self.field);
        let with = Variation::of(self.suite);
        let full = file_size(bench);
        let baseline = Cell::new(UNKNOWN);
        // Creating gigabytes takes a while.
        let only = &bench.options.only;
        let without_file = |text: &String| text.ends_with("pipe") || text.contains("over TCP");
        let copies = only.is_empty() || !only.iter().all(without_file);
        let blob = |size: u64| bench.blob(if copies { size } else { 1 });
        let (source, target) = (blob(full)?, bench.data("copied"));
        let part = blob((full / SLOW).max(1 << 20))?;
        let mut entries = Vec::new();
        if let Some(program) = find("iperf3") {
            entries.push(self.iperf(program, &baseline));
        } else {
            eprintln!("lh-bench: iperf3 is not installed: there is nothing to compare with");
        }
        let ours = field.ours();
        let stock = field.all.iter().find(|who| who.name == "openssh");
        // Contestants at the near and at the far end.
        let mut pairs = vec![("longhaul".to_owned(), ours, ours)];
        let between = if self.way == Way::Down { "from" } else { "to" };
        pairs.extend(stock.map(|stock| (format!("longhaul {between} openssh's sshd"), ours, stock)));
        let peers = field.all.iter().filter(|who| who.role() == Role::Peer && is_suite(who));
        pairs.extend(peers.map(|who| (who.name.clone(), who, who)));
        for (name, near, far) in &pairs {
            let Some(server) = far.server(bench, &with) else { continue };
            entries.extend(self.pipe(name, near, &server, &with, &baseline));
            // OpenSSH's client has a fixed window. Its server has one too, but our client then uses several
            // channels.
            let fixed = near.name == "openssh";
            let file = if fixed { &part } else { &source };
            entries.extend(self.file(name, near, &server, &with, (file, &target), &baseline));
        }
        if let (Some(rsync), Kind::Suite { ssh, .. }) = (find("rsync"), &ours.kind)
            && let Some(server) = ours.server(bench, &with)
            && let Some(client) = rsync_over(bench, &rsync, ssh, &with, &self.copy(&source, &target))
        {
            let size = length(&source)?;
            entries.push(self.copying(
                "rsync -e lhssh",
                Role::Ours,
                (server, client),
                size,
                (&source, &target),
                &baseline,
            ));
        }
        // The row of one cipher over TCP has only the rate of the whole time.
        let (server, client) = ceiling(bench, Some(self.suite.name()), full);
        let name = format!("{} over TCP", self.suite.name());
        if self.way == Way::Up {
            entries.push(self.entry(&name, Role::Ceiling, (server, client), &baseline, move |sample| {
                Ok(rate(sample, full))
            }));
        }
        entries.push(self.piped(&baseline));
        entries.retain(|entry| self.is_wanted(entry.name()));
        let title = format!("{}, {}, {}", self.way_text(), self.suite.name(), describe(&bench.options.path));
        let title = format!("{title}, {} s", bench.options.duration.as_secs());
        let table = interleave("wan", title, bench.options.rounds, entries);
        remove(&target);
        Ok(table)
    }

    fn way_text(&self) -> &'static str {
        if self.way == Way::Down { "down" } else { "up" }
    }

    /// True if `--only` permits the row; the baseline is always included.
    fn is_wanted(&self, name: &str) -> bool {
        let only = &self.bench.options.only;
        let full = format!("{}: {name}", self.way_text());
        // A direction without any permitted row needs no baseline either.
        let way_is_out = |text: &&String| {
            let other = if self.way == Way::Down { "up:" } else { "down:" };
            text.starts_with(other)
        };
        only.is_empty()
            || only.iter().any(|text| full.contains(text.as_str()))
            || (name == "iperf3" && !only.iter().all(|text| way_is_out(&text)))
    }

    fn copy<'b>(&self, from: &'b FsPath, to: &'b FsPath) -> Task<'b> {
        if self.way == Way::Down { Task::Get(from, to) } else { Task::Put(from, to) }
    }

    /// An entry of a client and server, with its percentage of the baseline.
    fn entry(
        &self,
        name: &str,
        role: Role,
        (server, client): (Server, Client),
        baseline: &'a Cell<Baseline>,
        mut judge: impl FnMut(&Sample) -> Result<Vec<Measured>, String> + 'a,
    ) -> Entry<'a> {
        let bench = self.bench;
        Entry::new(name, role, move || {
            let sample = job::run(bench, Some(&server), &client)?;
            let mut run = judge(&sample)?;
            let whole = run.first().map_or(f64::NAN, |(_, _, rate)| *rate);
            let base = baseline.get();
            run.insert(1, (OF_IPERF, Better::Higher, whole * 1e8 / base.whole));
            if sample.moved.steady > 0 {
                let steady = sample.moved.steady as f64;
                run.insert(2, ("steady MB/s", Better::Higher, steady / 1e6));
                run.insert(3, (STEADY_OF_IPERF, Better::Higher, steady * 100.0 / base.steady));
            }
            Ok(run)
        })
    }

    fn pipe(
        &self,
        name: &str,
        near: &Contestant,
        server: &Server,
        with: &Variation,
        baseline: &'a Cell<Baseline>,
    ) -> Option<Entry<'a>> {
        let seconds = self.bench.options.duration.as_secs();
        let task = if self.way == Way::Down { Task::ZerosDown(seconds) } else { Task::ZerosUp(seconds) };
        let ends = (server.clone(), near.client(self.bench, with, &task)?);
        let judge = |sample: &Sample| match sample.moved.bytes {
            0 => Err("nothing came".to_owned()),
            bytes => Ok(rate(sample, bytes)),
        };
        Some(self.entry(&format!("{name}, pipe"), near.role(), ends, baseline, judge))
    }

    /// Returns the row of a pipe without SSH: the benchmark's own program at both ends, with the cipher
    /// between them.
    fn piped(&self, baseline: &'a Cell<Baseline>) -> Entry<'a> {
        let bench = self.bench;
        let seconds = bench.options.duration.as_secs();
        let end = |words: &[&str], behind: &[String]| {
            let packet = bench.options.packet.to_string();
            let cipher = ["--cipher", &self.suite.name(), "--packet", &packet, "--"].map(str::to_owned);
            let words = ["piped-end"].iter().chain(words).map(|&word| word.to_owned());
            Program::new(&bench.me, words.chain(cipher).chain(behind.iter().cloned()))
        };
        let to = ["--to", "{address}:{port}"];
        let (near, far, behind, flow) = match self.way {
            Way::Down => {
                let zeros = format!("exec timeout {seconds} cat /dev/zero");
                ("receive", "send", zeros, Flow::Meter)
            }
            Way::Up => ("send", "receive", "exec cat >/dev/null".to_owned(), Flow::Feed(seconds)),
        };
        let behind = ["sh".to_owned(), "-c".to_owned(), behind];
        let server = Server { program: end(&["--way", far], &behind), listens: false };
        let client = Client { flow, ..Client::new(end(&[&["--way", near], &to[..]].concat(), &[])) };
        let name = format!("{}{PIPED}", self.suite.name());
        self.entry(&name, Role::Ceiling, (server, client), baseline, |sample| match sample.moved.bytes {
            0 => Err("nothing came".to_owned()),
            bytes => Ok(rate(sample, bytes)),
        })
    }

    fn file(
        &self,
        name: &str,
        near: &Contestant,
        server: &Server,
        with: &Variation,
        (source, target): (&'a FsPath, &'a FsPath),
        baseline: &'a Cell<Baseline>,
    ) -> Option<Entry<'a>> {
        let client = near.client(self.bench, with, &self.copy(source, target))?;
        let size = length(source).ok()?;
        let name = format!("{name}, file of {:.1} GB", size as f64 / 1e9);
        Some(self.copying(&name, near.role(), (server.clone(), client), size, (source, target), baseline))
    }

    /// A copy of one file, whose length is checked afterwards.
    fn copying(
        &self,
        name: &str,
        role: Role,
        ends: (Server, Client),
        size: u64,
        (source, target): (&'a FsPath, &'a FsPath),
        baseline: &'a Cell<Baseline>,
    ) -> Entry<'a> {
        let entry = self.entry(name, role, ends, baseline, move |sample| {
            let arrived = length(target);
            remove(target);
            match arrived? {
                arrived if arrived == size => Ok(rate(sample, size)),
                arrived => Err(format!("{arrived} bytes of {size} arrived")),
            }
        });
        warmed(entry, source, target)
    }

    /// iperf3 for the same time as the others; its server runs one test per start.
    fn iperf(&self, program: std::path::PathBuf, baseline: &'a Cell<Baseline>) -> Entry<'a> {
        let (path, way, seconds) = (self.path, self.way, self.bench.options.duration.as_secs());
        Entry::new("iperf3", Role::Ceiling, move || {
            baseline.set(UNKNOWN);
            let mut server = path.command(Side::Far, &program);
            server.args(["-s", "-1"]).stdin(Stdio::null()).stdout(Stdio::null());
            let server = Reaped(server.spawn().map_err(|error| format!("iperf3: {error}"))?);
            path.wait_for_listener(Side::Far, TIMEOUT);
            let mut client = path.command(Side::Near, &program);
            client.args(["-c", Side::Far.ipv4(), "-f", "k", "-t", &seconds.to_string()]);
            if way == Way::Down {
                client.arg("-R");
            }
            let done = client.stdin(Stdio::null()).output().map_err(|error| format!("iperf3: {error}"))?;
            drop(server);
            let text = String::from_utf8_lossy(&done.stdout);
            let found = read_iperf(&text).ok_or_else(|| format!("iperf3: {}: {text}", done.status))?;
            baseline.set(found);
            Ok(vec![
                ("MB/s", Better::Higher, found.whole / 1e6),
                (OF_IPERF, Better::Higher, 100.0),
                ("steady MB/s", Better::Higher, found.steady / 1e6),
                (STEADY_OF_IPERF, Better::Higher, 100.0),
            ])
        })
    }
}

/// A child process that is waited for on drop, and killed if it does not end by itself.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        for _ in 0..100 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_suite(who: &Contestant) -> bool {
    matches!(who.kind, Kind::Suite { .. })
}

fn length(path: &FsPath) -> Result<u64, String> {
    fs::metadata(path).map(|meta| meta.len()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Bytes that the path carries in the time, as far as memory suffices for two such files and a short one.
fn file_size(bench: &Bench) -> u64 {
    let options = &bench.options;
    if options.given.size || options.smoke {
        return options.size;
    }
    let path = (options.path.rate as f64 / 8.0 * GOODPUT * options.duration.as_secs_f64()) as u64;
    let room =
        rustix::fs::statvfs(bench.data("")).map_or(path, |about| about.f_bavail * about.f_frsize / 5 * 2);
    path.min(room).next_multiple_of(1 << 20)
}

/// Description of the path for a heading.
fn describe(spec: &Spec) -> String {
    let mut text = format!("{} Gbit/s x {} ms", spec.rate as f64 / 1e9, spec.rtt.as_millis());
    if spec.loss > 0.0 {
        text.push_str(&format!(", {} % loss", spec.loss * 100.0));
    }
    format!("{text}, {}", spec.congestion)
}

/// Parses the report of an iperf3 client in kbit/s: the receiver's average, and the mean of the intervals in
/// the second half.
fn read_iperf(text: &str) -> Option<Baseline> {
    let rate = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "Kbits/sec")?;
        Some(words.get(at.checked_sub(1)?)?.parse::<f64>().ok()? * 125.0)
    };
    let (summary, intervals): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.ends_with("receiver") || line.ends_with("sender"));
    let whole = summary.iter().find(|line| line.ends_with("receiver")).and_then(|line| rate(line))?;
    let rates: Vec<f64> = intervals.into_iter().filter_map(rate).collect();
    let half = &rates[rates.len() / 2..];
    let steady = if half.is_empty() { whole } else { half.iter().sum::<f64>() / half.len() as f64 };
    Some(Baseline { whole, steady })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf3_report_is_parsed() {
        let text = "\
Connecting to host 10.88.0.2, port 5201
[  5] local 10.88.0.1 port 40000 connected to 10.88.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  10.0 MBytes  83886 Kbits/sec    0   1.00 MBytes
[  5]   1.00-2.00   sec   230 MBytes  1900000 Kbits/sec    0   24.00 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec   240 MBytes  1000000 Kbits/sec    0             sender
[  5]   0.00-2.05   sec   238 MBytes  960000 Kbits/sec                  receiver

iperf Done.
";
        let found = read_iperf(text).unwrap();
        assert_eq!((found.whole, found.steady), (120_000_000.0, 237_500_000.0));
        assert!(read_iperf("iperf3: error - unable to connect").is_none());
    }

    #[test]
    fn heading_names_unusual_parameters() {
        assert_eq!(describe(&Spec::default()), "2 Gbit/s x 50 ms, cubic");
        let lossy = Spec { loss: 0.01, congestion: "bbr".to_owned(), ..Spec::default() };
        assert_eq!(describe(&lossy), "2 Gbit/s x 50 ms, 1 % loss, bbr");
    }
}
