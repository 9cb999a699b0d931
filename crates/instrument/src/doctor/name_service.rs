//! Name services of the server, which logins wait for: DNS, and those of users and groups.

use super::delays::{Slow, took};
use super::facts::Logins;
use super::finding::{Finding, weight_of_time};
use crate::stage::Stage;
use crate::stats::time;

/// Part of a delay from which nothing beside a lookup needs to be named.
const OF_LOOKUP: f64 = 0.9;

/// Stages in which a server asks its name services, where these need most of the stages' time.
pub(super) fn name_service(logins: &Logins, slow: &[Slow]) -> Option<(Finding, Vec<Stage>)> {
    let reverse = logins.reverse_lookup.unwrap_or(0.0);
    let user = logins.user_lookup.unwrap_or(0.0);
    let asks = [Stage::Greeting, Stage::User, Stage::Credential, Stage::Approval, Stage::Session];
    let explained = |slow: &&Slow| asks.contains(&slow.stage) && reverse.max(user) > 0.5 * slow.excess;
    let explained: Vec<&Slow> = slow.iter().filter(explained).collect();
    if explained.is_empty() {
        return None;
    }
    let excess: f64 = explained.iter().map(|slow| slow.excess).sum();
    let lookup = reverse.max(user);
    let waits: f64 = explained.iter().map(|slow| slow.excess.min(lookup)).sum();
    let mut evidence: Vec<String> = explained.iter().map(|slow| took(logins, slow)).collect();
    let (cause, title, change) = if reverse >= user {
        evidence.push(format!(
            "the server needs {} for the name of this machine's address (getent hosts)",
            time(reverse)
        ));
        (
            "reverse_dns",
            format!("The server waits {} for a reverse lookup (DNS) at each login.", time(waits)),
            [
                "UseDNS no in the server's sshd_config",
                "or give this machine's address a name (PTR record), or mend the server's /etc/resolv.conf",
            ],
        )
    } else {
        evidence.push(format!("id for the user and its groups took {} there", time(user)));
        (
            "user_lookup",
            format!(
                "The server waits {} for its name service (users and groups) at each login.",
                time(waits)
            ),
            [
                "at the server: time getent passwd USER and time id USER; then the services that /etc/nsswitch.conf \
                 names (sss, ldap, winbind)",
                "or a cache for them (sssd, nscd)",
            ],
        )
    };
    if waits < OF_LOOKUP * excess {
        // Clients shall not learn from the time which users exist.
        evidence.push(
            "the rest may be OpenSSH's own delay: what it refuses is answered after up to twice the time"
                .to_owned(),
        );
    }
    let finding = Finding {
        cause,
        title,
        evidence,
        gain: format!("logins {} faster", time(excess)),
        change: change.map(str::to_owned).to_vec(),
        weight: weight_of_time(excess),
    };
    Some((finding, explained.iter().map(|slow| slow.stage).collect()))
}
