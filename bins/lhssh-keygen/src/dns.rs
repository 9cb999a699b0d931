//! Fingerprints as DNS records (`-r`): SSHFP of RFC 4255, 6594 and 7479, also in the generic form of RFC
//! 3597.

use std::path::{Path, PathBuf};

use lh_crypto::{PublicKey, SshfpHash};

use crate::arguments::Arguments;
use crate::console::{Failure, Outcome, fatal, print, shown, warn};
use crate::files::load_public;

/// Host keys to look for when no file is named.
const HOST_KEYS: [&str; 4] = ["rsa", "dsa", "ecdsa", "ed25519"];

/// Prints the records of a key, or of this host's keys.
pub(crate) fn records(arguments: &Arguments, host: &str) -> Outcome {
    let hashes = hashes(arguments)?;
    let show = |path: &Path, must: bool| match load_public(path) {
        Some((key, _)) => record(arguments, host, &key, &hashes),
        None if must => Err(read_failed(path)),
        None => Ok(()),
    };
    match &arguments.file {
        Some(path) => show(path, true),
        None => HOST_KEYS
            .iter()
            .try_for_each(|name| show(&PathBuf::from(format!("/etc/ssh/ssh_host_{name}_key.pub")), false)),
    }
}

fn read_failed(path: &Path) -> Failure {
    let name = shown(path);
    // The words of a missing file are others in OpenSSH, too.
    fatal(if path.exists() {
        format!("Failed to read v2 public key from \"{name}\": No such file or directory")
    } else {
        format!("{name}: No such file or directory")
    })
}

/// Fingerprint types of the records: both, or the one of `-O hashalg=`.
fn hashes(arguments: &Arguments) -> Outcome<Vec<SshfpHash>> {
    let mut hashes = SshfpHash::ALL.to_vec();
    for option in &arguments.values.options {
        let option = option.to_string_lossy();
        let lower = option.to_ascii_lowercase();
        let Some(name) = lower.strip_prefix("hashalg=") else {
            return Err(fatal(format!("Invalid option \"{}\"", lh_client::sanitise(&option))));
        };
        hashes = SshfpHash::ALL.into_iter().filter(|hash| hash.name == name).collect();
        if hashes.is_empty() {
            let name = lh_client::sanitise(&option[8..]);
            return Err(fatal(format!("Unsupported hash algorithm {name}")));
        }
    }
    Ok(hashes)
}

fn record(arguments: &Arguments, host: &str, key: &PublicKey, hashes: &[SshfpHash]) -> Outcome {
    let Some(algorithm) = key.sshfp_algorithm() else {
        warn("export_dns_rr: unsupported algorithm and/or digest_type");
        return Ok(());
    };
    for SshfpHash { number: kind, hash, .. } in hashes {
        let digest = hash.digest(&[key.blob()]);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let host = lh_client::sanitise(host);
        print(if arguments.switches.generic_records {
            let len = 2 + digest.as_ref().len();
            format!("{host} IN TYPE44 \\# {len} {algorithm:02x} {kind:02x} {hex}\n")
        } else {
            format!("{host} IN SSHFP {algorithm} {kind} {hex}\n")
        })?;
    }
    Ok(())
}
