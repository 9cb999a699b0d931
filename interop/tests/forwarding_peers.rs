//! Forwards with asyncssh and paramiko, libraries that are often used for tunnels, as clients and as servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lh_interop::tunnel::{
    Pair, free_port, round_trip, round_trip_after, round_trip_unix, sum_server, sum_server_unix,
};
use lh_interop::{Lab, Lhsshd, eventually, me, our, skip};

const PYTHON: &str = "/usr/bin/python3";
/// Bytes sent through each forward and back.
const SIZE: usize = 2_000_000;

/// A script that runs until its standard input closes, and the line it has printed.
struct Script {
    child: Child,
    line: String,
}

impl Script {
    /// `None` where the module is not installed.
    fn start(lab: &Lab, module: &str, words: &[&str]) -> Option<Self> {
        let python = Path::new(PYTHON);
        if lab.run(python, &["-W", "ignore", "-c", &format!("import {module}")]).code != 0 {
            skip(module, &format!("Debian's python3-{module} is not installed"));
            return None;
        }
        let script = format!("peers/{module}_forward.py");
        let mut child = Command::new(python)
            .args(["-W", "ignore"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Some(Self { child, line })
    }

    fn words(&self) -> Vec<&str> {
        self.line.split_whitespace().collect()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(lab: &Lab, server: &Lhsshd, module: &str, target: u16) -> Option<Script> {
    let (port, target) = (server.port_arg(), target.to_string());
    Script::start(lab, module, &["client", &lab.arg(""), &port, &me(), &target])
}

/// Connects through a SOCKS proxy (version 5, no password).
fn socks(proxy: u16, target: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy)).unwrap();
    let [high, low] = target.to_be_bytes();
    stream.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low]).unwrap();
    stream
}

/// Size of the SOCKS replies: method (2 bytes) and answer (10 bytes, with an IPv4 address).
const SOCKS_ANSWERS: usize = 12;

/// Covers: wire direct-tcpip; wire forwarded-tcpip; wire direct-streamlocal@openssh.com; wire forwarded-streamlocal@openssh.com
#[test]
fn asyncssh_forwards_through_our_server() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let target = sum_server();
    sum_server_unix(&lab.path("sum.sock"));
    let Some(script) = client(&lab, &server, "asyncssh", target) else { return };
    let [local, remote, dynamic, here, there] = script.words()[..] else { panic!("{:?}", script.line) };
    round_trip(local.parse().unwrap(), SIZE);
    round_trip(remote.parse().unwrap(), SIZE);
    round_trip_after(socks(dynamic.parse().unwrap(), target), SOCKS_ANSWERS, SIZE);
    round_trip_unix(Path::new(here), SIZE);
    round_trip_unix(Path::new(there), SIZE);
}

/// Covers: wire direct-tcpip; wire forwarded-tcpip
#[test]
fn paramiko_forwards_through_our_server() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let Some(script) = client(&lab, &server, "paramiko", sum_server()) else { return };
    let [local, remote] = script.words()[..] else { panic!("{:?}", script.line) };
    round_trip(local.parse().unwrap(), SIZE);
    round_trip(remote.parse().unwrap(), SIZE);
}

fn through(module: &str, more: impl FnOnce(&Lab, &Pair<'_>, u16)) {
    let lab = Lab::new();
    let Some(script) = Script::start(&lab, module, &["server", &lab.arg("")]) else { return };
    let port: u16 = script.line.trim().parse().unwrap();
    lab.know(port);
    let pair = Pair::new(&lab, our("lhssh"), port);
    let (target, local, remote, dynamic) = (sum_server(), free_port(), free_port(), free_port());
    let to = format!("127.0.0.1:{target}");
    let tunnel = pair.tunnel(&[
        "-L",
        &format!("127.0.0.1:{local}:{to}"),
        "-R",
        &format!("127.0.0.1:{remote}:{to}"),
        "-D",
        &format!("127.0.0.1:{dynamic}"),
    ]);
    for port in [local, remote, dynamic] {
        eventually("the listener is there", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
    round_trip(local, SIZE);
    round_trip(remote, SIZE);
    round_trip_after(socks(dynamic, target), SOCKS_ANSWERS, SIZE);
    drop(tunnel);
    more(&lab, &pair, target);
}

/// Covers: ssh -L; ssh -R; ssh -D; wire forwarded-streamlocal@openssh.com
#[test]
fn our_client_forwards_through_asyncssh() {
    through("asyncssh", |lab, pair, target| {
        let (here, there) = (lab.path("l.sock"), lab.path("r.sock"));
        let (from, to) = (lab.arg("l.sock"), lab.arg("r.sock"));
        let tunnel = pair.tunnel(&["-R", &format!("{to}:127.0.0.1:{target}"), "-L", &format!("{from}:{to}")]);
        tunnel.wait_for_path(&there);
        tunnel.wait_for_path(&here);
        // Through both forwards in a row.
        round_trip_unix(&here, SIZE);
    });
}

/// Covers: ssh -L; ssh -R; ssh -D
#[test]
fn our_client_forwards_through_paramiko() {
    through("paramiko", |_, _, _| {});
}
