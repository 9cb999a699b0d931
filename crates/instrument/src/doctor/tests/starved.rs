//! Ends that give TCP nothing to send, or leave what it has received.

use super::super::diagnose::diagnose;
use super::super::facts::Facts;
use super::{first, good, sender, up};
use crate::flow::{Tracer, Turns};
use crate::quota::Quota;

/// 1 MB/s of 10 pass, and the window of 2 MiB is used up all the time.
fn slow_command() -> Facts {
    let mut facts = good();
    facts.throughput.up.together = Some(4e6);
    let flow = up(&mut facts);
    (flow.rate, flow.windows.closed, flow.application.starved, flow.application.unread) =
        (1e6, 0.95, Some(1.0), Some(0.0));
    (flow.client.turns, flow.server.turns) =
        (Some(Turns { ran: 0.02, waited: 0.01 }), Some(Turns { ran: 0.03, waited: 0.02 }));
    facts
}

#[test]
fn command_that_takes_its_input_slowly_is_named() {
    let facts = slow_command();
    let (cause, title) = first(&facts);
    assert_eq!(
        (cause, title.as_str()),
        (
            "command_input",
            "The command at the server takes its input at 1.0 MB/s only, which limits uploads."
        )
    );
    let evidence = diagnose(&facts).remove(0).evidence.join("; ");
    assert!(
        evidence.contains("receive queue of the server") && evidence.contains("ran 3.00 %"),
        "{evidence}"
    );
    // TCP remembers the burst that filled the window, and what was lost then.
    let mut facts = slow_command();
    up(&mut facts).application.starved = Some(0.0);
    sender(&mut facts).resent = 180.0;
    assert_eq!(first(&facts).0, "command_input");
    // After a pause, its congestion window is small again.
    let mut facts = slow_command();
    up(&mut facts).application.starved = Some(0.0);
    (sender(&mut facts).congestion_window, sender(&mut facts).busy) = (Some(14_480.0), Some(0.2));
    assert_eq!(first(&facts).0, "command_input");
    let evidence = diagnose(&facts).remove(0).evidence.join("; ");
    assert!(evidence.contains("something to send in 20 % of the time only"), "{evidence}");
    // Servers without ss and /proc.
    let mut facts = slow_command();
    let flow = up(&mut facts);
    (flow.application.unread, flow.server.turns) = (None, None);
    assert_eq!(first(&facts).0, "command_input");
}

#[test]
fn command_is_not_blamed_for_what_others_hold_up() {
    let cause = |change: fn(&mut Facts)| {
        let mut facts = slow_command();
        change(&mut facts);
        first(&facts).0
    };
    // The SSH process is busy, or leaves what arrives.
    assert_ne!(
        cause(|facts| up(facts).server.turns = Some(Turns { ran: 0.4, waited: 0.2 })),
        "command_input"
    );
    assert_ne!(cause(|facts| up(facts).application.unread = Some(0.7)), "command_input");
    // The path or this end holds data back, or the window itself is the limit.
    let held = |facts: &mut Facts| {
        up(facts).application.starved = Some(0.5);
        sender(facts).congestion_window = Some(60_000.0);
    };
    assert_ne!(cause(held), "command_input");
    assert_ne!(cause(|facts| up(facts).windows.closed = 0.2), "command_input");
    assert_ne!(cause(|facts| sender(facts).loaded_rtt = Some(0.9)), "command_input");
    assert_eq!(cause(|facts| up(facts).rate = 38e6), "ssh_window");
}

#[test]
fn rate_limit_of_what_a_server_receives_is_named() {
    let limited = || {
        let mut facts = slow_command();
        facts.negotiated.server = "SSH-2.0-Longhaul_0.2.0".to_owned();
        let flow = up(&mut facts);
        (flow.windows.closed, flow.application.unread, flow.application.taken) =
            (0.0, Some(0.95), Some(2.02e6));
        facts
    };
    for (together, title) in [
        (
            None,
            "The server takes 2.0 MB/s of this connection on uploads (ReceiveRate or PerUserReceiveRate).",
        ),
        (Some(4.0), "The server takes 2.0 MB/s of each connection on uploads (ReceiveRate)."),
        (
            Some(1.0),
            "The server takes 2.0 MB/s of all connections of the user on uploads (PerUserReceiveRate).",
        ),
    ] {
        let mut facts = limited();
        let rate = up(&mut facts).rate;
        facts.throughput.up.together = together.map(|factor| factor * rate);
        assert_eq!(first(&facts), ("pacing", title.to_owned()));
    }
    let cause = |change: fn(&mut Facts)| {
        let mut facts = limited();
        change(&mut facts);
        first(&facts).0
    };
    // Other servers have no such limit, and a process that is busy or kept from its data is late by that.
    assert_ne!(cause(|facts| facts.negotiated.server = "SSH-2.0-OpenSSH_10.0".to_owned()), "pacing");
    assert_ne!(cause(|facts| up(facts).server.turns = Some(Turns { ran: 0.3, waited: 0.3 })), "pacing");
    assert_ne!(cause(|facts| up(facts).server.turns = None), "pacing");
    assert_ne!(cause(|facts| up(facts).application.unread = Some(0.3)), "pacing");
    let tracer = || Some(Tracer { process: 7, name: "strace".to_owned() });
    let mut traced = limited();
    up(&mut traced).server.tracer = tracer();
    assert_ne!(first(&traced).0, "pacing");
    let mut quota = limited();
    up(&mut quota).server.quota = Some(Quota {
        group: "/g".to_owned(),
        is_version_2: true,
        limit: [5_000, 100_000],
        periods: 50,
        throttled: 20,
        seconds: 1.0,
    });
    assert_ne!(first(&quota).0, "pacing");
}

#[test]
fn output_that_fills_the_path_is_not_slow() {
    // A server that is late by a moment again and again has nothing to send at most looks.
    let starved = || {
        let mut facts = good();
        let flow = facts.throughput.down.flow.as_mut().unwrap();
        (flow.application.starved, flow.server.turns) = (Some(0.97), Some(Turns { ran: 0.05, waited: 0.26 }));
        facts
    };
    let named = |facts: &Facts| diagnose(facts).iter().any(|found| found.cause == "command_output");
    assert!(!named(&starved()), "{:?}", diagnose(&starved()));
    // Several connections are faster, or the other direction is.
    let mut facts = starved();
    facts.throughput.down.together = Some(20e6);
    assert!(named(&facts));
    let mut facts = starved();
    facts.throughput.up.together = Some(20e6);
    assert!(named(&facts));
}

#[test]
fn own_window_is_named_where_few_looks_show_it() {
    let mut facts = good();
    facts.throughput.down.together = Some(3.6e6);
    let flow = facts.throughput.down.flow.as_mut().unwrap();
    (flow.rate, flow.windows.granted, flow.application.starved) = (1.7e6, Some(262_144.0), Some(0.86));
    flow.server.turns = Some(Turns { ran: 0.01, waited: 0.02 });
    // 262 kB in each round trip of 50 ms are 5.2 MB/s: over twice the time, it is the limit.
    facts.path.pings = vec![0.12];
    for flow in [&mut facts.throughput.up.flow, &mut facts.throughput.down.flow].into_iter().flatten() {
        flow.tcp.least_rtt = Some(0.12);
    }
    let found = diagnose(&facts);
    let window = found.iter().find(|found| found.cause == "ssh_window");
    assert!(
        window.is_some_and(|found| found.title.contains("This machine's SSH window of 262 kB")),
        "{found:?}"
    );
}
