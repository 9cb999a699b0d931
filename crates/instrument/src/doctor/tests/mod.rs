//! Causes from facts.

mod congestion;
mod delays;
mod ends;
mod faults;
mod packets;
mod policers;
mod processors;
mod sftp_rates;
mod shapers;
mod starved;
mod virtual_path;
mod virtual_time;
mod waits;

use super::diagnose::diagnose;
use super::facts::{
    DirectionThroughput, Disks, Facts, Logins, Negotiated, PathAtRest, Run, Shell, Throughput,
};
use super::page;
use crate::disk::Disk;
use crate::flow::{EndUsage, Flow, Sender, SshWindows, Tcp};
use crate::shell::System;
use crate::stage::Stage;

/// A path of 50 ms that one connection fills at 10 MB/s.
fn good() -> Facts {
    let sender = Sender {
        receive_window: Some(0.0),
        send_buffer: Some(0.0),
        busy: Some(0.95),
        segments: 30_000.0,
        segment: 1448.0,
        congestion_window: Some(600_000.0),
        congestion_control: Some("cubic".to_owned()),
        loaded_rtt: Some(0.052),
        ..Sender::default()
    };
    let flow = Flow {
        rate: 10e6,
        samples: 50,
        windows: SshWindows { server: Some(2_097_152.0), ..SshWindows::default() },
        tcp: Tcp { least_rtt: Some(0.05), sender: Some(sender), ..Tcp::default() },
        client: EndUsage { cpu: Some(0.2), ..EndUsage::default() },
        server: EndUsage { cpu: Some(0.2), ..EndUsage::default() },
        ..Flow::default()
    };
    let transfers = DirectionThroughput { flow: Some(flow), together: Some(10.5e6), lost_together: None };
    let disk = Disk {
        directory: "/home/u".to_owned(),
        rate: 200e6,
        read_rate: Some(300e6),
        bytes: 64e6,
        full: None,
    };
    let login = vec![
        (Stage::Connect, 0.05),
        (Stage::KeyExchange, 0.2),
        (Stage::Approval, 0.06),
        (Stage::Session, 0.06),
        (Stage::Command, 0.07),
    ];
    Facts {
        run: Run { host: "h".to_owned(), ..Run::default() },
        negotiated: Negotiated {
            server: "SSH-2.0-OpenSSH_10.0".to_owned(),
            cipher: "chacha20-poly1305@openssh.com".to_owned(),
            mac: String::new(),
        },
        logins: Logins { timed: vec![login.clone(), login], ..Logins::default() },
        path: PathAtRest { pings: vec![0.05], ..PathAtRest::default() },
        throughput: Throughput { up: transfers.clone(), down: transfers, ..Throughput::default() },
        shell: Some(Shell {
            interactive: vec![0.2, 0.2],
            command: vec![0.06, 0.06],
            slowest: None,
            slowest_file: None,
        }),
        disks: Disks { there: Some(disk), ..Disks::default() },
        ..Facts::default()
    }
}

fn up(facts: &mut Facts) -> &mut Flow {
    facts.throughput.up.flow.as_mut().unwrap()
}

fn sender(facts: &mut Facts) -> &mut Sender {
    up(facts).tcp.sender.as_mut().unwrap()
}

/// The first cause, which has a gain, evidence and, unless it is the path, something to change.
fn page_text(facts: &Facts) -> String {
    page::text(facts, &diagnose(facts), 30.0)
}

fn first(facts: &Facts) -> (&'static str, String) {
    let found = diagnose(facts);
    let text = page::text(facts, &found, 30.0);
    let first = found.into_iter().next().expect("a finding");
    assert!(!first.gain.is_empty() && !first.evidence.is_empty(), "{first:?}");
    assert!(first.cause == "path" || !first.change.is_empty(), "{first:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
    (first.cause, first.title)
}

#[test]
fn a_full_path_is_no_fault_of_its_ends() {
    let facts = good();
    let (cause, title) = first(&facts);
    assert_eq!(cause, "path", "{title}");
    assert!(page::text(&facts, &diagnose(&facts), 30.0).contains("No setting and no program"));
}

#[test]
fn slow_proxy_is_no_fault_of_a_buffer() {
    let mut facts = good();
    facts.path.is_proxied = true;
    facts.systems.here = System::from_pairs(&[("tcp_rmem", "4096 131072 33554432")]);
    let down = facts.throughput.down.flow.as_mut().unwrap();
    down.rate = 1.8e6;
    let sender = down.tcp.sender.as_mut().unwrap();
    (sender.receive_window, sender.window) = (Some(0.92), Some(82_000.0));
    facts.throughput.down.together = Some(7.9e6);
    let (cause, title) = first(&facts);
    assert!(cause == "proxy" && title.contains("1.8 MB/s for each connection on downloads"), "{title}");
    let evidence = diagnose(&facts).remove(0).evidence;
    assert!(evidence[1].ends_with("its largest window was 82.0 kB"), "{evidence:?}");
    // Without a proxy it is this machine's buffer.
    facts.path.is_proxied = false;
    assert_eq!(first(&facts).0, "receive_buffer");
}

#[test]
fn text_of_start_up_files_is_named() {
    let mut facts = good();
    facts.systems.there.noise = Some("Welcome".to_owned());
    let (cause, title) = first(&facts);
    assert!(cause == "shell_output" && title.contains("\"Welcome\""), "{title}");
}

#[test]
fn too_few_samples_give_no_verdict_on_throughput() {
    let mut facts = good();
    let flow = up(&mut facts);
    (flow.samples, flow.windows.closed) = (3, 1.0);
    facts.throughput.down.flow = None;
    let found = diagnose(&facts);
    assert!(found.is_empty(), "{found:?}");
    assert!(page::text(&facts, &found, 3.0).contains("No verdict on uploads: 3 samples"));
}
