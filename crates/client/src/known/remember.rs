//! Stores the keys of new hosts in the user's first file.

use std::path::Path;

use lh_crypto::{PublicKey, Random, SystemRandom};
use lh_sys::errno_text;

use crate::hostkey::Policy;
use crate::key_types::short_type;
use crate::known_hosts;
use crate::log::Log;

/// Appends the key to the user's first file and logs it. A failure is logged and has no other effect.
pub(crate) fn remember(policy: &Policy, key: &PublicKey, log: &mut Log<'_>) {
    let address = policy.address.as_deref().filter(|address| policy.checks.ip && *address != policy.name);
    let names: Vec<&str> = std::iter::once(policy.name.as_str()).chain(address).collect();
    let kind = short_type(key.key_type());
    let said =
        format!("Warning: Permanently added '{}' ({kind}) to the list of known hosts.", names.join(","));
    add(policy, &names, key, &said, log);
}

/// Appends the address of a known host to the user's first file.
pub(crate) fn remember_address(policy: &Policy, key: &PublicKey, log: &mut Log<'_>) {
    let Some(address) = policy.address.as_deref() else { return };
    let kind = short_type(key.key_type());
    let said = format!(
        "Warning: Permanently added the {kind} host key for IP address '{address}' to the list of known hosts."
    );
    add(policy, &[address], key, &said, log);
}

fn add(policy: &Policy, names: &[&str], key: &PublicKey, said: &str, log: &mut Log<'_>) {
    let Some(file) = policy.user_files.first() else { return };
    // Nothing is stored in `/dev/null`.
    if file.as_os_str() == "/dev/null" {
        return log.info(said);
    }
    make_ssh_directory(file, &policy.ssh_directory, log);
    let mut random = SystemRandom;
    let hash: Option<&mut dyn Random> = if policy.hash { Some(&mut random) } else { None };
    match known_hosts::append(file, names, key, hash) {
        Ok(()) => log.info(said),
        Err(error) => {
            log.debug(|| format!("hostkeys: {}: {}", file.display(), errno_text(&error)));
            log.info(&format!("Failed to add the host to the list of known hosts ({}).", file.display()));
        }
    }
}

/// Creates `~/.ssh` for a file in it. No other directory is created, because a path may be mistyped, or its
/// file system not mounted.
fn make_ssh_directory(file: &Path, directory: &Path, log: &mut Log<'_>) {
    use std::os::unix::fs::DirBuilderExt as _;
    if file.parent() != Some(directory) || directory.exists() {
        return;
    }
    if let Err(error) = std::fs::DirBuilder::new().mode(0o700).create(directory) {
        let why = errno_text(&error);
        log.error(&format!("Could not create directory '{}' ({why}).", directory.display()));
    }
}
