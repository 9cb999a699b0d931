//! Processors of both ends: programs and virtual machines beside SSH, limits of control groups, and processes
//! that are stopped.

use lh_metrics::drops::Drops;

use super::super::diagnose::diagnose;
use super::super::facts::Facts;
use super::{first, good, sender, up};
use crate::flow::{Scheduling, Stopped, Tracer, Turns};
use crate::quota::Quota;
use crate::shell::System;

#[test]
fn processor_that_others_use_is_told_from_one_that_ssh_uses() {
    let mut facts = good();
    up(&mut facts).server.turns = Some(Turns { ran: 0.3, waited: 0.65 });
    // TCP waits for it, by any of its windows and queues.
    up(&mut facts).application.starved = Some(0.0);
    for held in [
        |facts: &mut Facts| sender(facts).receive_window = Some(0.4),
        |facts: &mut Facts| up(facts).windows.closed = 0.4,
        |facts: &mut Facts| up(facts).application.unread = Some(0.4),
    ] {
        let mut facts = facts.clone();
        held(&mut facts);
        let (cause, title) = first(&facts);
        assert!(cause == "processor" && title.contains("Other programs on the server"), "{title}");
    }
    // TCP waits for nothing.
    assert_eq!(first(&facts).0, "path");
    // It waited for data most of the time.
    sender(&mut facts).receive_window = Some(0.4);
    up(&mut facts).server.turns = Some(Turns { ran: 0.1, waited: 0.2 });
    assert_ne!(first(&facts).0, "processor");
}

#[test]
fn end_that_waits_longer_is_the_slower_one() {
    let mut facts = good();
    let flow = up(&mut facts);
    flow.client.turns = Some(Turns { ran: 0.4, waited: 0.6 });
    flow.server.turns = Some(Turns { ran: 0.15, waited: 0.84 });
    (flow.application.starved, flow.windows.closed) = (Some(0.5), 0.5);
    assert!(first(&facts).1.starts_with("Other programs on the server"), "{:?}", first(&facts));
    let of_limit =
        |facts: &Facts| diagnose(facts)[0].evidence.iter().any(|line| line.contains("control group"));
    assert!(!of_limit(&facts));
    // So little is left by a limit.
    up(&mut facts).server.turns = Some(Turns { ran: 0.03, waited: 0.95 });
    assert!(of_limit(&facts));
    // One that waits long, and wants little, is no limit.
    up(&mut facts).server.turns = Some(Turns { ran: 0.01, waited: 0.7 });
    assert!(first(&facts).1.starts_with("Other programs on this machine"), "{:?}", first(&facts));
}

#[test]
fn programs_beside_a_full_path_are_not_blamed() {
    let mut facts = good();
    up(&mut facts).client.turns = Some(Turns { ran: 0.06, waited: 0.9 });
    up(&mut facts).application.starved = Some(0.4);
    sender(&mut facts).loaded_rtt = Some(0.09);
    let found = diagnose(&facts);
    assert_eq!(found[0].cause, "path", "{found:?}");
    let waited = "this machine waited 90 % of the time for its turn at a processor, which does not limit it";
    assert!(found[0].evidence.iter().any(|line| line.contains(waited)), "{found:?}");
    // Several connections have more turns, and are faster; or the receiver is late; or nothing is queued.
    facts.throughput.up.together = Some(30e6);
    assert_eq!(first(&facts).0, "processor");
    facts.throughput.up.together = Some(10.5e6);
    sender(&mut facts).receive_window = Some(0.5);
    assert_eq!(first(&facts).0, "processor");
    sender(&mut facts).receive_window = Some(0.0);
    sender(&mut facts).loaded_rtt = Some(0.052);
    assert_eq!(first(&facts).0, "processor");
    // The queue is short, and drops what does not fit.
    let (burst, usual) = (11e6, 10e6);
    let round_trips = (0.07, Some(0.07));
    up(&mut facts).tcp.drops = Some(Drops {
        first: 40.0,
        first_round_trip: round_trips.0,
        later_round_trip: round_trips.1,
        burst,
        usual,
        ..Drops::default()
    });
    assert_eq!(first(&facts).0, "path");
}

#[test]
fn busy_machine_is_told_where_tcp_waits_for_nothing() {
    let mut facts = good();
    up(&mut facts).client.turns = Some(Turns { ran: 0.06, waited: 0.9 });
    // TCP of this machine has data to send all the time.
    up(&mut facts).application.starved = Some(0.1);
    assert_eq!(first(&facts).0, "path");
    // Four connections have more turns, too.
    facts.throughput.up.together = Some(30e6);
    let (cause, title) = first(&facts);
    let undecided =
        "Other programs keep this machine too busy to tell what limits uploads of one connection.";
    assert_eq!((cause, title.as_str()), ("busy_machine", undecided));
    // What is certain is told.
    sender(&mut facts).receive_window = Some(0.9);
    sender(&mut facts).window = Some(520_000.0);
    facts.systems.there = System::from_pairs(&[("tcp_rmem", "4096 131072 1048576")]);
    assert_eq!(first(&facts).0, "receive_buffer");
    sender(&mut facts).receive_window = Some(0.0);
    up(&mut facts).client.turns = Some(Turns { ran: 0.06, waited: 0.2 });
    assert_eq!(first(&facts).0, "congestion_control");
    // As much again could be under way: TCP sends what the process gives it, a little at a time.
    up(&mut facts).client.turns = Some(Turns { ran: 0.3, waited: 0.6 });
    sender(&mut facts).congestion_window = Some(1_200_000.0);
    assert_eq!(first(&facts).0, "processor");
    // Where segments got lost, a congestion window is of the time after that.
    sender(&mut facts).resent = 3.0;
    assert_eq!(first(&facts).0, "busy_machine");
    (sender(&mut facts).resent, sender(&mut facts).congestion_window) = (0.0, Some(600_000.0));
    // The gaps show where looks at TCP do not: after a burst it waits for more.
    up(&mut facts).client.turns = Some(Turns { ran: 0.06, waited: 0.9 });
    sender(&mut facts).busy = Some(0.5);
    assert_eq!(first(&facts).0, "processor");
}

#[test]
fn process_that_is_stopped_is_told_before_what_follows_from_it() {
    let mut facts = good();
    // Recorded with half a second stopped and half a second not: bursts after each stop overflow the queue.
    let flow = up(&mut facts);
    (flow.rate, flow.seconds) = (3.6e6, 4.0);
    flow.server.stopped = Some(Stopped { found: 19, looks: 38 });
    (sender(&mut facts).resent, sender(&mut facts).segments) = (80.0, 10_000.0);
    facts.throughput.up.together = Some(6e6);
    let (cause, title) = first(&facts);
    assert!(cause == "process_stopped" && title.contains("the server 50 % of the time"), "{title}");
    // Three looks of forty are chance.
    up(&mut facts).server.stopped = Some(Stopped { found: 3, looks: 40 });
    assert_ne!(first(&facts).0, "process_stopped");
    up(&mut facts).server.tracer = Some(Tracer { process: 4711, name: "strace".to_owned() });
    up(&mut facts).server.stopped = Some(Stopped { found: 14, looks: 30 });
    let (cause, title) = first(&facts);
    assert!(
        cause == "process_stopped" && title.contains("traced by strace (process 4711), which slows"),
        "{title}"
    );
    // Beside a full path a tracer costs nothing.
    sender(&mut facts).loaded_rtt = Some(0.09);
    facts.throughput.up.together = Some(3.7e6);
    assert!(diagnose(&facts).iter().all(|found| found.cause != "process_stopped"));
    // Queues of the bursts after each stop do not fill the path: TCP had nothing to send between them.
    up(&mut facts).application.starved = Some(0.8);
    assert_eq!(first(&facts).0, "process_stopped");
}

#[test]
fn time_that_the_hypervisor_takes_is_named() {
    let mut facts = good();
    // Recorded on a virtual machine whose neighbours were busy: a third of the time was stolen.
    up(&mut facts).server.stolen = Some(0.33);
    up(&mut facts).server.turns = Some(Turns { ran: 0.62, waited: 0.04 });
    let (cause, title) = first(&facts);
    assert!(
        cause == "processor_stolen" && title.contains("of the server to other virtual machines 33 %"),
        "{title}"
    );
    // The process had nothing to do for most of the time.
    up(&mut facts).server.turns = Some(Turns { ran: 0.2, waited: 0.1 });
    assert_eq!(first(&facts).0, "path");
    // Other programs took more than the hypervisor.
    up(&mut facts).windows.closed = 0.5;
    up(&mut facts).server.turns = Some(Turns { ran: 0.2, waited: 0.75 });
    assert!(first(&facts).1.starts_with("Other programs"), "{:?}", first(&facts));
    // A little is usual.
    up(&mut facts).windows.closed = 0.0;
    up(&mut facts).server.stolen = Some(0.05);
    up(&mut facts).server.turns = Some(Turns { ran: 0.7, waited: 0.2 });
    assert_eq!(first(&facts).0, "path");
}

#[test]
fn quota_of_a_control_group_is_named_with_its_numbers() {
    let mut facts = good();
    let quota = Quota {
        group: "/sys/fs/cgroup/pod".to_owned(),
        is_version_2: true,
        limit: [20_000, 100_000],
        periods: 40,
        throttled: 38,
        seconds: 3.1,
    };
    let flow = up(&mut facts);
    flow.seconds = 4.0;
    // A kernel that counts the time for which the group is stopped as waiting, and one that does not.
    for waited in [0.75, 0.0] {
        let flow = up(&mut facts);
        flow.server.turns = Some(Turns { ran: 0.2, waited });
        flow.server.quota = Some(quota.clone());
        let found = diagnose(&facts);
        assert_eq!(found[0].cause, "processor_quota", "{found:#?}");
        assert!(found[0].title.contains("0.20 cores for the SSH process of the server"), "{:?}", found[0]);
        assert!(found[0].evidence[1].contains("stopped in 38 of 40 periods (95"), "{:?}", found[0]);
        assert!(found[0].change[1].contains("/sys/fs/cgroup/pod/cpu.max"), "{:?}", found[0]);
        assert!(found.iter().all(|finding| finding.cause != "processor"), "{found:#?}");
    }
    // It was stopped in nearly each period, though for less time than it ran and waited elsewhere: seen on a
    // fast machine.
    up(&mut facts).server.turns = Some(Turns { ran: 0.15, waited: 0.0 });
    up(&mut facts).server.quota = Some(Quota { throttled: 39, seconds: 2.6, ..quota.clone() });
    assert_eq!(first(&facts).0, "processor_quota");
    // It was stopped, and did not need more.
    let flow = up(&mut facts);
    flow.server.quota = Some(Quota { throttled: 20, seconds: 0.2, ..quota.clone() });
    (flow.server.turns, flow.server.cpu) = (Some(Turns { ran: 0.15, waited: 0.1 }), Some(0.15));
    assert_ne!(first(&facts).0, "processor_quota");
    // On a machine that other programs load, stops are few and what the group may use is used up.
    let flow = up(&mut facts);
    flow.server.quota = Some(Quota { throttled: 14, periods: 47, seconds: 0.2, ..quota.clone() });
    (flow.server.turns, flow.server.cpu) = (Some(Turns { ran: 0.19, waited: 0.7 }), Some(0.19));
    assert_eq!(first(&facts).0, "processor_quota");
    // What the limit costs there is at most the periods with a stop.
    assert!(diagnose(&facts)[0].gain.starts_with("up to 1.4 times"), "{:?}", diagnose(&facts)[0]);
    // The path is full, so that the process needs no more.
    sender(&mut facts).loaded_rtt = Some(0.09);
    assert_eq!(first(&facts).0, "path");
    sender(&mut facts).loaded_rtt = Some(0.052);
    up(&mut facts).server.cpu = Some(0.1);
    assert_ne!(first(&facts).0, "processor_quota");
}

#[test]
fn process_with_a_low_priority_is_told() {
    let mut facts = good();
    let flow = up(&mut facts);
    flow.server.turns = Some(Turns { ran: 0.02, waited: 0.95 });
    flow.application.unread = Some(0.9);
    flow.server.scheduling = Scheduling { nice: 19, ..Scheduling::default() };
    let (cause, title) = first(&facts);
    assert!(cause == "processor" && title.contains("the server runs with low priority (nice 19)"), "{title}");
    let found = diagnose(&facts).remove(0);
    assert!(found.change[0].contains("renice -n 0 -p $(pgrep sshd)"), "{found:?}");
    // Which part of the processors a process of low priority may expect is not known.
    let scheduling = &mut up(&mut facts).server.scheduling;
    (scheduling.processors, scheduling.runnable) = (Some((2, 2)), Some(2.0));
    assert_eq!(first(&facts).0, "processor");
    up(&mut facts).server.scheduling = Scheduling { is_idle_policy: true, ..Scheduling::default() };
    assert!(first(&facts).1.contains("low priority (SCHED_IDLE)"), "{:?}", first(&facts));
    // The program was started on one processor.
    up(&mut facts).server.scheduling = Scheduling { processors: Some((1, 8)), ..Scheduling::default() };
    let found = diagnose(&facts).remove(0);
    assert!(
        found.evidence.iter().any(|line| line.contains("1 of the 8 processors of the server")),
        "{found:?}"
    );
}

#[test]
fn quota_on_a_busy_machine_is_told_by_what_others_have() {
    let mut facts = good();
    let flow = up(&mut facts);
    flow.windows.closed = 0.5;
    flow.server.turns = Some(Turns { ran: 0.05, waited: 0.95 });
    flow.server.idle = Some(0.0);
    // Four programs and this one on two processors.
    flow.server.scheduling =
        Scheduling { processors: Some((2, 2)), runnable: Some(5.0), ..Scheduling::default() };
    let found = diagnose(&facts).remove(0);
    assert!(found.cause == "processor_quota" && found.title.contains("about 0.05 cores"), "{found:?}");
    assert!(
        found.evidence.iter().any(|line| line.starts_with("5.0 threads wanted the processors")),
        "{found:?}"
    );
    assert!(found.gain.starts_with("20 times and more"), "{found:?}");
    // Forty programs leave it no more.
    up(&mut facts).server.scheduling.runnable = Some(40.0);
    assert!(first(&facts).1.starts_with("Other programs on the server"), "{:?}", first(&facts));
    // Others of its own processor are not known.
    up(&mut facts).server.scheduling =
        Scheduling { processors: Some((1, 2)), runnable: Some(5.0), ..Scheduling::default() };
    assert_eq!(first(&facts).0, "processor");
}

#[test]
fn quota_that_no_file_shows_is_told_by_idle_processors() {
    let mut facts = good();
    up(&mut facts).windows.closed = 0.5;
    up(&mut facts).server.turns = Some(Turns { ran: 0.05, waited: 0.95 });
    assert!(first(&facts).1.starts_with("Other programs on the server"), "{:?}", first(&facts));
    up(&mut facts).server.idle = Some(0.4);
    let (cause, title) = first(&facts);
    let named =
        "A limit of processor time for the SSH process of the server, about 0.05 cores, limits uploads.";
    assert_eq!((cause, title.as_str()), ("processor_quota", named));
    // Also with a queue on the path.
    sender(&mut facts).loaded_rtt = Some(0.09);
    assert_eq!(first(&facts).0, "processor_quota");
    // Other programs use the processors.
    up(&mut facts).server.idle = Some(0.05);
    assert_ne!(first(&facts).0, "processor_quota");
}
