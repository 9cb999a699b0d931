//! One stream through one kind of carrier.

use std::net::{SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use lh_driver::Workers;
use lh_interop::tunnel::free_port;

use crate::bench::{Bench, FAR_PROGRAM};
use crate::contestant::{Contestant, Kind, Variation, client_options};
use crate::job::{Program, Running, Server};
use crate::scenario::master::{Master, Programs, destination, wait_for};
use crate::stats::Better;
use crate::stream::{END, Near, Way};
use crate::table::Measured;
use crate::usage::{descendants, so_far_us};

/// Carrier of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// A session on its own connection.
    Direct,
    /// `-L`.
    Local,
    /// `-D`, SOCKS 5.
    Dynamic,
    /// A session through `-J`.
    Jump,
    /// A mux client's session through a master.
    MuxClient,
}

impl Carrier {
    /// Name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "session",
            Self::Local => "-L",
            Self::Dynamic => "-D",
            Self::Jump => "-J",
            Self::MuxClient => "mux client of a master",
        }
    }
}

/// A stream and its carrier.
pub(crate) struct Carried {
    near: Near,
    /// Servers, without the far end of a forward.
    servers: Vec<Running>,
    _far: Option<Running>,
    programs: Programs,
}

/// Sets up the stream, transfers the bytes, and returns the measurement, without logins.
pub(super) fn carry(
    bench: &Bench,
    who: &Contestant,
    with: &Variation,
    carrier: Carrier,
    way: Way,
) -> Result<Vec<Measured>, String> {
    let (Kind::Suite { ssh, .. }, Some(server)) = (&who.kind, who.server(bench, with)) else {
        return Err("not a suite".to_owned());
    };
    let servers: Vec<Running> = (0..if carrier == Carrier::Jump { 2 } else { 1 })
        .map(|_| Running::start(bench, &server))
        .collect::<Result<_, _>>()?;
    let log = |error: String| format!("{error} (server: {})", servers[0].log_end());
    let mut carried = match carrier {
        Carrier::Local | Carrier::Dynamic => forward(bench, ssh, with, carrier, servers[0].port),
        Carrier::Direct | Carrier::Jump | Carrier::MuxClient => session(bench, ssh, with, carrier, &servers),
    }
    .map_err(log)?;
    carried.servers = servers;
    carried.measure(bench, way)
}

impl Carried {
    fn new(near: Near, far: Option<Running>, programs: Programs) -> Self {
        Self { near, servers: Vec::new(), _far: far, programs }
    }

    fn measure(mut self, bench: &Bench, way: Way) -> Result<Vec<Measured>, String> {
        let failed = |error: std::io::Error| format!("the stream broke: {error}");
        self.near.greet().map_err(failed)?;
        let before = self.used_us();
        let start = Instant::now();
        self.near.transfer(way, bench.options.size).map_err(failed)?;
        let wall = start.elapsed().as_secs_f64();
        let used = self.used_us().saturating_sub(before);
        let megabytes = bench.options.size as f64 / 1e6;
        let mut run = vec![("MB/s", Better::Higher, megabytes / wall)];
        if used > 0 {
            run.push(("CPU-ms/MB", Better::Lower, used as f64 / 1e3 / megabytes));
        }
        Ok(run)
    }

    /// Process id of the supervisor of the first server.
    pub(crate) fn server(&self) -> u32 {
        self.servers[0].pid()
    }

    /// Process ids of the clients.
    pub(crate) fn clients(&self) -> Vec<u32> {
        self.programs.pids().collect()
    }

    /// Transfers the bytes; both ends stay.
    pub(crate) fn transfer(&mut self, bench: &Bench, way: Way) -> Result<(), String> {
        self.near.transfer(way, bench.options.size).map_err(|error| format!("the stream broke: {error}"))
    }

    /// CPU time of all programs that carry the stream, without its ends, microseconds.
    fn used_us(&self) -> u64 {
        let servers = self.servers.iter().flat_map(|server| descendants(server.pid()));
        let clients = self.programs.pids().flat_map(|pid| [vec![pid], descendants(pid)].concat());
        servers.chain(clients).filter(|&pid| !is_end(pid)).map(so_far_us).sum()
    }
}

/// A direct session of a suite with this number of workers at each end, ready to transfer.
pub(crate) fn session_to_transfer(
    bench: &Bench,
    who: &Contestant,
    with: &Variation,
    workers: usize,
) -> Result<Carried, String> {
    let (Kind::Suite { ssh, .. }, Some(mut server)) = (&who.kind, who.server(bench, with)) else {
        return Err("not a suite".to_owned());
    };
    let setting = (Workers::ENVIRONMENT, workers.to_string());
    server.program.env.push((setting.0.to_owned(), setting.1.clone()));
    let servers = vec![Running::start(bench, &server)?];
    let log = |error: String| format!("{error} (server: {})", servers[0].log_end());
    let command = far_command(bench);
    let mut programs = Programs::with(setting);
    let mut args = client_options(bench, with);
    args.extend(["-p".to_owned(), servers[0].port.to_string(), destination(bench), command]);
    let pipes = programs.start(bench, ssh, &args, Stdio::piped(), Stdio::piped()).map_err(log)?;
    let (Some(to), Some(from)) = pipes else { return Err("no pipes".to_owned()) };
    let mut carried = Carried::new(Near::pipes(to.into(), from.into()), None, programs);
    carried.near.greet().map_err(|error| log(format!("the stream broke: {error}")))?;
    carried.servers = servers;
    Ok(carried)
}

fn is_end(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).any(|word| word == END.as_bytes())
}

/// The far end as a server behind the forward.
fn far_end(bench: &Bench) -> Server {
    let args = [END.to_owned(), "--bytes".to_owned(), bench.options.size.to_string()];
    Server { program: Program::new(&bench.me, args), listens: false }
}

/// The far end as a remote command.
fn far_command(bench: &Bench) -> String {
    format!("exec {} {END} --bytes {}", bench.lab.path(FAR_PROGRAM).display(), bench.options.size)
}

fn connect(what: &str, port: u16) -> Result<Near, String> {
    let socket = wait_for(what, || TcpStream::connect(("127.0.0.1", port)).ok())?;
    Near::socket(socket).map_err(|error| format!("{what}: {error}"))
}

fn forward(
    bench: &Bench,
    ssh: &Path,
    with: &Variation,
    carrier: Carrier,
    port: u16,
) -> Result<Carried, String> {
    let far = Running::start(bench, &far_end(bench))?;
    let target = format!("{}:{}", bench.options.hosts.address, far.port);
    let local = free_port();
    let mut args = client_options(bench, with);
    args.extend(match carrier {
        Carrier::Dynamic => ["-D".to_owned(), format!("127.0.0.1:{local}")],
        _ => ["-L".to_owned(), format!("127.0.0.1:{local}:{target}")],
    });
    args.extend(["-N".to_owned(), "-p".to_owned(), port.to_string(), destination(bench)]);
    let mut programs = Programs::default();
    programs.start(bench, ssh, &args, Stdio::null(), Stdio::null())?;
    let mut near = connect("forward", local)?;
    if carrier == Carrier::Dynamic {
        let target: SocketAddrV4 = target.parse().map_err(|_| format!("{target}: not IPv4"))?;
        near.ask_socks(target).map_err(|error| format!("SOCKS: {error}"))?;
    }
    Ok(Carried::new(near, Some(far), programs))
}

fn session(
    bench: &Bench,
    ssh: &Path,
    with: &Variation,
    carrier: Carrier,
    servers: &[Running],
) -> Result<Carried, String> {
    let command = far_command(bench);
    let mut programs = Programs::default();
    let pipes = match carrier {
        Carrier::MuxClient => {
            let mut master = Master::start(bench, ssh, with, servers[0].port)?;
            let pipes = master.mux_client(&[], &command, Stdio::piped(), Stdio::piped());
            programs = master.programs;
            pipes?
        }
        _ => {
            let name = bench.fresh("jump.conf");
            let text = configuration(bench, with, servers);
            std::fs::write(&name, text).map_err(|error| format!("{}: {error}", name.display()))?;
            let target = if carrier == Carrier::Jump { "behind" } else { "front" };
            let args = ["-F".to_owned(), name.display().to_string(), target.to_owned(), command];
            programs.start(bench, ssh, &args, Stdio::piped(), Stdio::piped())?
        }
    };
    let (Some(to), Some(from)) = pipes else { return Err("no pipes".to_owned()) };
    Ok(Carried::new(Near::pipes(to.into(), from.into()), None, programs))
}

/// A client's configuration with the hosts `front` and, through it, `behind`. It is a file because
/// command-line options do not apply to jump hosts.
fn configuration(bench: &Bench, with: &Variation, servers: &[Running]) -> String {
    let mut text = String::new();
    for (name, server) in ["front", "behind"].iter().zip(servers) {
        text.push_str(&format!("Host {name}\nPort {}\n", server.port));
    }
    if servers.len() > 1 {
        text.push_str("ProxyJump front\n");
    }
    text.push_str(&format!("Host *\nHostName {}\nUser {}\n", bench.options.hosts.address, bench.user()));
    for option in client_options(bench, with) {
        if let Some((keyword, value)) = option.split_once('=') {
            text.push_str(&format!("{keyword} {value}\n"));
        }
    }
    text
}

/// A chain of copying relays, one for each program between the ends of a forward. Over an emulated path,
/// whose ends are in different network namespaces, it is the bare path.
pub(super) fn relays(bench: &Bench, carrier: Carrier, way: Way) -> Result<Vec<Measured>, String> {
    let far = Running::start(bench, &far_end(bench))?;
    let hops = match carrier {
        _ if !bench.options.hosts.server_prefix.is_empty() => 0,
        Carrier::Jump => 3,
        _ => 2,
    };
    let mut servers: Vec<Running> = Vec::new();
    for _ in 0..hops {
        let to = servers.last().map_or(far.port, |next| next.port);
        let args =
            ["tcp-relay".to_owned(), "--to".to_owned(), format!("{}:{to}", bench.options.hosts.address)];
        servers
            .push(Running::start(bench, &Server { program: Program::new(&bench.me, args), listens: false })?);
    }
    let port = servers.last().map_or(far.port, |next| next.port);
    let socket = TcpStream::connect((bench.options.hosts.address.as_str(), port))
        .map_err(|error| error.to_string())?;
    let near = Near::socket(socket).map_err(|error| error.to_string())?;
    let mut carried = Carried::new(near, Some(far), Programs::default());
    carried.servers = servers;
    carried.measure(bench, way)
}
