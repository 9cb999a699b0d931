//! Sessions that other programs have or leave alone: shared connections, and connections without traffic.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};

use lh_interop::{eventually, our, peers};
use lh_link::path::Side;

use super::path_setup::{PathSetup, Plan, first, has_iptables, of_direction, spec};

/// A master of shared connections at the near end, or another program; killed when dropped.
struct Master(Child);

impl Master {
    fn start(setup: &PathSetup, socket: &str, more: &[&str]) -> Self {
        let mut command = setup.wan.command(Side::Near, our("lhssh"));
        command.args(setup.lab.client_options()).args(more).args(["-M", "-N", "-S", socket]);
        command.args(["-p", &setup.port.to_string(), &format!("{}@{}", setup.user.name, setup.host)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let master = Self(command.spawn().unwrap());
        eventually("the master listens", || std::fs::exists(socket).unwrap());
        master
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_shared_connection() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_slow_shared_connection", &plan) else { return };
    let socket = setup.lab.arg("master");
    // The master was started with another configuration than that of now.
    let master = Master::start(&setup, &socket, &["-o", "TcpPacing=8M"]);
    let option = format!("ControlPath={socket}");
    let diagnosis = setup.examine(&["-o", &option], "control_master");
    first(&diagnosis, "control_master", &["ControlMaster", &socket, "on uploads", "ssh -O exit"]);
    let rates = diagnosis["measured"]["shared_connection"]["rates"].as_array().unwrap();
    let upload = rates.iter().find(|rate| rate["direction"] == "upload").unwrap();
    let through = upload["bytes_per_second"].as_f64().unwrap();
    assert!((0.4e6..1.3e6).contains(&through), "planted 1 MB/s: {diagnosis:#}");
    // One with the configuration of now is as fast.
    drop(master);
    let _ = std::fs::remove_file(&socket);
    let _master = Master::start(&setup, &socket, &[]);
    let diagnosis = setup.examine(&["-o", &option], "path");
    assert!(!diagnosis["findings"].to_string().contains("control_master"), "{diagnosis:#}");
    let rates = &diagnosis["measured"]["shared_connection"]["rates"];
    assert_eq!(rates.as_array().map(Vec::len), Some(2), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_master_that_hangs() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_master_that_hangs", &plan) else { return };
    let socket = setup.lab.path("master");
    // Connections wait in its queue.
    let _master = UnixListener::bind(&socket).expect("a socket");
    let option = format!("ControlPath={}", socket.display());
    let diagnosis = setup.examine(&["-o", &option], "control_master");
    first(
        &diagnosis,
        "control_master",
        &["does not answer", &socket.display().to_string(), "ControlPath none"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_firewall_that_forgets_idle_connections() {
    let test = "doctor_names_a_firewall_that_forgets_idle_connections";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let rule = ["iptables", "-A", "INPUT", "-p", "tcp", "-m", "conntrack", "--ctstate"];
    setup.at(Side::Far, &[&rule[..], &["INVALID", "-j", "DROP"]].concat());
    let set = |name: &str, value: &str| {
        lh_link::netns::within(setup.wan.netns(Side::Far), || {
            std::fs::write(format!("/proc/sys/net/netfilter/{name}"), value)
        })
    };
    // What it has forgotten is no connection again.
    let limits = [("nf_conntrack_tcp_loose", "0"), ("nf_conntrack_tcp_timeout_established", "6")];
    if let Some(error) = limits.into_iter().find_map(|(name, value)| set(name, value).err()) {
        return lh_interop::skip_unavailable(test, &format!("connection tracking: {error}"));
    }
    let diagnosis = setup.examine(&[], "idle_timeout");
    first(&diagnosis, "idle_timeout", &["forgets connections that are idle", "ServerAliveInterval"]);
    // A client that sends something in time is not cut off.
    let diagnosis = setup.examine(&["-o", "ServerAliveInterval=2"], "path");
    assert!(!diagnosis["findings"].to_string().contains("idle_timeout"), "{diagnosis:#}");
}

/// A relay that passes on 2 MB/s for each connection in each direction. It says its port.
const SLOW_RELAY: &str = r#"import socket, sys, threading, time
def relay(a, b):
    while data := a.recv(16384):
        b.sendall(data)
        time.sleep(len(data) / 2e6)
    b.shutdown(socket.SHUT_WR)
listener = socket.create_server((sys.argv[1], 0), backlog=64)
print(listener.getsockname()[1], flush=True)
while True:
    near, _ = listener.accept()
    far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    for ends in (near, far), (far, near):
        threading.Thread(target=relay, args=ends, daemon=True).start()
"#;

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_relay_in_front_of_the_server() {
    let test = "doctor_names_a_slow_relay_in_front_of_the_server";
    let Some([python]) = peers(test, ["python3"]) else { return };
    let plan = Plan { spec: spec(200, 40), ..Plan::default() };
    let Some(mut setup) = PathSetup::start(test, &plan) else { return };
    let mut command = setup.wan.command(Side::Far, python);
    command.args(["-c", SLOW_RELAY, Side::Far.ipv4(), &setup.port.to_string()]);
    let mut relay = Master(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    BufReader::new(relay.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    setup.reach_by(Side::Far.ipv4(), port.trim().parse().expect("a port"));
    let diagnosis = setup.examine(&[], "middlebox");
    first(&diagnosis, "middlebox", &["in front of the server relays its connections", "ss -tnp"]);
    assert!(!diagnosis["findings"].to_string().contains("receive_buffer"), "{diagnosis:#}");
    let rate = diagnosis["measured"]["download"]["bytes_per_second"].as_f64().unwrap();
    assert!((1e6..2.3e6).contains(&rate), "planted 2 MB/s: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_the_slower_way_of_an_asymmetric_line() {
    let test = "doctor_names_the_slower_way_of_an_asymmetric_line";
    let plan = Plan { spec: spec(80, 30), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let shaper = ["tc", "qdisc", "add", "dev", "wan0", "root", "tbf", "rate", "6mbit", "burst", "16kb"];
    let mut command = setup.wan.command(Side::Near, shaper[0]);
    let done = command.args(&shaper[1..]).args(["latency", "30ms"]).output();
    if !done.is_ok_and(|done| done.status.success()) {
        return lh_interop::skip_unavailable(test, "the kernel has no tbf, or tc is not installed");
    }
    // The doctor is to take the shaper for the line: it finds no program `tc`.
    let hide = "for tc in /usr/sbin/tc /sbin/tc; do mount --bind /dev/null $tc; done; exec \"$@\"";
    let diagnosis = setup.examine_by(&["unshare", "-m", "sh", "-c", hide, "sh"], &[], "path");
    first_path(&diagnosis);
    of_direction(&diagnosis, "path", "downloads");
}

/// Asserts that the first finding is the slow way of the uploads.
fn first_path(diagnosis: &serde_json::Value) {
    let first = &diagnosis["findings"][0];
    assert_eq!(first["cause"], "path", "{diagnosis:#}");
    assert!(first["title"].as_str().unwrap().contains("on uploads"), "{diagnosis:#}");
    assert!(first["evidence"].to_string().contains("the line is asymmetric"), "{diagnosis:#}");
    let rate = diagnosis["measured"]["upload"]["bytes_per_second"].as_f64().unwrap();
    assert!((0.4e6..0.8e6).contains(&rate), "planted 0.75 MB/s: {diagnosis:#}");
}
