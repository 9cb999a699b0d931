//! The doctor's page, and the same as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::facts::{Facts, IdleEnd, Losses, Mark, OtherControl, SharedRate};
use super::finding::Finding;
use super::jitter;
use crate::disk::Disk;
use crate::flow::{Direction, Flow, Pauses, Sender, Shaper};
use crate::memory::MemoryGroup;
use crate::probe::Segments;
use crate::quota::Quota;
use crate::stats::{lowest, median, percent, rate, time};

/// Version of the JSON. It rises when a member is taken away or changes its meaning.
const VERSION: u64 = 1;
/// Columns of the page.
const WIDTH: usize = 100;

pub(super) fn text(facts: &Facts, findings: &[Finding], seconds: f64) -> String {
    let mut out = String::new();
    let server = if facts.negotiated.server.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.negotiated.server)
    };
    let _ = writeln!(out, "longhaul doctor: {}{server}, {seconds:.0} s\n", facts.run.host);
    for line in summary(facts) {
        let _ = writeln!(out, "  {line}");
    }
    out.push('\n');
    let verdicts: Vec<&Finding> = findings.iter().filter(|finding| finding.weight > 0.0).collect();
    if verdicts.is_empty() {
        let is_judged = |direction| facts.throughput.flow(direction).is_some_and(Flow::is_significant);
        out.push_str(if Direction::BOTH.into_iter().all(is_judged) {
            "No setting and no program was found that limits this path.\n\n"
        } else {
            "Nothing that was measured is slow; transfers were not measured, or not in both directions.\n\n"
        });
    }
    for (index, finding) in findings.iter().enumerate() {
        let _ = writeln!(out, "{}. {}", index + 1, finding.title);
        for line in &finding.evidence {
            wrapped("evidence", line, &mut out);
        }
        wrapped("gain", &finding.gain, &mut out);
        for line in &finding.change {
            wrapped("change", line, &mut out);
        }
        out.push('\n');
    }
    for direction in Direction::BOTH {
        if let Some(flow) = facts.throughput.flow(direction).filter(|flow| !flow.is_significant()) {
            let why = flow.failure.as_deref().unwrap_or("the transfer was too short");
            let _ = writeln!(out, "No verdict on {}s: {} samples ({why}).", direction.name(), flow.samples);
        }
    }
    for missing in &facts.run.missing {
        let _ = writeln!(out, "Not measured: {}.", missing.trim_end_matches(['.', ' ']));
    }
    out
}

/// Label and text, with the label in a column of its own.
fn wrapped(label: &str, text: &str, out: &mut String) {
    let indent = 14;
    let mut line = format!("   {label:<indent$}", indent = indent - 3);
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn summary(facts: &Facts) -> Vec<String> {
    let mut lines = vec![format!("round trip   {} without load", time(facts.round_trip()))];
    for direction in Direction::BOTH {
        let Some(flow) = facts.throughput.significant(direction) else {
            continue;
        };
        let together = facts
            .throughput
            .together(direction)
            .map(|together| format!("; four connections {}", rate(together)));
        let loaded = flow.tcp.sender.as_ref().and_then(|sender| sender.loaded_rtt);
        let loaded = loaded.map(|loaded| format!("; round trip then {}", time(loaded)));
        let loss =
            flow.loss().filter(|loss| *loss > 0.0).map(|loss| format!("; {} sent again", percent(loss)));
        lines.push(format!(
            "{:<12} {}{}{}{}",
            direction.name(),
            rate(flow.rate),
            together.unwrap_or_default(),
            loaded.unwrap_or_default(),
            loss.unwrap_or_default()
        ));
    }
    if let Some(login) = facts.logins.median() {
        lines.push(format!("login        {} with a command that does nothing", time(login)));
    }
    if let Some(shell) = facts.shell.as_ref().and_then(|shell| median(shell.interactive.iter().copied())) {
        lines.push(format!("shell        {} with a terminal", time(shell)));
    }
    let disks = [("the server", &facts.disks.there), ("this machine", &facts.disks.here)];
    let disks: Vec<String> = disks
        .into_iter()
        .filter_map(|(end, disk)| {
            let disk = disk.as_ref().filter(|disk| disk.is_measured())?;
            let read = disk.read_rate.map_or_else(String::new, |read| format!(", read {}", rate(read)));
            Some(format!("{end}: write {}{read}", rate(disk.rate)))
        })
        .collect();
    if !disks.is_empty() {
        lines.push(format!("disks        {}", disks.join("; ")));
    }
    if let Some((write, read)) = facts.sftp.file.and_then(|rates| rates.write.zip(rates.read)) {
        lines.push(format!("SFTP file    write {}, read {}", rate(write), rate(read)));
    }
    lines
}

/// The object of a run that has found nothing out.
pub(super) fn failure(host: &str, why: &str) -> Value {
    json!({ "longhaul_doctor": VERSION, "host": host, "error": why })
}

pub(super) fn json(facts: &Facts, findings: &[Finding], seconds: f64) -> Value {
    let quota = |quota: Option<&Quota>| {
        quota.map(|quota| {
            json!({
                "cores": quota.cores(), "periods": quota.periods, "throttled_periods": quota.throttled,
                "throttled_seconds": quota.seconds,
            })
        })
    };
    let memory = |group: &MemoryGroup| {
        json!({
            "limit_bytes": group.limit, "tcp_limit_bytes": group.tcp_limit, "tcp_used_bytes": group.tcp_used,
            "tcp_limit_reached": group.tcp_short,
            "limit_reached": group.reached, "killed_processes": group.killed, "stalled_seconds": group.stalled,
        })
    };
    let shaper = |shaper: &Shaper| {
        json!({
            "device": shaper.device, "kind": shaper.kind, "handle": shaper.handle,
            "bytes_per_second": shaper.rate, "of_each_connection": shaper.is_of_each,
            "delayed_packets": shaper.delayed, "dropped_packets": shaper.dropped,
        })
    };
    let pauses = |pauses: &Pauses| json!({ "count": pauses.count, "seconds": pauses.seconds, "longest_seconds": pauses.longest });
    let flow = |direction| {
        let flow = facts.throughput.flow(direction)?;
        Some(json!({
            "bytes_per_second": flow.rate,
            "together_bytes_per_second": facts.throughput.together(direction),
            "samples": flow.samples,
            "moved_bytes": flow.moved,
            "loss": flow.loss(),
            "loss_together": facts.throughput.lost_together(direction).map(Losses::part),
            "spurious_segments": flow.tcp.sender.as_ref().map(|sender| sender.spurious),
            "duplicated_segments": flow.tcp.sender.as_ref().map(Sender::duplicated),
            "marked_packets": flow.packets.marked,
            "overtaken_segments": flow.tcp.sender.as_ref().map(|sender| sender.reordered),
            "losses": flow.tcp.drops.as_ref().map(|course| json!({
                "of_start": course.first,
                "later": course.later,
                "returned": course.returned,
                "rtt_seconds": course.round_trip(),
                "burst_bytes_per_second": course.burst,
            })),
            "loaded_rtt_seconds": flow.tcp.sender.as_ref().and_then(|sender| sender.loaded_rtt),
            "ping_seconds": flow.ping,
            "client_cores": flow.client.cpu,
            "server_cores": flow.server.cpu,
            "client_thread_cores": flow.client.threads.as_ref().map(|usage| usage.share),
            "server_thread_cores": flow.server.threads.as_ref().map(|usage| usage.share)
                .or_else(|| flow.server.turns.map(|turns| turns.ran)),
            "client_quota": quota(flow.client.quota.as_ref()),
            "server_quota": quota(flow.server.quota.as_ref()),
            "client_memory": flow.client.memory.as_ref().map(memory),
            "server_memory": flow.server.memory.as_ref().map(memory),
            "pauses": pauses(&flow.pauses),
            "client_stolen": flow.client.stolen,
            "server_stolen": flow.server.stolen,
            "client_idle": flow.client.idle,
            "server_idle": flow.server.idle,
            "server_stopped": flow.server.stopped.and_then(|stopped| stopped.part()),
            "server_tracer": flow.server.tracer.as_ref().map(|tracer| json!({
                "process": tracer.process, "name": tracer.name,
            })),
            "client_waited": flow.client.turns.map(|turns| turns.waited),
            "server_waited": flow.server.turns.map(|turns| turns.waited),
            "server_starved": flow.application.starved.filter(|_| direction == Direction::Down),
            "client_starved": flow.application.starved.filter(|_| direction == Direction::Up),
            "server_unread": flow.application.unread,
            "command_bytes_per_second": flow.application.taken,
            "ssh_window_bytes": flow.windows.server,
            "ssh_window_used_up": (direction == Direction::Up).then_some(flow.windows.closed),
            "shapers": flow.packets.shapers.iter().map(shaper).collect::<Vec<_>>(),
            "failure": flow.failure,
        }))
    };
    let logins: Vec<Value> = facts
        .logins
        .timed
        .iter()
        .map(|login| {
            login.iter().map(|(stage, seconds)| (stage.name().to_owned(), json!(seconds))).collect::<Value>()
        })
        .collect();
    let disk = |disk: &Option<Disk>| {
        disk.as_ref().map(|disk| {
            let rate = disk.is_measured().then_some(disk.rate);
            json!({
                "directory": disk.directory, "bytes_per_second": rate, "read_bytes_per_second": disk.read_rate,
                "full": disk.full.as_ref().map(|full| json!({
                    "file_bytes": full.wanted, "free_bytes": full.free, "file_limit_bytes": full.limit,
                })),
            })
        })
    };
    let sftp_file = facts
        .sftp
        .file
        .map(|rates| json!({ "write_bytes_per_second": rates.write, "read_bytes_per_second": rates.read }));
    let shared = facts.master.as_ref().map(|master| {
        let of_rate = |rate: &SharedRate| {
            json!({
                "direction": rate.direction.name(), "bytes_per_second": rate.through,
                "alone_bytes_per_second": rate.alone,
            })
        };
        let rates: Vec<Value> = master.rates.iter().map(of_rate).collect();
        json!({ "socket": master.socket, "answers": !master.is_silent, "rates": rates })
    });
    let of_mark = |mark: &Mark| {
        json!({
            "direction": mark.direction.name(), "service": mark.service, "with_bytes_per_second": mark.with,
            "without_bytes_per_second": mark.without,
        })
    };
    let marks: Vec<Value> = facts.throughput.marks.iter().map(of_mark).collect();
    let home = facts.logins.home.as_ref().map(|home| {
        let each = |seconds: f64| (home.files > 0).then(|| seconds / home.files as f64);
        json!({
            "directory": home.directory, "files": home.files, "authorized_keys_bytes": home.keys_bytes,
            "seconds_per_file": each(home.seconds), "seconds_per_file_of_etc": each(home.elsewhere),
        })
    });
    json!({
        "longhaul_doctor": VERSION,
        "time": lh_sys::time::utc_text(std::time::SystemTime::now()),
        "seconds": seconds,
        "host": facts.run.host,
        "server": facts.negotiated.server,
        "cipher": facts.negotiated.cipher,
        "mac": Some(&facts.negotiated.mac).filter(|mac| !mac.is_empty()),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "measured": {
            "rtt_seconds": facts.round_trip(),
            "tcp_rtt_seconds": facts.path.reached.as_ref().map(|reached| reached.connect),
            "ssh_rtt_spread_seconds": jitter::quantiles(&facts.path.pings),
            "ssh_rtt_waited_seconds": facts.path.pings_waited,
            "small_packets": facts.path.small_packets.map(|small| json!({
                "segments": small.sent, "resent": small.resent, "duplicates": small.duplicates,
            })),
            "ssh_rtt_seconds": lowest(facts.path.pings.iter().copied()),
            "offered_keys": facts.logins.offers,
            "agent_signing_seconds": facts.logins.agent_signing,
            "unanswered_addresses": facts.path.reached.as_ref().map(|reached| {
                let all = reached.tried.iter();
                all.map(|(address, seconds)| json!({ "address": address.to_string(), "seconds": seconds })).collect::<Vec<_>>()
            }),
            "sftp_seconds": facts.sftp.starts,
            "sftp_refusal": facts.sftp.refusal,
            "sftp_file": sftp_file,
            "upload_below_policer": facts.other_settings.below_policer.map(|below| json!({
                "limit_bytes_per_second": below.limit, "bytes_per_second": below.rate, "loss": below.lost,
                "above_bytes_per_second": below.above.map(|(rate, _)| rate), "above_loss": below.above.map(|(_, lost)| lost),
            })),
            "upload_other_control": facts.other_settings.congestion_control.as_ref().map(|tried| match tried {
                OtherControl::Measured { name, rate, full_window } => json!({
                    "name": name, "bytes_per_second": rate, "full_window_bytes": full_window.map(|full| full.bytes),
                    "full_window_waited": full_window.map(|full| full.waited),
                }),
                OtherControl::Overruled { name } => json!({ "name": name }),
            }),
            "upload": flow(Direction::Up),
            "download": flow(Direction::Down),
            "jump_host": facts.jump_host.as_ref().map(|jump_host| json!({
                "name": jump_host.name,
                "rtt_seconds": lowest(jump_host.pings.iter().copied()),
                "upload_bytes_per_second": jump_host.up.as_ref().map(|flow| flow.rate),
                "download_bytes_per_second": jump_host.down.as_ref().map(|flow| flow.rate),
            })),
            "shared_connection": shared,
            "idle_session": facts.idle_session.as_ref().map(|idle| json!({
                "seconds": idle.seconds, "answered": idle.end == IdleEnd::Answered,
            })),
            "logins_seconds": logins,
            "shell_seconds": facts.shell.as_ref().map(|shell| shell.interactive.clone()),
            "command_seconds": facts.shell.as_ref().map(|shell| shell.command.clone()),
            "reverse_lookup_seconds": facts.logins.reverse_lookup,
            "user_lookup_seconds": facts.logins.user_lookup,
            "home": home,
            "disk_here": disk(&facts.disks.here),
            "disk_there": disk(&facts.disks.there),
            "path_mtu_bytes": facts.path.segments.map(Segments::path_mtu),
            "path_mtu_from_server_bytes": facts.path.swallowed.map(Segments::path_mtu),
            "marks": marks,
        },
        "steps": facts.run.steps.iter().map(|(name, seconds)| json!({ "name": name, "seconds": seconds })).collect::<Vec<_>>(),
        "missing": facts.run.missing,
    })
}
