//! Structure checks. Dependencies of crates have one direction, and modules of a crate form no cycles. The
//! files with a type's methods do not call each other in cycles. Sans-IO crates use no sockets, files, clocks
//! or threads. Tests report skips by one function.

mod cycles;
mod methods;
mod sans_io;
mod skips;
mod source;

use std::collections::BTreeMap;
use std::fs;

use crate::workspace::{Outcome, root};

/// Allowed direct dependencies of each crate; any other points up or sideways.
const ALLOWED: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("config", &["wire"]),
    ("sys", &[]),
    ("crypto-sys", &[]),
    ("crypto", &["wire", "crypto-sys"]),
    ("resume", &["wire", "crypto"]),
    ("session-list", &["wire", "sys"]),
    ("transport", &["wire", "crypto", "resume"]),
    ("auth", &["wire", "crypto", "resume"]),
    ("agent", &["wire", "crypto"]),
    ("security-key", &["wire", "crypto", "agent", "sys"]),
    ("connection", &["wire"]),
    ("sftp", &["wire", "crypto"]),
    ("sftp-fs", &["sftp"]),
    ("known-hosts", &["config", "crypto"]),
    ("testkit", &["wire"]),
    ("driver", &["wire", "resume", "transport", "connection", "sys"]),
    ("transfer", &["wire", "crypto", "sftp", "sftp-fs", "sys", "connection", "driver"]),
    ("cli", &["config", "sys", "wire"]),
    ("metrics", &["sys"]),
    ("sftp-server", &["sftp", "sftp-fs", "cli", "config", "sys"]),
    ("terminal", &["cli", "client"]),
    ("ssh-transfer", &["client", "terminal", "config", "driver", "sys", "transfer"]),
    ("instrument", &["wire", "crypto", "sftp", "client", "config", "driver", "metrics", "sys", "terminal"]),
    ("sftp-shell", &["wire", "sftp", "transfer", "cli", "sys"]),
    (
        "client",
        &[
            "wire",
            "crypto",
            "agent",
            "security-key",
            "resume",
            "transport",
            "auth",
            "connection",
            "driver",
            "config",
            "known-hosts",
            "metrics",
            "sys",
        ],
    ),
    (
        "server",
        &[
            "wire",
            "crypto",
            "agent",
            "resume",
            "session-list",
            "transport",
            "auth",
            "connection",
            "driver",
            "sftp",
            "sftp-server",
            "config",
            "known-hosts",
            "metrics",
            "sys",
        ],
    ),
];

/// Crates with separate lint tables, which allow `unsafe` with a reason.
const MAY_BE_UNSAFE: [&str; 2] = ["sys", "crypto-sys"];

/// Runs all checks; the error lists every fault of the first check that fails.
pub(crate) fn check() -> Outcome {
    dependencies()?;
    let mut crates: Vec<String> = Vec::new();
    for group in ["crates", "bins"] {
        let entries = fs::read_dir(root().join(group)).map_err(|error| format!("{group}: {error}"))?;
        crates.extend(
            entries.flatten().map(|entry| format!("{group}/{}", entry.file_name().to_string_lossy())),
        );
    }
    crates.extend(["bench", "bench/link", "campaign", "interop", "xtask"].map(str::to_owned));
    crates.sort();
    let mut wrong = Vec::new();
    let (mut in_cycles, mut by_methods) = (0, 0);
    for name in &crates {
        let files = source::read(&root().join(name).join("src"))?;
        in_cycles += cycles::check(name, &files, &mut wrong);
        by_methods += methods::check(name, &files, &mut wrong)?;
        sans_io::check(name, &files, &mut wrong);
    }
    skips::check(&mut wrong)?;
    if wrong.is_empty() {
        println!(
            "layers: {} crates, {in_cycles} modules in cycles that are still allowed, and {by_methods} files in cycles \
             by methods",
            crates.len()
        );
        Ok(())
    } else {
        Err(wrong.join("\n       "))
    }
}

/// Fails with every dependency and every crate that is not in the table, and every crate without the lints.
fn dependencies() -> Outcome {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    let entries = fs::read_dir(root().join("crates")).map_err(|error| format!("crates: {error}"))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(&may) = allowed.get(name.as_str()) else {
            wrong.push(format!("crates/{name} is not in the table of layers"));
            continue;
        };
        let manifest = entry.path().join("Cargo.toml");
        let text =
            fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line.trim();
            }
            let Some(dependency) = line.strip_prefix("lh-") else { continue };
            let dependency: String =
                dependency.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            // Tests may depend on any crate: they are not shipped.
            if section == "[dependencies]" && !may.contains(&dependency.as_str()) {
                wrong.push(format!("crates/{name} must not depend on {dependency}"));
            }
        }
        if !MAY_BE_UNSAFE.contains(&name.as_str()) && !text.contains("workspace = true") {
            wrong.push(format!("crates/{name} does not inherit the workspace's lints"));
        }
    }
    if wrong.is_empty() {
        println!("layers: {} library crates, every dependency points down", allowed.len());
        Ok(())
    } else {
        Err(wrong.join("\n       "))
    }
}
