//! Host key verification: what is known about a host, the question on first use, the refusals.
//!
//! Looking up and deciding are separate: [`decide`] gets a [`Verdict`] and a [`Policy`] and asks the user. So
//! every path through it is tested without a file or a connection.

use std::net::IpAddr;
use std::path::PathBuf;

use lh_crypto::{FingerprintHash, PublicKey};

use crate::error::ClientError;
use crate::key_types::short_type;
use crate::known_command::KnownHostsCommand;
use crate::log::Log;

/// `StrictHostKeyChecking`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Strict {
    /// `yes`: unknown and changed keys are refused.
    Yes,
    /// `ask`: the user decides about unknown keys.
    #[default]
    Ask,
    /// `accept-new`: unknown keys are accepted and remembered, changed ones refused.
    AcceptNew,
    /// `no` or `off`: as `accept-new`; a changed key only disables the methods that would reveal a secret.
    Off,
}

/// Where the known keys are stored, and how strictly they are enforced.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) strict: Strict,
    /// The host's name in known_hosts: lower case, `[host]:port` when the port is not 22, or `HostKeyAlias`.
    pub(crate) name: String,
    /// The name without its port, if that is optional: for entries that cover all ports of the host.
    pub(crate) portless: Option<String>,
    /// The host's name in certificates: without port, or `HostKeyAlias`.
    pub(crate) principal: String,
    /// `CASignatureAlgorithms`.
    pub(crate) ca_algorithms: Vec<String>,
    /// The address in the form of known_hosts; `None` behind a proxy.
    pub(crate) address: Option<String>,
    /// The address belongs to this machine and `NoHostAuthenticationForLocalhost` is set.
    pub(crate) skip_localhost: bool,
    /// `UserKnownHostsFile`; new keys go to the first.
    pub(crate) user_files: Vec<PathBuf>,
    /// `~/.ssh`: the only directory that is made for a new file.
    pub(crate) ssh_directory: PathBuf,
    /// `GlobalKnownHostsFile`.
    pub(crate) global_files: Vec<PathBuf>,
    /// `RevokedHostKeys`.
    pub(crate) revoked_files: Vec<PathBuf>,
    /// `HashKnownHosts`.
    pub(crate) hash: bool,
    pub(crate) fingerprint: FingerprintHash,
    /// `VisualHostKey`.
    pub(crate) visual: bool,
    /// Further sources to check.
    pub(crate) checks: Checks,
    /// The host key of the session that is to go on over this connection (`Resume`). Another key must be
    /// known already.
    pub(crate) session: Option<PublicKey>,
}

/// Checks besides the known_hosts files, all off by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    /// `CheckHostIP`: the key must fit the address too.
    pub(crate) ip: bool,
    /// `VerifyHostKeyDNS`.
    pub(crate) dns: Dns,
    /// The name for the DNS query; `None` for addresses.
    pub(crate) dns_name: Option<String>,
    /// Result of the DNS query: whether the fingerprint was found; `None` before it.
    pub(crate) dns_found: Option<bool>,
    /// `RequiredRSASize`, bits: a shorter RSA key is refused.
    pub(crate) least_rsa_bits: u32,
    /// `KnownHostsCommand`.
    pub(crate) command: Option<KnownHostsCommand>,
    /// The order of host key algorithms is not fixed by the user, so the command is asked for the known
    /// types.
    pub(crate) order: bool,
}

/// `VerifyHostKeyDNS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dns {
    /// Do not ask.
    #[default]
    No,
    /// Tell the user the result.
    Ask,
    /// A fingerprint from a secure answer is sufficient.
    Yes,
}

/// A line of a known_hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    /// The type of its key.
    pub(crate) key_type: String,
    /// The hosts field as written.
    pub(crate) hosts: String,
}

/// Result of looking a key up in the known_hosts files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The key is known for this host.
    Known(Place),
    /// Nothing is known about this host.
    New {
        /// Lines that know this key for other hosts.
        other_names: Vec<Place>,
    },
    /// Another key is known for the host, of any type. An impostor could choose a type that is not known, so
    /// OpenSSH also refuses a change of type.
    Changed(Place),
    /// The key is marked `@revoked`.
    Revoked(Place),
}

/// Consequences of accepting a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Store the key.
    pub(crate) add: bool,
    /// The key is not trusted: send nothing that a man in the middle could use.
    pub(crate) untrusted: bool,
}

/// The last line of every refusal.
pub(crate) const FAILED: &str = "Host key verification failed.";

/// Decides about a key whose possession the server has proved.
///
/// # Errors
/// [`ClientError::HostKey`] if the connection must end; everything but its last line was shown.
pub(crate) fn decide(
    verdict: &Verdict,
    key: &PublicKey,
    policy: &Policy,
    log: &mut Log<'_>,
) -> Result<Accepted, ClientError> {
    let kind = short_type(key.key_type());
    let name = &policy.name;
    let fingerprint = key.fingerprint(policy.fingerprint);
    if policy.skip_localhost {
        log.debug(|| "Forcing accepting of host key for loopback/localhost.".to_owned());
        return Ok(Accepted { add: false, untrusted: false });
    }
    match verdict {
        Verdict::Known(place) => {
            log.debug(|| format!("Host '{name}' is known and matches the {kind} host key."));
            log.debug(|| format!("Found key in {}:{}", place.file.display(), place.line));
            if policy.visual {
                log.info(&format!(
                    "Host key fingerprint is {fingerprint}\n{}",
                    key.randomart(policy.fingerprint)
                ));
            }
            Ok(Accepted { add: false, untrusted: false })
        }
        Verdict::New { other_names } => {
            match policy.strict {
                Strict::Yes => {
                    log.error(&format!(
                        "No {kind} host key is known for {name} and you have requested strict checking."
                    ));
                    return Err(ClientError::HostKey(FAILED.to_owned()));
                }
                Strict::Ask => {
                    let question = first_use(key, policy, other_names);
                    if !confirm(&question, &fingerprint, log) {
                        return Err(ClientError::HostKey(FAILED.to_owned()));
                    }
                }
                Strict::AcceptNew | Strict::Off => {}
            }
            Ok(Accepted { add: true, untrusted: false })
        }
        Verdict::Changed(place) => {
            log.error(&changed(&kind, &fingerprint, place, policy));
            if policy.strict != Strict::Off {
                log.error(&format!(
                    "Host key for {name} has changed and you have requested strict checking."
                ));
                return Err(ClientError::HostKey(FAILED.to_owned()));
            }
            forbid_secrets(log);
            Ok(Accepted { add: false, untrusted: true })
        }
        Verdict::Revoked(place) => {
            // Refused even with checking off: an explicit line forbids this very key.
            log.error(&revoked(&kind, place, policy));
            log.error(&format!(
                "{kind} host key for {name} was revoked and you have requested strict checking."
            ));
            Err(ClientError::HostKey(FAILED.to_owned()))
        }
    }
}

/// `ED25519`, `RSA`, …: the key type in messages.
pub(crate) fn kind_of(key: &PublicKey) -> String {
    short_type(key.key_type())
}

fn forbid_secrets(log: &mut Log<'_>) {
    for method in ["Password", "Keyboard-interactive"] {
        log.error(&format!("{method} authentication is disabled to avoid man-in-the-middle attacks."));
    }
}

/// Asks until the answer is valid. The fingerprint as answer means yes from a user who compared it.
fn confirm(question: &str, fingerprint: &str, log: &mut Log<'_>) -> bool {
    let mut prompt = question;
    loop {
        let Some(answer) = log.ask(prompt) else { return false };
        let answer = answer.trim();
        if answer.is_empty() || answer.eq_ignore_ascii_case("no") {
            return false;
        }
        if answer.eq_ignore_ascii_case("yes") || answer == fingerprint {
            return true;
        }
        prompt = "Please type 'yes', 'no' or the fingerprint: ";
    }
}

fn first_use(key: &PublicKey, policy: &Policy, other_names: &[Place]) -> String {
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

const RULE: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

fn changed(kind: &str, fingerprint: &str, place: &Place, policy: &Policy) -> String {
    let file = place.file.display();
    let own = policy.user_files.first().map_or_else(String::new, |file| file.display().to_string());
    let mut text = format!(
        "{}\n\
         Add correct host key in {own} to get rid of this message.\n\
         Offending {} key in {file}:{}",
        warning(kind, fingerprint),
        short_type(&place.key_type),
        place.line
    );
    // The hint helps only where the user may change the file.
    if policy.user_files.contains(&place.file) {
        text.push_str(&format!("\n  remove with:\n  ssh-keygen -f '{file}' -R '{}'", policy.name));
    }
    text
}

/// The warning about a key that differs from the one in known_hosts or DNS.
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

/// Decides about the address of a host whose key is known by its name (`CheckHostIP`). True if the address is
/// to be stored too.
///
/// # Errors
/// As [`decide`].
pub(crate) fn decide_address(
    named: &Place,
    at_address: &Verdict,
    key: &PublicKey,
    policy: &Policy,
    log: &mut Log<'_>,
) -> Result<bool, ClientError> {
    let address = policy.address.as_deref().unwrap_or_default();
    let kind = short_type(key.key_type());
    match at_address {
        Verdict::Known(_) => Ok(false),
        Verdict::New { .. } => Ok(true),
        Verdict::Revoked(place) => {
            log.error(&revoked(&kind, place, policy));
            Err(ClientError::HostKey(FAILED.to_owned()))
        }
        Verdict::Changed(place) => {
            let text = format!(
                "Warning: the {kind} host key for '{}' differs from the key for the IP address '{address}'\n\
                 Offending key for IP in {}:{}\nMatching host key in {}:{}",
                policy.name,
                place.file.display(),
                place.line,
                named.file.display(),
                named.line
            );
            match policy.strict {
                Strict::Ask => {
                    let question = format!("{text}\nAre you sure you want to continue connecting (yes/no)? ");
                    if confirm(&question, "", log) {
                        return Ok(false);
                    }
                }
                Strict::Yes | Strict::AcceptNew => {
                    log.info(&text);
                    log.error("Exiting, you have requested strict checking.");
                }
                Strict::Off => {
                    log.info(&text);
                    return Ok(false);
                }
            }
            Err(ClientError::HostKey(FAILED.to_owned()))
        }
    }
}

/// The warning to show before that of a changed key if the address's entry does not show the change too
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

fn revoked(kind: &str, place: &Place, policy: &Policy) -> String {
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

/// The name of `host` in known_hosts: includes the port unless that is 22.
pub(crate) fn known_name(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// True for loopback addresses.
pub(crate) fn is_loopback(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeUi, key};
    use crate::ui::LogLevel;

    fn place() -> Place {
        Place {
            file: "/home/u/.ssh/known_hosts".into(),
            line: 3,
            key_type: "ssh-ed25519".to_owned(),
            hosts: "other.example".to_owned(),
        }
    }

    fn policy(strict: Strict) -> Policy {
        Policy {
            strict,
            name: "[h.example]:2222".to_owned(),
            portless: Some("h.example".to_owned()),
            principal: "h.example".to_owned(),
            ca_algorithms: vec!["ssh-ed25519".to_owned()],
            address: Some("[192.0.2.1]:2222".to_owned()),
            user_files: vec!["/home/u/.ssh/known_hosts".into()],
            ssh_directory: "/home/u/.ssh".into(),
            skip_localhost: false,
            global_files: vec![],
            revoked_files: vec![],
            hash: false,
            fingerprint: FingerprintHash::Sha256,
            visual: false,
            checks: Checks::default(),
            session: None,
        }
    }

    fn new_host() -> Verdict {
        Verdict::New { other_names: vec![] }
    }

    fn run(verdict: &Verdict, strict: Strict, answers: &[&str]) -> (Result<Accepted, String>, FakeUi) {
        let mut ui = FakeUi::answering(answers);
        let result = decide(verdict, &key(), &policy(strict), &mut Log::new(&mut ui, LogLevel::Info, false));
        (result.map_err(|error| error.to_string()), ui)
    }

    #[test]
    fn first_use_asks_in_the_words_scripts_expect() {
        let (result, ui) = run(&new_host(), Strict::Ask, &["yes"]);
        assert_eq!(result, Ok(Accepted { add: true, untrusted: false }));
        let fingerprint = key().fingerprint(FingerprintHash::Sha256);
        assert_eq!(
            ui.asked,
            [format!(
                "The authenticity of host '[h.example]:2222 ([192.0.2.1]:2222)' can't be established.\n\
                 ED25519 key fingerprint is {fingerprint}.\n\
                 This key is not known by any other names.\n\
                 Are you sure you want to continue connecting (yes/no/[fingerprint])? "
            )]
        );
    }

    #[test]
    fn only_yes_or_the_fingerprint_accepts_an_unknown_key() {
        let fingerprint = key().fingerprint(FingerprintHash::Sha256);
        assert!(run(&new_host(), Strict::Ask, &[&fingerprint]).0.is_ok());
        assert!(run(&new_host(), Strict::Ask, &["y", "sure", "YES"]).0.is_ok());
        for answers in [&["no"][..], &[""], &[], &["SHA256:wrong", "no"]] {
            assert_eq!(run(&new_host(), Strict::Ask, answers).0, Err(FAILED.to_owned()));
        }
    }

    #[test]
    fn strict_checking_decides_about_unknown_keys() {
        let (result, ui) = run(&new_host(), Strict::Yes, &["yes"]);
        assert_eq!(result, Err(FAILED.to_owned()));
        assert!(ui.asked.is_empty());
        assert_eq!(
            ui.messages,
            ["No ED25519 host key is known for [h.example]:2222 and you have requested strict checking."]
        );
        for strict in [Strict::AcceptNew, Strict::Off] {
            let (result, ui) = run(&new_host(), strict, &[]);
            assert_eq!(result, Ok(Accepted { add: true, untrusted: false }));
            assert!(ui.messages.is_empty());
        }
    }

    #[test]
    fn a_changed_key_is_refused_unless_checking_is_off() {
        for strict in [Strict::Yes, Strict::Ask, Strict::AcceptNew] {
            let (result, ui) = run(&Verdict::Changed(place()), strict, &["yes"]);
            assert_eq!(result, Err(FAILED.to_owned()));
            let said = ui.messages.join("\n");
            assert!(said.contains("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!"));
            assert!(said.contains("Offending ED25519 key in /home/u/.ssh/known_hosts:3"));
            assert!(said.ends_with(
                "Host key for [h.example]:2222 has changed and you have requested strict checking."
            ));
        }
        let (result, _) = run(&Verdict::Changed(place()), Strict::Off, &[]);
        assert_eq!(result, Ok(Accepted { add: false, untrusted: true }));
    }

    #[test]
    fn a_revoked_key_is_refused() {
        for strict in [Strict::AcceptNew, Strict::Off] {
            let (result, ui) = run(&Verdict::Revoked(place()), strict, &["yes"]);
            assert_eq!(result, Err(FAILED.to_owned()));
            assert!(ui.messages[0].contains("REVOKED HOST KEY"));
        }
    }

    /// Covers: ssh_config CheckHostIP
    #[test]
    fn address_with_another_key_asks_or_refuses() {
        let at_address = |verdict: &Verdict, strict, answers: &[&str]| {
            let mut ui = FakeUi::answering(answers);
            let mut log = Log::new(&mut ui, LogLevel::Info, false);
            let result = decide_address(&place(), verdict, &key(), &policy(strict), &mut log);
            (result.map_err(|error| error.to_string()), ui)
        };
        assert_eq!(at_address(&Verdict::Known(place()), Strict::Yes, &[]).0, Ok(false));
        assert_eq!(at_address(&new_host(), Strict::Yes, &[]).0, Ok(true));
        let changed = Verdict::Changed(place());
        let (result, ui) = at_address(&changed, Strict::Ask, &["yes"]);
        assert_eq!(result, Ok(false));
        assert!(ui.asked[0].starts_with(
            "Warning: the ED25519 host key for '[h.example]:2222' differs from the key for the IP address '[192.0.2.1]:2222'\n"
        ));
        assert!(at_address(&changed, Strict::Ask, &["no"]).0.is_err());
        assert!(at_address(&changed, Strict::Yes, &[]).0.is_err());
        assert_eq!(at_address(&changed, Strict::Off, &[]).0, Ok(false));
        assert!(at_address(&Verdict::Revoked(place()), Strict::Off, &[]).0.is_err());
        let said = spoofing(&key(), &new_host(), &policy(Strict::Ask)).expect("a warning");
        assert!(
            said.contains("POSSIBLE DNS SPOOFING DETECTED") && said.contains("is unknown. This"),
            "{said}"
        );
        assert_eq!(spoofing(&key(), &changed, &policy(Strict::Ask)), None);
    }

    #[test]
    fn other_names_of_a_key_are_shown() {
        let verdict = Verdict::New { other_names: vec![place()] };
        let (_, ui) = run(&verdict, Strict::Ask, &["no"]);
        assert!(ui.asked[0].contains("\n    /home/u/.ssh/known_hosts:3: other.example\n"));
    }

    #[test]
    fn port_is_part_of_the_name_unless_it_is_22() {
        assert_eq!(known_name("h", 22), "h");
        assert_eq!(known_name("h", 2200), "[h]:2200");
    }
}
