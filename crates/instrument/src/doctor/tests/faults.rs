//! What breaks copies off, or stops them: memory, interruptions, jitter, SFTP, limits of files.

use super::super::diagnose::diagnose;
use super::super::facts::{BelowPolicer, Facts};
use super::super::sftp_file::SftpRates;
use super::{first, good, sender, up};
use crate::disk::Full;
use crate::flow::{Flow, Pauses, Sender, Stopped, Tcp, Tracer, Turns};
use crate::memory::{self, MemoryGroup};
use crate::shell::System;
use lh_metrics::drops::Drops;

fn is_named(facts: &Facts, cause: &str) -> bool {
    diagnose(facts).iter().any(|found| found.cause == cause)
}

#[test]
fn resets_after_some_bytes_are_named_with_the_number() {
    let mut facts = good();
    // Recorded behind a firewall that resets what has moved 8 MB.
    let failure = Some("Read from remote host 10.88.0.2: Connection reset by peer".to_owned());
    let reset = Flow { moved: 7.9e6, failure, ..Flow::default() };
    (facts.throughput.up.flow, facts.throughput.down.flow) = (Some(reset.clone()), Some(reset));
    (facts.throughput.up.together, facts.throughput.down.together) = (None, None);
    let (cause, title) = first(&facts);
    assert_eq!(
        (cause, title.as_str()),
        ("broken_off", "Connections break off while data are moved: the upload after 7.9 MB.")
    );
    facts.throughput.up.flow = good().throughput.up.flow;
    assert!(first(&facts).1.ends_with("the download after 7.9 MB."));
    // One that drops them in place of that: the rest of the transfer is waited for.
    let failure = Some(crate::task::LATE.to_owned());
    let pauses = Pauses { longest: 1.2, count: 1, seconds: 1.2, endless: 1.2 };
    let flow = Flow { moved: 8.1e6, failure, pauses, ..good().throughput.up.flow.unwrap() };
    (facts.throughput.up.flow, facts.throughput.down.flow) = (Some(flow.clone()), Some(flow));
    let (cause, title) = first(&facts);
    assert!(cause == "stall" && title.contains("after 8.1 MB"), "{title}");
    facts.throughput.down.flow = good().throughput.down.flow;
    assert!(!is_named(&facts, "stall"), "one direction may be slow to end");
}

#[test]
fn transfers_that_are_late_and_still_move_do_not_stand_still() {
    let mut facts = good();
    // 15 % of the packets are lost: TCP waits longer and longer before it sends again, and is not done in
    // time.
    let failure = Some(crate::task::LATE.to_owned());
    let pauses = Pauses { longest: 1.6, count: 3, seconds: 2.8, endless: 0.0 };
    let lost = Sender {
        segments: 900.0,
        resent: 140.0,
        ..facts.throughput.up.flow.clone().unwrap().tcp.sender.unwrap()
    };
    let flow = Flow {
        rate: 0.2e6,
        moved: 1.3e6,
        seconds: 6.0,
        failure,
        pauses,
        tcp: Tcp { sender: Some(lost), ..facts.throughput.up.flow.clone().unwrap().tcp },
        ..facts.throughput.up.flow.clone().unwrap()
    };
    (facts.throughput.up.flow, facts.throughput.down.flow) = (Some(flow.clone()), Some(flow));
    (facts.throughput.up.together, facts.throughput.down.together) = (Some(0.8e6), Some(0.8e6));
    assert_eq!(first(&facts).0, "loss");
    assert!(!is_named(&facts, "stall"));
}

#[test]
fn connections_that_end_before_data_are_no_broken_transfers() {
    let mut facts = good();
    // A switch, or an appliance for SFTP alone, closes the connection at a command.
    let failure = Some("Connection closed by 10.88.0.2 port 22".to_owned());
    let closed = Flow { moved: 3200.0, failure, ..Flow::default() };
    (facts.throughput.up.flow, facts.throughput.down.flow) = (Some(closed.clone()), Some(closed));
    (facts.throughput.up.together, facts.throughput.down.together) = (None, None);
    assert!(!is_named(&facts, "broken_off"));
    up(&mut facts).moved = 0.4e6;
    assert!(first(&facts).1.ends_with("the upload after 400 kB."), "{:?}", first(&facts));
}

#[test]
fn tracer_that_stops_nothing_hides_no_other_cause() {
    let mut facts = good();
    facts.systems.there = System::from_pairs(&[("tcp_rmem", "4096 131072 131072")]);
    up(&mut facts).rate = 1.2e6;
    (sender(&mut facts).receive_window, sender(&mut facts).window) = (Some(0.92), Some(62_000.0));
    facts.throughput.up.together = Some(4.8e6);
    let without = first(&facts).0;
    assert_eq!(without, "receive_buffer");
    // What guards the system traces each session for good.
    for seen in [None, Some(Stopped { found: 1, looks: 38 })] {
        up(&mut facts).server.stopped = seen;
        up(&mut facts).server.tracer = Some(Tracer { process: 71, name: "guard".to_owned() });
        assert_eq!(first(&facts).0, without);
        let found = diagnose(&facts);
        let traced = found.iter().find(|found| found.cause == "process_stopped").expect("it is named");
        let title = &traced.title;
        assert!(title.contains("by guard (process 71); what that costs uploads was not seen"), "{title}");
    }
}

/// A group of version 1 of control groups, as the server's script prints it.
fn group(killed: u64, tcp: (&str, u64)) -> String {
    let (limit, short) = tcp;
    format!(
        "/sys/fs/cgroup/memory/x|6291456|{limit}|max {} oom_kill {killed} tcp 581632 short {short};",
        700 * killed
    )
}

#[test]
fn processes_killed_for_memory_come_first() {
    let mut facts = good();
    facts.systems.there = System::from_pairs(&[("memory", &group(0, ("9223372036854771712", 0)))]);
    facts.systems.memory_at_end = memory::groups(&group(2, ("9223372036854771712", 0)));
    let (cause, title) = first(&facts);
    assert!(cause == "memory_limit" && title.contains("the server") && title.contains("6.3 MB"), "{title}");
    facts.throughput.broken = Some("the connection was closed".to_owned());
    assert_eq!(first(&facts).0, "memory_limit");
    assert!(!is_named(&facts, "broken_off"), "its cause is known");
    // Those that were killed before this run are none of its causes; so little memory is one.
    facts.systems.there = System::from_pairs(&[("memory", &group(2, ("9223372036854771712", 0)))]);
    let (cause, title) = first(&facts);
    assert!(cause == "memory_limit" && title.starts_with("Connections break off"), "{title}");
    facts.throughput.broken = None;
    assert!(!is_named(&facts, "memory_limit"));
    facts.throughput.broken = Some("the connection was closed".to_owned());
    facts.systems.there = System::default();
    let (cause, title) = first(&facts);
    assert!(cause == "broken_off" && title.contains("during the measurements"), "{title}");
    // Not even the first command was answered.
    facts.shell = None;
    let (cause, title) = first(&facts);
    assert!(cause == "broken_off" && title.contains("when a session begins"), "{title}");
}

#[test]
fn memory_of_tcp_explains_losses_and_slow_connections() {
    let mut facts = good();
    let before = memory::groups(&group(0, ("65536", 0)));
    let used = memory::groups(&group(0, ("65536", 300)));
    up(&mut facts).server.memory = memory::between(&before, &used);
    sender(&mut facts).resent = 2800.0;
    facts.throughput.down.together = Some(19e6);
    let (cause, title) = first(&facts);
    assert!(cause == "memory_limit" && title.contains("65.5 kB together"), "{title}");
    assert!(!is_named(&facts, "congestion_control") && !is_named(&facts, "path"));
}

#[test]
fn waiting_for_memory_counts_by_its_share_of_the_time() {
    let mut facts = good();
    let stalled = |seconds| MemoryGroup {
        group: "/sys/fs/cgroup/x".to_owned(),
        limit: Some(16 << 20),
        reached: 5000,
        stalled: seconds,
        ..MemoryGroup::default()
    };
    let flow = up(&mut facts);
    (flow.seconds, flow.client.memory) = (4.0, Some(stalled(3.0)));
    let (cause, title) = first(&facts);
    assert!(cause == "memory_limit" && title.contains("this machine") && title.contains("75"), "{title}");
    // The cache of files is at its limit all the time, and nothing waits.
    up(&mut facts).client.memory = Some(stalled(0.1));
    assert!(!is_named(&facts, "memory_limit"));
}

#[test]
fn outages_are_told_from_losses_and_stopped_programs() {
    let mut facts = good();
    let pauses = Pauses { longest: 0.5, count: 3, seconds: 1.2, endless: 0.0 };
    *up(&mut facts) = Flow { seconds: 4.0, pauses, ..facts.throughput.up.flow.clone().unwrap() };
    assert!(!is_named(&facts, "outages"), "nothing was sent again");
    sender(&mut facts).resent = 40.0;
    let (cause, title) = first(&facts);
    assert!(cause == "outages" && title.contains("3 times, for up to 500 ms"), "{title}");
    up(&mut facts).pauses = Pauses { longest: 0.4, count: 1, seconds: 0.4, endless: 0.0 };
    assert!(!is_named(&facts, "outages"));
    // Losses that explain the rate have timeouts, too.
    *sender(&mut facts) = Sender {
        segments: 900.0,
        resent: 30.0,
        ..facts.throughput.up.flow.clone().unwrap().tcp.sender.unwrap()
    };
    *up(&mut facts) = Flow { rate: 0.2e6, pauses, ..facts.throughput.up.flow.clone().unwrap() };
    facts.throughput.up.together = Some(0.8e6);
    assert_eq!(first(&facts).0, "loss");
    assert!(!is_named(&facts, "outages"));
}

#[test]
fn slow_output_of_a_command_is_no_fault_of_the_path() {
    let mut facts = good();
    facts.throughput.down.together = Some(3.8e6);
    let down = facts.throughput.down.flow.as_mut().unwrap();
    (down.rate, down.application.starved) = (0.9e6, Some(0.95));
    down.server.turns = Some(Turns { ran: 0.02, waited: 0.1 });
    let (cause, title) = first(&facts);
    assert!(cause == "command_output" && title.contains("900 kB/s only"), "{title}");
    // An SSH process that is busy, and one that has enough to send.
    facts.throughput.down.flow.as_mut().unwrap().server.turns = Some(Turns { ran: 0.3, waited: 0.4 });
    assert_eq!(first(&facts).0, "congestion_control");
    let down = facts.throughput.down.flow.as_mut().unwrap();
    (down.server.turns, down.application.starved) = (Some(Turns { ran: 0.02, waited: 0.1 }), Some(0.3));
    assert_eq!(first(&facts).0, "congestion_control");
}

#[test]
fn rate_limit_of_what_a_server_sends_to_a_user_is_named() {
    let mut facts = good();
    facts.negotiated.server = "SSH-2.0-Longhaul_0.2.0".to_owned();
    facts.throughput.down.together = Some(2.0e6);
    facts.sftp.file =
        Some(SftpRates { write: Some(300e6), read: Some(2.6e6), at_a_time: 1e6, ..SftpRates::default() });
    let down = facts.throughput.down.flow.as_mut().unwrap();
    (down.rate, down.application.starved) = (2.0e6, Some(1.0));
    down.server.turns = Some(Turns { ran: 0.02, waited: 0.01 });
    let title = "The server sends 2.0 MB/s on all connections of the user together (PerUserSendRate).";
    assert_eq!(first(&facts), ("pacing", title.to_owned()));
    // A busy server takes few looks.
    facts.throughput.down.flow.as_mut().unwrap().application.starved = Some(0.75);
    assert_eq!(first(&facts), ("pacing", title.to_owned()));
    facts.throughput.down.flow.as_mut().unwrap().application.starved = Some(1.0);
    // Files are faster, several connections are faster, or the server has no such limit.
    for change in [
        |facts: &mut Facts| facts.sftp.file.as_mut().unwrap().read = Some(50e6),
        |facts: &mut Facts| facts.throughput.down.together = Some(8.0e6),
        |facts: &mut Facts| facts.negotiated.server = "SSH-2.0-OpenSSH_10.0".to_owned(),
    ] {
        let mut facts = facts.clone();
        change(&mut facts);
        assert_eq!(first(&facts).0, "command_output");
    }
}

#[test]
fn used_up_window_of_this_end_is_no_slow_command() {
    let mut facts = good();
    // Over 40 ms with `-o HPNBufferSize=128K`: TCP of the server waits for the window, too.
    facts.path.pings = vec![0.04];
    facts.throughput.down.together = Some(7.1e6);
    let down = facts.throughput.down.flow.as_mut().unwrap();
    (down.rate, down.application.starved, down.windows.granted) = (2.9e6, Some(0.97), Some(131_072.0));
    (down.tcp.least_rtt, down.server.turns) = (Some(0.04), Some(Turns { ran: 0.02, waited: 0.1 }));
    let (cause, title) = first(&facts);
    assert!(
        cause == "ssh_window" && title == "This machine's SSH window of 131 kB limits downloads.",
        "{title}"
    );
    assert!(!is_named(&facts, "command_output"));
    // Several connections are no faster: the window is no limit, and the command is not to blame either.
    facts.throughput.down.together = Some(2.9e6);
    assert!(!is_named(&facts, "command_output") && !is_named(&facts, "ssh_window"));
    // The window permits much more than arrives.
    facts.throughput.down.flow.as_mut().unwrap().windows.granted = Some(2e6);
    assert_eq!(first(&facts).0, "command_output");
}

#[test]
fn jitter_is_named_with_its_bounds_and_is_no_queue() {
    let mut facts = good();
    facts.path.pings = (0..30).map(|n| 0.05 + 0.002 * f64::from(n)).collect();
    sender(&mut facts).loaded_rtt = Some(0.11);
    let (cause, title) = first(&facts);
    assert!(cause == "jitter" && title.contains("between 50 ms and 104 ms"), "{title}");
    assert!(!is_named(&facts, "bufferbloat"));
    // A server whose processor is taken answers late, too.
    let turns = Turns { ran: 0.3, waited: 0.65 };
    (up(&mut facts).server.turns, up(&mut facts).windows.closed) = (Some(turns), 0.5);
    sender(&mut facts).loaded_rtt = Some(0.05);
    assert!(is_named(&facts, "processor") && !is_named(&facts, "jitter"));
    // So does one whose processor is busy, although the path is full and limits the transfers.
    up(&mut facts).server.turns = Some(Turns { ran: 0.1, waited: 0.2 });
    assert!(!is_named(&facts, "processor") && !is_named(&facts, "jitter"));
    // What both ends waited with the small messages themselves decides where it is known.
    facts.path.pings_waited = Some(0.002);
    let late = diagnose(&facts).into_iter().find(|found| found.cause == "jitter").unwrap();
    assert!(late.evidence[1].contains("both ends waited 2.0 ms"), "{late:?}");
    up(&mut facts).server.turns = Some(turns);
    assert!(is_named(&facts, "processor") && is_named(&facts, "jitter"));
    facts.path.pings_waited = Some(0.02);
    assert!(!is_named(&facts, "jitter"));
    facts.path.pings_waited = None;
    up(&mut facts).server.turns = None;
    // A little, and a server that tells nothing of its processors.
    facts.path.pings = (0..30).map(|n| 0.05 + 0.0006 * f64::from(n)).collect();
    assert!(!is_named(&facts, "jitter"));
    up(&mut facts).server.turns = Some(Turns { ran: 0.1, waited: 0.02 });
    assert!(is_named(&facts, "jitter"));
    up(&mut facts).server.turns = None;
    facts.path.pings = (0..30).map(|n| 0.05 + 0.002 * f64::from(n)).collect();
    assert!(first(&facts).1.ends_with("(jitter, or a busy server)."));
    // A handful of late answers, and few answers.
    facts.path.pings = (0..30).map(|n| if n < 4 { 0.09 } else { 0.05 }).collect();
    assert!(!is_named(&facts, "jitter"));
    facts.path.pings = (0..10).map(|n| 0.05 + 0.005 * f64::from(n)).collect();
    assert!(!is_named(&facts, "jitter"));
}

#[test]
fn jitter_comes_before_the_slow_transfers_that_it_causes() {
    let mut facts = good();
    facts.path.pings = (0..30).map(|n| 0.05 + 0.002 * f64::from(n)).collect();
    facts.throughput.up.together = Some(40e6);
    assert!(is_named(&facts, "congestion_control"));
    assert_eq!(first(&facts).0, "jitter");
    // A few losses in the bursts after it, and so many that they need no jitter.
    *sender(&mut facts) = Sender {
        segments: 30_000.0,
        resent: 30.0,
        loaded_rtt: Some(0.1),
        ..facts.throughput.up.flow.clone().unwrap().tcp.sender.unwrap()
    };
    up(&mut facts).rate = 1e6;
    assert!(is_named(&facts, "loss"));
    assert_eq!(first(&facts).0, "jitter");
    sender(&mut facts).resent = 300.0;
    assert_eq!(first(&facts).0, "loss");
}

#[test]
fn copies_of_the_path_are_told_from_retransmissions() {
    let mut facts = good();
    sender(&mut facts).spurious = 1500.0;
    let (cause, title) = first(&facts);
    assert!(
        cause == "duplicates" && title.contains("5.00 % of the packets arrive twice on uploads"),
        "{title}"
    );
    // Sent again in vain.
    sender(&mut facts).resent = 1400.0;
    assert!(!is_named(&facts, "duplicates"));
}

#[test]
fn congestion_marks_are_named_where_they_hold_back() {
    let mut facts = good();
    *sender(&mut facts) = Sender {
        marked: 300.0,
        segments: 3000.0,
        ..facts.throughput.up.flow.clone().unwrap().tcp.sender.unwrap()
    };
    let flow = up(&mut facts);
    (flow.rate, flow.packets.marked) = (0.4e6, Some(0.01));
    facts.throughput.up.together = Some(1.5e6);
    let (cause, title) = first(&facts);
    assert!(cause == "ecn" && title.contains("1.00 % of the packets"), "{title}");
    assert!(!is_named(&facts, "congestion_control"));
    // A queue that is full marks what several connections send as well.
    facts.throughput.up.together = Some(0.41e6);
    assert!(!is_named(&facts, "ecn"));
    // Marks of other connections.
    facts.throughput.up.together = Some(1.5e6);
    sender(&mut facts).marked = 0.0;
    assert!(!is_named(&facts, "ecn"));
}

#[test]
fn policer_of_each_connection_drops_nothing_below_its_rate() {
    let mut facts = good();
    *sender(&mut facts) = Sender {
        resent: 300.0,
        segments: 2100.0,
        ..facts.throughput.up.flow.clone().unwrap().tcp.sender.unwrap()
    };
    let course = Drops {
        first: 270.0,
        later_sent: 1500.0,
        later: 30.0,
        returned: 5,
        first_round_trip: 0.052,
        later_round_trip: Some(0.052),
        burst: 4.4e6,
        usual: 0.5e6,
        ..Drops::default()
    };
    let flow = up(&mut facts);
    (flow.rate, flow.tcp.drops) = (0.5e6, Some(course.clone()));
    facts.throughput.up.together = Some(2e6);
    assert!(!is_named(&facts, "policer"), "not tried");
    let below = BelowPolicer { limit: 0.4e6, rate: 0.39e6, lost: 0.0, segments: 1000.0, above: None };
    facts.other_settings.below_policer = Some(below);
    let (cause, title) = first(&facts);
    assert!(
        cause == "policer" && title.contains("exceeds 500 kB/s of each connection on uploads"),
        "{title}"
    );
    assert!(!is_named(&facts, "loss"));
    // A policer drops half of twice its rate; a short queue nothing of what is spread.
    facts.other_settings.below_policer = Some(BelowPolicer { above: Some((0.55e6, 0.45)), ..below });
    assert_eq!(first(&facts).0, "policer");
    facts.other_settings.below_policer = Some(BelowPolicer { above: Some((0.98e6, 0.001)), ..below });
    let (cause, title) = first(&facts);
    assert!(cause == "short_queue" && title.contains("drops the bursts"), "{title}");
    assert!(
        diagnose(&facts)[0].gain.starts_with("2.0 times, measured with pacing"),
        "{:?}",
        diagnose(&facts)
    );
    assert!(!is_named(&facts, "policer") && !is_named(&facts, "loss"));
    // Downloads that lose segments without a queue, too, meet the same one.
    let uploads = facts.throughput.up.clone();
    let uploads_before = uploads.clone();
    let downloads = std::mem::replace(&mut facts.throughput.down, uploads);
    let found = diagnose(&facts);
    assert_eq!([found[0].cause, found[1].cause], ["short_queue"; 2], "{found:?}");
    assert!(found[0].title.contains("uploads") && found[1].title.contains("on downloads, as on uploads"));
    assert!(!is_named(&facts, "loss"), "{found:?}");
    let of_queue = Drops { first_round_trip: 0.09, later_round_trip: Some(0.09), ..course.clone() };
    facts.throughput.down.flow.as_mut().unwrap().tcp.drops = Some(of_queue);
    assert!(diagnose(&facts).iter().filter(|found| found.cause == "short_queue").count() == 1);
    // Without uploads that lose anything, the queue shows where all was lost in the first burst.
    facts.throughput.up.flow.clone_from(&downloads.flow);
    facts.throughput.up.together = downloads.together;
    facts.other_settings.below_policer = None;
    let mut of_burst = |course: Drops| {
        facts.throughput.down.flow.as_mut().unwrap().tcp.drops = Some(course);
        diagnose(&facts).into_iter().find(|found| found.cause == "short_queue")
    };
    let burst = Drops { first: 44.0, later: 1.0, returned: 1, ..course.clone() };
    let found = of_burst(burst.clone()).expect("the queue");
    assert!(
        found.title.ends_with("on downloads.") && found.evidence[2].contains("lost 44 segments"),
        "{found:?}"
    );
    assert!(of_burst(Drops { later: 30.0, ..burst.clone() }).is_none());
    assert!(of_burst(Drops { returned: 4, ..burst }).is_none());
    facts.throughput.down = downloads;
    facts.throughput.up = uploads_before;
    facts.other_settings.below_policer = Some(below);
    // Of an upload that short, a path that loses by chance would have lost few.
    *sender(&mut facts) = Sender { resent: 9.0, segments: 1658.0, ..sender(&mut facts).clone() };
    assert!(!is_named(&facts, "policer") && is_named(&facts, "loss"), "{:?}", diagnose(&facts));
    *sender(&mut facts) = Sender { resent: 300.0, segments: 2100.0, ..sender(&mut facts).clone() };
    // What drops segments all the time does not return, and is no slow start.
    let unceasing = Drops { first: 430.0, later_sent: 4700.0, later: 780.0, returned: 1, ..course.clone() };
    up(&mut facts).tcp.drops = Some(unceasing);
    assert_eq!(first(&facts).0, "policer");
    // One burst of slow start does not return, and neither a policer nor losses by chance follow from it.
    for (first_burst, later, returned) in [(300.0, 0.0, 0), (270.0, 30.0, 1)] {
        let start = Drops { first: first_burst, later, returned, ..course.clone() };
        up(&mut facts).tcp.drops = Some(start);
        assert!(!is_named(&facts, "policer") && !is_named(&facts, "loss"), "{:?}", diagnose(&facts));
        assert_eq!(first(&facts).0, "congestion_control");
        // Nor where it was measured twice.
        up(&mut facts).seconds = 4.0;
        let mut twice = facts.clone();
        up(&mut twice).add_losses(facts.throughput.up.flow.as_ref().unwrap());
        assert_eq!(first(&twice).0, "congestion_control");
    }
    up(&mut facts).tcp.drops = Some(course);
    // A path that loses by chance loses as much of a slower upload.
    facts.other_settings.below_policer = Some(BelowPolicer { lost: 0.12, ..below });
    assert_eq!(first(&facts).0, "loss");
}

#[test]
fn missing_sftp_and_limits_of_files_are_named() {
    let mut facts = good();
    facts.sftp.refusal = Some("subsystem request failed on channel 0".to_owned());
    assert_eq!(first(&facts).0, "no_sftp");
    let full = Full {
        wanted: 2e6,
        said: "File too large".to_owned(),
        free: None,
        is_of_file: true,
        limit: Some(524_288.0),
    };
    facts.disks.there.as_mut().unwrap().full = Some(full);
    let found = diagnose(&facts).remove(0);
    assert_eq!(found.cause, "file_size_limit");
    assert!(found.evidence.iter().any(|line| line.contains("524 kB")), "{found:?}");
}
