//! Traffic shapers at the ends of a path.

use lh_link::path::Side;

use super::path_setup::{PathSetup, Plan, first, of_direction, spec};

/// Has `tc` change a device of this end; false where the kernel cannot, which is noted.
fn tc(test: &str, setup: &PathSetup, side: Side, words: &str) -> bool {
    let done = setup.wan.command(side, "tc").args(words.split(' ')).output();
    let is_done = done.is_ok_and(|done| done.status.success());
    if !is_done {
        lh_interop::skip_unavailable(test, &format!("tc is not installed, or the kernel lacks {words}"));
    }
    is_done
}

/// Asserts that the rate of uploads or downloads is the planted one, less the headers of packets.
#[track_caller]
fn about_a_megabyte(diagnosis: &serde_json::Value, direction: &str) {
    let rate = diagnosis["measured"][direction]["together_bytes_per_second"].as_f64().unwrap();
    assert!((0.8e6..1.1e6).contains(&rate), "planted 1 MB/s: {diagnosis:#}");
}

#[test]
fn doctor_names_a_shaper_of_either_end() {
    let test = "doctor_names_a_shaper_of_either_end";
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(80, 30), ..Plan::default() }) else { return };
    let (near, far) = ("this machine (tbf on wan0)", "the server (tbf on wan0)");
    for (side, end, direction, other) in
        [(Side::Near, near, "upload", "downloads"), (Side::Far, far, "download", "uploads")]
    {
        let shaper = "qdisc replace dev wan0 root tbf rate 8mbit burst 16kb latency 30ms";
        if !tc(test, &setup, side, shaper) {
            return;
        }
        let diagnosis = setup.examine(&[], "shaper");
        let title = format!("A traffic shaper of {end} holds {direction}s to 1.0 MB/s");
        first(&diagnosis, "shaper", &[&title, "packets back", "tc qdisc del dev 'wan0' root"]);
        about_a_megabyte(&diagnosis, direction);
        of_direction(&diagnosis, "path", other);
        let found = diagnosis["findings"].to_string();
        assert!(!found.contains("policer") && !found.contains("Loss of"), "{diagnosis:#}");
        assert!(tc(test, &setup, side, "qdisc del dev wan0 root"));
    }
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_class_with_a_rate() {
    let test = "doctor_names_a_class_with_a_rate";
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(80, 30), ..Plan::default() }) else { return };
    for words in [
        "qdisc add dev wan0 root handle 1: htb default 10",
        "class add dev wan0 parent 1: classid 1:10 htb rate 8mbit",
        "class add dev wan0 parent 1: classid 1:20 htb rate 60mbit",
    ] {
        if !tc(test, &setup, Side::Far, words) {
            return;
        }
    }
    let diagnosis = setup.examine(&[], "shaper");
    let title = "A traffic shaper of the server (htb on wan0) holds downloads to 1.0 MB/s";
    first(&diagnosis, "shaper", &[title, "class show", "classid '1:10' htb rate"]);
    about_a_megabyte(&diagnosis, "download");
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_rate_of_each_connection() {
    let test = "doctor_names_a_rate_of_each_connection";
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(80, 30), ..Plan::default() }) else { return };
    if !tc(test, &setup, Side::Near, "qdisc replace dev wan0 root fq maxrate 8mbit") {
        return;
    }
    let diagnosis = setup.examine(&[], "shaper");
    let title = "A traffic shaper of this machine (fq on wan0) holds uploads of each connection to 1.0 MB/s";
    first(&diagnosis, "shaper", &[title, "tc qdisc del dev 'wan0' root"]);
}
