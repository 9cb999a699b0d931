//! Connections and sessions that the server, or a firewall, does not accept: limits of their number.

use super::facts::{Facts, Idle, IdleEnd, Refusals, Throughput};
use super::finding::Finding;
use crate::connects::TurnedAway;
use crate::stats::time;

/// Words of a connection that was not made, by which its breaking off is known.
const NOT_MADE: &str = "connect to host";

/// Message of servers that permit no further session of a connection.
const NO_SESSION: &str = "open failed";

/// Connections that were not accepted, for a verdict: a server that is started again refuses one by chance.
const LEAST: usize = 2;
/// Time without progress of a transfer from which the path was interrupted, seconds.
const STANDSTILL: f64 = 1.0;

/// Refusals under judgement, with what tells a limit from an outage.
pub(super) struct JudgedRefusals<'a> {
    refusals: &'a Refusals,
    throughput: &'a Throughput,
    idle_session: Option<&'a Idle>,
    /// The probe has connected to the host.
    has_reached: bool,
    /// There was a login.
    has_login: bool,
}

impl<'a> JudgedRefusals<'a> {
    /// Takes from the facts what the refusals are judged by.
    pub(super) fn of(facts: &'a Facts) -> Self {
        Self {
            refusals: &facts.refusals,
            throughput: &facts.throughput,
            idle_session: facts.idle_session.as_ref(),
            has_reached: facts.path.reached.is_some(),
            has_login: facts.logins.failure.is_none(),
        }
    }

    /// Finds all causes of this kind.
    pub(super) fn judge(&self, out: &mut Vec<Finding>) {
        out.extend(self.refused());
        out.extend(self.turned_away());
        out.extend(session_limit(self.refusals));
        out.extend(no_commands(self.refusals));
    }

    /// The cause of a login that was not possible.
    pub(super) fn first(&self) -> Option<Finding> {
        self.refused().or_else(|| self.turned_away())
    }

    /// Returns whether a limit of connections explains why transfers broke off.
    pub(super) fn explains_break(&self) -> bool {
        self.throughput.broken.as_ref().is_some_and(|why| why.contains(NOT_MADE))
            && self.turned_away().is_some()
    }

    /// Connections that the server closed before its greeting, some of them or all.
    fn refused(&self) -> Option<Finding> {
        let refused = self.refusals.connections;
        (refused > 0).then_some(())?;
        let all = refused + self.refusals.logins_made + usize::from(self.has_reached);
        Some(Finding {
            cause: "refused",
            title: if self.has_login {
                format!("The server closed {refused} of {all} connections before it greeted.")
            } else {
                "The server closes connections of this machine before it greets.".to_owned()
            },
            evidence: vec![format!(
                "{refused} connections were closed in place of a greeting, with four at a time at most"
            )],
            gain: "logins that do not fail by chance".to_owned(),
            change: vec![
                "at the server: MaxStartups, PerSourceMaxStartups and PerSourcePenalties in sshd_config (its log says which: \
                 journalctl -u ssh)"
                    .to_owned(),
                "or fail2ban, hosts.deny, a firewall that limits new connections".to_owned(),
            ],
            weight: 60.0,
        })
    }

    /// Returns whether an interruption of the path may be why connections were not answered in time.
    fn may_be_outage(&self, turned_away: &TurnedAway) -> bool {
        let stood_still =
            self.throughput.flows().map(|flow| flow.pauses.longest).any(|longest| longest >= STANDSTILL);
        let is_alive = self.refusals.first_answers
            || self.refusals.logins_made > turned_away.made
            || self.idle_session.is_some_and(|idle| idle.end == IdleEnd::Answered);
        stood_still || !is_alive || !turned_away.is_repeated
    }

    /// Connections that were not accepted, while others were. A server that has ended is none of that, nor is
    /// an outage.
    fn turned_away(&self) -> Option<Finding> {
        let turned_away = self.refusals.turned_away.as_ref()?;
        let TurnedAway { words, failed, made, seconds, late, .. } = turned_away;
        self.has_reached.then_some(())?;
        if matches!(self.idle_session.map(|idle| &idle.end), Some(IdleEnd::Closed(_))) {
            return None;
        }
        let is_silent = words.contains("timed out");
        if *failed < LEAST || (is_silent && self.may_be_outage(turned_away)) {
            return None;
        }
        let what = if is_silent { "not answered" } else { "refused" };
        let after = match made {
            0 => "before the first login".to_owned(),
            1 => format!("after one login in {}", time(*seconds)),
            _ => format!("after {made} logins in {}", time(*seconds)),
        };
        Some(Finding {
            cause: "refused",
            title: format!(
                "New connections are {what} {after}, though the server runs: a firewall or the server limits them."
            ),
            evidence: [
                Some(format!("{failed} connections failed, the first with: {words}")),
                Some(format!("{} were accepted in this run", self.refusals.logins_made)),
                (*late > 0).then(|| format!("{late} of these were answered only after a second and more")),
            ]
            .into_iter()
            .flatten()
            .collect(),
            gain: "logins that do not fail, and copies over several connections".to_owned(),
            change: vec![
                "at the server and on the way: a firewall's limit of new connections (ufw limit, iptables -S with recent, limit or \
                 hashlimit) or of open ones (connlimit), fail2ban-client status sshd"
                    .to_owned(),
                "or share one connection: ControlMaster auto, ControlPath and ControlPersist 10m in ssh_config here".to_owned(),
            ],
            weight: 58.0,
        })
    }
}

/// Returns whether a session was not begun for this reason: the server permits no further one.
pub(super) fn is_of_session(why: &str) -> bool {
    why.starts_with(NO_SESSION)
}

/// Finds an account for which the server runs no commands.
fn no_commands(refusals: &Refusals) -> Option<Finding> {
    let why = refusals.commands.as_ref()?;
    Some(Finding {
        cause: "no_commands",
        title: "The server accepts the login, and runs no commands for this user.".to_owned(),
        evidence: vec![why.clone()],
        gain: "shells and commands; none where the account is meant for SFTP alone".to_owned(),
        change: vec![
            "at the server: the user's shell (getent passwd USER), ForceCommand in sshd_config, command= in authorized_keys, \
             MaxSessions 0, a limit of processes (ulimit -u, pids.max)"
                .to_owned(),
            "or longhaul bench, which measures files over SFTP".to_owned(),
        ],
        weight: 0.2,
    })
}

/// Finds a server that permits one session of a connection, or few.
fn session_limit(refusals: &Refusals) -> Option<Finding> {
    let why = refusals.session.as_ref()?;
    Some(Finding {
        cause: "session_limit",
        title: "The server refuses further sessions of a connection (MaxSessions).".to_owned(),
        evidence: vec![format!(
            "a session beside another, or just after it, was refused: {why}; over connections of their own they begin"
        )],
        gain: "shared connections (ControlMaster), and copies over several channels of one connection"
            .to_owned(),
        change: vec![
            "at the server: MaxSessions 10 in sshd_config, which is its default".to_owned(),
            "or a connection for each session: ControlPath none (-S none) in ssh_config here".to_owned(),
        ],
        weight: 0.7,
    })
}
