//! Windows of each kind of channel that can carry bulk data, as the peer sees them: the initial window, the
//! largest one, and the memory that a stalled receiver costs.
//!
//! The peer is OpenSSH's, which logs every window adjustment. The path to it has a delay of 120 ms each way,
//! in which even a busy machine fills the initial window.
//!
//! How the size of a window is computed is tested in virtual time, in `connection/tests`.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lh_interop::carrier::{Carrier, Flow, Route, Way, read_pattern, server_lines, write_pattern};
use lh_interop::path::{self, Traits};
use lh_interop::process::peak_mib;
use lh_interop::sharing::Running;
use lh_interop::{Inetd, Lab, Lhsshd, eventually, find, make_blob, me, our, peers};

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
const ONE_WAY: Duration = Duration::from_millis(120);

/// The end that is ours; the other end is OpenSSH's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    Client,
    Server,
}

impl Ours {
    /// Returns the direction in which our end receives.
    const fn receives(self) -> Way {
        match self {
            Self::Client => Way::Down,
            Self::Server => Way::Up,
        }
    }

    fn client(self) -> PathBuf {
        match self {
            Self::Client => our("lhssh"),
            Self::Server => find("ssh").expect("looked for before"),
        }
    }
}

/// Our server or OpenSSH's.
enum Server {
    Ours(Lhsshd),
    Theirs(Inetd),
}

impl Server {
    fn start(ours: Ours, lab: &Lab, config: &str) -> Self {
        let config = format!("{}{config}", server_lines(lab));
        match ours {
            Ours::Server => Self::Ours(Lhsshd::start(lab, &config)),
            Ours::Client => {
                let sshd = find("sshd").expect("looked for before");
                Self::Theirs(Inetd::openssh(lab, &sshd, &format!("LogLevel DEBUG3\n{config}")))
            }
        }
    }

    const fn port(&self) -> u16 {
        match self {
            Self::Ours(server) => server.port,
            Self::Theirs(server) => server.port,
        }
    }
}

/// Windows that one end has granted on the one channel of a log.
#[derive(Debug, PartialEq, Eq)]
struct Granted {
    first: u64,
    /// The initial window and all adjusts, bytes.
    total: u64,
}

/// Parses the log of an OpenSSH program at its highest log level; `None` before the channel is open.
fn granted(log: &str) -> Option<Granted> {
    let number = |line: &str, behind: &str| -> Option<u64> {
        line.split_once(behind)?.1.split_whitespace().next()?.parse().ok()
    };
    let mut windows = log.lines().filter_map(|line| {
        // A channel opened by our end, or one opened by OpenSSH's.
        let theirs = line.contains("_input_channel_open: ctype ").then(|| number(line, " win ")).flatten();
        theirs.or_else(|| number(line, "open confirm rwindow "))
    });
    let first = windows.next()?;
    assert_eq!(windows.next(), None, "more than one channel in {log}");
    Some(Granted {
        first,
        total: first + log.lines().filter_map(|line| number(line, "rcvd adjust ")).sum::<u64>(),
    })
}

/// The connection that a channel belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// A connection made for the channel.
    Alone,
    /// A master's connection.
    Shared,
    /// The connection of a jump host: the channel carries another connection.
    Hop,
}

/// A stream through a channel, and the other end's log of the channel's window.
struct Run {
    flow: Flow,
    server: Server,
    way: Way,
    how: How,
    /// Path between a jump host and the last host.
    behind: path::Path,
    _last: Server,
    _others: Vec<Running>,
    // Dropped last, because the other fields use its directory.
    lab: Lab,
}

/// Starts a client with pipes and its standard error in a file.
fn spawn(lab: &Lab, program: &Path, errors: &str, words: &[&[String]]) -> Child {
    Command::new(program)
        .args(words.concat())
        .env("HOME", lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .current_dir(lab.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(lab.path(errors)).unwrap())
        .spawn()
        .unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Writes the client's configuration: `hop`, and `last` behind it.
fn configure(lab: &Lab, hop: u16, last: &str, options: &[&str]) {
    let mut text =
        format!("Host hop\nPort {hop}\nHost last\n{last}\nHost *\nHostName 127.0.0.1\nUser {}\n", me());
    for option in lab
        .client_options()
        .iter()
        .filter(|word| word.contains('='))
        .map(String::as_str)
        .chain(options.iter().copied())
    {
        text.push_str(&format!("{option}\n"));
    }
    lab.write("config", &text);
}

/// Starts a master, and waits until it accepts clients.
fn master(lab: &Lab, program: &Path, flags: &[String]) -> Running {
    let given = [words(&["-M", "-N", "-S", &lab.arg("ctl")]), words(&["-F", &lab.arg("config")])].concat();
    let running = Running(spawn(lab, program, "master.err", &[&given, flags, &words(&["hop"])]));
    eventually("the master can be joined", || UnixStream::connect(lab.path("ctl")).is_ok());
    running
}

impl Run {
    fn new(ours: Ours, carrier: Carrier, how: How, config: &[&str]) -> Self {
        let lab = Lab::new();
        let (client, way) = (ours.client(), ours.receives());
        let (client_says, server_says) = match ours {
            Ours::Client => (config, String::new()),
            Ours::Server => (&[][..], format!("Match all\n{}\n", config.join("\n"))),
        };
        lab.write("rules", &server_says);
        let server = Server::start(ours, &lab, &format!("Include {}\n", lab.arg("rules")));
        let last = Server::start(ours, &lab, "");
        let link = path::Path::to(server.port(), Traits::long(ONE_WAY));
        let behind = path::Path::to(last.port(), Traits::long(Duration::ZERO));
        [link.port, behind.port].into_iter().for_each(|port| lab.know(port));
        // OpenSSH's client logs everything into a file; so does the server where that is OpenSSH's.
        let loud = match ours {
            Ours::Client => Vec::new(),
            Ours::Server => words(&["-vvv", "-E", &lab.arg("granted.log")]),
        };
        let config = words(&["-F", &lab.arg("config")]);
        let jump = match ours {
            Ours::Client => "ProxyJump hop".to_owned(),
            // The command that ProxyJump would run, with a log of its own.
            Ours::Server => {
                format!(
                    "ProxyCommand {} {} {} -W [%h]:%p hop",
                    client.display(),
                    config.join(" "),
                    loud.join(" ")
                )
            }
        };
        configure(&lab, link.port, &format!("Port {}\n{jump}", behind.port), client_says);

        let route = Route::new(&lab, carrier, way);
        let start = |flags: &[String], host: &str| {
            spawn(&lab, &client, "flow.err", &[&config, flags, &route.flags, &words(&[host]), &route.command])
        };
        let mut others = Vec::new();
        let program = match (how, route.is_program()) {
            (How::Alone, true) => Some(start(&loud, "hop")),
            (How::Alone, false) => {
                others.push(Running(start(&[&loud[..], &words(&["-N"])].concat(), "hop")));
                None
            }
            (How::Shared, _) => {
                others.push(master(&lab, &client, &loud));
                Some(start(&words(&["-S", &lab.arg("ctl")]), "hop"))
            }
            (How::Hop, _) => Some(start(&[], "last")),
        };
        let flow = route.flow(program);
        Self { flow, server, way, how, behind, _last: last, _others: others, lab }
    }

    fn granted(&self) -> Granted {
        let mut found = None;
        eventually("the channel is open", || {
            found = granted(&match &self.server {
                Server::Theirs(server) => server.log(),
                Server::Ours(_) => std::fs::read_to_string(self.lab.path("granted.log")).unwrap_or_default(),
            });
            found.is_some()
        });
        found.expect("a grant")
    }

    /// Returns the bytes that the other end may still send after the sink has read all: the window, less
    /// credit too small for an adjust. Waits until the value is stable.
    fn window_at_rest(&self) -> u64 {
        let now = || {
            let sent = match (self.how, self.way) {
                (How::Hop, Way::Up) => self.behind.forth(),
                (How::Hop, Way::Down) => self.behind.back(),
                // At this log level OpenSSH's server writes to the channel before the command does.
                _ => self.flow.passed + std::fs::metadata(self.lab.path("flow.err")).unwrap().len(),
            };
            self.granted().total - sent
        };
        let mut last = now();
        eventually("all credit has come", || {
            std::thread::sleep(4 * ONE_WAY);
            let before = std::mem::replace(&mut last, now());
            before == last
        });
        last
    }
}

/// Configurations of our end, the initial window, and the final one; `None` where the path decides.
const TOLD: &[(&[&str], u64, Option<u64>)] = &[
    (&[], 2 * MIB, None),
    (&["HPNBufferSize 5120"], 2 * MIB, Some(5 * MIB)),
    (&["TcpRcvBufPoll no", "HPNBufferSize 640"], 640 * KIB, Some(640 * KIB)),
    (&["HPNDisabled yes"], 2 * MIB, Some(2 * MIB)),
];

fn check(ours: Ours, carrier: Carrier, how: How, (config, first, end): (&[&str], u64, Option<u64>)) {
    let name = format!("{ours:?}, {carrier:?}, {how:?}, {config:?}");
    let started = Instant::now();
    let mut run = Run::new(ours, carrier, how, config);
    assert_eq!(run.granted().first, first, "{name}");
    // A growing window reaches four times the data of a round trip, which on a busy machine is less than the
    // cap. Our end holds back credit until it is worth an adjust: three packets.
    let goal = if end == Some(first) { first - 192 * KIB } else { 3 * MIB };
    let mut window = 0;
    for round in 0..40 {
        run.flow.pass(6 * MIB);
        window = run.window_at_rest();
        assert!(end.is_none_or(|end| window <= end), "{name}: {window}");
        if round > 0 && window >= goal {
            println!("{name}: {window} bytes, {:?}", started.elapsed());
            return;
        }
    }
    panic!("{name}: the window has become {window}, not {goal}");
}

fn check_all(test: &str, ours: Ours) {
    if peers(test, ["ssh", "sshd"]).is_none() {
        return;
    }
    let kinds = Carrier::ALL.map(|carrier| (carrier, How::Alone));
    let ways = [(Carrier::Command, How::Shared), (Carrier::Command, How::Hop)];
    let cases: Vec<_> =
        kinds.into_iter().chain(ways).flat_map(|kind| TOLD.iter().map(move |&told| (kind, told))).collect();
    // The checks mostly wait, so several run at once.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(&((carrier, how), told)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(ours, carrier, how, told);
                }
            });
        }
    });
}

/// Covers: sshd_config HPNBufferSize; sshd_config TcpRcvBufPoll; sshd_config HPNDisabled; wire direct-tcpip; wire forwarded-tcpip; wire direct-streamlocal@openssh.com; wire forwarded-streamlocal@openssh.com
#[test]
fn server_windows_follow_the_configuration() {
    check_all("a_server_s_windows_are_what_it_was_told", Ours::Server);
}

/// Covers: ssh_config HPNBufferSize; ssh_config TcpRcvBufPoll; ssh_config HPNDisabled; wire direct-tcpip; wire forwarded-tcpip; wire direct-streamlocal@openssh.com; wire forwarded-streamlocal@openssh.com
#[test]
fn client_windows_follow_the_configuration() {
    check_all("a_client_s_windows_are_what_it_was_told", Ours::Client);
}

/// A copy over a master's connection grants the windows of its own configuration, not of the master's.
///
/// Covers: ssh_config HPNBufferSize (on a shared connection); ssh_config ControlPath
#[test]
fn copy_over_a_master_uses_its_own_windows() {
    if peers("a_copy_on_a_shared_connection", ["ssh", "sshd"]).is_none() {
        return;
    }
    for (program, told) in [(our("lhssh"), "HPNBufferSize=8192"), (Ours::Server.client(), "Compression=no")] {
        let lab = Lab::new();
        let server = Server::start(Ours::Client, &lab, "");
        configure(&lab, server.port(), "", &[told]);
        let _master = master(&lab, &program, &[]);
        let size = 8 * MIB;
        make_blob(&lab.path("blob"), size as usize);
        configure(&lab, server.port(), "", &[]);
        let (control, from) = (format!("ControlPath={}", lab.arg("ctl")), format!("hop:{}", lab.arg("blob")));
        let limit = "HPNBufferSize=512";
        let (config, to) = (lab.arg("config"), lab.arg("copy"));
        let args = ["-F", &config, "-o", &control, "-o", limit, &from, &to];
        lab.run(&our("lhscp"), &args).ok("copy");
        lh_interop::assert_same_file(&lab.path("blob"), &lab.path("copy"));
        let Server::Theirs(server) = server else { continue };
        let granted = granted(&server.log()).expect("one channel");
        assert_eq!(granted.first, 512 * KIB, "{}", program.display());
        // SFTP's own messages are small beside the file.
        assert!(granted.total <= size + size / 50 + 512 * KIB, "{granted:?}");
    }
}

/// Runs every kind of channel at once, each with a sink that reads nothing, and commands beside them.
fn all_stuck(test: &str, ours: Ours, way: Way) {
    if peers(test, ["ssh", "sshd"]).is_none() {
        return;
    }
    let lab = Lab::new();
    let client = ours.client();
    let server = Server::start(ours, &lab, "");
    configure(&lab, server.port(), "", &[]);
    let routes = Carrier::ALL.map(|carrier| Route::new(&lab, carrier, way));
    let forwards: Vec<String> =
        routes.iter().filter(|route| !route.is_program()).flat_map(|route| route.flags.clone()).collect();
    let master = master(&lab, &client, &forwards);
    let ours_is = match &server {
        Server::Ours(server) => server.pid(),
        Server::Theirs(_) => master.0.id(),
    };
    let run_mux_client = |route: &Route| {
        let given = words(&["-F", &lab.arg("config"), "-S", &lab.arg("ctl")]);
        route.is_program().then(|| {
            spawn(&lab, &client, "ride.err", &[&given, &route.flags, &words(&["hop"]), &route.command])
        })
    };
    let flows: Vec<Flow> = routes.iter().map(|route| route.flow(run_mux_client(route))).collect();
    let written = Carrier::ALL.map(|_| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (flow, written) in flows.iter().zip(&written) {
            let source = flow.source.try_clone().unwrap();
            // Writes until the reader is gone.
            scope.spawn(move || {
                write_pattern(&source, 0, u64::MAX / 2, |n| written.store(n, Ordering::Relaxed))
            });
        }
        let all = || written.each_ref().map(|written| written.load(Ordering::Relaxed));
        let mut before = all();
        eventually("all are stuck", || {
            std::thread::sleep(Duration::from_millis(300));
            let last = std::mem::replace(&mut before, all());
            last == before && last.iter().all(|&written| written > 0)
        });
        for way in [Way::Up, Way::Down] {
            let beside = Route::new(&lab, Carrier::Command, way);
            beside.flow(run_mux_client(&beside)).pass(48 * MIB);
        }
        // Except for data that the kernel holds for both sockets of a forward.
        assert!(all().iter().all(|&written| written < 48 * MIB), "{:?}", all());
        println!("{test}: {before:?} bytes wait, {} MiB in the largest process", peak_mib(ours_is));
        // Eight windows of 2 MiB, and a program.
        assert!(peak_mib(ours_is) < 64, "{} MiB", peak_mib(ours_is));
        // The streams continue as soon as their sinks are read.
        for (flow, written) in flows.iter().zip(all()) {
            read_pattern(&flow.sink, 0, written + 4 * MIB).unwrap();
        }
        // The writers end when the readers are dropped.
        drop((flows, master, server));
    });
}

/// Covers: sshd_config HPNBufferSize (stalled sinks); wire channel-window-adjust
#[test]
fn stalled_server_sinks_cost_one_window_each() {
    all_stuck("sinks_of_a_server_that_stall", Ours::Server, Way::Up);
}

/// Covers: ssh_config HPNBufferSize (stalled sinks); wire channel-window-adjust
#[test]
fn stalled_client_sinks_cost_one_window_each() {
    all_stuck("sinks_of_a_client_that_stall", Ours::Client, Way::Down);
}

/// Covers: wire channel-data
#[test]
fn a_server_reads_no_more_than_stalled_readers_take() {
    all_stuck("a_server_reads_no_more", Ours::Server, Way::Down);
}

/// Covers: wire channel-data
#[test]
fn a_client_reads_no_more_than_stalled_readers_take() {
    all_stuck("a_client_reads_no_more", Ours::Client, Way::Up);
}
