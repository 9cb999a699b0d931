//! `cargo xtask tables`: measures docs/tables.md, tables of the kind by which SSH programs have been
//! compared.
//!
//! It runs `lh-bench` and reads its report, measures netcat and iperf3 on loopback, and lists a large
//! directory with `sftp` and `lhsftp`.

mod listing;
mod plain;
mod render;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use self::render::{Collected, document};
use crate::workspace::{Outcome, build_release, call, root, target_dir};

/// Ciphers of the tables that compare ciphers.
const CIPHERS: &str =
    "aes128-ctr+hmac-sha2-256,aes256-ctr+hmac-sha2-256,aes128-gcm,aes256-gcm,chacha20-poly1305";
/// MACs of the tables that compare MACs, each with the cheapest cipher.
const MACS: &[&str] = &[
    "hmac-sha1",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "umac-64",
    "umac-128",
    "hmac-md5",
    "hmac-sha2-256-etm",
    "umac-64-etm",
];
/// Peers of `lh-bench` that the tables do not show.
const WITHOUT: &str = "mscp,rclone,lftp,rsync,dropbear";

/// One run of `lh-bench`.
struct Pass {
    name: &'static str,
    args: Vec<String>,
}

/// Returns the runs. Short ones only show that everything works.
fn passes(short: bool, rounds: Option<&str>, is_root: bool) -> Vec<Pass> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let macs: Vec<String> = MACS.iter().map(|mac| format!("aes128-ctr+{mac}")).collect();
    let (macs, ciphers) =
        if short { ("aes128-ctr+umac-64".to_owned(), "aes128-gcm") } else { (macs.join(","), CIPHERS) };
    let mut all = Vec::new();
    if is_root {
        let mut args = words(&format!("--scenario wan --cipher {ciphers} --duration 3s"));
        args.extend(["--only", "longhaul, pipe", "--only", "openssh, pipe"].map(str::to_owned));
        all.push(Pass { name: "wan", args });
        let mut args = words(&format!("--scenario wan --cipher {ciphers} --duration 3s"));
        args.extend(["--option", "HPNDisabled=yes", "--only", "longhaul, pipe"].map(str::to_owned));
        all.push(Pass { name: "wan-stock", args });
    }
    all.push(Pass { name: "mac", args: words(&format!("--scenario pipe --cipher {macs}")) });
    let both = format!("{ciphers},{macs}");
    all.push(Pass { name: "copy", args: words(&format!("--scenario copy --cipher {both}")) });
    all.push(Pass { name: "setup", args: words("--scenario setup") });
    for pass in &mut all {
        pass.args.extend(["--without", WITHOUT].map(str::to_owned));
        if short {
            pass.args.push("--smoke".to_owned());
        } else {
            let usual = match pass.name {
                "setup" => "5",
                "wan-stock" => "1",
                _ => "3",
            };
            pass.args.extend(["--size", "128M"].map(str::to_owned));
            pass.args.extend(["--rounds", rounds.unwrap_or(usual)].map(str::to_owned));
        }
    }
    all
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Outcome {
    let (mut out, mut bins, mut short) = (root().join("docs/tables.md"), None, false);
    let mut rounds = None;
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().map(PathBuf::from).ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--out" => out = value()?,
            "--bins" => bins = Some(value()?),
            "--rounds" => rounds = Some(value()?.to_string_lossy().into_owned()),
            "--smoke" => short = true,
            _ => {
                return Err(
                    "usage: cargo xtask tables [--out FILE] [--bins DIR] [--rounds N] [--smoke]".to_owned()
                );
            }
        }
    }
    let bins = match bins {
        Some(bins) => std::fs::canonicalize(&bins).map_err(|error| format!("{}: {error}", bins.display()))?,
        None => build_release()?,
    };
    let collected = collect(&bins, short, rounds.as_deref())?;
    std::fs::write(&out, document(&collected)).map_err(|error| format!("{}: {error}", out.display()))?;
    println!("written to {}, in {} s", out.display(), collected.seconds);
    if collected.failures.is_empty() { Ok(()) } else { Err(collected.failures.join("\n")) }
}

/// Measures everything once with tiny sizes, as part of a step of the test command.
pub(crate) fn smoke() -> Outcome {
    let out = target_dir().join("tables-smoke.md");
    run(&["--smoke".to_owned(), "--out".to_owned(), out.to_string_lossy().into_owned()])
}

fn collect(bins: &Path, short: bool, rounds: Option<&str>) -> Result<Collected, String> {
    let begun = Instant::now();
    let mut collected = Collected::new(short);
    for pass in passes(short, rounds, lh_interop::is_root()) {
        // Spread over the run, because other load on the machine varies.
        collected.plain.extend(plain::round(if short { 4 << 20 } else { 512 << 20 }));
        let dir = target_dir().join("tables").join(pass.name);
        let mut command = Command::new(bins.join("lh-bench"));
        command.current_dir(root()).env("LH_BIN_DIR", bins).args(&pass.args).arg("--out").arg(&dir);
        command.stdout(std::process::Stdio::null());
        let done = call(&mut command);
        let path = dir.join("report.json");
        let read = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        let report =
            read.and_then(|text| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()));
        match (report, done) {
            (Ok(report), _) => collected.add(pass.name, report),
            (Err(why), Ok(())) => return Err(format!("{}: {why}", path.display())),
            (Err(_), Err(why)) => return Err(why),
        }
    }
    collected.listing = listing::measure(bins, if short { 1 } else { 5 })?;
    collected.seconds = begun.elapsed().as_secs();
    Ok(collected)
}
