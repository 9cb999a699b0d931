//! What holds the congestion window of one connection although nothing is lost.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;

use lh_interop::eventually;
use lh_link::path::Side;

use super::path_setup::{PathSetup, Plan, first, of_direction, spec};

/// Gives the route to the other end these words, from the first connection that ends on: what the kernel
/// remembers of connections then has the limits of the route.
fn limit_route(setup: &PathSetup, side: Side, words: &[&str]) {
    set_route(setup, side, words);
    setup.sysctl(side, "tcp_no_metrics_save", "0");
    setup.at(side, &["ip", "tcp_metrics", "flush"]);
    let connect = || TcpStream::connect((Side::Far.ipv4(), setup.port));
    let connection = lh_link::netns::within(setup.wan.netns(Side::Near), connect).expect("a connection");
    // One that ends with unread data is reset, and nothing of it is remembered.
    BufReader::new(connection).read_line(&mut String::new()).expect("a greeting");
    eventually("the kernel remembers the connection", || {
        let shown = setup.wan.command(side, "ip").args(["tcp_metrics", "show"]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("10.88.0.")
    });
}

fn set_route(setup: &PathSetup, side: Side, words: &[&str]) {
    let route = ["ip", "route", "replace", "10.88.0.0/24", "dev", "wan0", "src", side.ipv4()];
    setup.at(side, &[&route[..], words].concat());
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_route_with_a_congestion_window() {
    let plan = Plan { spec: spec(100, 60), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_route_with_a_congestion_window", &plan) else {
        return;
    };
    limit_route(&setup, Side::Near, &["cwnd", "lock", "20"]);
    let diagnosis = setup.examine(&[], "congestion_control");
    let named = "A route of this machine limits the congestion window of uploads (cwnd 20, ";
    first(&diagnosis, "congestion_control", &[named, "without", "cwnd lock 20"]);
    // 20 segments of 1448 bytes in each round trip of 60 ms.
    let rate = diagnosis["measured"]["upload"]["bytes_per_second"].as_f64().unwrap();
    assert!((0.3e6..0.5e6).contains(&rate), "planted 0.48 MB/s: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_cached_metrics_of_earlier_connections() {
    let test = "doctor_names_cached_metrics_of_earlier_connections";
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(100, 60), ..Plan::default() }) else {
        return;
    };
    limit_route(&setup, Side::Far, &["cwnd", "lock", "20"]);
    let diagnosis = setup.examine(&[], "congestion_control");
    let named = "A route of the server limits the congestion window of downloads (cwnd 20, ";
    first(&diagnosis, "congestion_control", &[named]);
    // The route has no limit any more, and the kernel goes on with the one that it remembers.
    set_route(&setup, Side::Far, &[]);
    let diagnosis = setup.examine(&[], "congestion_control");
    let named = "The server limits the congestion window of downloads to what it remembers";
    first(&diagnosis, "congestion_control", &[named, "cwnd 20", "ip tcp_metrics flush 10.88.0.1"]);
    of_direction(&diagnosis, "path", "uploads");
}
