//! Limits at the ends of a connection: windows, buffers, processors, disks.

use lh_metrics::drops::Drops;
use lh_metrics::threads::Usage;

use super::super::diagnose::diagnose;
use super::super::facts::OtherCipher;
use super::{first, good, page_text, sender, up};
use crate::disk::{Disk, Full};
use crate::flow::{Flow, Rekeys, Sender, SshWindows, Stopped, Tracer, Turns};
use crate::quota::Quota;
use crate::shell::System;

#[test]
fn fixed_ssh_window_is_named_with_its_size() {
    let mut facts = good();
    let flow = up(&mut facts);
    (flow.rate, flow.windows.closed) = (38e6, 0.9);
    facts.throughput.up.together = Some(140e6);
    assert_eq!(
        first(&facts),
        ("ssh_window", "The server's fixed SSH window of 2.1 MB limits uploads.".to_owned())
    );
    // Several at a time were refused, or had no time to start.
    facts.throughput.up.together = None;
    assert_eq!(first(&facts).0, "ssh_window");
    assert!(diagnose(&facts)[0].gain.contains("not measured"), "{facts:?}");
    facts.throughput.up.together = Some(30e6);
    assert_eq!(first(&facts).0, "ssh_window");
    // A full queue uses the window up, and several connections are no faster.
    sender(&mut facts).loaded_rtt = Some(0.07);
    assert_ne!(first(&facts).0, "ssh_window");
    sender(&mut facts).loaded_rtt = Some(0.052);
    facts.throughput.up.together = Some(140e6);
    // A window that is closed at a tenth of what it allows waits for the receiver.
    up(&mut facts).rate = 4e6;
    assert_ne!(first(&facts).0, "ssh_window");
}

/// The page shows what was measured over such a path; here are other numbers.
#[test]
fn page_about_measuring_shows_a_finding_as_it_is_printed() {
    let mut facts = good();
    let flow = up(&mut facts);
    (flow.rate, flow.windows.closed) = (38e6, 0.9);
    facts.throughput.up.together = Some(140e6);
    let without_numbers = |text: &str| {
        let numbers = |word: &str| word.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        text.split_whitespace().map(numbers).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let page = without_numbers(include_str!("../../../../../docs/measuring.md"));
    let finding = &diagnose(&facts)[0];
    let evidence = finding.evidence.iter().map(|line| format!("evidence {line}"));
    let change = finding.change.iter().map(|line| format!("change {line}"));
    let shown: Vec<_> = [finding.title.clone()]
        .into_iter()
        .chain(evidence)
        .chain([format!("gain {}", finding.gain)])
        .chain(change)
        .collect();
    let shown = without_numbers(&shown.join(" "));
    assert!(page.contains(&shown), "docs/measuring.md lacks {shown:?}");
    let printed = without_numbers(&page_text(&facts));
    for text in [
        "longhaul doctor:",
        "round trip ms without load",
        "upload MB/s; four connections MB/s; round trip then ms",
    ] {
        assert!(page.contains(text) && printed.contains(text), "{text:?} in {printed:?}");
    }
    assert!(printed.contains(&shown), "{printed:?} lacks {shown:?}");
}

#[test]
fn fixed_window_of_lhsshd_is_named_with_its_keywords() {
    let mut facts = good();
    facts.negotiated.server = "SSH-2.0-Longhaul_0.2.0".to_owned();
    let flow = up(&mut facts);
    flow.rate = 4.9e6;
    flow.windows = SshWindows {
        closed: 0.9,
        server: Some(262_144.0),
        constant: Some(262_144.0),
        ..SshWindows::default()
    };
    facts.throughput.up.together = Some(19e6);
    assert_eq!(
        first(&facts),
        ("ssh_window", "The server's fixed SSH window of 262 kB limits uploads.".to_owned())
    );
    assert!(diagnose(&facts)[0].change[0].contains("HPNDisabled and HPNBufferSize"), "{facts:?}");
    // A slow command: several connections are no faster.
    facts.throughput.up.together = Some(5e6);
    assert_ne!(first(&facts).0, "ssh_window");
    // The window grows.
    facts.throughput.up.together = Some(19e6);
    up(&mut facts).windows.constant = None;
    assert_ne!(first(&facts).0, "ssh_window");
}

#[test]
fn rate_limit_of_the_server_is_named_for_downloads() {
    let mut facts = good();
    let down = facts.throughput.down.flow.as_mut().unwrap();
    down.rate = 1.95e6;
    down.tcp.sender.as_mut().unwrap().paced = Some(2e6);
    let (cause, title) = first(&facts);
    assert!(cause == "pacing" && title.contains("downloads to 2.0 MB/s"), "{title}");
}

#[test]
fn small_receive_buffer_is_named_with_its_sysctl() {
    let mut facts = good();
    *sender(&mut facts) = Sender {
        receive_window: Some(0.9),
        window: Some(65_536.0),
        ..facts.throughput.up.flow.clone().unwrap().tcp.sender.unwrap()
    };
    up(&mut facts).rate = 1.2e6;
    facts.throughput.up.together = Some(4.7e6);
    facts.systems.there = System::from_pairs(&[("tcp_rmem", "4096 65536 131072")]);
    let found = diagnose(&facts);
    assert_eq!(found[0].cause, "receive_buffer");
    assert!(found[0].title.contains("131 kB"), "{:?}", found[0]);
    assert!(found[0].change[0].contains("on the server: sysctl -w net.ipv4.tcp_rmem="), "{:?}", found[0]);
}

#[test]
fn windows_that_are_not_scaled_are_named_with_the_end() {
    let mut facts = good();
    sender(&mut facts).receive_window = Some(0.9);
    sender(&mut facts).window = Some(65_535.0);
    up(&mut facts).rate = 1.2e6;
    up(&mut facts).tcp.scales_windows = Some(false);
    facts.throughput.up.together = Some(4.7e6);
    facts.systems.there =
        System::from_pairs(&[("tcp_rmem", "4096 131072 6291456"), ("tcp_window_scaling", "0")]);
    let found = diagnose(&facts);
    assert_eq!(found[0].cause, "window_scaling");
    let change = &found[0].change[0];
    assert!(change.contains("on the server: sysctl -w net.ipv4.tcp_window_scaling=1"), "{change}");
    // Neither end has switched it off: something between them has.
    facts.systems.there =
        System::from_pairs(&[("tcp_rmem", "4096 131072 6291456"), ("tcp_window_scaling", "1")]);
    assert!(diagnose(&facts)[0].change[0].contains("firewalls"), "{:?}", diagnose(&facts)[0]);
    up(&mut facts).tcp.scales_windows = Some(true);
    assert_ne!(first(&facts).0, "window_scaling");
}

#[test]
fn buffers_that_a_program_has_set_are_told_from_the_system_s() {
    let mut facts = good();
    sender(&mut facts).receive_window = Some(0.9);
    sender(&mut facts).window = Some(200_000.0);
    up(&mut facts).rate = 3.9e6;
    facts.throughput.up.together = Some(9.8e6);
    facts.systems.there = System::from_pairs(&[("tcp_rmem", "4096 131072 6291456")]);
    let (cause, title) = first(&facts);
    assert!(cause == "receive_buffer" && title.contains("a program has set it to about 200 kB"), "{title}");
    // A slow receiver closes its window too, and several connections are no faster.
    facts.throughput.up.together = Some(4e6);
    assert_ne!(first(&facts).0, "receive_buffer");
    facts.throughput.up.together = Some(9.8e6);
    sender(&mut facts).receive_window = Some(0.0);
    sender(&mut facts).send_buffer = Some(0.9);
    facts.systems.here = System::from_pairs(&[("tcp_wmem", "4096 16384 4194304")]);
    let (cause, title) = first(&facts);
    assert!(cause == "send_buffer" && title.contains("a program has set it to about 195 kB"), "{title}");
}

#[test]
fn settings_that_hold_a_receive_buffer_are_named() {
    let mut facts = good();
    sender(&mut facts).receive_window = Some(0.9);
    sender(&mut facts).window = Some(65_536.0);
    up(&mut facts).rate = 1.2e6;
    facts.throughput.up.together = Some(4.7e6);
    let buffers = ("tcp_rmem", "4096 131072 6291456");
    facts.systems.there = System::from_pairs(&[buffers, ("tcp_moderate_rcvbuf", "0")]);
    let (cause, title) = first(&facts);
    assert!(cause == "receive_buffer" && title.contains("stays at the 131 kB"), "{title}");
    facts.systems.there =
        System::from_pairs(&[buffers, ("tcp_moderate_rcvbuf", "1"), ("route", "10.0.0.1 window 65535")]);
    let (cause, title) = first(&facts);
    assert!(cause == "receive_buffer" && title.contains("A route of the server limits"), "{title}");
    facts.systems.there = System::from_pairs(&[buffers, ("tcp_moderate_rcvbuf", "1")]);
    assert!(first(&facts).1.contains("a program has set it"), "{:?}", first(&facts));
}

#[test]
fn processor_that_others_use_is_told_from_one_that_ssh_uses() {
    let mut facts = good();
    up(&mut facts).server.turns = Some(Turns { ran: 0.3, waited: 0.65 });
    let (cause, title) = first(&facts);
    assert!(cause == "processor" && title.contains("Other programs on the server"), "{title}");
    // It waited for data most of the time.
    up(&mut facts).server.turns = Some(Turns { ran: 0.1, waited: 0.2 });
    assert_ne!(first(&facts).0, "processor");
}

#[test]
fn end_that_waits_longer_is_the_slower_one() {
    let mut facts = good();
    let flow = up(&mut facts);
    flow.client.turns = Some(Turns { ran: 0.4, waited: 0.6 });
    flow.server.turns = Some(Turns { ran: 0.15, waited: 0.84 });
    assert!(first(&facts).1.starts_with("Other programs on the server"), "{:?}", first(&facts));
    // One that waits long, and wants little, is no limit.
    up(&mut facts).server.turns = Some(Turns { ran: 0.01, waited: 0.7 });
    assert!(first(&facts).1.starts_with("Other programs on this machine"), "{:?}", first(&facts));
}

#[test]
fn programs_beside_a_full_path_are_not_blamed() {
    let mut facts = good();
    up(&mut facts).client.turns = Some(Turns { ran: 0.06, waited: 0.9 });
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
    up(&mut facts).server.turns = Some(Turns { ran: 0.2, waited: 0.75 });
    assert!(first(&facts).1.starts_with("Other programs"), "{:?}", first(&facts));
    // A little is usual.
    up(&mut facts).server.stolen = Some(0.05);
    up(&mut facts).server.turns = Some(Turns { ran: 0.7, waited: 0.2 });
    assert_eq!(first(&facts).0, "path");
}

#[test]
fn slower_direction_of_an_asymmetric_line_comes_first() {
    let mut facts = good();
    facts.throughput.down.flow.as_mut().unwrap().rate = 0.6e6;
    facts.throughput.down.together = Some(0.62e6);
    let found = diagnose(&facts);
    assert!(found[0].cause == "path" && found[0].title.contains("620 kB/s on downloads"), "{found:?}");
    assert!(
        found[0].evidence.iter().any(|line| line.contains("16.9 times as much passes on uploads")),
        "{found:?}"
    );
    let (cause, title) = first(&facts);
    assert!(cause == "path" && title.contains("downloads"), "{title}");
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
fn processor_is_judged_by_the_busiest_thread() {
    let mut facts = good();
    let usage = |share| Usage { busiest: "packets".to_owned(), share, taking_part: 3 };
    up(&mut facts).client.cpu = Some(1.2);
    up(&mut facts).client.threads = Some(usage(0.45));
    assert_eq!(first(&facts).0, "path");
    up(&mut facts).client.threads = Some(usage(0.97));
    let (cause, title) = first(&facts);
    assert!(cause == "processor" && title.contains("SSH's thread packets uses"), "{title}");
}

#[test]
fn busy_processor_is_named_with_the_faster_cipher() {
    let mut facts = good();
    up(&mut facts).client.cpu = Some(0.99);
    let name = "aes128-gcm@openssh.com".to_owned();
    facts.other_settings.cipher = Some(OtherCipher::Measured { name: name.clone(), rate: 30e6 });
    let found = diagnose(&facts);
    assert!(found[0].cause == "processor" && found[0].gain.starts_with("3.0 times"), "{:?}", found[0]);
    facts.other_settings.cipher = Some(OtherCipher::Refused { name });
    let found = diagnose(&facts);
    assert!(found[0].change[0].starts_with("at the server: Ciphers +aes128-gcm"), "{:?}", found[0]);
}

#[test]
fn frequent_key_exchanges_are_named() {
    let mut facts = good();
    let flow = facts.throughput.up.flow.clone().unwrap();
    *up(&mut facts) = Flow { rekeys: Rekeys { count: 8, bytes_each: 1e6 }, seconds: 4.0, ..flow.clone() };
    facts.other_settings.without_rekeys = Some(3.0 * flow.rate);
    let (cause, title) = first(&facts);
    assert!(cause == "rekeying" && title.contains("after each 1.0 MB"), "{title}");
    // They cost nothing.
    facts.other_settings.without_rekeys = Some(1.1 * flow.rate);
    assert_ne!(first(&facts).0, "rekeying");
}

#[test]
fn compression_that_slows_is_named() {
    let mut facts = good();
    facts.other_settings.compressed = facts.throughput.up.flow.as_ref().map(|flow| flow.rate / 3.0);
    let (cause, title) = first(&facts);
    assert!(cause == "compression" && title.contains("do not compress"), "{title}");
    facts.other_settings.compressed = facts.throughput.up.flow.as_ref().map(|flow| flow.rate * 0.9);
    assert_ne!(first(&facts).0, "compression");
}

#[test]
fn slow_disk_is_named_with_both_rates() {
    let mut facts = good();
    facts.disks.there =
        Some(Disk { directory: "/slow".to_owned(), rate: 2e6, read_rate: None, bytes: 4e6, full: None });
    let (cause, title) = first(&facts);
    assert!(cause == "disk" && title.contains("/slow") && title.contains("2.0 MB/s"), "{title}");
}

#[test]
fn full_disk_comes_before_a_slow_one() {
    let mut facts = good();
    let said = "dd: error writing 'standard output': No space left on device".to_owned();
    let full = Some(Full { wanted: 16e6, said, free: Some(9e6), is_of_file: false, limit: None });
    // A smaller file was written, slowly.
    let slow = Disk { directory: "/full".to_owned(), rate: 2e6, read_rate: None, bytes: 2e6, full };
    facts.disks.there = Some(slow.clone());
    let found = diagnose(&facts);
    let causes: Vec<_> = found.iter().map(|finding| finding.cause).collect();
    assert!(causes.starts_with(&["disk_full", "disk"]), "{causes:?}");
    assert!(
        found[0].title.contains("of the server (/full)") && found[0].evidence[1].contains("9.0 MB"),
        "{found:?}"
    );
    // No file was.
    facts.disks.there = None;
    facts.disks.here = Some(Disk { rate: 0.0, bytes: 0.0, ..slow });
    let causes: Vec<_> = diagnose(&facts).iter().map(|finding| finding.cause).collect();
    assert!(causes[0] == "disk_full" && !causes.contains(&"disk"), "{causes:?}");
    let page = crate::doctor::page::text(&facts, &diagnose(&facts), 30.0);
    assert!(!page.contains("write 0"), "{page}");
}

#[test]
fn disk_that_reads_slowly_limits_the_other_direction() {
    let mut facts = good();
    let slow =
        Disk { directory: "/slow".to_owned(), rate: 900e6, read_rate: Some(2e6), bytes: 4e6, full: None };
    facts.disks.there = Some(slow.clone());
    let (cause, title) = first(&facts);
    assert!(cause == "disk" && title.contains("The disk of the server (/slow) gives 2.0 MB/s"), "{title}");
    assert!(title.contains("downloads"), "{title}");
    facts.disks.there = None;
    facts.disks.here = Some(slow);
    let (cause, title) = first(&facts);
    assert!(cause == "disk" && title.contains("this machine") && title.contains("uploads"), "{title}");
}
