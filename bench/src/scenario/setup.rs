//! Cost of a session: connect, key exchange, public-key authentication, `true`, end.

use std::process::{Command, Stdio};

use crate::bench::{Bench, KEY_KINDS, groups};
use crate::contestant::{Contestants, Kind, Task, Variation};
use crate::job::{self, Sample};
use crate::stats::Better;
use crate::table::{Entry, Measured, Role, Table, interleave};

/// Consecutive sessions of which one value is the mean.
const IN_A_ROW: u64 = 10;
/// Like [`IN_A_ROW`], for the many variations.
const FEW_IN_A_ROW: u64 = 3;

/// Key exchange that is also measured with groups of each size.
const SIZED_KEX: &str = "diffie-hellman-group-exchange-sha256";

/// Runs the programs' default algorithms first, then every key exchange and every key type.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let rounds = bench.options.rounds;
    let times = if bench.options.smoke { 1 } else { IN_A_ROW };
    let mut tables =
        vec![table(bench, field, "as the programs choose", &Variation::default(), times, rounds)];
    let few = FEW_IN_A_ROW.min(times);
    let kexes = kex_names(field);
    for name in kexes.iter().take(if bench.options.smoke { 1 } else { kexes.len() }) {
        let with = Variation { kex: Some(name.clone()), ..Variation::default() };
        tables.push(table(bench, field, &format!("key exchange {name}"), &with, few, rounds));
        if name == SIZED_KEX && !bench.options.smoke {
            for bits in groups::write(bench)? {
                let with = Variation { group_bits: Some(bits), ..with.clone() };
                tables.push(table(
                    bench,
                    field,
                    &format!("key exchange {name} of {bits} bits"),
                    &with,
                    few,
                    rounds,
                ));
            }
        }
    }
    if !bench.options.smoke {
        for (kind, ..) in KEY_KINDS {
            let with = Variation { host_key: Some(kind), ..Variation::default() };
            tables.push(table(bench, field, &format!("host key {kind}"), &with, few, rounds));
        }
        for (kind, ..) in KEY_KINDS {
            let with = Variation { user_key: Some(kind), ..Variation::default() };
            tables.push(table(bench, field, &format!("user key {kind}"), &with, few, rounds));
        }
    }
    Ok(tables)
}

fn table(
    bench: &Bench,
    field: &Contestants,
    what: &str,
    with: &Variation,
    times: u64,
    rounds: usize,
) -> Table {
    let mut entries = Vec::new();
    for who in field.all.iter().filter(|who| !matches!(who.kind, Kind::Mover { .. })) {
        let supported = match (&who.kind, &with.kex) {
            (Kind::Suite { ssh, .. }, Some(kex)) => query(ssh, "kex").iter().any(|name| name == kex),
            _ => true,
        };
        let (Some(server), Some(client)) =
            (who.server(bench, with), who.client(bench, with, &Task::Nothing(times)))
        else {
            continue;
        };
        if supported {
            entries.push(Entry::new(&who.name, who.role(), move || {
                Ok(per_session(&job::run(bench, Some(&server), &client)?, times))
            }));
        }
    }
    if with.kex.is_none() && with.host_key.is_none() && with.user_key.is_none() {
        let nothing = job::Client {
            repeat: times,
            ..job::Client::new(job::Program::new(std::path::Path::new("true"), Vec::<String>::new()))
        };
        entries.push(Entry::new("starting true", Role::Ceiling, move || {
            Ok(per_session(&job::run(bench, None, &nothing)?, times))
        }));
    }
    interleave("setup", format!("session set-up (`true`), {what}"), rounds, entries)
}

fn per_session(sample: &Sample, times: u64) -> Vec<Measured> {
    let per = |value: f64| value / times as f64;
    vec![
        ("ms", Better::Lower, per(sample.wall_s * 1000.0)),
        ("CPU-ms", Better::Lower, per(sample.cpu_ms())),
        ("client CPU-ms", Better::Lower, per(sample.client.cpu_us() as f64 / 1000.0)),
        ("server CPU-ms", Better::Lower, per(sample.server.cpu_us() as f64 / 1000.0)),
    ]
}

/// Key exchanges of Longhaul, without those that differ only in their name.
fn kex_names(field: &Contestants) -> Vec<String> {
    let Kind::Suite { ssh, .. } = &field.ours().kind else { return Vec::new() };
    let all = query(ssh, "kex");
    let second_name = |name: &str| {
        all.iter().any(|other| name.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('@')))
    };
    let old_openssh = |name: &str| name == "sntrup761x25519-sha512";
    // OpenSSH before 9.9 supports sntrup761 only under its long name, which all other versions support too.
    all.iter()
        .filter(|name| old_openssh(name.trim_end_matches("@openssh.com")) || !second_name(name))
        .filter(|name| !old_openssh(name))
        .cloned()
        .collect()
}

/// Output of `ssh -Q`.
fn query(ssh: &std::path::Path, what: &str) -> Vec<String> {
    let out = Command::new(ssh).args(["-Q", what]).stdin(Stdio::null()).output();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
