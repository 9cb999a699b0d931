//! The whole path: two namespaces, the link between them, addresses and TCP limits; and its removal.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path as FsPath;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::forward::Counters;
use crate::netem;
use crate::netns::{self, run};
use crate::shape::Shape;
use crate::units;

/// Name of the device in both namespaces.
pub const DEVICE: &str = "wan0";

/// End of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end of the client.
    Near,
    /// The end of the server.
    Far,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Near, Self::Far];

    /// The IPv4 address of this end.
    pub fn ipv4(self) -> &'static str {
        match self {
            Self::Near => "10.88.0.1",
            Self::Far => "10.88.0.2",
        }
    }

    /// The IPv6 address of this end.
    pub fn ipv6(self) -> &'static str {
        match self {
            Self::Near => "fd88::1",
            Self::Far => "fd88::2",
        }
    }
}

/// Implementation of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The program of this crate, between TUN devices.
    User,
    /// veth, netem and tbf.
    Netem,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user-space link",
            Self::Netem => "netem",
        })
    }
}

/// Parameters of a path.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Round-trip time of an empty path.
    pub rtt: Duration,
    /// Rate of each direction, bits per second.
    pub rate: u64,
    /// Loss probability of each direction, for single packets on the wire.
    pub loss: f64,
    /// Probability for each segment that its packet (up to 64 KiB of data) arrives 10 ms late, so that later
    /// packets overtake it. Supported by the program of this crate only.
    pub reorder: f64,
    /// Each packet takes up to this much longer in each direction, by chance, and none overtakes another.
    /// Supported by the program of this crate only.
    pub jitter: Duration,
    /// Queue in front of each direction, bytes; `None` is the bandwidth-delay product, at least 256 KiB.
    pub queue: Option<u64>,
    /// Length of the longest IP packet, bytes.
    pub mtu: u32,
    /// TCP's congestion control in both namespaces.
    pub congestion: String,
    /// Upper limit of a TCP socket's buffer in both namespaces, bytes. `None` is four times the capacity of
    /// the path with its queue full, so that the path is the limit and not the host.
    pub tcp_buffer: Option<u64>,
    /// Seed of the random losses.
    pub seed: u64,
    /// Implementation of the link; `None` is netem if the kernel has it.
    pub kind: Option<Kind>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(50),
            rate: 2_000_000_000,
            loss: 0.0,
            reorder: 0.0,
            jitter: Duration::ZERO,
            queue: None,
            mtu: 1500,
            congestion: "cubic".to_owned(),
            tcp_buffer: None,
            seed: 1,
            kind: None,
        }
    }
}

impl Spec {
    /// Applies a flag of the command line (`--rtt 50ms`), for every program that sets up paths. Returns false
    /// for other flags, and an error for an invalid value.
    pub fn set(&mut self, flag: &str, value: &str) -> Result<bool, String> {
        match flag {
            "--rtt" => self.rtt = units::time(value)?,
            "--rate" => self.rate = units::rate(value)?,
            "--jitter" => self.jitter = units::time(value)?,
            "--loss" => self.loss = units::loss(value)?,
            "--queue" => self.queue = Some(units::size(value)?),
            "--mtu" => self.mtu = value.parse().map_err(|error| format!("{flag} {value}: {error}"))?,
            "--congestion" => value.clone_into(&mut self.congestion),
            "--tcp-buffer" => self.tcp_buffer = Some(units::size(value)?),
            "--seed" => self.seed = value.parse().map_err(|error| format!("{flag} {value}: {error}"))?,
            "--link" => {
                self.kind = Some(match value {
                    "user" => Kind::User,
                    "netem" => Kind::Netem,
                    _ => return Err(format!("--link {value}: user or netem")),
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Bytes in one round trip at full rate.
    pub fn bandwidth_delay(&self) -> u64 {
        Shape { delay: self.rtt, ..self.shape_of_queue(0) }.in_flight()
    }

    /// The shape of each direction.
    pub fn shape(&self) -> Shape {
        let queue = self.queue.unwrap_or_else(|| self.bandwidth_delay().max(256 * 1024));
        self.shape_of_queue(queue)
    }

    fn shape_of_queue(&self, queue: u64) -> Shape {
        let &Self { rate, rtt, loss, reorder, jitter, .. } = self;
        Shape { rate, delay: rtt / 2, queue, loss, reorder, jitter }
    }

    /// Limit of TCP's buffers, bytes. The factor covers the kernel's own overhead, which counts towards the
    /// limit.
    pub fn tcp_buffer(&self) -> u64 {
        let wanted = 4 * (self.bandwidth_delay() + self.shape().queue);
        self.tcp_buffer.unwrap_or_else(|| wanted.max(6 << 20)).min(1 << 30)
    }
}

/// An active path. [`Path::down`] or dropping removes it, with all processes in it.
#[derive(Debug)]
pub struct Path {
    names: [String; 2],
    kind: Kind,
    link: Option<LinkProcess>,
}

#[derive(Debug)]
struct LinkProcess {
    child: Child,
    /// Closing it stops the link, also when this process is killed.
    stop: ChildStdin,
    report: BufReader<ChildStdout>,
}

static SERIAL: AtomicU32 = AtomicU32::new(0);

impl Path {
    /// Sets up the path; needs root. `link_program` is the binary of this crate, used where netem is missing.
    pub fn up(spec: &Spec, link_program: &FsPath) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("an emulated path needs root: network namespaces and devices".to_owned());
        }
        netns::remove_stale();
        let name =
            format!("{}{}-{}", netns::PREFIX, std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        // On failures from here on, dropping the path cleans up.
        let mut path =
            Self { names: [format!("{name}-near"), format!("{name}-far")], kind: Kind::User, link: None };
        for name in &path.names {
            run(&["ip", "netns", "add", name])?;
        }
        if spec.kind == Some(Kind::Netem) && !spec.jitter.is_zero() {
            return Err("--jitter needs --link user".to_owned());
        }
        path.kind = match spec.kind {
            Some(kind) => kind,
            None if spec.reorder > 0.0 || !spec.jitter.is_zero() => Kind::User,
            None if netem::available(&path.names[0]) => Kind::Netem,
            None => Kind::User,
        };
        match path.kind {
            Kind::Netem => path.connect_veth(spec)?,
            Kind::User => path.link = Some(path.start_link(spec, link_program)?),
        }
        for side in Side::BOTH {
            path.configure(side, spec)?;
        }
        Ok(path)
    }

    /// Implementation of the link.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Name of the namespace of one end, for `ip netns`.
    pub fn netns(&self, side: Side) -> &str {
        match side {
            Side::Near => &self.names[0],
            Side::Far => &self.names[1],
        }
    }

    /// A command that will run at one end, with environment variables that have both ends' addresses.
    pub fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.netns(side)]).arg(program);
        command.env("LH_WAN_NEAR", Side::Near.ipv4()).env("LH_WAN_NEAR6", Side::Near.ipv6());
        command.env("LH_WAN_FAR", Side::Far.ipv4()).env("LH_WAN_FAR6", Side::Far.ipv6());
        command.env("LH_WAN_NEAR_NETNS", self.netns(Side::Near));
        command.env("LH_WAN_FAR_NETNS", self.netns(Side::Far));
        command
    }

    /// Waits until a process at that end listens on TCP; false on timeout.
    pub fn wait_for_listener(&self, side: Side, timeout: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < timeout {
            if netns::listens(self.netns(side)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Removes the path and returns the link's counters, near to far and far to near.
    pub fn down(mut self) -> Result<Option<[Counters; 2]>, String> {
        self.take_down()
    }

    fn start_link(&self, spec: &Spec, program: &FsPath) -> Result<LinkProcess, String> {
        let shape = spec.shape();
        let mut command = Command::new(program);
        command.args([self.netns(Side::Near), self.netns(Side::Far)]);
        command.args([shape.rate, shape.delay.as_nanos() as u64, shape.queue].map(|n| n.to_string()));
        command.args([shape.loss, shape.reorder].map(|part| part.to_string()));
        command.args([shape.jitter.as_nanos().to_string(), spec.seed.to_string()]);
        // The link has its own process group, because Ctrl-C is meant for the command; the link ends with the
        // path.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |what: &dyn fmt::Display| format!("{}: {what}", program.display());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let (Some(stop), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"no pipes"));
        };
        let mut link = LinkProcess { child, stop, report: BufReader::new(out) };
        let mut line = String::new();
        match link.report.read_line(&mut line) {
            Ok(_) if line == "ready\n" => Ok(link),
            Ok(_) => {
                let _ = link.child.wait();
                Err(failed(&"it did not start"))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    fn connect_veth(&self, spec: &Spec) -> Result<(), String> {
        let [near, far] = [self.netns(Side::Near), self.netns(Side::Far)];
        run(&[
            "ip", "-n", near, "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", far,
        ])?;
        for netns in [near, far] {
            for argv in netem::commands(netns, DEVICE, &spec.shape(), spec.mtu) {
                run(&argv.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    fn configure(&self, side: Side, spec: &Spec) -> Result<(), String> {
        let netns = self.netns(side);
        let ip = |args: &[&str]| run(&[&["ip", "-n", netns], args].concat()).map(drop);
        ip(&["link", "set", "lo", "up"])?;
        ip(&["link", "set", DEVICE, "mtu", &spec.mtu.to_string()])?;
        if self.kind == Kind::User {
            // Packets must queue in the link, where they are counted, so the device accepts a whole window at
            // once.
            ip(&["link", "set", DEVICE, "txqueuelen", "20000"])?;
        }
        ip(&["address", "add", &format!("{}/24", side.ipv4()), "dev", DEVICE])?;
        // Without IPv6 in the kernel, the path supports only IPv4.
        let _ = ip(&["address", "add", &format!("{}/64", side.ipv6()), "dev", DEVICE, "nodad"]);
        ip(&["link", "set", DEVICE, "up"])?;
        // Set on the route, because a namespace can only choose its default among the controls that the host
        // permits to everyone.
        let control = ["dev", DEVICE, "congctl", &spec.congestion];
        ip(&[&["route", "replace", "10.88.0.0/24", "src", side.ipv4()], &control[..]].concat())?;
        let _ = ip(&[&["-6", "route", "replace", "fd88::/64"], &control[..]].concat());
        let buffer = spec.tcp_buffer();
        let settings = [
            ("tcp_rmem", format!("4096 131072 {buffer}")),
            ("tcp_wmem", format!("4096 16384 {buffer}")),
            // A run must not use metrics that the previous one has learned.
            ("tcp_no_metrics_save", "1".to_owned()),
        ];
        netns::within(netns, || {
            for (name, value) in &settings {
                let file = format!("/proc/sys/net/ipv4/{name}");
                fs::write(&file, value)
                    .map_err(|error| std::io::Error::new(error.kind(), format!("{file}={value}: {error}")))?;
            }
            Ok(())
        })
    }

    fn take_down(&mut self) -> Result<Option<[Counters; 2]>, String> {
        for name in &self.names {
            netns::end_processes(name);
        }
        let counters = self.link.take().and_then(LinkProcess::stop);
        let mut wrong = Vec::new();
        for name in std::mem::take(&mut self.names) {
            if FsPath::new("/run/netns").join(&name).exists() {
                wrong.extend(netns::remove(&name).err());
            }
        }
        if wrong.is_empty() { Ok(counters) } else { Err(wrong.join("; ")) }
    }
}

impl LinkProcess {
    fn stop(mut self) -> Option<[Counters; 2]> {
        drop(self.stop);
        let mut text = String::new();
        let read = self.report.read_to_string(&mut text);
        let _ = self.child.wait();
        read.ok()?;
        let mut lines = text.lines().map(Counters::parse);
        Some([lines.next()?, lines.next()?])
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // Empty names mean that the path has been removed.
        if self.names.iter().any(|name| !name.is_empty())
            && let Err(text) = self.take_down()
        {
            eprintln!("wan: {text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_from_rate_and_delay() {
        let spec = Spec::default();
        assert_eq!(spec.bandwidth_delay(), 12_500_000);
        let shape = spec.shape();
        assert_eq!((shape.delay, shape.queue), (Duration::from_millis(25), 12_500_000));
        assert_eq!(spec.tcp_buffer(), 100_000_000);
        let slow = Spec { rate: 1_000_000, ..Spec::default() };
        assert_eq!((slow.shape().queue, slow.tcp_buffer()), (256 * 1024, 6 << 20));
        let said = Spec { queue: Some(7), tcp_buffer: Some(1 << 20), ..Spec::default() };
        assert_eq!((said.shape().queue, said.tcp_buffer()), (7, 1 << 20));
    }
}
