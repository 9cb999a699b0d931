//! Facts about a connection that `Match` blocks can test.

use std::net::SocketAddr;

use lh_config::ConnectionFacts;
use lh_sys::users::User;

use crate::hosts::{known_ip, shown_ip};

/// Returns the facts that are known as soon as a client has connected.
pub(crate) fn of_connection(peer: SocketAddr, local: SocketAddr, host: Option<&str>) -> ConnectionFacts {
    ConnectionFacts {
        address: known_ip(peer.ip()),
        // Without UseDNS a host is known by its address only.
        host: Some(host.map_or_else(|| shown_ip(peer).to_string(), str::to_owned)),
        local_address: known_ip(local.ip()),
        local_port: Some(local.port()),
        ..ConnectionFacts::default()
    }
}

/// Adds the facts that are known once the client has named a user. An account is matched by its name in the
/// user database, not by the client's spelling: with a case-insensitive database, `ROOT` must not evade the
/// rules for `root`.
pub(crate) fn with_user(
    facts: &ConnectionFacts,
    name: &str,
    user: Option<&User>,
    groups: &[String],
) -> ConnectionFacts {
    ConnectionFacts {
        user: Some(user.map_or(name, |user| &user.name).to_owned()),
        invalid_user: user.is_none(),
        groups: groups.to_vec(),
        ..facts.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_client_is_at_no_address() {
        let lines =
            "Match Address 0.0.0.0/0\n  PasswordAuthentication no\nMatch Host UNKNOWN\n  MaxSessions 1\n";
        let config = crate::testing::config(lines);
        let facts = of_connection(crate::hosts::UNKNOWN, crate::hosts::UNKNOWN, None);
        let settings = config.for_connection(&facts).unwrap().settings;
        assert!(settings.password_authentication.value);
        assert_eq!(settings.max_sessions.value, 1);
    }

    #[test]
    fn match_user_sees_the_name_of_the_account() {
        let config = crate::testing::config("Match User ada\n  PasswordAuthentication no\n");
        let ada = crate::testing::user(1000, "/home/ada".as_ref(), "/bin/sh");
        let allowed = |typed: &str, user: Option<&User>| {
            let facts = with_user(&ConnectionFacts::default(), typed, user, &[]);
            config.for_connection(&facts).unwrap().settings.password_authentication.value
        };
        assert!(!allowed("ada", Some(&ada)));
        assert!(!allowed("ADA", Some(&ada)));
        assert!(!allowed("ada", None));
        assert!(allowed("ADA", None));
    }
}
