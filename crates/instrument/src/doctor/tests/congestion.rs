//! Congestion controls that hold a connection back without losses.

use super::super::diagnose::diagnose;
use super::super::facts::{Facts, OtherControl};
use super::{first, good, sender, up};
use crate::shell::System;

/// Four connections are four times as fast as one, whose control and window, segments, these are.
fn slow(control: &str, segments: f64) -> Facts {
    let mut facts = good();
    facts.throughput.up.together = Some(40e6);
    let sender = sender(&mut facts);
    sender.congestion_control = Some(control.to_owned());
    sender.congestion_window = Some(segments * sender.segment);
    facts
}

fn system(route: &str, metrics: &str, threshold_is_forgotten: &str) -> System {
    System::from_pairs(&[
        ("route", route),
        ("metrics", metrics),
        ("tcp_no_ssthresh_metrics_save", threshold_is_forgotten),
    ])
}

#[test]
fn control_that_is_slow_by_itself_is_named() {
    for control in ["lp", "vegas", "reno"] {
        let (cause, title) = first(&slow(control, 350.0));
        let named =
            format!("The congestion control {control} of this machine does not fill the path on uploads.");
        assert_eq!((cause, title), ("congestion_control", named));
    }
    let mut facts = slow("lp", 350.0);
    facts.other_settings.congestion_control =
        Some(OtherControl::Measured { name: "cubic".to_owned(), rate: 30e6, full_window: None });
    let found = diagnose(&facts).remove(0);
    assert!(found.gain.starts_with("3.0 times, measured with cubic"), "{found:?}");
    let sysctl = "on this machine: sysctl -w net.ipv4.tcp_congestion_control=cubic";
    assert_eq!(found.change[0], format!("{sysctl} (or TcpCongestion cubic in ssh_config)"), "{found:?}");
    // Programs of this user may not choose it.
    facts.systems.here = System::from_pairs(&[("tcp_allowed_congestion_control", "reno bbr")]);
    assert_eq!(diagnose(&facts)[0].change[0], sysctl);
    assert!(found.evidence.iter().any(|line| line.contains("507 kB (350 segments)")), "{found:?}");
    // Over a round trip of 20 µs, one segment in each is enough.
    let mut short = slow("reno", 350.0);
    short.path.pings = vec![20e-6];
    short.logins.timed.iter_mut().for_each(|login| login[0].1 = 20e-6);
    up(&mut short).tcp.least_rtt = Some(20e-6);
    assert!(first(&short).1.starts_with("One connection does not fill the path"), "{:?}", first(&short));
    // A usual one is none, unless another was faster.
    assert!(first(&slow("cubic", 350.0)).1.starts_with("One connection does not fill the path"));
    let mut facts = slow("cubic", 350.0);
    facts.other_settings.congestion_control =
        Some(OtherControl::Measured { name: "bbr".to_owned(), rate: 30e6, full_window: None });
    assert!(first(&facts).1.starts_with("The congestion control cubic of this machine"));
}

#[test]
fn route_with_a_congestion_window_is_named() {
    let mut facts = slow("cubic", 20.0);
    facts.systems.here = system("10.0.0.2 dev eth0 src 10.0.0.1 uid 0 \\    cache cwnd lock 20", "", "1");
    let (cause, title) = first(&facts);
    let named = "A route of this machine limits the congestion window of uploads (cwnd 20, 29.0 kB).";
    assert_eq!((cause, title.as_str()), ("congestion_control", named));
    assert!(diagnose(&facts)[0].change[0].contains("ip tcp_metrics flush"), "{:?}", diagnose(&facts));
    // The window is larger than the route permits: it was not in force.
    sender(&mut facts).congestion_window = Some(400.0 * 1448.0);
    assert!(first(&facts).1.starts_with("One connection"));
    // The path holds no more.
    facts = slow("cubic", 2000.0);
    facts.systems.here = system("10.0.0.2 dev eth0 cwnd lock 2000", "", "1");
    assert!(first(&facts).1.starts_with("One connection"));
}

#[test]
fn control_of_a_route_is_changed_in_the_route() {
    let mut facts = slow("lp", 350.0);
    for (route, changed) in [
        ("congctl lp mtu lock 1400", "mtu lock 1400 congctl cubic"),
        ("congctl lock lp window 9000", "window 9000 congctl lock cubic"),
        ("congctl lp expires 99sec mtu 1300", "congctl cubic"),
    ] {
        let route = format!("10.0.0.2 via 10.0.1.1 dev eth0 src 10.0.0.1 uid 0 \\    cache {route}");
        facts.systems.here = system(&route, "", "1");
        let command = format!(
            "on this machine: ip route replace 10.0.0.2 via 10.0.1.1 dev eth0 src 10.0.0.1 {changed} ("
        );
        assert!(diagnose(&facts)[0].change[0].starts_with(&command), "{:?}", diagnose(&facts)[0]);
    }
    // Words that are none of a route are not shown as a command.
    facts.systems.here = system("10.0.0.2 dev $(reboot) congctl lp", "", "1");
    assert!(diagnose(&facts)[0].change[0].contains("ip route change PREFIX … congctl cubic ("));
    // The advice against losses is the same.
    sender(&mut facts).resent = 60.0;
    sender(&mut facts).segments = 6000.0;
    (up(&mut facts).rate, facts.throughput.up.together) = (0.3e6, Some(1.2e6));
    facts.systems.here = system("10.0.0.2 dev eth0 src 10.0.0.1 \\ cache congctl reno", "", "1");
    sender(&mut facts).congestion_control = Some("reno".to_owned());
    let found = diagnose(&facts).remove(0);
    let command = "on this machine: ip route replace 10.0.0.2 dev eth0 src 10.0.0.1 congctl bbr (";
    assert!(found.cause == "loss" && found.change[0].starts_with(command), "{found:?}");
}

/// Facts of a path of 0.4 ms whose server may send from buffers of 32 kB.
#[test]
fn buffer_below_any_default_is_named_on_a_short_path() {
    let mut facts = good();
    facts.path.pings = vec![0.0004];
    facts.logins.timed.iter_mut().for_each(|login| login[0].1 = 0.0004);
    facts.systems.there = System::from_pairs(&[("tcp_wmem", "4096 32768 32768")]);
    (up(&mut facts).rate, up(&mut facts).tcp.least_rtt) = (119e6, Some(0.0004));
    facts.throughput.up.together = Some(118e6);
    let down = facts.throughput.down.flow.as_mut().unwrap();
    (down.rate, down.tcp.least_rtt) = (62.8e6, Some(0.0004));
    let sender = down.tcp.sender.as_mut().unwrap();
    (sender.loaded_rtt, sender.congestion_window) = (Some(0.0025), None);
    facts.throughput.down.together = Some(59e6);
    let named = |facts: &Facts| diagnose(facts).into_iter().any(|found| found.cause == "send_buffer");
    assert!(named(&facts), "{:?}", diagnose(&facts));
    // TCP that runs dry so often is no fault of the command.
    facts.throughput.down.flow.as_mut().unwrap().application.starved = Some(1.0);
    assert!(named(&facts), "{:?}", diagnose(&facts));
    facts.systems.there = System::from_pairs(&[("tcp_wmem", "4096 16384 4194304")]);
    assert!(!named(&facts));
}

#[test]
fn metrics_of_earlier_connections_are_named() {
    let mut facts = slow("cubic", 60.0);
    let metrics = "10.0.0.2 age 12.5sec ssthresh 9 cwnd 30 rtt 50000us";
    facts.systems.here = system("10.0.0.2 dev eth0", metrics, "0");
    let (_, title) = first(&facts);
    assert!(
        title.starts_with("This machine limits the congestion window of uploads")
            && title.contains("ssthresh 9"),
        "{title}"
    );
    assert!(diagnose(&facts)[0].change[0].contains("ip tcp_metrics flush 10.0.0.2"));
    // Kernels forget the threshold, unless they were told not to; a window that was exceeded is none.
    facts.systems.here = system("10.0.0.2 dev eth0", metrics, "1");
    assert!(first(&facts).1.starts_with("One connection"));
}

/// Facts of OpenSSH's server behind 120 ms with buffers of 512 KiB at most, whose TCP does not count waits.
#[test]
fn constant_flight_of_a_buffer_s_size_is_named_with_the_doubt() {
    let mut facts = good();
    facts.path.pings = vec![0.12];
    facts.logins.timed.iter_mut().for_each(|login| login[0].1 = 0.12);
    facts.systems.there = System::from_pairs(&[("tcp_wmem", "4096 16384 524288")]);
    (up(&mut facts).rate, up(&mut facts).tcp.least_rtt) = (16.5e6, Some(0.12));
    facts.throughput.up.together = Some(23.7e6);
    let down = facts.throughput.down.flow.as_mut().unwrap();
    (down.rate, down.tcp.least_rtt) = (3.28e6, Some(0.12));
    let sender = down.tcp.sender.as_mut().unwrap();
    (sender.loaded_rtt, sender.congestion_window) = (Some(0.1238), None);
    facts.throughput.down.together = Some(2.57e6);
    let found = |facts: &Facts| diagnose(facts).into_iter().find(|found| found.cause == "send_buffer");
    let named = found(&facts).expect("the buffer");
    let title =
        "The send buffer of the server (524 kB at most) or a slower line of the path limits downloads.";
    assert_eq!(named.title, title);
    assert!(named.evidence[1].contains("394 kB were under way"), "{named:?}");
    assert!(named.change[0].contains("on the server: sysctl -w net.ipv4.tcp_wmem="), "{named:?}");
    // A queue, another size of the buffer, or as little in the other direction: the path.
    let mut queued = facts.clone();
    queued.throughput.down.flow.as_mut().unwrap().tcp.sender.as_mut().unwrap().loaded_rtt = Some(0.17);
    let mut larger = facts.clone();
    larger.systems.there = System::from_pairs(&[("tcp_wmem", "4096 16384 4194304")]);
    let mut symmetric = facts;
    up(&mut symmetric).rate = 3.3e6;
    symmetric.throughput.up.together = Some(3.3e6);
    for other in [queued, larger, symmetric] {
        assert!(found(&other).is_none(), "{:?}", found(&other));
    }
}
