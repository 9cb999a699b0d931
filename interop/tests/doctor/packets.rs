//! What single packets meet on the path: congestion marks, copies, jitter, a policer of each connection,
//! interruptions.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_link::path::{Side, Spec};

use super::path_setup::{PathSetup, Plan, first, has_iptables, of_direction, spec};

/// Packets of their own, so that rules meet each of them.
fn single_packets(setup: &PathSetup) {
    for side in [Side::Near, Side::Far] {
        setup.at(side, &["ip", "link", "set", "wan0", "gso_max_segs", "1"]);
    }
}

/// Adds a rule for packets that leave this end; false where the kernel has no such rule, which is noted.
fn mangles(test: &str, setup: &PathSetup, side: Side, words: &[&str]) -> bool {
    let rule = ["iptables", "-t", "mangle", "-A", "POSTROUTING", "-o", "wan0", "-p", "tcp"];
    let words = [&rule[..], words].concat();
    let done = setup.wan.command(side, words[0]).args(&words[1..]).output().unwrap();
    if !done.status.success() {
        lh_interop::skip_unavailable(test, &String::from_utf8_lossy(&done.stderr));
    }
    done.status.success()
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_congestion_marks() {
    let test = "doctor_names_congestion_marks";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(40, 40), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    single_packets(&setup);
    let marked =
        ["-m", "ecn", "--ecn-ip-ect", "2", "-m", "statistic", "--mode", "random", "--probability", "0.01"];
    for side in [Side::Near, Side::Far] {
        setup.sysctl(side, "tcp_ecn", "1");
        if !mangles(test, &setup, side, &[&marked[..], &["-j", "TOS", "--set-tos", "0x03/0x03"]].concat()) {
            return;
        }
    }
    let diagnosis = setup.examine(&[], "ecn");
    first(&diagnosis, "ecn", &["Congestion marks (ECN)", "cubic", "tcp_ecn=0"]);
    for direction in ["upload", "download"] {
        of_direction(&diagnosis, "ecn", &format!("{direction}s"));
        let marked = diagnosis["measured"][direction]["marked_packets"].as_f64().unwrap();
        assert!((0.005..0.02).contains(&marked), "planted 0.01: {diagnosis:#}");
    }
    let found = diagnosis["findings"].to_string();
    assert!(!found.contains("\"congestion_control\""), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_packets_that_arrive_twice() {
    let test = "doctor_names_packets_that_arrive_twice";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: Spec { queue: Some(200_000), ..spec(40, 40) }, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    single_packets(&setup);
    let copies = ["-m", "statistic", "--mode", "random", "--probability", "0.05", "-j", "TEE", "--gateway"];
    if !mangles(test, &setup, Side::Near, &[&copies[..], &[Side::Far.ipv4()]].concat()) {
        return;
    }
    let diagnosis = setup.examine(&[], "duplicates");
    first(&diagnosis, "duplicates", &["arrive twice on uploads", "DSACK"]);
    let measured = &diagnosis["measured"]["upload"];
    assert!(measured["duplicated_segments"].as_f64().unwrap() > 50.0, "{diagnosis:#}");
    assert!(!diagnosis["findings"].to_string().contains("twice on downloads"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_jitter() {
    let jitter = Duration::from_millis(30);
    let plan = Plan { spec: Spec { jitter, queue: Some(100_000), ..spec(20, 40) }, ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_jitter", &plan) else { return };
    let diagnosis = setup.examine(&[], "jitter");
    first(&diagnosis, "jitter", &["round trip varies between", "jitter"]);
    let spread = &diagnosis["measured"]["ssh_rtt_spread_seconds"];
    let [shortest, long] = [0, 2].map(|at| spread[at].as_f64().unwrap());
    assert!(
        (0.04..0.07).contains(&shortest) && (0.07..0.2).contains(&long),
        "planted 40 to 100 ms, and what a busy machine adds: {diagnosis:#}"
    );
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_policer_of_each_connection() {
    let test = "doctor_names_a_policer_of_each_connection";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: spec(100, 40), ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let rule = ["iptables", "-A", "INPUT", "-p", "tcp", "-m", "hashlimit", "--hashlimit-above", "500kb/s"];
    let each = ["--hashlimit-mode", "srcip,srcport", "--hashlimit-name", "each", "-j", "DROP"];
    setup.at(Side::Far, &[&rule[..], &each[..]].concat());
    let diagnosis = setup.examine(&[], "policer");
    first(&diagnosis, "policer", &["of each connection on uploads", "--pace", "lhscp -j 4"]);
    let rate = diagnosis["measured"]["upload"]["bytes_per_second"].as_f64().unwrap();
    assert!((0.3e6..0.7e6).contains(&rate), "planted 0.5 MB/s: {diagnosis:#}");
    assert!(!diagnosis["findings"].to_string().contains("Loss of"), "{diagnosis:#}");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_small_packets_that_get_lost() {
    let test = "doctor_names_small_packets_that_get_lost";
    if !has_iptables(test) {
        return;
    }
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(40, 40), ..Plan::default() }) else { return };
    // Acknowledgements, keystrokes and what asks for a transfer; the packets of a transfer are longer. They
    // are dropped where they arrive: of those that a system drops itself, its TCP counts none as lost.
    let small = ["iptables", "-A", "INPUT", "-p", "tcp", "-m", "length", "--length", "0:150"];
    let lost = ["-m", "statistic", "--mode", "random", "--probability", "0.5", "-j", "DROP"];
    setup.at(Side::Far, &[&small[..], &lost].concat());
    let diagnosis = setup.examine(&[], "small_packet_loss");
    first(&diagnosis, "small_packet_loss", &["small packets to the server get lost"]);
    let counted = &diagnosis["measured"]["small_packets"];
    let part = counted["resent"].as_f64().unwrap() / counted["segments"].as_f64().unwrap();
    assert!((0.3..0.7).contains(&part), "planted 0.5: {diagnosis:#}");
    assert!(!diagnosis["findings"].to_string().contains("mtu_black_hole"), "{diagnosis:#}");
}

/// A path that carries nothing for 0.4 s of each 2 s; until it is dropped; rules may stay until the path
/// goes.
struct Interrupted(Child);

impl Interrupted {
    fn start(setup: &PathSetup) -> Self {
        let drops = "iptables -A OUTPUT -o wan0 -j DROP; iptables -A INPUT -i wan0 -j DROP";
        let passes = "iptables -F OUTPUT; iptables -F INPUT";
        let line = format!("while :; do sleep 1.6; {drops}; sleep 0.4; {passes}; done");
        let mut command: Command = setup.wan.command(Side::Near, "sh");
        command.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_interruptions() {
    let test = "doctor_names_interruptions";
    if !has_iptables(test) {
        return;
    }
    let plan = Plan { spec: Spec { queue: Some(100_000), ..spec(20, 40) }, ..Plan::default() };
    let Some(setup) = PathSetup::start(test, &plan) else { return };
    let _interrupted = Interrupted::start(&setup);
    let diagnosis = setup.examine(&[], "outages");
    first(&diagnosis, "outages", &["The path is interrupted", "stood still", "--retry-for"]);
}
