//! The question on first use, and the warnings, in OpenSSH's words.

use lh_crypto::PublicKey;

use super::policy::Policy;
use super::verdict::{Place, Verdict};
use crate::key_types::short_type;

pub(super) fn first_use(key: &PublicKey, policy: &Policy, other_names: &[Place]) -> String {
    let address = policy.address.as_deref().unwrap_or("<no hostip for proxy command>");
    let mut text = format!("The authenticity of host '{} ({address})' can't be established.\n", policy.name);
    let kind = short_type(key.key_type());
    text.push_str(&format!("{kind} key fingerprint is {}.\n", key.fingerprint(policy.fingerprint)));
    if policy.visual {
        text.push_str(&key.randomart(policy.fingerprint));
        text.push('\n');
    }
    if other_names.is_empty() {
        text.push_str("This key is not known by any other names.\n");
    } else {
        text.push_str("This host key is known by the following other names/addresses:\n");
        // OpenSSH's limit of 20: a long list must not push the question off the screen.
        for place in other_names.iter().take(20) {
            text.push_str(&format!("    {}:{}: {}\n", place.file.display(), place.line, place.hosts));
        }
        if other_names.len() > 20 {
            text.push_str(&format!("    ({} additional names omitted)\n", other_names.len() - 20));
        }
    }
    if let Some(found) = policy.checks.dns_found {
        let what = if found { "Matching" } else { "No matching" };
        text.push_str(&format!("{what} host key fingerprint found in DNS.\n"));
    }
    text.push_str("Are you sure you want to continue connecting (yes/no/[fingerprint])? ");
    text
}

pub(super) const RULE: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

pub(super) fn changed(kind: &str, fingerprint: &str, place: &Place, policy: &Policy) -> String {
    let file = place.file.display();
    let own = policy.user_files.first().map_or_else(String::new, |file| {
        format!("Add correct host key in {} to get rid of this message.\n", file.display())
    });
    let mut text = format!(
        "{}\n{own}\
         Offending {} key in {file}:{}",
        warning(kind, fingerprint),
        short_type(&place.key_type),
        place.line
    );
    // The hint helps only where the user can change the file.
    if policy.user_files.contains(&place.file) {
        text.push_str(&format!("\n  remove with:\n  ssh-keygen -f '{file}' -R '{}'", policy.name));
    }
    text
}

/// Returns the warning about a key that differs from the one in known_hosts or DNS.
pub(crate) fn warning(kind: &str, fingerprint: &str) -> String {
    format!(
        "{RULE}\n\
         @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n\
         {RULE}\n\
         IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\n\
         Someone could be eavesdropping on you right now (man-in-the-middle attack)!\n\
         It is also possible that a host key has just been changed.\n\
         The fingerprint for the {kind} key sent by the remote host is\n\
         {fingerprint}.\n\
         Please contact your system administrator."
    )
}

/// Returns the warning to print before the one about a changed key, if the address's entry shows no change
/// (`CheckHostIP`).
pub(crate) fn spoofing(key: &PublicKey, at_address: &Verdict, policy: &Policy) -> Option<String> {
    let (story, place) = match at_address {
        Verdict::Changed(_) | Verdict::Revoked(_) => return None,
        Verdict::New { .. } => ("is unknown", None),
        Verdict::Known(place) => ("is unchanged", Some(place)),
    };
    let mut text = format!(
        "{RULE}\n\
         @       WARNING: POSSIBLE DNS SPOOFING DETECTED!          @\n\
         {RULE}\n\
         The {} host key for {} has changed,\n\
         and the key for the corresponding IP address {}\n\
         {story}. This could either mean that\n\
         DNS SPOOFING is happening or the IP address for the host\n\
         and its host key have changed at the same time.",
        short_type(key.key_type()),
        policy.name,
        policy.address.as_deref().unwrap_or_default(),
    );
    if let Some(place) = place {
        text.push_str(&format!("\nOffending key for IP in {}:{}", place.file.display(), place.line));
    }
    Some(text)
}

pub(super) fn revoked(kind: &str, place: &Place, policy: &Policy) -> String {
    format!(
        "{RULE}\n\
         @       WARNING: REVOKED HOST KEY DETECTED!               @\n\
         {RULE}\n\
         The {kind} host key for {} is marked as revoked.\n\
         This could mean that a stolen key is being used to\n\
         impersonate this host.\n\
         Offending {} key in {}:{}",
        policy.name,
        short_type(&place.key_type),
        place.file.display(),
        place.line
    )
}
