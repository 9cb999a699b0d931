//! HPN-SSH's options for windows and sockets, and Longhaul's related ones, by their effects visible outside
//! the programs.
//!
//! Socket options are read from the program's own socket, which `pidfd_getfd` duplicates from the running
//! program. Parallel connects to several addresses, and the effects of a growing window, are tested beside
//! their code (`client::race`, `connection/tests`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lh_interop::process::family;
use lh_interop::tunnel::{Tunnel, free_port};
use lh_interop::{Lab, Lhsshd, Ran, eventually, is_root, me, our, peers, skip};
use lh_sys::socket::{local_address, peer_address};
use lh_sys::tcp_info::TcpInfo;
use lh_sys::tuning::{is_multipath, pacing};
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Options set on a connection's socket.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    receive_buffer: usize,
    congestion: String,
    pacing: Option<u64>,
    tos: u8,
    multipath: bool,
}

/// Returns copies of a process's sockets.
fn sockets_of(pid: u32) -> Vec<OwnedFd> {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Vec::new() };
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return Vec::new() };
    let names = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let numbers = names.filter_map(|name| name.file_name().to_str()?.parse().ok());
    let taken = numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
    taken.filter(|fd| lh_sys::socket::is_internet(fd)).collect()
}

/// The connection between a running client and a server, seen from either end.
struct Connection<'a> {
    client: &'a Tunnel,
    server: &'a Lhsshd,
}

impl Connection<'_> {
    fn socket(pid: u32, is_it: impl Fn(SocketAddr, SocketAddr) -> bool) -> Option<OwnedFd> {
        let sockets = family(pid).into_iter().flat_map(sockets_of);
        sockets.into_iter().find(|socket| {
            let (here, there) = (local_address(socket), peer_address(socket));
            here.zip(there).is_some_and(|(here, there)| is_it(here, there))
        })
    }

    fn told(pid: u32, is_it: impl Fn(SocketAddr, SocketAddr) -> bool) -> Option<Told> {
        let socket = Self::socket(pid, is_it)?;
        Some(Told {
            receive_buffer: sockopt::socket_recv_buffer_size(&socket).ok()? / 2,
            congestion: sockopt::tcp_congestion(&socket).ok()?,
            pacing: pacing(&socket),
            tos: sockopt::ip_tos(&socket).ok()?,
            multipath: is_multipath(&socket),
        })
    }

    fn at_client(&self) -> Option<Told> {
        Self::told(self.client.pid(), |_, there| there.port() == self.server.port)
    }

    fn at_server(&self) -> Option<Told> {
        Self::told(self.server.pid(), |here, _| here.port() == self.server.port)
    }
}

fn arguments(lab: &Lab, port: u16, options: &[&str], host: &str) -> Vec<String> {
    let mut args: Vec<String> = options.iter().map(|&each| each.to_owned()).collect();
    args.extend(lab.client_options());
    args.extend(["-p".to_owned(), port.to_string(), format!("{}@{host}", me())]);
    args
}

/// Starts a client that stays idle, and waits for its login.
fn connected(lab: &Lab, server: &Lhsshd, options: &[&str]) -> Tunnel {
    let before = server.log().matches("User child is on pid").count();
    let tunnel = Tunnel::start(
        lab,
        &our("lhssh"),
        &arguments(lab, server.port, &[options, &["-N"]].concat(), "127.0.0.1"),
    );
    eventually("logged in", || server.log().matches("User child is on pid").count() > before);
    tunnel
}

fn run(lab: &Lab, port: u16, options: &[&str], command: &str) -> Ran {
    let mut args = arguments(lab, port, options, "127.0.0.1");
    args.push(command.to_owned());
    let ran = lab.run(&our("lhssh"), &args);
    Ran { err: ran.err.replace('\r', ""), ..ran }
}

/// Waits until a socket's options are as wanted: some are set after the login.
fn wait_for(what: &str, get: impl Fn() -> Option<Told>, wanted: impl Fn(&Told) -> bool) -> Told {
    let mut last = None;
    eventually(what, || {
        last = get();
        last.as_ref().is_some_and(&wanted)
    });
    last.expect("there was one")
}

const BOTH: &str = "TcpRcvBuf 192\nTcpCongestion reno\nTcpPacing 80M\nIPQoS af21 af11\n";

fn is_told(told: &Told) -> bool {
    told.receive_buffer == 192 << 10
        && told.congestion == "reno"
        && told.pacing == Some(10_000_000)
        && told.tos == 0x28
}

/// Covers: ssh_config TcpRcvBuf; ssh_config TcpCongestion; ssh_config TcpPacing; ssh_config IPQoS; ssh_config Match
#[test]
fn client_sets_its_socket_options() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = connected(&lab, &server, &[]);
    let usual = wait_for("usual", || Connection { client: &client, server: &server }.at_client(), |_| true);
    assert_eq!((usual.pacing, usual.tos, usual.multipath), (None, 0, false));
    assert_ne!(usual.receive_buffer, 192 << 10);

    let options: Vec<String> = BOTH.lines().map(|line| format!("-o{line}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let client = connected(&lab, &server, &options);
    wait_for("-o", || Connection { client: &client, server: &server }.at_client(), is_told);

    // From a file, for one host only.
    for (host, is_there) in [("127.0.0.1", true), ("127.0.0.2", false)] {
        lab.write("config", &format!("Match host {host}\n{BOTH}"));
        let mut args = arguments(&lab, server.port, &["-N"], "127.0.0.1");
        let place = args.iter().position(|arg| arg == "none").unwrap();
        args[place] = lab.arg("config");
        let client = Tunnel::start(&lab, &our("lhssh"), &args);
        let connection = Connection { client: &client, server: &server };
        if is_there {
            wait_for("Match", || connection.at_client(), is_told);
        } else {
            wait_for("no Match", || connection.at_client(), |told| told.pacing.is_none() && told.tos == 0);
        }
    }
}

/// Covers: sshd_config TcpRcvBuf; sshd_config TcpCongestion; sshd_config TcpPacing; sshd_config IPQoS; sshd_config Match
#[test]
fn server_sets_socket_options_by_its_rules() {
    let lab = Lab::new();
    lab.write("rules.conf", &format!("Match User {}\n{BOTH}", me()));
    let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg("rules.conf")));
    let client = connected(&lab, &server, &[]);
    let connection = Connection { client: &client, server: &server };
    // The DSCP mark depends on the session, and there is none yet.
    let wanted = |told: &Told| is_told(&Told { tos: 0x28, congestion: told.congestion.clone(), ..*told });
    wait_for("Match User", || connection.at_server(), wanted);

    lab.write("rules.conf", &format!("Match Address 10.0.0.0/8\n{BOTH}"));
    let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg("rules.conf")));
    let client = connected(&lab, &server, &[]);
    let connection = Connection { client: &client, server: &server };
    let told = wait_for("another address", || connection.at_server(), |_| true);
    assert!(told.pacing.is_none() && told.receive_buffer != 192 << 10, "{told:?}");

    // With a session: the second value of IPQoS is for sessions without a terminal.
    let server = Lhsshd::start(&lab, "IPQoS af21 af11");
    let args = arguments(&lab, server.port, &[], "127.0.0.1");
    let client = Tunnel::start(&lab, &our("lhssh"), &[&args[..], &["sleep 100".to_owned()]].concat());
    let connection = Connection { client: &client, server: &server };
    wait_for("IPQoS", || connection.at_server(), |told| told.tos == 0x28);
}

/// The kernel bounds the window of a connection by its first buffer, 64 KiB, and leaves it there when a
/// program sets the size of the buffer.
///
/// Covers: sshd_config ReceiveRate; sshd_config TcpRcvBuf
#[test]
fn window_of_the_server_fills_a_buffer_that_is_set() {
    let lab = Lab::new();
    // No less than 200 KiB may be set on any system. At this rate the buffer holds a quarter of a second.
    for (config, least, most) in [("ReceiveRate 6M", 187_500, 199_000), ("TcpRcvBuf 190", 194_560, 194_560)] {
        let server = Lhsshd::start(&lab, config);
        let upload = format!(
            "exec {} {}@127.0.0.1 'cat > /dev/null' < /dev/zero",
            lab.shell_command(&our("lhssh"), server.port),
            me()
        );
        let client = Tunnel::start(&lab, Path::new("/bin/sh"), &["-c".to_owned(), upload]);
        let connection = Connection { client: &client, server: &server };
        wait_for(config, || connection.at_server(), |told| (least..=most).contains(&told.receive_buffer));
        eventually("a window larger than the kernel's first one", || {
            let socket = Connection::socket(server.pid(), |here, _| here.port() == server.port);
            let info = socket.and_then(TcpInfo::of);
            info.and_then(|info| info.get("rcv_ssthresh")).is_some_and(|window| window > 120_000)
        });
    }
}

/// Covers: ssh_config TcpCongestion; sshd_config TcpCongestion
#[test]
fn missing_congestion_control_is_reported_and_skipped() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "TcpCongestion no-such-1");
    let ran = run(&lab, server.port, &["-o", "TcpCongestion=no-such-2"], "echo fine").ok("connects");
    assert_eq!(ran.text(), "fine\n");
    assert_eq!(ran.err, "TcpCongestion no-such-2: the system has no such algorithm\n");
    eventually("the log", || {
        server.log().contains("TcpCongestion no-such-1: the system has no such algorithm")
    });
}

/// A route's `congctl` replaces a socket's congestion control when it connects: the user's word comes after
/// that. A locked one keeps its own, and that is said.
///
/// Covers: ssh_config TcpCongestion
#[test]
fn congestion_control_of_the_client_overrules_a_route_s() {
    let test = "congestion_control_of_the_client_overrules_a_route_s";
    let Some(_) = peers(test, ["unshare", "ip", "ss", "socat"]) else { return };
    if !is_root() {
        return skip(test, "needs root");
    }
    let lab = Lab::new();
    // Waits until the client's connection is there, which a listener that never answers keeps as it is.
    let script = r#"
        ip link set lo up && ip route replace local 127.0.0.1 dev lo table local congctl $1 reno || exit 1
        socat TCP-LISTEN:5555,bind=127.0.0.1 EXEC:'sleep 100' & listener=$!
        until ss -Htln | grep -q :5555; do sleep 0.02; done
        "$2" -F none -o TcpCongestion=cubic -p 5555 127.0.0.1 2>said & client=$!
        until ss -Htni dport = :5555 | grep -q cubic || grep -q . said; do sleep 0.02; done
        ss -Htni dport = :5555; cat said; kill $client $listener"#;
    lab.write("script", script);
    let client = our("lhssh");
    let look = |lock: &str| {
        let args =
            ["--net", "--kill-child", "--fork", "--pid", "--mount-proc", "sh", &lab.arg("script"), lock];
        let client = client.to_string_lossy();
        let args = [&args[..], &[&client]].concat();
        lab.run(Path::new("unshare"), &args).ok("looked").text()
    };
    let told = look("");
    assert!(told.contains(" cubic ") && !told.contains("TcpCongestion"), "{told}");
    let told = look("lock");
    assert!(told.contains(" reno ") && told.contains("or the route has a locked congctl"), "{told}");
}

/// Covers: ssh_config UseMPTCP; sshd_config UseMPTCP
#[test]
fn multipath_tcp_on_both_ends_or_on_one() {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    if socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::MPTCP)).is_err() {
        return skip("multipath_tcp_on_both_ends_or_on_one", "the kernel has no MPTCP");
    }
    let lab = Lab::new();
    for server_says in ["yes", "no"] {
        let server = Lhsshd::start(&lab, &format!("UseMPTCP {server_says}"));
        for client_says in ["yes", "no"] {
            let client = connected(&lab, &server, &["-o", &format!("UseMPTCP={client_says}")]);
            let connection = Connection { client: &client, server: &server };
            let told = wait_for("client", || connection.at_client(), |_| true);
            assert_eq!(told.multipath, client_says == "yes", "server {server_says}");
            // The server listens with MPTCP, but a client without it gets plain TCP.
            let told = wait_for("server", || connection.at_server(), |_| true);
            assert_eq!(
                told.multipath,
                server_says == "yes" && client_says == "yes",
                "{server_says} {client_says}"
            );
        }
    }
}

/// A listener that accepts no connection: its queue is full, and the kernel drops further ones.
struct BlackHole {
    _listener: OwnedFd,
    _queued: Vec<OwnedFd>,
}

impl BlackHole {
    fn at(address: SocketAddr) -> Option<Self> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let make = || socket_with(AddressFamily::INET6, SocketType::STREAM, flags, None).ok();
        let listener = make()?;
        bind(&listener, &address).ok()?;
        listen(&listener, 0).ok()?;
        let queued = (0..8)
            .map(|_| {
                let socket = make()?;
                let _ = connect(&socket, &address);
                Some(socket)
            })
            .collect::<Option<_>>()?;
        Some(Self { _listener: listener, _queued: queued })
    }
}

/// Covers: ssh_config HappyEyes; ssh_config HappyDelay; ssh_config ConnectTimeout
#[test]
fn an_address_that_is_silent_does_not_hold_up_one_that_answers() {
    let test = "an_address_that_is_silent_does_not_hold_up_one_that_answers";
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let silent = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], server.port));
    let Some(_hole) = BlackHole::at(silent) else { return skip(test, "no IPv6") };
    // A name with both addresses, for this program alone.
    lab.write("hosts", "::1 both-families\n127.0.0.1 both-families\n");
    let alone = format!("mount --bind '{}' /etc/hosts && exec \"$@\"", lab.arg("hosts"));
    let inside = |program: &Path, args: &[String]| {
        let words = ["-m", "sh", "-c", &alone, "sh"].map(str::to_owned);
        let program = program.to_string_lossy().into_owned();
        lab.run(Path::new("unshare"), &[&words[..], &[program], args].concat())
    };
    if inside(Path::new("getent"), &["ahosts".to_owned(), "both-families".to_owned()]).code != 0 {
        return skip(test, "needs root, for a mount namespace");
    }
    let alias = format!("HostKeyAlias=[127.0.0.1]:{}", server.port);
    let ssh = |options: &[&str]| {
        let options = [options, &["-v", "-o", &alias]].concat();
        let mut args = arguments(&lab, server.port, &options, "both-families");
        args.push("echo through".to_owned());
        inside(&our("lhssh"), &args)
    };
    // No time limit: without parallel attempts this waits for minutes.
    let ran = ssh(&["-o", "HappyEyes=yes", "-o", "HappyDelay=40"]).ok("HappyEyes");
    assert_eq!(ran.text(), "through\n");
    let first = ran.err.find("Connecting to both-families [::1]").expect("the first address");
    let second = ran.err.find("Connecting to both-families [127.0.0.1]").expect("the second address");
    assert!(first < second && !ran.err.contains("connect to address"), "{}", ran.err);
    // Without HappyEyes, the first address must fail before the second is tried.
    let ran = ssh(&["-o", "ConnectTimeout=1"]).ok("one after the other");
    assert!(ran.err.contains("connect to address ::1"), "{}", ran.err);
    // A head start longer than the time limit does not make the connection fail.
    let ran = ssh(&["-o", "HappyEyes=yes", "-o", "HappyDelay=60000", "-o", "ConnectTimeout=1"])
        .ok("long head start");
    assert!(ran.err.contains("connect to address ::1"), "{}", ran.err);
}

/// Covers: ssh_config Fallback; ssh_config FallbackPort
#[test]
fn fallback_port_is_tried_when_configured() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let closed = free_port();
    let other = format!("FallbackPort={}", server.port);
    // The host key is known for the server's port alone.
    let ran = run(&lab, closed, &["-o", &other], "echo there").ok("FallbackPort");
    assert_eq!(ran.text(), "there\n");
    let refused = format!("ssh: connect to host 127.0.0.1 port {closed}: Connection refused\n");
    assert_eq!(ran.err, format!("{refused}Falling back to port {}.\n", server.port));
    let ran = run(&lab, closed, &["-q", "-o", &other], "echo there").ok("-q");
    assert_eq!(ran.err, "");
    // A port that answers is not abandoned for the fallback.
    let ran = run(&lab, server.port, &["-o", &format!("FallbackPort={closed}")], "true").ok("not needed");
    assert_eq!(ran.err, "");
    for options in [
        &[][..],
        &["-o", &other, "-o", "Fallback=no"],
        // HPN-SSH loops for ever here.
        &["-o", &format!("FallbackPort={closed}")],
    ] {
        let ran = run(&lab, closed, options, "true");
        assert_eq!((ran.code, ran.err), (255, refused.clone()), "{options:?}");
    }
    let third = free_port();
    let ran = run(&lab, closed, &["-o", &format!("FallbackPort={third}")], "true");
    let both = format!(
        "{refused}Falling back to port {third}.\nssh: connect to host 127.0.0.1 port {third}: Connection refused\n"
    );
    assert_eq!((ran.code, ran.err), (255, both));
}

/// Window configurations, and the initial window of a channel for each.
const WINDOWS: &[(&[&str], u64)] = &[
    (&[], 2 << 20),
    (&["TcpRcvBufPoll no"], 2 << 20),
    (&["HPNBufferSize 1024"], 1 << 20),
    (&["HPNBufferSize 16384"], 2 << 20),
    (&["TcpRcvBufPoll no", "HPNBufferSize 16384"], 16 << 20),
    (&["TcpRcvBufPoll no", "HPNBufferSize 640K"], 640 << 10),
    (&["HPNDisabled yes", "TcpRcvBufPoll no", "HPNBufferSize 16384"], 2 << 20),
];

fn python(lab: &Lab, test: &str) -> Option<&'static Path> {
    let python = Path::new("/usr/bin/python3");
    if lab.run(python, &["-W", "ignore", "-c", "import asyncssh"]).code == 0 {
        return Some(python);
    }
    skip(test, "Debian's python3-asyncssh is not installed");
    None
}

fn peer(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).to_string_lossy().into_owned()
}

/// Covers: sshd_config TcpRcvBufPoll; sshd_config HPNDisabled; sshd_config HPNBufferSize
#[test]
fn a_server_grants_the_windows_that_were_configured() {
    let lab = Lab::new();
    let Some(python) = python(&lab, "a_server_grants_the_windows_that_were_configured") else { return };
    for (config, window) in WINDOWS {
        lab.write("rules.conf", &format!("Match all\n{}\n", config.join("\n")));
        let server = Lhsshd::start(&lab, &format!("Include {}", lab.arg("rules.conf")));
        let (script, port, user, directory) =
            (peer("window_client.py"), server.port_arg(), me(), lab.arg(""));
        let ran = lab.run(python, &["-W", "ignore", &script, &port, &user, &directory]).ok("asyncssh");
        assert_eq!(ran.text().trim(), window.to_string(), "{config:?}");
    }
}

/// An asyncssh server; killed when dropped.
struct Asyncssh(Child);

impl Drop for Asyncssh {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Covers: ssh_config TcpRcvBufPoll; ssh_config HPNDisabled; ssh_config HPNBufferSize
#[test]
fn a_client_grants_the_windows_that_were_configured() {
    use std::io::BufRead as _;
    let lab = Lab::new();
    let Some(python) = python(&lab, "a_client_grants_the_windows_that_were_configured") else { return };
    let mut command = Command::new(python);
    command.args(["-W", "ignore", &peer("asyncssh_server.py")]).arg(lab.dir());
    let mut server = Asyncssh(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    std::io::BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap();
    lab.know(port);
    for (config, window) in WINDOWS {
        let options: Vec<String> = config.iter().map(|line| format!("-o{line}")).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let ran = run(&lab, port, &options, "window").ok("window");
        assert_eq!(ran.text().trim(), window.to_string(), "{config:?}");
    }
}

/// Options that HPN-SSH has removed, and those that never had an effect, are accepted.
///
/// Covers: ssh_config HPNBufferLimit; sshd_config HPNBufferLimit
#[test]
fn a_configuration_made_for_an_old_hpn_ssh_is_read() {
    let lab = Lab::new();
    let old = "TcpRcvBuf 4096\nTcpRcvBufPoll yes\nHPNDisabled no\nHPNBufferSize 8192\nHPNBufferLimit yes\nNoneEnabled no\n\
               NoneMacEnabled no\nDisableMTAES no\nUseMPTCP no\n";
    let server = Lhsshd::start(&lab, old);
    let options: Vec<String> = old.lines().map(|line| format!("-o{line}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ran = run(&lab, server.port, &[&options[..], &["-v"]].concat(), "true").ok("an old configuration");
    assert!(ran.err.contains("HPNBufferLimit has no effect: "), "{}", ran.err);
    let ran = run(&lab, server.port, &[&options[..], &["-G"]].concat(), "true").ok("-G");
    for line in ["tcprcvbuf 4096K", "hpnbuffersize 8192K", "tcprcvbufpoll yes", "hpndisabled no"] {
        assert!(ran.text().lines().any(|each| each == line), "{line}: {}", ran.text());
    }
}
