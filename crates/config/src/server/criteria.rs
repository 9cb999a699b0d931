//! The criteria of `Match` in `sshd_config`.

use super::ConnectionFacts;
use crate::cidr;
use crate::criteria_words::split_criteria;
use crate::match_error::MatchError;
use crate::pattern::{ListMatch, match_host, match_list};

/// The version for `Match version`.
const VERSION: &str = concat!("Longhaul_", env!("CARGO_PKG_VERSION"));

/// One criterion of a `Match` line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Criterion {
    All,
    User(String),
    Group(String),
    Host(String),
    Address(String),
    LocalAddress(String),
    LocalPort(u16),
    Rdomain(String),
    Version(String),
    InvalidUser,
}

/// All criteria of a `Match` line; all must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Criteria {
    /// The criteria as written, for the session process.
    pub(super) text: String,
    list: Vec<Criterion>,
}

impl Criteria {
    /// Parses the criteria of a `Match` line.
    pub(super) fn parse(text: &str) -> Result<Self, MatchError> {
        let words = split_criteria(text)?;
        let mut words = words.into_iter();
        let mut list = Vec::new();
        while let Some(attribute) = words.next() {
            let lower = attribute.to_ascii_lowercase();
            match lower.as_str() {
                "all" => {
                    if !list.is_empty() || words.next().is_some() {
                        return Err(MatchError::AllNotAlone);
                    }
                    list.push(Criterion::All);
                    continue;
                }
                "invalid-user" => {
                    list.push(Criterion::InvalidUser);
                    continue;
                }
                _ => {}
            }
            let argument = words
                .next()
                .filter(|argument| !argument.is_empty())
                .ok_or_else(|| MatchError::MissingArgument(attribute.clone()))?;
            list.push(match lower.as_str() {
                "user" => Criterion::User(argument),
                "group" => Criterion::Group(argument),
                "host" => Criterion::Host(argument),
                "address" | "localaddress" => {
                    if !cidr::check_list(&argument) {
                        return Err(MatchError::BadAddressList { attribute: lower, list: argument });
                    }
                    if lower == "address" {
                        Criterion::Address(argument)
                    } else {
                        Criterion::LocalAddress(argument)
                    }
                }
                "localport" => {
                    let port = argument.parse().ok().filter(|port| *port != 0);
                    Criterion::LocalPort(port.ok_or(MatchError::BadLocalPort(argument))?)
                }
                "rdomain" => Criterion::Rdomain(argument),
                "version" => Criterion::Version(argument),
                _ => return Err(MatchError::UnsupportedAttribute(attribute)),
            });
        }
        if list.is_empty() {
            return Err(MatchError::NoAttributes);
        }
        Ok(Self { text: text.to_string(), list })
    }

    /// Returns whether this is `Match all`, which matches even before a connection is there.
    pub(super) fn is_all(&self) -> bool {
        self.list == [Criterion::All]
    }

    /// Returns whether all criteria match.
    pub(super) fn hold(&self, facts: &ConnectionFacts) -> bool {
        let listed = |text: &str, list: &str| match_list(text, list, false) == ListMatch::Yes;
        self.list.iter().all(|criterion| match criterion {
            Criterion::All => true,
            Criterion::User(list) => facts.user.as_deref().is_some_and(|user| listed(user, list)),
            Criterion::Group(list) => {
                let matches: Vec<_> =
                    facts.groups.iter().map(|group| match_list(group, list, false)).collect();
                matches.contains(&ListMatch::Yes) && !matches.contains(&ListMatch::Negated)
            }
            Criterion::Host(list) => facts.host.as_deref().is_some_and(|host| match_host(host, list)),
            Criterion::Address(list) => {
                facts.address.is_some_and(|a| cidr::match_list(a, list) == Ok(ListMatch::Yes))
            }
            Criterion::LocalAddress(list) => {
                facts.local_address.is_some_and(|a| cidr::match_list(a, list) == Ok(ListMatch::Yes))
            }
            Criterion::LocalPort(port) => facts.local_port == Some(*port),
            Criterion::Rdomain(list) => facts.rdomain.as_deref().is_some_and(|name| listed(name, list)),
            Criterion::Version(list) => listed(VERSION, list),
            Criterion::InvalidUser => facts.invalid_user,
        })
    }
}
