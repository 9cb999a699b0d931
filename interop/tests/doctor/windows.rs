//! Limits at the ends of a connection: windows, buffers, configured rates, key exchanges, compression.

use lh_link::path::{Side, Spec};

use super::path::has_bbr;
use super::path_setup::{PathSetup, Plan, Server, first, of_direction, spec};

/// Covers: longhaul --json
#[test]
fn doctor_names_a_fixed_ssh_window() {
    // OpenSSH's 2 MiB in each round trip of 250 ms are 8.4 MB/s of 50.
    let plan = Plan { spec: spec(400, 250), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_fixed_ssh_window", &plan) else { return };
    let diagnosis = setup.examine(&[], "ssh_window");
    first(&diagnosis, "ssh_window", &["lhsshd"]);
    let window = diagnosis["measured"]["upload"]["ssh_window_bytes"].as_f64().unwrap();
    assert!((1.9e6..2.2e6).contains(&window), "2097152 bytes: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_window_that_lhsshd_was_told() {
    // 256 KiB in each round trip of 80 ms are 3.3 MB/s of 25.
    let config = "HPNBufferSize 256";
    let plan = Plan { spec: spec(200, 80), server: Server::Longhaul, config, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_window_that_lhsshd_was_told", &plan) else { return };
    let diagnosis = setup.examine(&[], "ssh_window");
    first(&diagnosis, "ssh_window", &["262 kB", "HPNBufferSize out of the server's sshd_config"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_rate_limit_of_the_server() {
    let config = "TcpPacing 16M";
    let plan = Plan { spec: spec(100, 20), server: Server::Longhaul, config, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_rate_limit_of_the_server", &plan) else { return };
    first(&setup.examine(&[], "pacing"), "pacing", &["downloads to 2.0 MB/s", "sshd_config"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_rate_limit_that_was_asked_for() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_rate_limit_that_was_asked_for", &plan) else { return };
    first(&setup.examine(&["-o", "TcpPacing=16M"], "pacing"), "pacing", &["2.0 MB/s", "TcpPacing"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_receive_buffer() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_small_receive_buffer", &plan) else { return };
    setup.sysctl(Side::Far, "tcp_rmem", "4096 65536 131072");
    first(
        &setup.examine(&[], "receive_buffer"),
        "receive_buffer",
        &["the server limits uploads", "131 kB", "sysctl -w net.ipv4.tcp_rmem="],
    );
    setup.sysctl(Side::Far, "tcp_rmem", "4096 131072 33554432");
    setup.sysctl(Side::Near, "tcp_rmem", "4096 65536 131072");
    first(
        &setup.examine(&[], "receive_buffer"),
        "receive_buffer",
        &["this machine limits downloads", "131 kB"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_receive_buffer_that_does_not_grow() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_receive_buffer_that_does_not_grow", &plan) else {
        return;
    };
    setup.sysctl(Side::Far, "tcp_moderate_rcvbuf", "0");
    first(
        &setup.examine(&[], "receive_buffer"),
        "receive_buffer",
        &[
            "the server limits uploads: it stays at",
            "on the server: sysctl -w net.ipv4.tcp_moderate_rcvbuf=1",
        ],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_route_with_a_small_window() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_route_with_a_small_window", &plan) else { return };
    for (side, title) in [
        (Side::Far, "A route of the server limits the receive window of uploads (window 65536)"),
        (Side::Near, "A route of this machine limits the receive window of downloads (window 65536)"),
    ] {
        let route = ["ip", "route", "replace", "10.88.0.0/24", "dev", "wan0", "src", side.ipv4()];
        setup.at(side, &[&route[..], &["window", "65536"]].concat());
        first(&setup.examine(&[], "receive_buffer"), "receive_buffer", &[title, "without"]);
        setup.at(side, &route);
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_send_buffer() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_small_send_buffer", &plan) else { return };
    setup.sysctl(Side::Near, "tcp_wmem", "4096 16384 131072");
    first(
        &setup.examine(&[], "send_buffer"),
        "send_buffer",
        &["this machine limits uploads", "131 kB", "sysctl -w net.ipv4.tcp_wmem="],
    );
    setup.sysctl(Side::Near, "tcp_wmem", "4096 16384 33554432");
    setup.sysctl(Side::Far, "tcp_wmem", "4096 16384 131072");
    first(&setup.examine(&[], "send_buffer"), "send_buffer", &["the server limits downloads", "131 kB"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_windows_that_are_not_scaled() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_windows_that_are_not_scaled", &plan) else { return };
    setup.sysctl(Side::Far, "tcp_window_scaling", "0");
    first(
        &setup.examine(&[], "window_scaling"),
        "window_scaling",
        &["64 KiB", "on the server: sysctl -w net.ipv4.tcp_window_scaling=1"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_buffer_that_a_program_has_set() {
    let plan = Plan { spec: spec(200, 80), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_buffer_that_a_program_has_set", &plan) else { return };
    let small = ["-o", "TcpRcvBuf=128k", "-o", "TcpRcvBufPoll=no"];
    first(
        &setup.examine(&small, "receive_buffer"),
        "receive_buffer",
        &["this machine", "TcpRcvBuf out of ssh_config"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_buffer_of_the_server_s_program_behind_losses() {
    let test = "doctor_names_a_buffer_of_the_server_s_program_behind_losses";
    if !has_bbr(test) {
        return;
    }
    let spec = Spec { loss: 0.003, ..spec(100, 60) };
    let config = "TcpRcvBuf 64k\nTcpRcvBufPoll no";
    let plan = Plan { spec, server: Server::Longhaul, config, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "loss");
    first(&diagnosis, "loss", &["cubic"]);
    let uploads = of_direction(&diagnosis, "loss", "on uploads").to_string();
    assert!(uploads.contains("measured with bbr"), "{diagnosis:#}");
    let buffer = of_direction(&diagnosis, "receive_buffer", "of the server limits uploads").to_string();
    assert!(buffer.contains("TcpRcvBuf out of sshd_config"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_keys_that_are_exchanged_often() {
    let plan = Plan { spec: spec(100, 40), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_keys_that_are_exchanged_often", &plan) else { return };
    let diagnosis = setup.examine(&["-o", "RekeyLimit=1M"], "rekeying");
    first(&diagnosis, "rekeying", &["which holds uploads up", "take RekeyLimit out"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_the_key_exchanges_of_the_server() {
    let plan = Plan { spec: spec(100, 40), config: "RekeyLimit 1M", ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_the_key_exchanges_of_the_server", &plan) else { return };
    let diagnosis = setup.examine(&[], "rekeying");
    first(&diagnosis, "rekeying", &["Keys are exchanged", "out of the server's sshd_config"]);
    of_direction(&diagnosis, "rekeying", "uploads");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_compression_of_random_data() {
    let plan = Plan { spec: spec(600, 10), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_compression_of_random_data", &plan) else { return };
    let diagnosis = setup.examine(&["-C"], "compression");
    first(&diagnosis, "compression", &["do not compress", "Compression no"]);
}
