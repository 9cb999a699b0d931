//! Values of keywords about channels: idle limits, and permitted targets of forwards.

use crate::forward::parse_port;
use crate::line::Arguments;
use crate::names::bracketed;
use crate::table::Value;
use crate::units::parse_fractional_time;
use crate::value_error::{Part, Syntax, ValueError};
use std::time::Duration;

/// `ChannelTimeout`: channel type patterns and their idle limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelTimeouts(pub Vec<ChannelTimeout>);

/// One rule of `ChannelTimeout`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelTimeout {
    /// The channel type, or a pattern for it.
    pub kind: String,
    /// Idle limit; 0 means none.
    pub limit: Duration,
    /// The time as written, for `sshd -T`.
    pub text: String,
}

impl ChannelTimeouts {
    /// Returns the idle limit of a channel type; `None` means no limit. The first matching pattern decides.
    pub fn of(&self, kind: &str) -> Option<Duration> {
        self.of_any(&[kind])
    }

    /// Returns the idle limit of all channels together: the rule named `global`, which no pattern matches.
    pub fn of_all_channels(&self) -> Option<Duration> {
        let limit = self.0.iter().find(|rule| rule.kind == "global")?.limit;
        (!limit.is_zero()).then_some(limit)
    }

    /// Like [`of`](Self::of), for a channel with several names: the first name that a pattern matches
    /// decides.
    pub fn of_any(&self, kinds: &[&str]) -> Option<Duration> {
        let fits = |kind: &str, pattern: &str| crate::pattern::wildcard(kind.as_bytes(), pattern.as_bytes());
        let rule = |kind: &&str| self.0.iter().find(|rule| rule.kind != "global" && fits(kind, &rule.kind));
        let limit = kinds.iter().find_map(rule)?.limit;
        (!limit.is_zero()).then_some(limit)
    }
}

impl Value for ChannelTimeouts {
    const KIND: &'static str = "type=time words or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0].eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let mut out = Vec::new();
        for word in words {
            let pair = word
                .split_once('=')
                .filter(|(kind, _)| !kind.is_empty())
                .and_then(|(kind, time)| {
                    let (kind, text) = (kind.to_string(), time.to_string());
                    Some(ChannelTimeout { kind, limit: parse_fractional_time(time)?, text })
                })
                .ok_or_else(|| args.malformed(Syntax::ChannelTimeout, &word))?;
            out.push(pair);
        }
        Ok(Self(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if self.0.is_empty() {
            out.push(format!("{name} none"));
        } else {
            let words: Vec<String> =
                self.0.iter().map(|rule| format!("{}={}", rule.kind, rule.text)).collect();
            out.push(format!("{name} {}", words.join(" ")));
        }
    }
}

/// `PermitOpen`, `PermitListen`, `PermitRemoteOpen`: the permitted targets of forwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PermitForward {
    /// All targets.
    #[default]
    Any,
    /// No targets.
    None,
    /// Only these: host pattern (`None`: any, for listening) and port (`None`: any).
    Only(Vec<(Option<String>, Option<u16>)>),
}

impl PermitForward {
    /// Returns whether `host:port` is permitted; `*` as a host in the list matches any host.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Only(list) => list.iter().any(|(h, p)| {
                p.is_none_or(|p| p == port)
                    && h.as_deref().is_none_or(|h| h == "*" || h.eq_ignore_ascii_case(host))
            }),
        }
    }
}

impl Value for PermitForward {
    const KIND: &'static str = "any, none, or host:port words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        match words.as_slice() {
            [] => return Err(args.missing(Part::PermittedTargets)),
            [one] if one == "any" => return Ok(Self::Any),
            [one] if one == "none" => return Ok(Self::None),
            _ => {}
        }
        let listens = args.keyword == "PermitListen";
        let mut out = Vec::new();
        for word in words {
            let bad_port = || args.malformed(Syntax::PermittedPort, &word);
            let bad_host = || args.malformed(Syntax::PermittedHost, &word);
            // As in sshd, the host ends at the first `:`: `a:1,b:2` is no host of the name `a:1,b`.
            let (host, port) = match word.strip_prefix('[').map(|inner| inner.split_once(']')) {
                Some(None) => return Err(bad_host()),
                Some(Some((host, port))) => (Some(host), port.strip_prefix(':').ok_or_else(bad_port)?),
                None => match word.split_once(':') {
                    Some((host, port)) => (Some(host), port),
                    None if listens => (None, word.as_str()),
                    None => return Err(bad_port()),
                },
            };
            if host.is_some_and(|host| host.is_empty() || host.contains('/')) {
                return Err(bad_host());
            }
            let host = host.map(str::to_owned);
            let port = match port {
                "*" => None,
                number => Some(parse_port(number).filter(|&port| port != 0).ok_or_else(bad_port)?),
            };
            out.push((host, port));
        }
        Ok(Self::Only(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::Any => format!("{name} any"),
            Self::None => format!("{name} none"),
            Self::Only(list) => {
                let word = |(host, port): &(Option<String>, Option<u16>)| {
                    let port = port.map_or("*".to_string(), |p| p.to_string());
                    match host {
                        Some(host) => format!("{}:{port}", bracketed(host)),
                        None => format!("*:{port}"),
                    }
                };
                let words: Vec<String> = list.iter().map(word).collect();
                format!("{name} {}", words.join(" "))
            }
        });
    }
}
