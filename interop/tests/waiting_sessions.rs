//! What sessions that wait for their clients (`ResumeGrace`) keep, and what they give to another session of
//! the same user: ports and sockets of remote forwards, part files of copies.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_interop::tunnel::{Pair, Tunnel, free_port, round_trip, round_trip_unix, sum_server};
use lh_interop::{
    Lab, Lhsshd, TestUser, assert_same_tree, eventually, is_root, make_blob, me, our, peers, skip,
};
use lh_testkit::leftovers;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const CONFIG: &str = "ResumeGrace 10m\n";

/// The number of lines in the log with this text.
fn count(server: &Lhsshd, text: &str) -> usize {
    server.log().matches(text).count()
}

const WAITS: &str = "the session waits for";
const GIVEN_ALONE: &str = " to another session of the user";
const GIVEN: &str = "another session of the user asks for a port or socket";

fn kill(tunnel: Tunnel) {
    kill_process(Pid::from_raw(tunnel.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    // Waits for its end.
    drop(tunnel);
}

/// A tunnel that is killed and started again gets its port and its socket, from OpenSSH's client too.
///
/// Covers: sshd_config ResumeGrace; ssh_config ExitOnForwardFailure
#[test]
fn a_tunnel_that_is_started_again_gets_its_port() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, CONFIG);
    let (port, sums, socket) = (free_port(), sum_server(), lab.path("socket"));
    let forwards = [format!("{port}:127.0.0.1:{sums}"), format!("{}:127.0.0.1:{sums}", lab.arg("socket"))];
    let args = ["-o", "ExitOnForwardFailure=yes", "-R", &forwards[0], "-R", &forwards[1]];
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let works = |tunnel: &Tunnel| {
        tunnel.wait_for_port(port);
        tunnel.wait_for_path(&socket);
        round_trip(port, 1000);
        round_trip_unix(&socket, 1000);
    };
    let mut tunnel = pair.tunnel(&args);
    works(&tunnel);
    for round in 1..=5 {
        kill(tunnel);
        eventually("the server has noticed", || count(&server, WAITS) == round);
        tunnel = pair.tunnel(&args);
        eventually("the old session is gone", || count(&server, GIVEN) == round);
        works(&tunnel);
    }
    let Some([ssh]) = peers("a_tunnel_that_is_started_again_gets_its_port", ["ssh"]) else { return };
    kill(tunnel);
    eventually("the server has noticed", || count(&server, WAITS) == 6);
    let tunnel = Pair::new(&lab, ssh, server.port).tunnel(&args);
    eventually("the old session is gone", || count(&server, GIVEN) == 6);
    works(&tunnel);
}

/// The addresses of the two listeners differ, but not both can be there: one is at every address.
///
/// Covers: sshd_config ResumeGrace; sshd_config GatewayPorts
#[test]
fn a_tunnel_gets_its_port_at_other_addresses() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 10m\nGatewayPorts clientspecified\nAddressFamily inet\n");
    let (port, sums) = (free_port(), sum_server());
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let tunnel = |address: &str| {
        let forward = format!("{address}:{port}:127.0.0.1:{sums}");
        pair.tunnel(&["-o", "ExitOnForwardFailure=yes", "-R", &forward])
    };
    let addresses = ["127.0.0.1", "*", "localhost", "0.0.0.0", "127.0.0.1"];
    for (round, address) in addresses.into_iter().enumerate() {
        let next = tunnel(address);
        eventually("the old session is gone", || {
            assert!(!next.said().contains("forwarding failed"), "{address}: {}", server.log());
            count(&server, GIVEN) == round
        });
        next.wait_for_port(port);
        round_trip(port, 1000);
        kill(next);
        eventually("the server has noticed", || count(&server, WAITS) == round + 1);
    }
    // Two sessions are in the way of one.
    let other = tunnel("127.0.0.2");
    other.wait_for("127.0.0.2", port);
    kill(other);
    eventually("the server has noticed", || count(&server, WAITS) == addresses.len() + 1);
    let everywhere = tunnel("");
    everywhere.wait_for("127.0.0.3", port);
    assert_eq!(count(&server, GIVEN), addresses.len() + 1, "{}", server.log());
    round_trip(port, 1000);
}

/// Starts a client with this forward and a program. Returns the client, the program's process id and its
/// parent's, which is the session process.
fn start_with_program(lab: &Lab, pair: &Pair<'_>, forward: &str) -> (Tunnel, Pid, Pid) {
    let ids = lab.path("ids");
    let mut args = pair.args(&["-R", forward]);
    args.push(format!("echo $$ $PPID > {}; exec sleep 1000", lab.arg("ids")));
    let client = Tunnel::start(lab, &our("lhssh"), &args);
    eventually("the program runs", || fs::read(&ids).is_ok_and(|text| text.ends_with(b"\n")));
    let ids = fs::read_to_string(&ids).unwrap();
    let ids: Vec<_> = ids.split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap()).unwrap()).collect();
    (client, ids[0], ids[1])
}

/// The name under which a waiting session offers the port.
fn name_of_offer(port: u16) -> String {
    format!("lhsshd-forward-{}-tcp-127.0.0.1:{port}", rustix::process::geteuid().as_raw())
}

/// The number of sockets with the port's offer: the listening one, and a connection for each request.
fn offers(port: u16) -> usize {
    let name = format!(" @{}", name_of_offer(port));
    fs::read_to_string("/proc/net/unix").unwrap().lines().filter(|line| line.ends_with(&name)).count()
}

/// A session that has run a program is not ended for its port. It gives the port alone, after a pause in
/// which its client may come back. The other session waits for that, and offers the port from then on.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn a_session_with_a_program_loses_its_port_alone() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, CONFIG);
    let (port, sums) = (free_port(), sum_server());
    let forward = format!("{port}:127.0.0.1:{sums}");
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let (working, program, _) = start_with_program(&lab, &pair, &forward);
    kill(working);
    eventually("it waits", || count(&server, WAITS) == 1);
    let tunnel = || {
        let tunnel = pair.tunnel(&["-v", "-o", "ExitOnForwardFailure=yes", "-R", &forward]);
        tunnel.wait_for_line("debug1: remote forward success");
        round_trip(port, 1000);
        assert!(test_kill_process(program).is_ok(), "{}", server.log());
        tunnel
    };
    let first = tunnel();
    assert_eq!((count(&server, GIVEN), count(&server, GIVEN_ALONE)), (0, 1), "{}", server.log());
    kill(first);
    eventually("both wait", || count(&server, WAITS) == 2);
    let _second = tunnel();
    assert_eq!((count(&server, GIVEN), count(&server, GIVEN_ALONE)), (1, 1), "{}", server.log());
}

/// A request whose session has ended before the decision takes no port.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn a_request_that_is_gone_takes_no_port() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, CONFIG);
    let (port, sums) = (free_port(), sum_server());
    let forward = format!("{port}:127.0.0.1:{sums}");
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let (working, _, session) = start_with_program(&lab, &pair, &forward);
    kill(working);
    eventually("its port is offered", || offers(port) == 1);
    // The session sees the request and its end at once.
    kill_process(session, Signal::STOP).unwrap();
    let name = SocketAddr::from_abstract_name(name_of_offer(port)).unwrap();
    drop(UnixStream::connect_addr(&name).unwrap());
    assert_eq!(offers(port), 2);
    kill_process(session, Signal::CONT).unwrap();
    eventually("the request is decided", || offers(port) == 1);
    assert_eq!(count(&server, GIVEN_ALONE), 0, "{}", server.log());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    let tunnel = pair.tunnel(&["-v", "-o", "ExitOnForwardFailure=yes", "-R", &forward]);
    tunnel.wait_for_line("debug1: remote forward success");
    assert_eq!(count(&server, GIVEN_ALONE), 1, "{}", server.log());
}

/// A session that gets a port while it waits itself goes on to offer the others.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn a_waiting_session_that_gets_a_port_offers_all() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, CONFIG);
    let (port, other, sums) = (free_port(), free_port(), sum_server());
    let [forward, others] = [port, other].map(|port| format!("{port}:127.0.0.1:{sums}"));
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let (working, _, session) = start_with_program(&lab, &pair, &forward);
    kill(working);
    eventually("its port is offered", || offers(port) == 1);
    // It gives the port when the second session waits too.
    kill_process(session, Signal::STOP).unwrap();
    let args = ["-o", "ExitOnForwardFailure=yes", "-R", &others, "-R", &forward];
    let waits = pair.tunnel(&args);
    waits.wait_for_port(other);
    eventually("the port is asked for", || offers(port) == 2);
    kill(waits);
    eventually("the other port is offered", || offers(other) == 1);
    kill_process(session, Signal::CONT).unwrap();
    let listens = format!("Local forwarding listening on 127.0.0.1 port {port}.");
    let refused = format!("cannot listen to port: {port}");
    // On a machine that is too slow the second session has given up by now.
    eventually("the request is answered", || count(&server, &listens) == 2 || count(&server, &refused) == 1);
    let gets = pair.tunnel(&args);
    eventually("it gets both", || {
        assert!(!gets.said().contains("forwarding failed"), "{}", server.log());
        count(&server, GIVEN) == 1 && count(&server, &listens) + count(&server, &refused) == 3
    });
    for port in [port, other] {
        gets.wait_for_port(port);
        round_trip(port, 1000);
    }
}

/// No session is ended for a port that another user's listener keeps from being bound all the same.
///
/// Covers: sshd_config ResumeGrace; sshd_config GatewayPorts
#[test]
fn no_session_ends_for_a_port_that_stays_in_use() {
    if !is_root() {
        return skip("no_session_ends_for_a_port_that_stays_in_use", "only root serves several users");
    }
    let lab = Lab::new();
    let keys = format!("AuthorizedKeysFile .ssh/authorized_keys {}\n", lab.arg("authorized_keys"));
    let config = "ResumeGrace 10m\nGatewayPorts clientspecified\nAddressFamily inet\n";
    let server = Lhsshd::start(&lab, &(config.to_owned() + &keys));
    let user = TestUser::new(&lab);
    let port = free_port();
    let start = |address: &str| {
        let mut args = lab.client_options();
        args.extend(["-p", &server.port_arg(), "-N", "-o", "ExitOnForwardFailure=yes"].map(str::to_owned));
        args.extend(["-R".to_owned(), format!("{address}:{port}:127.0.0.1:1")]);
        args.push(format!("{}@127.0.0.1", user.name));
        Tunnel::start(&lab, &our("lhssh"), &args)
    };
    let waits = start("127.0.0.1");
    waits.wait_for_port(port);
    kill(waits);
    eventually("it waits", || count(&server, WAITS) == 1);
    let in_the_way = TcpListener::bind(("127.0.0.2", port)).unwrap();
    start("*").wait_for_line("Error: remote port forwarding failed");
    assert_eq!(count(&server, GIVEN), 0, "{}", server.log());
    drop(in_the_way);
    let everywhere = start("*");
    everywhere.wait_for("127.0.0.3", port);
    assert_eq!(count(&server, GIVEN), 1, "{}", server.log());
}

/// Neither a session that has a connection nor one that waits and has another port loses anything.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn a_connected_session_keeps_its_port() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, CONFIG);
    let (port, other, sums) = (free_port(), free_port(), sum_server());
    let pair = Pair::new(&lab, our("lhssh"), server.port);
    let tunnel = |port: u16| {
        let forward = format!("{port}:127.0.0.1:{sums}");
        pair.tunnel(&["-o", "ExitOnForwardFailure=yes", "-R", &forward])
    };
    let waits = tunnel(other);
    waits.wait_for_port(other);
    kill(waits);
    eventually("it waits", || count(&server, WAITS) == 1);
    let keeps = tunnel(port);
    keeps.wait_for_port(port);
    let refused = tunnel(port);
    refused.wait_for_line("Error: remote port forwarding failed");
    round_trip(port, 1000);
    assert_eq!(count(&server, GIVEN), 0, "{}", server.log());
}

/// Another user's waiting session keeps its port.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn another_users_session_keeps_its_port() {
    if !is_root() {
        return skip("another_users_session_keeps_its_port", "only root serves several users");
    }
    let lab = Lab::new();
    let keys = format!("AuthorizedKeysFile .ssh/authorized_keys {}\n", lab.arg("authorized_keys"));
    let server = Lhsshd::start(&lab, &(CONFIG.to_owned() + &keys));
    let user = TestUser::new(&lab);
    let port = free_port();
    let forward = format!("{port}:127.0.0.1:1");
    let start = |user: &str| {
        let mut args = lab.client_options();
        args.extend(["-p", &server.port_arg(), "-N", "-o", "ExitOnForwardFailure=yes"].map(str::to_owned));
        args.extend(["-R".to_owned(), forward.clone(), format!("{user}@127.0.0.1")]);
        Tunnel::start(&lab, &our("lhssh"), &args)
    };
    let theirs = start(&user.name);
    theirs.wait_for_port(port);
    kill(theirs);
    eventually("it waits", || count(&server, WAITS) == 1);
    start(&me()).wait_for_line("Error: remote port forwarding failed");
    assert_eq!(count(&server, GIVEN), 0, "{}", server.log());
}

struct Copy<'a> {
    lab: &'a Lab,
    port: u16,
}

impl Copy<'_> {
    fn start(&self, words: &[&str]) -> Child {
        Command::new(our("lhscp"))
            .args(self.lab.client_options())
            .args(["-P", &self.port.to_string(), "-q"])
            .args(words)
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .env_remove("XDG_STATE_HOME")
            .current_dir(self.lab.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn bytes_below(root: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(root) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    fs::read_dir(root).into_iter().flatten().flatten().map(|entry| bytes_below(&entry.path())).sum()
}

/// Copies that are killed at any moment and run again at once beside the sessions that wait.
///
/// Covers: lhscp -r; sshd_config ResumeGrace
#[test]
fn copies_that_are_killed_go_on_beside_sessions_that_wait() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, CONFIG);
    fs::create_dir(lab.path("tree")).unwrap();
    for n in 0..60_usize {
        make_blob(&lab.path("tree").join(format!("small {n}")), 1 + n * 977);
    }
    for n in 0..3_usize {
        make_blob(&lab.path("tree").join(format!("large {n}")), 3_000_000 + n * 1_000_001);
    }
    let copy = Copy { lab: &lab, port: server.port };
    let (tree, there) = (lab.arg("tree"), format!("127.0.0.1:{}", lab.arg("there")));
    let total = bytes_below(&lab.path("tree"));
    let mut random = 20_261_127_u64;
    for round in 0..30 {
        fs::create_dir(lab.path("there")).unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A few are killed while they log in, or are faster than this process.
        let at = (random >> 33) % total;
        let mut child = copy.start(&["-r", &tree, &there]);
        while bytes_below(&lab.path("there")) < at && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(300));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let again = copy.start(&["-r", &tree, &there]).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success(), "round {round}: {said}");
        assert_same_tree(&lab.path("tree"), &lab.path("there/tree"));
        assert_eq!(leftovers(lab.dir()), Vec::<PathBuf>::new(), "round {round}");
        fs::remove_dir_all(lab.path("there")).unwrap();
    }
    assert!(count(&server, WAITS) >= 5, "{}", server.log());
}
