//! Limits at the ends of a connection: windows, buffers, ciphers, disks.

use lh_metrics::threads::Usage;

use super::super::diagnose::diagnose;
use super::super::facts::{OtherCipher, Unwritable};
use super::{first, good, page_text, sender, up};
use crate::disk::{Disk, Full};
use crate::flow::{Flow, Rekeys, Sender, SshWindows, Turns};
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
fn receive_buffer_is_named_where_load_lengthens_a_short_round_trip() {
    // Recorded over 0.3 ms between two busy processors, with a receive buffer of 32 KiB.
    let mut facts = good();
    facts.path.pings = vec![0.0003];
    *sender(&mut facts) = Sender {
        receive_window: Some(0.96),
        window: Some(59_264.0),
        congestion_window: Some(112_944.0),
        loaded_rtt: Some(0.000_686),
        ..sender(&mut facts).clone()
    };
    let flow = up(&mut facts);
    (flow.rate, flow.tcp.least_rtt) = (59e6, Some(0.0003));
    flow.server.turns = Some(Turns { ran: 0.08, waited: 0.27 });
    facts.throughput.up.together = Some(103e6);
    facts.systems.there = System::from_pairs(&[("tcp_rmem", "4096 16384 32768")]);
    let (cause, title) = first(&facts);
    assert!(cause == "receive_buffer" && title.contains("32.8 kB at most"), "{title}");
    // A server that waits for its turn most of the time keeps the window small itself.
    up(&mut facts).server.turns = Some(Turns { ran: 0.2, waited: 0.7 });
    assert_ne!(first(&facts).0, "receive_buffer");
    up(&mut facts).server.turns = Some(Turns { ran: 0.08, waited: 0.27 });
    up(&mut facts).application.unread = Some(0.5);
    assert_ne!(first(&facts).0, "receive_buffer");
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
    // The server's limit cannot be taken away from here; which end begins an exchange is not known.
    facts.other_settings.without_rekeys = None;
    up(&mut facts).rekeys.count = 20;
    let found = diagnose(&facts);
    let of_uploads = found.iter().find(|found| found.cause == "rekeying").unwrap();
    assert!(of_uploads.gain.starts_with("about 1.6 to 3.5 times"), "{of_uploads:?}");
    assert!(!of_uploads.gain.contains("up to"), "{of_uploads:?}");
    // TCP has no time to grow between them; a direction without them shows what the path carries.
    up(&mut facts).rate = flow.rate / 20.0;
    facts.throughput.up.together = Some(flow.rate / 5.0);
    let found = diagnose(&facts);
    let of_uploads = found.iter().find(|found| found.cause == "rekeying").unwrap();
    assert!(of_uploads.gain.contains("; up to 21.0 times"), "{of_uploads:?}");
    // They cost nothing.
    up(&mut facts).rate = flow.rate;
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

#[test]
fn directory_without_write_permission_is_named() {
    let mut facts = good();
    let at_home = ("the server", ".", "Read-only file system");
    let here = ("this machine", "/mnt", "Permission denied");
    facts.disks.unwritable = [at_home, here]
        .map(|(end, directory, said)| Unwritable { end, directory: directory.to_owned(), said })
        .to_vec();
    let found = diagnose(&facts);
    let titles: Vec<&str> = found.iter().map(|found| found.title.as_str()).take(2).collect();
    assert_eq!(
        titles,
        [
            "No file can be made in the home directory of the server: Read-only file system.",
            "No file can be made in /mnt of this machine: Permission denied."
        ]
    );
    assert!(found[0].change[1].contains("--remote-dir"), "{found:?}");
    // What slows transfers comes before.
    facts.throughput.up.together = Some(80e6);
    assert_eq!(first(&facts).0, "congestion_control");
}
