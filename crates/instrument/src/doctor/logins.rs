//! Stages of the login that are slow, and what makes them slow.

use super::delays::{self, NOTICEABLE, SLOW, Slow, took};
use super::facts::{Facts, Logins, Negotiated};
use super::finding::{Finding, weight_of_time};
use super::home;
use super::name_service::name_service;
use crate::probe::Reached;
use crate::stage::Stage;
use crate::stats::{lowest, median, size, time};

/// Logins for a verdict.
const LEAST_LOGINS: usize = 2;
/// How many times longer than the usual stage a short delay must be: a busy machine delays all of them.
const ABOVE_OTHERS: f64 = 3.0;

/// Logins under judgement, with what is known of their path and their server.
pub(super) struct JudgedLogins<'a> {
    logins: &'a Logins,
    /// TCP connection of the probe.
    reached: Option<&'a Reached>,
    /// Round trip of the path without load, seconds.
    round_trip: f64,
    negotiated: &'a Negotiated,
}

impl<'a> JudgedLogins<'a> {
    /// Takes from the facts what the logins are judged by.
    pub(super) fn of(facts: &'a Facts) -> Self {
        Self {
            logins: &facts.logins,
            reached: facts.path.reached.as_ref(),
            round_trip: facts.round_trip(),
            negotiated: &facts.negotiated,
        }
    }

    /// Finds the stages of the login that are slow in every login.
    pub(super) fn judge(&self, out: &mut Vec<Finding>) {
        if self.logins.timed.len() < LEAST_LOGINS {
            return;
        }
        let of_keys = offered_keys(self.logins, self.round_trip);
        out.extend(of_keys.as_ref().map(|(_, found)| found.clone()));
        let of_keys = of_keys.map_or(0.0, |(seconds, _)| seconds);
        out.extend(signing(self.logins, self.round_trip));
        let mut slow = self.slow_stages(of_keys);
        if let Some((found, explained)) = name_service(self.logins, &slow) {
            out.push(found);
            slow.retain(|stage| !explained.contains(&stage.stage));
        }
        out.extend(slow.iter().map(|slow| self.slow_stage(slow)));
    }

    /// The slow stages, less the time that wrong keys and signatures cost.
    fn slow_stages(&self, of_keys: f64) -> Vec<Slow> {
        let (logins, round_trip) = (self.logins, self.round_trip);
        let slow = |stage: Stage| {
            let took = logins.stage(stage)?;
            let other = if stage == Stage::Credential { of_keys } else { 0.0 };
            let of_agent = if Some(stage) == signing_stage(logins) { logins.agent_signing } else { None };
            let other = other + of_agent.unwrap_or(0.0);
            let needed = stage.round_trips() * round_trip + other;
            let is_slow = |(each, seconds): &(Stage, f64)| *each == stage && *seconds > SLOW + needed;
            let quick = logins.timed.iter().filter(|login| !login.iter().any(is_slow)).count();
            let is_habit = quick <= usize::from(stage == Stage::Connect && self.loses_first_packets(needed));
            let excess =
                if is_habit { took - needed } else { short_delay(logins, round_trip, stage, other)? };
            (!home::explains_stage(logins, stage, excess)).then_some(Slow { stage, took, excess })
        };
        STAGES.into_iter().filter_map(slow).collect()
    }

    /// Returns whether at least three of four connections needed much longer than this, seconds, for TCP's
    /// handshake: a first packet gets lost by chance, so one connection may be quick.
    fn loses_first_packets(&self, needed: f64) -> bool {
        let is_probe_slow = self.reached.is_some_and(|reached| reached.connect > SLOW + needed);
        is_probe_slow && self.logins.timed.len() > LEAST_LOGINS
    }

    /// Returns whether one more login may tell whether first packets get lost: those of the probe and of
    /// exactly one of two logins needed long for TCP's handshake.
    pub(super) fn may_lose_first_packets(&self) -> bool {
        let is_slow = |seconds: f64| seconds > SLOW + Stage::Connect.round_trips() * self.round_trip;
        let is_probe_slow = self.reached.is_some_and(|reached| is_slow(reached.connect));
        let is_connect_slow = |(stage, seconds): &(Stage, f64)| *stage == Stage::Connect && is_slow(*seconds);
        let slow = self.logins.timed.iter().filter(|login| login.iter().any(is_connect_slow)).count();
        is_probe_slow && self.logins.timed.len() == LEAST_LOGINS && slow == 1
    }

    /// Returns the known cause of most of a stage's time.
    fn known_cause(&self, stage: Stage, excess: f64) -> Option<Known> {
        let explains = |seconds: &f64| *seconds > 0.5 * excess;
        if stage == Stage::Connect
            && let Some((address, seconds)) =
                self.reached.and_then(|reached| reached.tried.iter().find(|(_, seconds)| explains(seconds)))
        {
            let family = if address.is_ipv6() { "inet" } else { "inet6" };
            return Some(Known {
                cause: "connect",
                title: format!(
                    "The address {address} of the host does not answer: connections wait {} for it before they try the next.",
                    time(excess)
                ),
                evidence: format!("a connection to {address} was given up after {}", time(*seconds)),
                change: vec![
                    format!(
                        "AddressFamily {family} in ssh_config, or have the host's name lose that address (DNS, hosts)"
                    ),
                    "or HappyEyes yes: lhssh then tries the next address after a quarter of a second"
                        .to_owned(),
                ],
            });
        }
        let reads_keys = matches!(stage, Stage::Credential | Stage::Approval);
        if let Some(work) = self.logins.key_work.filter(|work| reads_keys && explains(work)) {
            return Some(Known {
                cause: "key_file",
                title: format!(
                    "This machine's processor needs {} for the user's key in each login (a large RSA key).",
                    time(work)
                ),
                evidence: format!("its processor needed {} to read the key and to sign with it", time(work)),
                change: vec![
                    "a smaller key here (ssh-keygen -t ed25519), whose public key the server takes, too: ssh-keygen -lf FILE \
                     shows the size of the one in use"
                        .to_owned(),
                ],
            });
        }
        let keys = self
            .logins
            .home
            .as_ref()
            .and_then(|home| home.keys_bytes)
            .filter(|bytes| *bytes >= MANY_KEYS_BYTES);
        keys.filter(|_| reads_keys).map(|bytes| Known {
            cause: "authorized_keys",
            title: format!(
                "The server searches {} of authorized keys for the right one: {}.",
                size(bytes),
                time(excess)
            ),
            evidence: format!("~/.ssh/authorized_keys there has {}", size(bytes)),
            change: vec![
                "at the server: take out the keys that no one uses, or give each user a file (AuthorizedKeysFile with %u)"
                    .to_owned(),
                "or AuthorizedKeysCommand with the key (%k) as its argument, which looks it up".to_owned(),
            ],
        })
    }

    fn slow_stage(&self, slow: &Slow) -> Finding {
        let &Slow { stage, excess, .. } = slow;
        let mut evidence = vec![took(self.logins, slow)];
        if let Some(known) = self.known_cause(stage, excess) {
            let Known { cause, title, evidence: more, change } = known;
            evidence.push(more);
            let (gain, weight) = (format!("logins {} faster", time(excess)), weight_of_time(excess));
            return Finding { cause, title, evidence, gain, change, weight };
        }
        let (cause, title, change): (_, _, &[&str]) = match stage {
            Stage::Configuration => (
                "configuration",
                "This machine needs long to read its configuration of SSH",
                &["time lhssh -G HOST, and look in ssh_config for Match exec and CanonicalizeHostname"],
            ),
            Stage::Proxy => (
                "proxy_start",
                "The jump host or proxy command needs long before the server's greeting arrives",
                &[
                    "measure the jump host by itself: longhaul doctor JUMPHOST",
                    "or the program of ProxyCommand: time PROGRAM ARGUMENTS </dev/null",
                ],
            ),
            Stage::Resolve => (
                "resolve",
                "This machine needs long to resolve the host's name",
                &["mend /etc/resolv.conf here, or set Hostname to the address in ssh_config"],
            ),
            Stage::Connect => (
                "connect",
                "TCP's handshake takes much longer than a round trip",
                &[
                    "look for a lost first packet (firewall, full listen queue: nstat -az TcpExtListenDrops at the server)",
                    "AddressFamily inet in ssh_config, if IPv6 leads nowhere",
                ],
            ),
            Stage::HostKey => (
                "host_key",
                "This machine needs long to look up the server's key (known_hosts)",
                &[
                    "ls -l ~/.ssh/known_hosts /etc/ssh/ssh_known_hosts: take out what is not needed any more (ssh-keygen -R)",
                    "or look in ssh_config for KnownHostsCommand and VerifyHostKeyDNS",
                ],
            ),
            Stage::Agent => (
                "agent",
                "This machine's authentication agent is slow to list its keys",
                &[
                    "time ssh-add -l: SSH_AUTH_SOCK or IdentityAgent may lead to another machine (agent forwarding) or to a token",
                    "or IdentityAgent none and IdentityFile with the right key, under Host in ssh_config here",
                ],
            ),
            Stage::Kerberos => (
                "kerberos",
                "A login by Kerberos is tried first",
                &[
                    "GSSAPIAuthentication no in ssh_config here, where no one logs in with tickets",
                    "or mend what is slow: kinit, and the names of the KDC in /etc/krb5.conf here and at the server",
                ],
            ),
            Stage::Greeting => (
                "greeting",
                "The server needs long to greet",
                &[
                    "at the server: look at its load, MaxStartups, inetd or TCP wrappers (hosts.allow with names)",
                ],
            ),
            Stage::KeyExchange => (
                "key_exchange",
                "The key exchange takes long",
                &[
                    "KexAlgorithms mlkem768x25519-sha256,curve25519-sha256 in ssh_config: large Diffie-Hellman groups cost most",
                    "or a large RSA host key, with which the server signs: ssh-keyscan HOST | ssh-keygen -lf - shows its size; \
                     ssh-keygen -t ed25519 makes another one for HostKey in sshd_config",
                ],
            ),
            Stage::User => (
                "user_lookup",
                "The server needs long before it answers about the user",
                &["at the server: time id USER (name service, LDAP), UseDNS no, GSSAPIAuthentication no"],
            ),
            // It opens PAM's session before it accepts the login.
            Stage::Credential | Stage::Approval if self.negotiated.server_is_longhaul() => (
                "login_approval",
                "The server needs long to approve the login (AuthorizedKeysCommand, PAM's auth, account and session modules)",
                &[
                    "at the server: the auth, account and session lines of /etc/pam.d/sshd, or what PAMServiceName names (pam_exec, pam_sss, pam_systemd, pam_mount), AuthorizedKeysCommand, AllowGroups with a slow name service",
                    "IdentitiesOnly yes with the right IdentityFile here: each wrong key costs an answer",
                ],
            ),
            Stage::Credential | Stage::Approval => (
                "login_approval",
                "The server needs long to approve the login (AuthorizedKeysCommand, PAM's auth and account modules)",
                &[
                    "at the server: the auth and account lines of /etc/pam.d/sshd (pam_exec, pam_sss, pam_access), AuthorizedKeysCommand, AllowGroups with a slow name service",
                    "IdentitiesOnly yes with the right IdentityFile here: each wrong key costs an answer",
                ],
            ),
            Stage::Session | Stage::Command => (
                "session_opening",
                "The server needs long to open a session (PAM's session modules)",
                &[
                    "at the server: the session lines of /etc/pam.d/sshd (pam_exec, pam_systemd, pam_motd, pam_mount)",
                ],
            ),
        };
        Finding {
            cause,
            title: format!("{title}: {}.", time(excess)),
            evidence,
            gain: format!("logins {} faster", time(excess)),
            change: change.iter().map(|text| (*text).to_owned()).collect(),
            weight: weight_of_time(excess),
        }
    }
}

/// The stages of a login, in their order.
const STAGES: [Stage; 13] = [
    Stage::Configuration,
    Stage::Proxy,
    Stage::Resolve,
    Stage::Connect,
    Stage::HostKey,
    Stage::Greeting,
    Stage::KeyExchange,
    Stage::User,
    Stage::Agent,
    Stage::Kerberos,
    Stage::Credential,
    Stage::Approval,
    Stage::Session,
];

/// The stages in which the server has something to do.
const OF_SERVER: [Stage; 7] = [
    Stage::Greeting,
    Stage::KeyExchange,
    Stage::User,
    Stage::Credential,
    Stage::Approval,
    Stage::Session,
    Stage::Command,
];

/// Seconds of a stage in each login beyond its round trips and `other`.
fn excesses(logins: &Logins, round_trip: f64, stage: Stage, other: f64) -> Vec<f64> {
    let needed = stage.round_trips() * round_trip + other;
    let of = |login: &Vec<(Stage, f64)>| {
        let took = login.iter().find(|(each, _)| *each == stage).map_or(0.0, |(_, seconds)| *seconds);
        (took - needed).max(0.0)
    };
    logins.timed.iter().map(of).collect()
}

/// The delay of a stage that is short, and alike in many logins, seconds.
fn short_delay(logins: &Logins, round_trip: f64, stage: Stage, other: f64) -> Option<f64> {
    // A second packet of the server may wait for the acknowledgement of the first (Nagle's algorithm).
    delays::steady(&excesses(logins, round_trip, stage, other + round_trip))?;
    let delay = lowest(excesses(logins, round_trip, stage, other))?;
    let least = |stage: &Stage| lowest(excesses(logins, round_trip, *stage, 0.0));
    let others = OF_SERVER.iter().filter(|each| **each != stage).filter_map(least);
    (delay >= ABOVE_OTHERS * median(others).unwrap_or(0.0)).then_some(delay)
}

/// True where a further login may tell whether a stage has a short delay.
pub(super) fn may_be_noticed(logins: &Logins, round_trip: f64) -> bool {
    let is_late = |stage: &Stage| {
        let least = lowest(excesses(logins, round_trip, *stage, round_trip)).unwrap_or(0.0);
        (NOTICEABLE..SLOW).contains(&least)
    };
    logins.timed.len() >= LEAST_LOGINS && STAGES.iter().any(is_late)
}

/// The stage in which this machine signs, where the logins have it.
fn signing_stage(logins: &Logins) -> Option<Stage> {
    [Stage::Approval, Stage::Credential].into_iter().find(|stage| logins.stage(*stage).is_some())
}

/// True where logins wait long in the stage in which the agent signs.
pub(super) fn may_be_signing(logins: &Logins, round_trip: f64) -> bool {
    signing_stage(logins)
        .and_then(|stage| lowest(excesses(logins, round_trip, stage, 0.0)))
        .is_some_and(|least| least >= NOTICEABLE)
}

/// This machine's agent needs long to sign.
fn signing(logins: &Logins, round_trip: f64) -> Option<Finding> {
    let took = logins.agent_signing.filter(|seconds| *seconds >= NOTICEABLE)?;
    let stage = signing_stage(logins)?;
    // A signature that is slow once, and in no login, is no habit.
    let least = lowest(excesses(logins, round_trip, stage, 0.0))?;
    let took = took.min(least);
    (took >= NOTICEABLE).then(|| Finding {
        cause: "agent",
        title: format!("This machine's authentication agent is slow to sign: {}.", time(took)),
        evidence: vec![
            format!("{} took {} more than its round trips in the fastest login", stage.words(), time(least)),
            format!("a signature that was asked for by itself took {}", time(logins.agent_signing.unwrap_or(took))),
        ],
        gain: format!("logins {} faster", time(took)),
        change: vec![
            "look at what listens at SSH_AUTH_SOCK or IdentityAgent here: a token or smart card, an agent that asks for each \
             use (ssh-add -c), one that is forwarded from another machine"
                .to_owned(),
            "or a key of another type: ssh-keygen -t ed25519; or IdentityAgent none and IdentityFile, under Host in ssh_config"
                .to_owned(),
        ],
        weight: weight_of_time(took),
    })
}

/// Keys from which the wrong ones among them are a cause.
const MANY_KEYS: usize = 3;

/// Keys that the server refuses before it takes one: the seconds that they cost, and the finding.
fn offered_keys(logins: &Logins, round_trip: f64) -> Option<(f64, Finding)> {
    let took = logins.stage(Stage::Credential)?;
    let wrong = logins.offers.checked_sub(1)? as f64;
    let lost = took * wrong / (wrong + 1.0);
    if logins.offers < MANY_KEYS || lost < SLOW {
        return None;
    }
    let finding = Finding {
        cause: "offered_keys",
        title: format!("{} keys are offered before the one that the server takes: {}.", logins.offers - 1, time(lost)),
        evidence: vec![format!(
            "the server's answers about {} keys took {}, over a round trip of {}",
            logins.offers,
            time(took),
            time(round_trip)
        )],
        gain: format!("logins {} faster", time(lost)),
        change: vec![
            "IdentitiesOnly yes and IdentityFile with the right key, under Host in ssh_config here".to_owned(),
            "or take keys out of the agent (ssh-add -l, ssh-add -d): servers give up after six (MaxAuthTries)"
                .to_owned(),
        ],
        weight: weight_of_time(lost),
    };
    Some((lost, finding))
}

/// A cause that another measurement shows, and what shows it.
struct Known {
    cause: &'static str,
    title: String,
    evidence: String,
    change: Vec<String>,
}

/// Bytes of a file of authorized keys that takes time to search.
const MANY_KEYS_BYTES: f64 = 1e6;
