//! Limits of connections and sessions, and other traffic on the path.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lh_link::path::Side;

use super::path_setup::{PathSetup, Plan, first, has_iptables, spec};

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_limit_of_open_connections() {
    let test = "doctor_names_a_limit_of_open_connections";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(40, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let rule = ["iptables", "-A", "INPUT", "-p", "tcp", "--syn", "-m", "connlimit", "--connlimit-above", "3"];
    let words = [&rule[..], &["-j", "REJECT", "--reject-with", "tcp-reset"]].concat();
    let done = setup.wan.command(Side::Far, words[0]).args(&words[1..]).output().unwrap();
    if !done.status.success() {
        lh_interop::skip_unavailable(test, &String::from_utf8_lossy(&done.stderr));
        return;
    }
    let diagnosis = setup.examine(&[], "refused");
    first(&diagnosis, "refused", &["New connections are refused after", "Connection refused", "connlimit"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_firewall_that_resets_what_moves_much() {
    let test = "doctor_names_a_firewall_that_resets_what_moves_much";
    if !has_iptables(test) {
        return;
    }
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(40, 20), ..Plan::default() }) else { return };
    let rule = "iptables -A INPUT -p tcp -m connbytes --connbytes 4000000: --connbytes-dir both --connbytes-mode bytes \
                -j REJECT --reject-with tcp-reset";
    let done = setup.wan.command(Side::Far, "sh").args(["-c", rule]).output().unwrap();
    if !done.status.success() {
        lh_interop::skip_unavailable(test, &String::from_utf8_lossy(&done.stderr));
        return;
    }
    let diagnosis = setup.examine(&[], "broken_off");
    first(&diagnosis, "broken_off", &["while data are moved", "Connection reset", "--retry-for"]);
    let moved = diagnosis["measured"]["upload"]["moved_bytes"].as_f64().unwrap();
    assert!((3.5e6..4.5e6).contains(&moved), "planted 4 MB: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_limit_of_logins_at_a_time() {
    let plan = Plan { spec: spec(40, 40), config: "MaxStartups 1", ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_limit_of_logins_at_a_time", &plan) else { return };
    let diagnosis = setup.examine(&[], "refused");
    first(&diagnosis, "refused", &["connections before it greeted", "MaxStartups"]);
}

/// A program of the near end that sends packets at this rate, bytes/s, until it is dropped.
struct Stream {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    fn start(setup: &PathSetup, rate: f64) -> Self {
        let socket = lh_link::netns::within(setup.wan.netns(Side::Near), || UdpSocket::bind("0.0.0.0:0"));
        let socket = socket.expect("a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let send = move || {
            let (packet, begun, mut sent) = ([0; 1400], Instant::now(), 0.0);
            while !stops.load(Ordering::Relaxed) {
                while sent < begun.elapsed().as_secs_f64() * rate {
                    // The discard port: nothing listens there.
                    let _ = socket.send_to(&packet, (Side::Far.ipv4(), 9));
                    sent += packet.len() as f64;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        Self { stop, thread: Some(std::thread::spawn(send)) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_traffic_of_other_programs() {
    let plan = Plan { spec: spec(40, 30), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_traffic_of_other_programs", &plan) else { return };
    let _stream = Stream::start(&setup, 3.5e6);
    let diagnosis = setup.examine(&[], "other_traffic");
    first(&diagnosis, "other_traffic", &["Other traffic of this machine over wan0", "on uploads"]);
    let title = diagnosis["findings"][0]["title"].as_str().unwrap();
    let takes = title.split_once(" takes ").and_then(|(_, rest)| rest.split_once(" MB/s"));
    let takes: f64 = takes.and_then(|(number, _)| number.parse().ok()).expect("a rate");
    assert!((3.0..4.2).contains(&takes), "planted 3.5 MB/s: {title}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_server_with_one_session() {
    let plan = Plan { spec: spec(40, 30), config: "MaxSessions 1", ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_server_with_one_session", &plan) else { return };
    let diagnosis = setup.examine(&[], "session_limit");
    first(&diagnosis, "session_limit", &["MaxSessions", "open failed"]);
}
