//! Fingerprints as DNS records (`-r`): SSHFP of RFC 4255, 6594 and 7479, also in the generic form of RFC 3597.

use std::path::{Path, PathBuf};

use lh_crypto::{Hash, PublicKey};

use crate::arguments::Arguments;
use crate::signer::load_public;
use crate::talk::{Outcome, fatal, print, shown, warn};

/// Host keys to look for when no file is named.
const HOST_KEYS: [&str; 4] = ["rsa", "dsa", "ecdsa", "ed25519"];

/// Prints the records of a key, or of this host's keys.
pub(crate) fn records(arguments: &Arguments, host: &str) -> Outcome {
    let hashes = hashes(arguments)?;
    let show = |path: &Path, must: bool| match load_public(path) {
        Some((key, _)) => record(arguments, host, &key, &hashes),
        None if must => Err(fatal(format!("{}: No such file or directory", shown(path)))),
        None => Ok(()),
    };
    match &arguments.file {
        Some(path) => show(path, true),
        None => HOST_KEYS
            .iter()
            .try_for_each(|name| show(&PathBuf::from(format!("/etc/ssh/ssh_host_{name}_key.pub")), false)),
    }
}

/// Fingerprint types of the records: both, or the one of `-O hashalg=`.
fn hashes(arguments: &Arguments) -> Outcome<Vec<(u8, Hash)>> {
    let mut hashes = vec![(1, Hash::Sha1), (2, Hash::Sha256)];
    for option in arguments.parsed.values('O') {
        let option = option.to_string_lossy();
        hashes = match option.to_ascii_lowercase().strip_prefix("hashalg=") {
            Some("sha1") => vec![(1, Hash::Sha1)],
            Some("sha256") => vec![(2, Hash::Sha256)],
            Some(_) => {
                return Err(fatal(format!(
                    "Unsupported hash algorithm {}",
                    lh_client::sanitise(&option[8..])
                )));
            }
            None => return Err(fatal(format!("Invalid option \"{}\"", lh_client::sanitise(&option)))),
        };
    }
    Ok(hashes)
}

fn record(arguments: &Arguments, host: &str, key: &PublicKey, hashes: &[(u8, Hash)]) -> Outcome {
    let Some(algorithm) = number(key) else {
        warn("export_dns_rr: unsupported algorithm and/or digest_type");
        return Ok(());
    };
    for (kind, hash) in hashes {
        let digest = hash.digest(&[key.blob()]);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let host = lh_client::sanitise(host);
        print(if arguments.has('g') {
            let len = 2 + digest.as_ref().len();
            format!("{host} IN TYPE44 \\# {len} {algorithm:02x} {kind:02x} {hex}\n")
        } else {
            format!("{host} IN SSHFP {algorithm} {kind} {hex}\n")
        })?;
    }
    Ok(())
}

/// IANA's number of the algorithm; `None` for keys without one, certificates among them.
fn number(key: &PublicKey) -> Option<u8> {
    match key.key_type() {
        "ssh-rsa" => Some(1),
        "ssh-dss" => Some(2),
        kind if kind.starts_with("ecdsa-sha2-") && key.certificate().is_none() => Some(3),
        "ssh-ed25519" => Some(4),
        _ => None,
    }
}
