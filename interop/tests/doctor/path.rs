//! Causes on the path: loss, queues, ECN marks, the size of packets, a proxy.

use lh_interop::peers;
use lh_link::path::{Side, Spec};

use super::path_setup::{PathSetup, Plan, Server, first, has_iptables, of_direction, spec, takes};

#[test]
fn doctor_names_loss() {
    let plan = Plan { spec: Spec { loss: 0.004, ..spec(100, 60) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_loss", &plan) else { return };
    let diagnosis = setup.examine(&[], "loss");
    first(&diagnosis, "loss", &["cubic"]);
    // A direction alone loses a handful by chance: those of both count, by the bytes of each.
    let measured = |direction: &str, name: &str| diagnosis["measured"][direction][name].as_f64().unwrap();
    let both = ["upload", "download"].map(|name| (measured(name, "moved_bytes"), measured(name, "loss")));
    let lost: f64 = both.iter().map(|(bytes, loss)| bytes * loss).sum();
    let loss = lost / both.iter().map(|(bytes, _)| bytes).sum::<f64>();
    assert!((0.0015..0.008).contains(&loss), "planted 0.004, found {loss}: {diagnosis:#}");
    assert!(diagnosis["measured"]["upload"]["ping_seconds"].as_f64().unwrap() >= 0.06, "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_measures_another_congestion_control() {
    let test = "doctor_measures_another_congestion_control";
    let with = |name: &str| {
        let congestion = name.to_owned();
        let plan = Plan { spec: Spec { loss: 0.005, congestion, ..spec(100, 60) }, ..Plan::default() };
        PathSetup::start(test, &plan)
    };
    if !has_bbr(test) {
        return;
    }
    let Some(setup) = with("reno") else { return };
    // A locked control of the route overrules what programs ask for.
    let route = ["ip", "route", "replace", "10.88.0.0/24", "dev", "wan0", "src", Side::Near.ipv4()];
    setup.at(Side::Near, &[&route[..], &["congctl", "lock", "reno"]].concat());
    let diagnosis = setup.examine(&[], "loss");
    first(&diagnosis, "loss", &["holds reno back on uploads", "congctl lock bbr", "overrules"]);
    assert!(!diagnosis.to_string().contains("measured with bbr"), "{diagnosis:#}");
    for side in [Side::Near, Side::Far] {
        setup.at(side, &["ip", "route", "replace", "10.88.0.0/24", "dev", "wan0", "src", side.ipv4()]);
        setup.sysctl(side, "tcp_congestion_control", "reno");
    }
    let diagnosis = setup.examine(&[], "loss");
    let up = of_direction(&diagnosis, "loss", "uploads");
    assert!(up["gain"].as_str().unwrap().contains("measured with bbr"), "{diagnosis:#}");
    assert!(up["change"][0].as_str().unwrap().contains("tcp_congestion_control=bbr"), "{diagnosis:#}");
    // The server's congestion control comes from `ss` there, and is changed there.
    let down = of_direction(&diagnosis, "loss", "downloads");
    assert!(down["change"][0].as_str().unwrap().starts_with("on the server: "), "{diagnosis:#}");
    // With BBR, so little loss is no limit.
    drop(setup);
    let Some(setup) = with("bbr") else { return };
    let diagnosis = setup.examine(&[], "path");
    let found = diagnosis["findings"].as_array().unwrap();
    assert!(found.iter().all(|finding| finding["cause"] != "loss"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_loss_in_bursts() {
    let test = "doctor_names_loss_in_bursts";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(100, 40), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    for side in [Side::Near, Side::Far] {
        setup.at(side, &["ip", "link", "set", "wan0", "gso_max_segs", "1"]);
    }
    // Eight packets in a row of each 1500.
    for number in 0..8 {
        let rule =
            ["iptables", "-A", "INPUT", "-p", "tcp", "-m", "statistic", "--mode", "nth", "--every", "1500"];
        setup.at(Side::Far, &[&rule[..], &["--packet", &number.to_string(), "-j", "DROP"]].concat());
    }
    first(&setup.examine(&[], "loss"), "loss", &["in bursts, holds cubic back on uploads", "in a row"]);
}

/// What drops packets at random on the way to the server.
const LOSSY: [&str; 12] = [
    "iptables",
    "-A",
    "INPUT",
    "-p",
    "tcp",
    "-m",
    "statistic",
    "--mode",
    "random",
    "--probability",
    "0.01",
    "-j",
];

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_the_cause_of_each_direction() {
    let test = "doctor_names_the_cause_of_each_direction";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(200, 40), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    // Uploads lose segments, downloads wait for a small buffer of this machine.
    setup.at(Side::Far, &[&LOSSY[..], &["DROP"]].concat());
    setup.sysctl(Side::Near, "tcp_rmem", "4096 65536 131072");
    let diagnosis = setup.examine(&[], "loss");
    of_direction(&diagnosis, "loss", "uploads");
    let down = of_direction(&diagnosis, "receive_buffer", "downloads");
    assert!(down["title"].as_str().unwrap().contains("this machine"), "{diagnosis:#}");
    let others = |cause: &str, direction: &str| {
        let text = diagnosis["findings"].to_string();
        !text.contains(&format!("{cause} limits {direction}"))
    };
    assert!(others("buffer of the server", "uploads"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_selective_acknowledgements_that_are_off() {
    let test = "doctor_names_selective_acknowledgements_that_are_off";
    let plan = Plan { spec: Spec { loss: 0.005, ..spec(100, 60) }, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    setup.sysctl(Side::Far, "tcp_sack", "0");
    first(&setup.examine(&[], "loss"), "loss", &["SACK", "on the server: sysctl -w net.ipv4.tcp_sack=1"]);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_bufferbloat() {
    // 1.25 MB behind 20 Mb/s are 500 ms.
    let plan = Plan { spec: Spec { queue: Some(1_250_000), ..spec(20, 20) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_bufferbloat", &plan) else { return };
    let diagnosis = setup.examine(&[], "bufferbloat");
    first(&diagnosis, "bufferbloat", &["tc qdisc replace"]);
    let loaded = diagnosis["measured"]["upload"]["loaded_rtt_seconds"].as_f64().unwrap();
    // CUBIC may take longer than the transfer to fill it; more than the queue there is not.
    assert!((0.12..0.56).contains(&loaded), "planted 0.52 at most: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_queue_that_bbr_keeps_short() {
    let test = "doctor_names_a_queue_that_bbr_keeps_short";
    if !has_bbr(test) {
        return;
    }
    // 750 kB behind 20 Mb/s are 300 ms.
    let congestion = "bbr".to_owned();
    let plan = Plan { spec: Spec { queue: Some(750_000), congestion, ..spec(20, 20) }, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let diagnosis = setup.examine(&[], "bufferbloat");
    first(&diagnosis, "bufferbloat", &["during uploads", "bbr keeps it shorter", "tc qdisc replace"]);
    takes(&diagnosis, 0.28);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_small_buffer_behind_losses() {
    let test = "doctor_names_a_small_buffer_behind_losses";
    let plan = Plan { spec: Spec { loss: 0.003, ..spec(100, 60) }, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    for side in [Side::Near, Side::Far] {
        setup.sysctl(side, "tcp_wmem", "4096 16384 49152");
    }
    let diagnosis = setup.examine(&[], "loss");
    first(&diagnosis, "loss", &["holds cubic back", "with four connections together"]);
    // How much four connections move beside losses is chance, so a direction may lack it.
    let is_named = |end: &str| {
        let title = format!("The send buffer of {end} (49.2 kB at most) limits");
        diagnosis["findings"].to_string().contains(&title)
    };
    assert!(is_named("this machine") || is_named("the server"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_queue_that_is_shorter_than_the_path() {
    // 250 kB behind 20 Mb/s are 100 ms, on a path of 150.
    let plan = Plan { spec: Spec { queue: Some(250_000), ..spec(20, 150) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_queue_that_is_shorter_than_the_path", &plan) else {
        return;
    };
    let diagnosis = setup.examine(&[], "bufferbloat");
    // Which direction waits longer, and comes first, is chance.
    assert_eq!(diagnosis["findings"][0]["cause"], "bufferbloat", "{diagnosis:#}");
    let uploads = of_direction(&diagnosis, "bufferbloat", "during uploads").to_string();
    assert!(uploads.contains("at most"), "{diagnosis:#}");
    let loaded = diagnosis["measured"]["upload"]["loaded_rtt_seconds"].as_f64().unwrap();
    assert!((0.2..0.27).contains(&loaded), "planted 0.22 to 0.25: {diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_finds_no_fault_where_the_path_is_full() {
    let plan = Plan { spec: Spec { queue: Some(100_000), ..spec(40, 30) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_finds_no_fault_where_the_path_is_full", &plan) else { return };
    let diagnosis = setup.examine(&[], "path");
    assert_eq!(diagnosis["findings"][0]["cause"], "path", "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_reordering() {
    // One packet of about a hundred takes 10 ms longer, on the way of 20 ms.
    let plan = Plan { spec: Spec { reorder: 0.005, ..spec(100, 20) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_reordering", &plan) else { return };
    let diagnosis = setup.examine(&[], "reordering");
    first(&diagnosis, "reordering", &["arrive in another order", "overtaken", "each packet by itself"]);
    assert!(!diagnosis["findings"].to_string().contains("Loss of"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_repeats_nothing_on_a_healthy_path() {
    let plan = Plan { spec: Spec { queue: Some(250_000), ..spec(40, 80) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_repeats_nothing_on_a_healthy_path", &plan) else { return };
    let repeats = |diagnosis: &serde_json::Value| {
        let steps = diagnosis["steps"].as_array().expect("steps").iter();
        let names: Vec<&str> = steps.map(|step| step["name"].as_str().unwrap()).collect();
        let again =
            |name: &&&str| name.contains("again") || name.contains("in turns") || name.contains("third");
        names.iter().filter(again).map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    // What else runs on this machine may look like a cause, and is looked at again.
    let mut all = (0..3).map(|_| setup.examine(&[], "path"));
    let quiet = all.find(|diagnosis| {
        println!("{} s: {}", diagnosis["seconds"], diagnosis["steps"]);
        repeats(diagnosis).is_empty()
    });
    let diagnosis = quiet.expect("a run without repetitions");
    assert_eq!(diagnosis["findings"][0]["cause"], "path", "{diagnosis:#}");
}

#[test]
fn doctor_names_a_path_that_swallows_large_packets() {
    let test = "doctor_names_a_path_that_swallows_large_packets";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    for side in [Side::Near, Side::Far] {
        setup.at(side, &["iptables", "-A", "INPUT", "-m", "length", "--length", "1381:65535", "-j", "DROP"]);
        setup.at(side, &["ip", "link", "set", "wan0", "gso_max_segs", "1"]);
    }
    first(
        &setup.examine(&[], "mtu_black_hole"),
        "mtu_black_hole",
        &["more than 1380 bytes", "tcp_mtu_probing=1"],
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_path_that_drops_large_packets_of_the_server() {
    let test = "doctor_names_a_path_that_drops_large_packets_of_the_server";
    if !has_iptables(test) {
        return;
    }
    // The server's part of a key exchange passes or does not.
    for (most, exchange) in [(1380, "curve25519-sha256"), (1240, "sntrup761x25519-sha512@openssh.com")] {
        let plan = Plan { spec: spec(100, 20), ..Plan::default() };
        let Some(setup) = PathSetup::start(test, &plan) else { return };
        let longer = format!("{}:65535", most + 1);
        setup.at(Side::Near, &["iptables", "-A", "INPUT", "-m", "length", "--length", &longer, "-j", "DROP"]);
        setup.at(Side::Far, &["ip", "link", "set", "wan0", "gso_max_segs", "1"]);
        let key_exchange = format!("KexAlgorithms={exchange}");
        let diagnosis = setup.examine(&["-o", &key_exchange], "mtu_black_hole");
        first(&diagnosis, "mtu_black_hole", &["packets of the server", "tcp_mtu_probing=1"]);
        let found = diagnosis["measured"]["path_mtu_from_server_bytes"].as_u64().unwrap();
        assert!((most - 40..=most + 8).contains(&found), "planted {most}: {diagnosis:#}");
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_throttled_dscp_mark() {
    let test = "doctor_names_a_throttled_dscp_mark";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(60, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    throttle(&setup, Side::Far, "EF");
    first(&setup.examine(&["-o", "IPQoS=ef ef"], "dscp"), "dscp", &["DSCP 46", "IPQoS none"]);
}

/// Has this machine drop what exceeds 200 kB/s of the packets with a mark.
fn throttle(setup: &PathSetup, side: Side, class: &str) {
    let name = format!("of{class}");
    let limit = ["-m", "hashlimit", "--hashlimit-above", "200kb/s", "--hashlimit-name", &name, "-j", "DROP"];
    let rule = ["iptables", "-A", "INPUT", "-m", "dscp", "--dscp-class", class];
    setup.at(side, &[&rule[..], &limit[..]].concat());
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_throttled_mark_of_the_server() {
    let test = "doctor_names_a_throttled_mark_of_the_server";
    if !has_iptables(test) {
        return;
    }
    for (server, config, class, words) in [
        // Copies only; sessions with a terminal only; all of them, so that a forward alone has no mark.
        (Server::OpenSsh, "IPQoS af21 cs1", "CS1", ["DSCP 8 (the mark of the server for copies", "0x20"]),
        (Server::OpenSsh, "IPQoS af21 cs1", "AF21", ["DSCP 18 (the mark of the server for sessions", "0x48"]),
        (
            Server::OpenSsh,
            "IPQoS ef",
            "EF",
            ["DSCP 46 (the mark of the server for copies", "without a session"],
        ),
        (
            Server::Longhaul,
            "IPQoS af21 cs1",
            "AF21",
            ["DSCP 18 (the mark of the server for sessions", "0x48"],
        ),
    ] {
        let plan = Plan { spec: spec(60, 20), server, config, ..Plan::default() };
        let Some(setup) = PathSetup::start(test, &plan) else { return };
        throttle(&setup, Side::Near, class);
        let diagnosis = setup.examine(&["-o", "IPQoS=none"], "dscp");
        first(
            &diagnosis,
            "dscp",
            &[words[0], words[1], "downloads", "IPQoS none in the server's sshd_config"],
        );
        let found = diagnosis["findings"].to_string();
        assert!(!found.contains("a policer"), "{diagnosis:#}");
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_policer() {
    let test = "doctor_names_a_policer";
    if !has_iptables(test) {
        return;
    }
    for (congestion, side, direction) in
        [("cubic", Side::Far, "upload"), ("bbr", Side::Far, "upload"), ("bbr", Side::Near, "download")]
    {
        let congestion = congestion.to_owned();
        if congestion == "bbr" && !has_bbr(test) {
            return;
        }
        let plan = Plan { spec: Spec { congestion, ..spec(200, 20) }, ..Plan::default() };
        let Some(setup) = PathSetup::start(test, &plan) else { return };
        // What exceeds 2 MB/s is dropped, and nothing is queued.
        let limit = ["-m", "hashlimit", "--hashlimit-above", "2000kb/s", "--hashlimit-name", "police"];
        let rule = ["iptables", "-A", "INPUT", "-p", "tcp"];
        setup.at(side, &[&rule[..], &limit[..], &["-j", "DROP"]].concat());
        let diagnosis = setup.examine(&[], "policer");
        first(&diagnosis, "policer", &[&format!("on {direction}s"), "--pace"]);
        let rate = diagnosis["measured"][direction]["bytes_per_second"].as_f64().unwrap_or(0.0);
        assert!((0.3e6..2.6e6).contains(&rate), "planted 2.05 MB/s: {diagnosis:#}");
    }
}

/// False where the kernel has no BBR, which is noted.
pub(crate) fn has_bbr(test: &str) -> bool {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let has_bbr = known.split_whitespace().any(|name| name == "bbr");
    if !has_bbr {
        lh_interop::skip_unavailable(test, "the kernel has no BBR");
    }
    has_bbr
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_takes_no_queue_for_a_policer() {
    let test = "doctor_takes_no_queue_for_a_policer";
    if !has_bbr(test) {
        return;
    }
    // BBR fills a queue of a whole round trip and of a quarter where it starts, loses a burst, and keeps it
    // short then.
    for (queue, cause) in [(400_000, "bufferbloat"), (100_000, "path")] {
        let congestion = "bbr".to_owned();
        let spec = Spec { queue: Some(queue), congestion, ..spec(40, 80) };
        let Some(setup) = PathSetup::start(test, &Plan { spec, ..Plan::default() }) else { return };
        // What else runs on this machine may be a cause; a policer is none in any case.
        let diagnosis = setup.examine(&[], cause);
        assert!(!diagnosis["findings"].to_string().contains("a policer"), "{diagnosis:#}");
        for direction in ["upload", "download"] {
            let measured = &diagnosis["measured"][direction];
            assert!(measured["loss"].as_f64().unwrap() > 0.005, "{direction}: {diagnosis:#}");
            assert!(measured["losses"]["of_start"].as_f64().unwrap() > 50.0, "{direction}: {diagnosis:#}");
        }
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_small_packets() {
    let plan = Plan { spec: Spec { mtu: 576, ..spec(100, 20) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_small_packets", &plan) else { return };
    first(&setup.examine(&[], "small_mtu"), "small_mtu", &["hold 576 bytes at most", "524 bytes of data"]);
}

/// A proxy command that passes on 2 MB/s in each direction.
const SLOW_PROXY: &str = r#"import os, socket, sys, threading, time
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def relay(read, write, end):
    while data := read(32768):
        write(data)
        time.sleep(len(data) / 2e6)
    end()
up = lambda: relay(lambda count: os.read(0, count), server.sendall, lambda: server.shutdown(socket.SHUT_WR))
threading.Thread(target=up, daemon=True).start()
relay(server.recv, lambda data: os.write(1, data), lambda: None)
"#;

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_slow_proxy() {
    let test = "doctor_names_a_slow_proxy";
    let Some([python]) = peers(test, ["python3"]) else { return };
    let plan = Plan { spec: spec(400, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    setup.lab.write("proxy.py", SLOW_PROXY);
    let proxy = format!("ProxyCommand={} {} %h %p", python.display(), setup.lab.arg("proxy.py"));
    let diagnosis = setup.examine(&["-o", &proxy], "proxy");
    first(&diagnosis, "proxy", &["jump host or proxy command moves", "for each connection"]);
    for direction in ["uploads", "downloads"] {
        of_direction(&diagnosis, "proxy", direction);
    }
    let found = diagnosis["findings"].to_string();
    assert!(!found.contains("receive_buffer"), "{diagnosis:#}");
}
