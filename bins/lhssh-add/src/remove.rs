//! `-d`: removes keys, with their certificates.

use std::path::Path;

use lh_agent::Request;
use lh_client::agent::Agent;
use lh_client::key_file;
use lh_crypto::PublicKey;
use lh_sys::errno_text;

use crate::console::say;
use crate::settings::AddSettings;

/// Removes a key and its certificate; true when all that the agent had is gone.
pub(crate) fn file(agent: &mut Agent, path: &Path, how: &AddSettings) -> bool {
    if path.as_os_str() == "-" {
        return from_stdin(agent, how);
    }
    let (key, comment) = match key_file::load_public(path) {
        Ok(found) => found,
        Err(error) => {
            crate::console::print(&format!("Bad key file {}: {}\n", path.display(), errno_text(&error)));
            return false;
        }
    };
    let mut done = true;
    if !how.certificates_only {
        done = one(agent, &key, path, &comment, how);
    }
    if how.keys_only || key.certificate().is_some() {
        return done;
    }
    // A private key's certificate, not that of `key.pub`: who names a public key means this key alone.
    let beside = key_file::with_suffix(path, "-cert.pub");
    match key_file::public_in(&beside) {
        None => done,
        Some((certificate, _)) if *certificate.plain() != *key.plain() => {
            say(&format!("Certificate {} does not match private key {}", beside.display(), path.display()));
            false
        }
        Some((certificate, comment)) => one(agent, &certificate, &beside, &comment, how) && done,
    }
}

/// Removes keys read from standard input, one per line as `-L` prints them; false if there are none.
fn from_stdin(agent: &mut Agent, how: &AddSettings) -> bool {
    let (mut done, mut found) = (true, false);
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        found = true;
        match PublicKey::from_openssh_line(line) {
            Some((key, comment)) => done &= one(agent, &key, Path::new("(stdin)"), &comment, how),
            None => {
                say("(stdin): invalid key");
                done = false;
            }
        }
    }
    done && found
}

fn one(agent: &mut Agent, key: &PublicKey, path: &Path, comment: &str, how: &AddSettings) -> bool {
    match agent.done(&Request::Remove { key: key.blob() }) {
        Ok(()) => {
            if !how.quiet {
                say(&format!("Identity removed: {} {} ({comment})", path.display(), key.display_type()));
            }
            true
        }
        Err(error) => {
            say(&format!("Could not remove identity \"{}\": {error}", path.display()));
            false
        }
    }
}
