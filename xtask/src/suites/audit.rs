//! ssh-audit: scans the algorithms that `lhsshd` offers by default, and its exposure to Terrapin
//! (CVE-2023-48795).
//!
//! Each warning counts as a failed test that needs a reason; algorithms without a warning pass.

use std::process::Command;

use lh_interop::{Lab, Lhsshd};
use serde_json::Value;

use super::place::{Missing, Place, Report, bounded, output_of};
use super::python::{environment, quietly};

const PACKAGE: &str = "ssh-audit==3.9.0";

/// Words of known findings, with the reason for each.
pub(super) const KNOWN: &[(&str, &str)] = &[
    (
        "suspected as being backdoored",
        "NIST's curves are for peers without Curve25519; OpenSSH offers them too, behind it",
    ),
    (
        "protection against post-quantum attacks",
        "behind the hybrid methods in the list, for peers that have none",
    ),
    ("weak random number generator", "said of every ECDSA host key; nonces are made by AWS-LC's generator"),
    ("hpnssh.org: fail: using unknown algorithm", "HPN-SSH's name for chacha20-poly1305@openssh.com"),
    ("small 64-bit tag size", "UMAC-64 is in OpenSSH's default list; rekeying bounds what can be tried"),
    ("using encrypt-and-MAC mode", "behind the encrypt-then-MAC forms, for peers without them"),
    ("2048-bit modulus", "the test's own RSA key, short so that it is found quickly"),
    ("broken SHA-1 hash algorithm", "HMAC is not affected by collisions; last in the list, for old peers"),
];

/// Finding that reports strict key exchange.
const STRICT: &str = "properly supports the strict key exchange";

/// Scans a server with its defaults and one host key of each kind.
pub(super) fn run(place: &Place) -> Result<Report, Missing> {
    let python = lh_interop::find("python3").ok_or_else(|| Missing("python3 is not installed".to_owned()))?;
    let own = environment(place).join("bin/python");
    if !own.is_file() {
        quietly(Command::new(&python).args(["-m", "venv"]).arg(environment(place)))?;
    }
    quietly(Command::new(&own).args(["-m", "pip", "install", "-q", PACKAGE]))?;
    let lab = Lab::new();
    let server = Lhsshd::start_program(&place.bins.join("lhsshd"), &lab, "", &[]);
    let mut command = bounded(&environment(place).join("bin/ssh-audit"));
    command.args(["-j", "--skip-rate-test", "-p", &server.port_arg(), "127.0.0.1"]);
    let text = output_of(place, "ssh-audit", &mut command)?;
    let json = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    report(json).ok_or_else(|| Missing(format!("ssh-audit said something else: {text}")))
}

fn report(json: &str) -> Option<Report> {
    let found: Value = serde_json::from_str(json).ok()?;
    let mut report = Report::default();
    for kind in ["kex", "key", "enc", "mac"] {
        for algorithm in found.get(kind)?.as_array()? {
            let name = algorithm.get("algorithm")?.as_str()?;
            let before = report.failed.len();
            for level in ["fail", "warn"] {
                let notes =
                    algorithm.get("notes").and_then(|notes| notes.get(level)).and_then(Value::as_array);
                let texts = notes.into_iter().flatten().filter_map(Value::as_str);
                report.failed.extend(texts.map(|text| format!("{kind} {name}: {level}: {text}")));
            }
            report.passed += usize::from(report.failed.len() == before);
        }
    }
    let cves = found.get("cves")?.as_array()?;
    report.failed.extend(cves.iter().map(|cve| format!("vulnerability: {cve}")));
    let notes = found.get("additional_notes")?.as_array()?;
    match notes.iter().filter_map(Value::as_str).any(|note| note.contains(STRICT)) {
        true => report.passed += 1,
        false => report.failed.push("Terrapin: strict key exchange was not seen".to_owned()),
    }
    Some(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_failures_and_strict_exchange_is_wanted() {
        let json = r#"{"kex":[{"algorithm":"good","notes":{}},{"algorithm":"old","notes":{"fail":["x"],"warn":["y"]}}],
            "key":[],"enc":[],"mac":[],"cves":[{"name":"CVE-1"}],"additional_notes":["NOTE"]}"#;
        let failed = ["kex old: fail: x", "kex old: warn: y", r#"vulnerability: {"name":"CVE-1"}"#];
        let report = report(&json.replace('\n', "").replace("NOTE", STRICT)).unwrap();
        assert_eq!((report.passed, report.failed), (2, failed.map(str::to_owned).to_vec()));
        let without = super::report(&json.replace('\n', "")).unwrap();
        assert!(without.failed.iter().any(|failed| failed.starts_with("Terrapin")), "{:?}", without.failed);
        assert!(super::report("{}").is_none());
    }
}
